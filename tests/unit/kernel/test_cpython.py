"""What is known of CPython's insides: against its headers, and against the interpreter that runs this test."""

from __future__ import annotations

import ctypes
import random
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Iterator
from pathlib import Path
from types import CodeType

import pytest

from sonde.errors import MachineError
from sonde.kernel.foreign import files
from sonde.layouts import cpython as py
from sonde.layouts.cpython_tasks import TASK_LAYOUTS

HERE = sys.version_info[:2]
knows_this = pytest.mark.skipif(HERE not in py.VERSIONS or bool(sysconfig.get_config_var("Py_GIL_DISABLED")),
                                reason="not an interpreter that is known")
MEMBERS = {
    "interpreters": "_PyRuntimeState, interpreters.head", "interp_next": "PyInterpreterState, next",
    "interp_threads": "PyInterpreterState, threads.head", "interp_id": "PyInterpreterState, id",
    "thread_next": "PyThreadState, next", "thread_interp": "PyThreadState, interp",
    "thread_id": "PyThreadState, thread_id", "frame_previous": "_PyInterpreterFrame, previous",
    "frame_owner": "_PyInterpreterFrame, owner", "code_line": "PyCodeObject, co_firstlineno",
    "code_file": "PyCodeObject, co_filename", "code_name": "PyCodeObject, co_qualname",
    "code_table": "PyCodeObject, co_linetable", "code_bytecode": "PyCodeObject, co_code_adaptive",
    "code_traceable": "PyCodeObject, _co_firsttraceable"}
OF_TASKS = {11: {"modules": "PyInterpreterState, modules", "thread_dict": "PyThreadState, dict"},
            12: {"modules": "PyInterpreterState, imports.modules", "thread_dict": "PyThreadState, dict"},
            13: {"modules": "PyInterpreterState, imports.modules", "thread_dict": "PyThreadState, dict",
                 "running_loop": "_PyThreadStateImpl, asyncio_running_loop"},
            14: {"modules": "PyInterpreterState, imports.modules",
                 "running_loop": "_PyThreadStateImpl, asyncio_running_loop",
                 "running_task": "_PyThreadStateImpl, asyncio_running_task"}}
OF_LOCKS = {"GIL_HOLDER": "struct _gil_runtime_state, last_holder", "GIL_LOCKED": "struct _gil_runtime_state, locked",
            "GIL_SWITCHES": "struct _gil_runtime_state, switch_number",
            "GIL_WAITING": "struct _gil_runtime_state, cond"}
OF_OBJECTS = {"TYPE": "PyObject, ob_type", "TYPE_NAME": "PyTypeObject, tp_name", "TYPE_FLAGS": "PyTypeObject, tp_flags",
              "TYPE_BASE": "PyTypeObject, tp_base", "MODULE_DICT": "PyModuleObject, md_dict",
              "DICT_KEYS": "PyDictObject, ma_keys", "DICT_VALUES": "PyDictObject, ma_values",
              "KEYS_INDEX": "PyDictKeysObject, dk_log2_index_bytes", "KEYS_KIND": "PyDictKeysObject, dk_kind",
              "KEYS_ENTRIES": "PyDictKeysObject, dk_nentries", "KEYS_READ": "PyDictKeysObject, dk_indices"}
OF_WAITING = {"generator_state": "PyGenObject, gi_frame_state", "generator_frame": "PyGenObject, gi_iframe",
              "locals": "_PyInterpreterFrame, localsplus", "local_count": "PyCodeObject, co_nlocalsplus",
              "cached_keys": "PyHeapTypeObject, ht_cached_keys", "tuple_items": "PyTupleObject, ob_item"}
LISTS = {"thread_tasks": "_PyThreadStateImpl, asyncio_tasks_head",
         "interp_tasks": "PyInterpreterState, asyncio_tasks_head"}
BEFORE_13 = {"frame_code": "_PyInterpreterFrame, f_code", "frame_instruction": "_PyInterpreterFrame, prev_instr",
             "thread_frame": "PyThreadState, cframe", "root_cframe": "PyThreadState, root_cframe"}
FROM_12 = {"thread_status": "PyThreadState, _status", "code_version": "PyCodeObject, co_version"}
FROM_13 = {"frame_code": "_PyInterpreterFrame, f_executable", "frame_instruction": "_PyInterpreterFrame, instr_ptr",
           "thread_frame": "PyThreadState, current_frame"}


