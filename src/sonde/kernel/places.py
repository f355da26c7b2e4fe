"""Where things are looked for on this machine; the command line may name other places."""

from __future__ import annotations

from ..errors import UsageError

TRACEFS_MOUNTS = ("/sys/kernel/tracing", "/sys/kernel/debug/tracing")
OWN_BTF = "/sys/kernel/btf/vmlinux"  # the kernel's own types, where it exposes them
debug_directories = ["/usr/lib/debug"]  # of separate debug files, the first one first
debuginfod_urls: str | None = None  # servers that are asked for debug files; None: those of the environment
traceable_functions = ""  # a file of functions, read instead of available_filter_functions
kernel_btf = ""  # a file with the types of the running kernel, if it exposes none


def debuginfod_servers() -> list[str]:
    """URLs of the servers that are asked for debug files; [] unless some are configured."""
    if debuginfod_urls is None:
        import os
        urls = os.environ.get("DEBUGINFOD_URLS", "")
    else:
        urls = debuginfod_urls
    return [url.rstrip("/") for url in urls.split() if url.startswith(("http://", "https://"))]


def set_debuginfod_servers(urls: str) -> None:
    """Ask these servers, separated by spaces, and not those of the environment; "" for none."""
    global debuginfod_urls
    words = urls.split()
    for word in words:
        if not word.startswith(("http://", "https://")):
            raise UsageError(f"--debuginfod takes URLs that begin with http:// or https://, not '{word}'")
    debuginfod_urls = urls


def kernel_files() -> list[str]:
    """Where the running kernel may be as an ELF file, with its symbols or debug information."""
    import os
    release = os.uname().release
    return [f"/boot/vmlinux-{release}", f"/lib/modules/{release}/vmlinux-{release}",
            f"/lib/modules/{release}/build/vmlinux", f"/usr/lib/modules/{release}/kernel/vmlinux",
            *[f"{top}{path}" for top in debug_directories for path in (
                f"/boot/vmlinux-{release}", f"/boot/vmlinux-{release}.debug", f"/lib/modules/{release}/vmlinux",
                f"/lib/modules/{release}/vmlinux.debug")]]


def set_search_places(debug: str, traceable: str, btf: str = "") -> None:
    """Look for debug files in these directories first (separated by colons), for traceable functions in this file, and
    for the kernel's types in that one."""
    global traceable_functions, kernel_btf
    kernel_btf = btf
    debug_directories[:0] = [name.rstrip("/") or "/" for name in debug.split(":") if name]
    if traceable:
        try:
            with open(traceable, "rb"):
                traceable_functions = traceable
        except OSError as error:
            raise UsageError(f"failed to open file '{traceable}': {error.strerror}") from None
