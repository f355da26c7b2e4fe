"""Arguments of system calls' functions that point into the caller's memory, on kernels whose types do not say so."""

from __future__ import annotations

import pytest

from sonde.spec import KernelFunction, TracepointFormat
from unit.fake_world import INT8, INT64, UINT64, FentryWorld, findings, function, kernel, struct, user

CALLS = {f.name: f for f in (
    function("do_sys_openat2", INT64, dfd=INT64, filename=kernel(INT8), how=kernel(INT64)),
    function("__sys_bind", INT64, fd=INT64, umyaddr=kernel(INT8), addrlen=INT64),
    function("ksys_read", INT64, fd=INT64, buf=kernel(INT8), count=UINT64),
    function("vfs_write", INT64, file=kernel(INT64), buf=kernel(INT8), count=UINT64),
    function("tagged_sys_openat2", INT64, filename=user(INT8)), function("path_init", INT64, filename=kernel(INT8)))}
FIELDS = {"openat2": {"filename": user(INT8)}, "bind": {"umyaddr": user(INT8)}, "read": {"buf": user(INT8)},
          "write": {"buf": user(INT8)}}


class Untagged(FentryWorld):
    """A kernel that was built without type tags."""

    def kernel_functions(self) -> list[tuple[str, str]]:
        return [("vmlinux", name) for name in CALLS]

    def kernel_function(self, name: str, module: str = "") -> KernelFunction | None:
        return CALLS.get(name)

    def tracepoint_format(self, category: str, event: str) -> TracepointFormat | None:
        fields = FIELDS.get(event.removeprefix("sys_enter_"))
        return TracepointFormat(category, event, 1, struct(event, fields)) if fields else None


@pytest.mark.parametrize(("function", "call"), [
    ("do_sys_openat2", "str(args.filename)"), ("__sys_bind", "buf(args.umyaddr, 16)"),
    ("ksys_read", "str(args.buf, 8)"), ("vfs_write", "buf(args.buf, args.count)")])
def test_memory_of_the_caller_is_pointed_out(function: str, call: str) -> None:
    name = call.partition("(")[2].rstrip(")").partition(",")[0]
    assert findings(f"fentry:{function} {{ print({call}); }}", Untagged()) == [("user-memory", name)]


@pytest.mark.parametrize(("function", "call"), [
    ("do_sys_openat2", "str(uptr(args.filename))"), ("do_sys_openat2", "str(args.how)"),
    ("tagged_sys_openat2", "str(args.filename)"), ("path_init", "str(args.filename)"), ("ksys_read", "args.count")])
def test_nothing_is_said_of_other_memory(function: str, call: str) -> None:
    assert findings(f"fentry:{function} {{ print({call}); }}", Untagged()) == []
