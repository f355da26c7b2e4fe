"""Files under the user's cache directory: written whole or not at all, and never needed."""

from __future__ import annotations

import os
from collections.abc import Sequence


def cache_path(name: str) -> str | None:
    """Path for a file in the user's cache directory; None if there is no home."""
    base = os.environ.get("XDG_CACHE_HOME", "")
    if not os.path.isabs(base):
        home = os.path.expanduser("~")
        if not os.path.isabs(home):
            return None
        base = os.path.join(home, ".cache")
    return os.path.join(base, "sonde", name)


def write_cache(path: str, parts: Sequence[bytes | bytearray | memoryview]) -> bool:
    """Write a cache file whole or not at all (another process may be reading it); False if that is not possible."""
    partial = f"{path}.{os.getpid()}"
    try:
        os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
        fd = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    except OSError:
        return False
    try:
        with open(fd, "wb") as file:
            file.writelines(parts)
        os.rename(partial, path)
        return True
    except OSError:
        os.unlink(partial)
        return False