def include_folders() -> Iterator[tuple[int, Path]]:
    """(minor version, folder) of the headers that are here."""
    folders = {Path(sysconfig.get_path("include")), *Path.home().glob(".pyenv/versions/3.*/include/python3.*"),
               *Path("/usr/include").glob("python3.*")}
    for folder in sorted(folders):
        minor = folder.name.removeprefix("python3.")
        if minor.isdigit() and (3, int(minor)) in py.VERSIONS and (folder / "internal/pycore_interp.h").exists():
            yield int(minor), folder


@pytest.mark.parametrize("minor,folder", [pytest.param(*pair, id=str(pair[1])) for pair in include_folders()])
def test_offsets_are_those_of_the_headers(minor: int, folder: Path, tmp_path: Path) -> None:
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("cc is not installed")
    members = MEMBERS | (BEFORE_13 if minor < 13 else FROM_13) | (FROM_12 if minor > 11 else {})
    members |= OF_TASKS[minor] | OF_OBJECTS | OF_LOCKS
    members |= {"gil": "PyInterpreterState, ceval.gil"} if minor > 11 else {"runtime_gil": "_PyRuntimeState, ceval.gil"}
    members |= OF_WAITING | (LISTS if minor > 13 else {})
    inner = ["dict", "moduleobject", *(["frame"] if minor < 14 else ["interpframe_structs", "runtime_structs"]),
             *(["tstate"] if minor > 12 else [])]
    lines = [f'printf("{name} %d\\n", (int)offsetof({member}));' for name, member in members.items()]
    lines += ['printf("ascii_size %d\\n", (int)sizeof(PyASCIIObject));',
              'printf("compact_size %d\\n", (int)sizeof(PyCompactUnicodeObject));',
              'printf("GIL_SIZE %d\\n", (int)sizeof(struct _gil_runtime_state));']
    if minor < 13:
        lines.append('printf("cframe_frame %d\\n", 1 + (int)offsetof(_PyCFrame, current_frame));')
    source = tmp_path / "offsets.c"
    source.write_text("\n".join([
        "#define Py_BUILD_CORE 1", '#include "Python.h"', "#include <stddef.h>", "#include <stdio.h>",
        *[f'#include "internal/pycore_{name}.h"' for name in ("runtime", "interp", "code", "gil", *inner)],
        "int main(void) {", *lines, "return 0; }"]))
    done = subprocess.run([compiler, f"-I{folder}", f"-I{folder}/internal", str(source), "-o", str(tmp_path / "run")],
                          capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip(f"these headers cannot be compiled: {done.stderr[:200]}")
    told = dict(line.split() for line in subprocess.check_output([tmp_path / "run"], text=True).splitlines())
    known = py.VERSIONS[3, minor] | TASK_LAYOUTS[3, minor]
    assert {name: int(value) for name, value in told.items()} == \
        {name: getattr(py, name) if name.isupper() else known[name] for name in told}


@knows_this
def test_the_interpreter_that_runs_this() -> None:
    """What its file says of itself; from 3.13 on with its own offsets, which are those of the table."""
    paths = [sys.executable, str(Path(sysconfig.get_config_var("LIBDIR")) / str(sysconfig.get_config_var("LDLIBRARY")))]
    found = [told for path in paths if Path(path).exists() and not path.endswith(".a")
             and (told := files.open_elf(str(Path(path).resolve())).find_interpreter()) is not None]
    files.release_files()
    if not found:
        pytest.skip("the interpreter's symbols are in no file")
    version, _, _, debug = found[0]
    assert version == sys.hexversion
    assert py.find_offsets(version, debug) == py.VERSIONS[HERE]


@pytest.mark.parametrize("release,problem", [
    ((3, 10), "older than Python 3.11"), ((2, 7), "older"), ((3, 15), "Python 3.15 keeps"),
    ((3, 13), "does not begin")])
def test_interpreters_that_are_not_known(release: tuple[int, int], problem: str) -> None:
    with pytest.raises(MachineError, match=problem):
        py.find_offsets(release[0] << 24 | release[1] << 16, b"")


def debug_offsets(change: tuple[int, int] | None = None) -> bytes:
    """As Python 3.13 has them."""
    words = dict.fromkeys(range(0, py.DEBUG_OFFSETS, 8), 0)
    for name, at in py._DEBUG_WORDS.items():
        words[at] = py.VERSIONS[3, 13][name]
    words[py._INTERPRETERS] = py.VERSIONS[3, 13]["interpreters"]
    words |= dict([change]) if change else {}
    return py.COOKIE + b"".join([words[at].to_bytes(8, "little") for at in sorted(words)])[8:]


def test_a_process_s_own_offsets_count() -> None:
    assert py.find_offsets(0x030D00F0, debug_offsets()) == py.VERSIONS[3, 13]
    assert py.find_offsets(0x030D00F0, debug_offsets((py._INTERPRETERS, 640)))["interpreters"] == 640
    with pytest.raises(MachineError, match="without the GIL"):
        py.find_offsets(0x030D00F0, debug_offsets((16, 1)))
    for at in py._DEBUG_WORDS.values():
        with pytest.raises(MachineError, match="damaged"):
            py.find_offsets(0x030D00F0, debug_offsets((at, 1 << 40)))


def test_an_image_s_words() -> None:
    packed = py.pack_image(py.VERSIONS[3, 12], 0x1000, 0x2000)
    assert len(packed) == py.IMAGE_SIZE
    assert int.from_bytes(packed[:8], "little") == 0x1000 + 40
    assert int.from_bytes(packed[py.OFFSET["code_type"]:][:8], "little") == 0x2000


# what was read


def memory_of(thing: object, size: int) -> bytes:
    return ctypes.string_at(id(thing), size)


def codes_of(code: CodeType) -> Iterator[CodeType]:
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from codes_of(constant)


@knows_this
@pytest.mark.parametrize("module", ["argparse", "asyncio.tasks", "dataclasses", "typing"])
def test_lines_are_the_interpreter_s(module: str) -> None:
    """Of the first and the last instruction of each stretch: by the code object's own table, and by the interpreter."""
    path = Path(__import__(module, fromlist=["x"]).__file__ or "")
    checked = 0
    for code in codes_of(compile(path.read_text(), str(path), "exec")):
        table = code.co_linetable
        raw = memory_of(table, py.BYTES_START + len(table))
        for start, end, line in code.co_lines():
            for place in {start, end - 2}:
                assert py.find_line(raw, place, code.co_firstlineno) == (line or 0), (code.co_qualname, place)
                checked += 1
        assert py.find_line(raw, -2, code.co_firstlineno) == code.co_firstlineno
    assert checked > 500


@knows_this
@pytest.mark.parametrize("text", ["plain", "größe", "内側", "😀 and more", "", "é", "x" * 5000])
def test_texts_are_the_interpreter_s(text: str) -> None:
    known = py.VERSIONS[HERE]
    raw = memory_of(text, min(sys.getsizeof(text), py.MOST_TEXT)).ljust(known["compact_size"], b"\xff")
    found = py.decode_text(raw, known["ascii_size"], known["compact_size"])
    assert found == (text if len(text) < 1000 else text[:py.MOST_TEXT - known["ascii_size"]] + "...")


@knows_this
def test_code_objects_are_as_the_table_has_them() -> None:
    known, code = py.VERSIONS[HERE], test_an_image_s_words.__code__
    raw = memory_of(code, 256)

    def word(name: str) -> int:
        return int.from_bytes(raw[known[name]:known[name] + 8], "little")

    assert [word(name) for name in ("code_file", "code_name", "code_table")] == [
        id(code.co_filename), id(code.co_qualname), id(code.co_linetable)]
    assert word("code_line") & 0xFFFFFFFF == code.co_firstlineno
    assert int.from_bytes(raw[8:16], "little") == id(CodeType)


def test_whatever_is_read_is_bounded() -> None:
    source = random.Random(11)
    for _ in range(3000):
        raw = source.randbytes(source.choice((0, 7, 40, 72, 300)))
        line = py.find_line(raw, source.choice((-1, 0, 17, 1 << 40)), source.choice((-5, 0, 1 << 31)))
        assert 0 <= line < 1 << 32
        text = py.decode_text(raw, 40, 56)
        assert text is None or len(text) <= py.MOST_TEXT
    lying = bytearray(memory_of("text", 60) + bytes(20))
    lying[16:24] = (1 << 60).to_bytes(8, "little")  # a length beyond all that was read
    known = py.VERSIONS.get(HERE) or py.VERSIONS[3, 12]
    assert len(py.decode_text(bytes(lying), known["ascii_size"], known["compact_size"]) or "") < 100
    assert py.find_line(bytes(16) + b"\xff" * 16 + b"\xf0" + b"\xff" * 200, 1000, 1) == 0
