"""What a word on the command line names: a command, a tool, or a script's file.

Commands and tools come first: a file with their name in a folder that somebody else can write to must not run in their
place. A file has a ``/`` or a ``.`` in its name, or belongs to the caller (or root).
"""

from __future__ import annotations

import os
import stat

from ..base.package_files import is_shipped, read_shipped
from ..base.trusted_files import own_users
from ..errors import UsageError
from ..source import Source
from .command_table import COMMANDS

COMMAND, TOOL, FILE = "command", "tool", "file"
LARGEST = 16 << 20  # bytes of a script


def classify_word(word: str) -> str:
    """COMMAND, TOOL, FILE, or "" for what is none of them."""
    if is_path(word):
        return FILE
    if word in COMMANDS:
        return COMMAND
    from ..tools import tool_names
    if word in tool_names():
        return TOOL
    try:
        return FILE if _why_not(os.stat(word)) == "" else ""
    except (OSError, ValueError):
        return ""


def is_path(word: str) -> bool:
    """Whether a word can only be a file's name."""
    return "/" in word or "." in word


def read_script(name: str) -> Source:
    """A tool's script, or a file's. UsageError if it cannot be read, is none, or not the caller's own."""
    if classify_word(name) == TOOL:
        name = _tool_path(name)
    if is_shipped(name):
        return script_of(name, read_shipped(name), internal=True)
    named = is_path(name)
    try:
        # A path may be a pipe, <(...), that is waited for; a plain name may not.
        descriptor = os.open(name, os.O_RDONLY | os.O_CLOEXEC | (0 if named else os.O_NONBLOCK))
        with open(descriptor, "rb") as file:
            if not named and (reason := _why_not(os.fstat(descriptor))):
                raise UsageError(f"there is no tool {name}, and the file {name} {reason}: not run",
                                 [f"./{name} runs it all the same"])
            data = file.read(LARGEST + 1)
    except OSError as error:
        raise UsageError(f"failed to open file '{name}': {error.strerror}") from None
    return script_of(name, data)


def script_of(name: str, data: bytes, internal: bool = False) -> Source:
    """The script that ``data`` is; UsageError if it is none."""
    if len(data) > LARGEST:
        raise UsageError(f"'{name}' is no script: it is larger than {LARGEST >> 20} MiB")
    if b"\0" in data:
        raise UsageError(f"'{name}' is no script: it contains binary data")
    return Source(name, data.decode("utf-8", "surrogateescape"), internal)


def _tool_path(name: str) -> str:
    from ..tools import find_tool
    tool = find_tool(name)
    assert tool is not None
    return tool.path


def _why_not(status: os.stat_result) -> str:
    """Why a file is not taken for what a plain name means: somebody else may have laid it there. "" if it is."""
    if not stat.S_ISREG(status.st_mode):
        return "is no regular file"
    if status.st_uid not in own_users():
        return "is another user's"
    return "can be written to by everybody" if status.st_mode & stat.S_IWOTH else ""
