"""What a process may do as the kernel sees it, and who broke that. A process of its own traces, so that nothing that it
does itself is taken for what it observes."""
