"""eBPF instructions: encode, decode, print; labels and map references to bytes."""
