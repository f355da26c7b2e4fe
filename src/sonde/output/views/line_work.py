"""What a line of Python did when it was counted: ran Python's own code, native code beside it, or the kernel's."""

from __future__ import annotations

from collections.abc import Sequence

from ...runtime.records.python_frames import EVALUATES
from ...runtime.records.values import StackFrame, StackTrace
from .stacks import clean_text

OWN, NATIVE, SYSTEM = "python", "native", "kernel"
_INTERPRETER = ("python", "libpython")  # how the names of its files begin
_C_LIBRARY = ("libc.so", "libc-", "libm.so", "libm-", "libpthread", "ld-linux", "ld-musl", "ld-2", "libc.musl",
              "[vdso]")
_DISPATCH = ("do_syscall_64", "x64_sys_call", "do_fast_syscall_32", "do_int80_")  # what calls that of a system call
_PREFIXES = ("__x64_sys_", "__ia32_sys_", "__se_sys_", "ksys_")


def called_frames(native: Sequence[StackTrace], has_python: bool) -> Sequence[StackFrame]:
    """Native frames that the innermost Python function called, innermost first; without Python functions all. If the
    interpreter is not in the stack, it was not unwound that far: only the innermost frame is certain."""
    frames = [frame for stack in native for frame in stack.frames]
    if not has_python:
        return frames
    ends = [at for at, frame in enumerate(frames) if frame.name.startswith(EVALUATES)]
    return frames[:ends[0] if ends else 1]


def find_work(native: Sequence[StackFrame], kernel: Sequence[StackTrace]) -> tuple[str, str]:
    """The kind, and the name of what ran ("" for the interpreter's loop alone); of the ``native`` frames that the
    innermost Python function called, innermost first, and the ``kernel``'s stack.

    Files tell the two apart, because distributions strip the names of the interpreter's own functions: what only the
    interpreter's file and the C library run, for Python, is Python's own.
    """
    names = [frame.name for stack in kernel for frame in stack.frames]
    if names:
        return SYSTEM, _describe_entry(names)
    files = [frame.module.rpartition("/")[2] for frame in native]
    is_native = any(not name.startswith((*_INTERPRETER, *_C_LIBRARY)) for name in files)
    if not native:
        return OWN, ""
    return (NATIVE if is_native else OWN), _describe_function(native[0].name, files[0])


def _describe_function(name: str, file: str) -> str:
    file = file or "code made at run time"
    return clean_text(f"{name} ({file})" if name else f"[{file}]")


def _describe_entry(names: list[str]) -> str:
    """How the thread came into the kernel, by the kernel's functions."""
    at = next((at for at, name in enumerate(names) if name.startswith(_DISPATCH)), 0)
    if at:
        prefix = next((prefix for prefix in _PREFIXES if names[at - 1].startswith(prefix)), "")
        return clean_text(f"{names[at - 1].removeprefix(prefix)}()")
    if any(name.startswith("asm_exc_page_fault") for name in names):
        return "page fault"
    interrupted = any(name.startswith(("asm_sysvec_", "asm_common_interrupt")) for name in names)
    return "interrupt" if interrupted else clean_text(names[0] or "?")
