"""Which processes run Python, and what frames are called: by maps that are dictionaries."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from sonde.kernel.names.user_symbols import Mapping
from sonde.layouts import cpython as py
from sonde.layouts.shared_maps import PY_FRAMES, PY_IMAGES, PY_MISSES, PY_TEXTS, PYTHON_FRAME
from sonde.runtime.stacks.pythons import PythonFrames, Pythons

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")


class FakeMap(dict[bytes, bytes]):
    spec = SimpleNamespace(max_entries=8)

    def update(self, key: bytes, value: bytes) -> None:  # type: ignore[override]
        self[key] = value

    def delete(self, key: bytes) -> None:
        self.pop(key, None)

    def raw_elements(self) -> Iterator[tuple[bytes, bytes]]:
        return iter(self.items())


def fake_maps() -> Any:
    return {name: FakeMap() for name in (PY_IMAGES, PY_MISSES, PY_FRAMES, PY_TEXTS)}


def own_key() -> bytes:
    with open("/proc/self/stat", "rb") as file:
        fields = file.read().rpartition(b")")[2].split()
    return py.IMAGE_KEY.pack(*map(int, fields[23:26]))


def test_images_of_ended_processes_go_when_there_are_many() -> None:
    maps = fake_maps()
    found = Pythons(maps)
    gone = [py.IMAGE_KEY.pack(1, 2, number + 1) for number in range(3)]
    for key in gone:
        found._add_image(0, key, b"image")
    assert set(maps[PY_IMAGES]) == set(gone)
    found._add_image(os.getpid(), own_key(), b"image")
    assert set(maps[PY_IMAGES]) == {own_key()}


def test_what_was_missed_is_counted_once() -> None:
    maps = fake_maps()
    found = Pythons(maps)
    log: Any = SimpleNamespace(early=0)
    found._log = log
    other = py.IMAGE_KEY.pack(7, 8, 9)
    maps[PY_MISSES][own_key()] = py.MISS.pack(5, os.getpid())
    maps[PY_MISSES][other] = py.MISS.pack(3, 1 << 22)
    found._add_image(os.getpid(), own_key(), b"image")
    found._add_image(os.getpid(), own_key(), b"image")
    assert log.early == 5 and set(maps[PY_MISSES]) == {other}
    found._add_image(1 << 22, b"", b"image")  # it has ended
    assert log.early == 8 and not maps[PY_MISSES]


def test_a_process_that_is_still_being_started_is_looked_at_again(monkeypatch: pytest.MonkeyPatch) -> None:
    maps, keys = fake_maps(), {5: py.IMAGE_KEY.pack(0, 0, 7)}
    monkeypatch.setattr("sonde.kernel.names.pythons.read_image_key", keys.__getitem__)
    monkeypatch.setattr("sonde.kernel.names.pythons.Interpreters.find_image", lambda *_: b"image")
    found = Pythons(maps)
    found.add_mapping(5, Mapping(0x1000, 0x2000, 0, "/bin/python3.12", "/bin/python3.12"))
    found.look_again()
    assert not maps[PY_IMAGES]
    keys[5] = py.IMAGE_KEY.pack(1, 2, 7)
    found.look_again()
    assert maps[PY_IMAGES] == {keys[5]: b"image"}
    maps[PY_IMAGES].clear()
    found.look_again()
    assert not maps[PY_IMAGES]


def test_only_interpreters_are_looked_into() -> None:
    maps = fake_maps()
    with subprocess.Popen(["sleep", "9"]) as process:
        Pythons(maps).add_mapping(process.pid, Mapping(0x1000, 0x2000, 0, "/nowhere", "/usr/bin/sleep"))
        process.kill()
    assert not maps[PY_IMAGES]


@pytest.mark.parametrize(("name", "said"), [("/opt/libpypy3.11-c.so", "PyPy"), ("/opt/libpythonvm.so", "GraalPy")])
def test_other_implementations_are_named(name: str, said: str, monkeypatch: pytest.MonkeyPatch) -> None:
    notices = list[str]()
    monkeypatch.setattr("sonde.kernel.notices.tell", notices.append)
    seen = Pythons(fake_maps())
    for _ in range(2):
        seen.add_mapping(5, Mapping(0x1000, 0x2000, 0, name, name))
    assert notices == [
        f"WARNING: Python stacks and tasks of {name} are not read: {said} keeps its frames in ways of its own"]


def text_object(text: str) -> bytes:
    """As CPython 3.12 has a str of ASCII characters."""
    state = 1 << py.KIND_SHIFT | py.COMPACT | py.ASCII
    head = bytes(16) + len(text).to_bytes(8, "little") + bytes(8) + state.to_bytes(8, "little")
    return head.ljust(40, b"\0") + text.encode() + b"\0" * 16


def put(maps: Any, code: int, first: int, raw: bytes) -> None:
    for number, at in enumerate(range(0, len(raw), py.PART)):
        maps[PY_TEXTS][py.PART_KEY.pack(code, first + number)] = raw[at:at + py.PART].ljust(py.PART, b"\xee")


@pytest.mark.parametrize("name,shown", [("go", "go"), ("a\nb", "a\\nb"), ("x" * 700, "x" * 700)])
def test_a_frame_is_what_was_noted_of_it(name: str, shown: str) -> None:
    maps = fake_maps()
    code, frame = 77, PYTHON_FRAME << 62 | 5
    maps[PY_FRAMES][frame.to_bytes(8, "little")] = py.FRAME_RECORD.pack(code, 4, 10, 40, 56)
    frames = PythonFrames(maps)
    assert frames.frame_at(frame) is None  # its texts are not there yet
    put(maps, code, py.NAME_PART, text_object(name))
    put(maps, code, py.FILE_PART, text_object("/srv/app.py"))
    lines = bytes([0x80 | 13 << 3 | 1, 2, 0x80 | 11 << 3 | 0, 0, 0])  # two units: a line further; one: another line
    put(maps, code, py.TABLE_PART, bytes(16) + len(lines).to_bytes(8, "little") + bytes(8) + lines)
    assert frames.frame_at(frame) == (shown, 12, "/srv/app.py")
    maps[PY_FRAMES].clear()
    assert frames.frame_at(frame) == (shown, 12, "/srv/app.py")  # what was named stays so
    assert frames.frame_at(frame + 1) is None
