"""Whose files are opened: no link made by another user leads the caller to a file other than the one named.

The kernel's ``protected_symlinks`` ensures this only in sticky folders, and may be off.
"""

from __future__ import annotations

import errno
import os
import stat

LINK, MAGIC = "link", "magic"  # MAGIC: one of /proc, whose text is not where it leads
_MOST_LINKS = 40  # as the kernel has it
_OTHERS_WRITE = stat.S_IWGRP | stat.S_IWOTH


def own_users() -> frozenset[int]:
    """The users whose files this process trusts: root, its own user, and the user who became root by sudo or pkexec."""
    callers = [os.environ.get(name, "") for name in ("SUDO_UID", "PKEXEC_UID")] if os.geteuid() == 0 else []
    return frozenset({0, os.geteuid(), *[int(text) for text in callers if text.isascii() and text.isdigit()]})


def open_guarded(path: str, flags: int, mode: int = 0o644) -> int:
    """As ``os.open``, but that no link is followed that somebody else made."""
    folder, name, follow = _locate_path(path, own_users())
    try:
        return os.open(name, flags | os.O_CLOEXEC | (0 if follow else os.O_NOFOLLOW), mode, dir_fd=folder)
    finally:
        os.close(folder)


def open_private_folder(path: str, make: bool = False) -> int:
    """A descriptor of a folder that nobody but this user and root can change, nor any on the way to it. OSError if that
    is not so, or there is none; ``make`` makes it, and what is missing on the way."""
    return _locate_path(f"{path}/.", frozenset({0, os.geteuid()}), True, make)[0]


def is_private(status: os.stat_result) -> bool:
    """Whether only this user and root can write to the file of this ``status``."""
    return status.st_uid in (0, os.geteuid()) and not status.st_mode & _OTHERS_WRITE


def why_untrusted(path: str) -> str:
    """Why a file or folder must not be read as a part of the caller's script: somebody else can write to it, or to a
    folder on its path. "" if it may be read. Raises OSError."""
    real = os.path.realpath(path)
    folder = os.path.dirname(real)
    files = [(file, os.stat(file)) for file in (real, folder)]
    if any(status.st_mode & stat.S_IWOTH for _, status in files):
        return "global write permissions"
    while folder != os.path.dirname(folder):
        folder = os.path.dirname(folder)
        files.append((folder, os.stat(folder)))
    for file, status in files:
        if status.st_uid not in own_users():
            return f"another user's ownership of {file}"
        if status.st_mode & (stat.S_IWOTH | stat.S_ISVTX) == stat.S_IWOTH:
            return f"global write permissions of {file}"
    return ""


def _locate_path(path: str, owners: frozenset[int], private: bool = False, make: bool = False) -> tuple[int, str, bool]:
    """(descriptor of the folder, name in it, whether a link of that name is to be followed), after all other links."""
    pending = _split_path(path)
    folder = os.open("/" if path.startswith("/") else ".", os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    links = 0
    try:
        while True:
            if private:
                _check_folder(folder)
            name = pending.pop()
            kind = _link_kind(name, folder, owners, make and bool(pending))
            if kind == LINK:
                links += 1
                if links > _MOST_LINKS:
                    raise OSError(errno.ELOOP, os.strerror(errno.ELOOP))
                text = os.readlink(name, dir_fd=folder)
                pending += _split_path(text)
                folder = _enter_folder("/", folder, 0) if text.startswith("/") else folder
            elif pending:
                folder = _enter_folder(name, folder, 0 if kind == MAGIC else os.O_NOFOLLOW)
            else:
                return folder, name, kind == MAGIC
    except BaseException:
        os.close(folder)
        raise


def _split_path(path: str) -> list[str]:
    """The parts of a path, the first one last; a slash at the end asks for a folder."""
    parts = [part for part in path.split("/") if part not in ("", ".")]
    return [*(["."] if path.endswith(("/", "/.")) or not parts else []), *reversed(parts)]


def _enter_folder(name: str, folder: int, nofollow: int) -> int:
    """From a folder into one that it names; the first is closed."""
    entered = os.open(name, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC | nofollow, dir_fd=folder)
    os.close(folder)
    return entered


def _link_kind(name: str, folder: int, owners: frozenset[int], make: bool) -> str:
    """LINK or MAGIC for a symbolic link, "" for anything else. A missing name is "" too; with ``make`` a folder is made
    there."""
    try:
        status = os.stat(name, dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        if make:
            os.mkdir(name, 0o700, dir_fd=folder)
        return ""
    if not stat.S_ISLNK(status.st_mode):
        return ""
    if status.st_uid not in owners:
        raise OSError(errno.EPERM, f"{name} is a link that belongs to another user")
    return MAGIC if os.path.isdir("/proc") and status.st_dev == os.stat("/proc").st_dev else LINK


def _check_folder(folder: int) -> None:
    """OSError if other users can replace entries of the folder. In a sticky folder of root's they cannot."""
    status = os.fstat(folder)
    if not is_private(status) and not (status.st_uid == 0 and status.st_mode & stat.S_ISVTX):
        raise OSError(errno.EPERM, "others can write to it")
