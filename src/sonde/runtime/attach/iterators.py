"""Running iterators: each is read once, by a thread, while the session receives what the programs send."""

from __future__ import annotations

import errno
import os
from threading import Thread

from ...errors import AttachError, PrivilegeError, SyscallError
from ...kernel import syscalls
from ...kernel.syscalls import Fd

_PIN_HINTS = {
    errno.EEXIST: ["an earlier pin: remove the file, or choose another name"],
    errno.ENOENT: ["the directory has to exist: mount -t bpf bpf /sys/fs/bpf, or mkdir in it"],
    errno.EPERM: ["the directory is not in a BPF file system: mount -t bpf bpf /sys/fs/bpf"],
}


def _pin_error(name: str, path: str, number: int) -> AttachError:
    return AttachError(f"{name}: it cannot be pinned as {path}: {os.strerror(number)}", name, number,
                       _PIN_HINTS.get(number, []))


class Iterators:
    """``fd`` becomes readable when all have been read; ``error`` then says what went wrong, if anything did."""

    def __init__(self) -> None:
        self.fd = os.eventfd(0, os.EFD_CLOEXEC)
        self.done = False
        self.error: AttachError | None = None
        self.pinned: list[str] = []
        self._waiting: list[tuple[str, Fd]] = []
        self._thread: Thread | None = None

    def __len__(self) -> int:
        return len(self._waiting)

    def add_iterator(self, name: str, program: Fd) -> None:
        """An iterator to be read; SyscallError if the kernel will not have the program as one."""
        with syscalls.link_iterator(program) as link:
            self._waiting.append((name, syscalls.iterator_create(link)))

    def pin_iterator(self, name: str, program: Fd, path: str) -> None:
        """Pin an iterator as a file; reading the file runs it. AttachError if the kernel refuses."""
        with syscalls.link_iterator(program) as link:
            try:
                syscalls.pin_object(link, path)
            except SyscallError as error:
                raise _pin_error(name, path, error.errno) from None
            except PrivilegeError:
                raise _pin_error(name, path, errno.EPERM) from None
        self.pinned.append(path)

    def start(self) -> None:
        """Read them one after the other."""
        self._thread = Thread(target=self._read_iterators, daemon=True)
        self._thread.start()

    def _read_iterators(self) -> None:
        for name, fd in self._waiting:
            try:
                _read_to_end(fd)
            except OSError as error:
                self.error = AttachError(f"{name}: {error.strerror}", name, error.errno or 0)
        self.done = True
        os.eventfd_write(self.fd, 1)

    def close(self) -> None:
        """Wait for the reading to end (a matter of milliseconds), and release everything."""
        if self._thread is not None:
            self._thread.join()
        for _, fd in self._waiting:
            fd.close()
        if self.fd >= 0:
            os.close(self.fd)
        self.fd, self._waiting = -1, []


def _read_to_end(fd: Fd) -> None:
    """A read runs the program for a million objects at most and then says EAGAIN (bpf_seq_read())."""
    while True:
        try:
            if not os.read(fd.fileno(), 65536):
                return
        except OSError as error:
            if error.errno != errno.EAGAIN:
                raise
