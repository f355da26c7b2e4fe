"""Flight memory: records that stay in the kernel until a dump is asked for."""
