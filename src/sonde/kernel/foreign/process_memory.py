"""Words of a process's memory."""

from __future__ import annotations

import os

from ...errors import MachineError
from .reader import Reader


def read_words(pid: int, addresses: list[int]) -> list[int]:
    """Words of a process's memory; 0 for what cannot be read. A process can make its readers wait (userfaultfd, a file
    system of its own), so a reader of its own does it, which ends in time. MachineError."""
    try:
        descriptor = os.open(f"/proc/{pid}/mem", os.O_RDONLY | os.O_CLOEXEC)
    except OSError as error:
        raise MachineError(f"the memory of process {pid} cannot be read: {error.strerror}") from None
    alone = Reader()
    try:
        answer: list[int] = alone.ask_question("memory_words", "", [descriptor], addresses)
        if len(answer) != len(addresses):
            raise MachineError("senseless answer")
        return answer
    finally:
        alone.end_process()
        os.close(descriptor)
