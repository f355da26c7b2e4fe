"""Which processes' Python is followed, and what is said of others."""

from __future__ import annotations

import pytest

from sonde.errors import MachineError, UsageError
from sonde.kernel.names import python_process
from sonde.kernel.names.python_process import PythonProcess
from sonde.kernel.names.user_symbols import Mapping
from sonde.layouts import cpython as py

IMAGE = py.pack_image(py.VERSIONS[3, 12], 0x1000, 0x2000)


def image_of(monkeypatch: pytest.MonkeyPatch, names: list[str], image: bytes | MachineError = IMAGE) -> PythonProcess:
    def find_image(interpreters: object, pid: int, mapping: Mapping) -> bytes:
        if isinstance(image, MachineError):
            raise image
        return image
    monkeypatch.setattr(python_process, "read_maps", lambda pid: [Mapping(1, 2, 0, name, name) for name in names])
    monkeypatch.setattr("sonde.kernel.names.pythons.Interpreters.find_image", find_image)
    return PythonProcess(7)


def test_cpython_with_either_c_library(monkeypatch: pytest.MonkeyPatch) -> None:
    python = image_of(monkeypatch, ["/usr/bin/python3.12", "/lib/x86_64-linux-gnu/libc.so.6"])
    assert python.words["gil"] == 384 and python.words["interpreters"] == 0x1000 + 40
    assert python.c_library == "/lib/x86_64-linux-gnu/libc.so.6" and python.has_glibc
    assert not image_of(monkeypatch, ["/usr/bin/python3.12", "/lib/ld-musl-x86_64.so.1"]).has_glibc


@pytest.mark.parametrize(("names", "problem"), [
    (["/opt/pypy/bin/pypy3.10", "/opt/pypy/bin/libpypy3.10-c.so"], "runs PyPy"),
    (["/opt/graalpy/bin/graalpy"], "runs GraalPy"), (["/usr/bin/sleep"], "maps no file of CPython's"),
    ([], "shows none of its files")])
def test_other_processes(monkeypatch: pytest.MonkeyPatch, names: list[str], problem: str) -> None:
    with pytest.raises(UsageError, match=problem):
        image_of(monkeypatch, names)


def test_builds_without_the_lock(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UsageError, match=r"process 7 .*python3.13t.* without the GIL"):
        image_of(monkeypatch, ["/usr/bin/python3.13t"], MachineError("it is a build without the GIL"))
