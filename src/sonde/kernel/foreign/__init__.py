"""Files that others wrote, read where they can do no harm.

Whatever a user of this machine could have made (programs, libraries, debug files, maps of run-time compilers,
the loader's cache, C++ names) is opened by the tracer, as regular files only (``opening``), and read by a process of
low rank: no capabilities, nobody's user id, a memory limit, no system call that reaches beyond its descriptors
(``rank``, ``child``). ``questions`` declares what can be asked, ``reader`` asks and ends a process that takes too long,
``files`` is the interface to the rest of Sonde. All other modules here run in the child alone.
"""
