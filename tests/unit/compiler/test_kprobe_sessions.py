"""kprobe.session: which programs are put together, and what comes out."""

from __future__ import annotations

import struct
from typing import Any

import pytest

from sonde.asm import insn
from sonde.compiler.kprobe_sessions import pair_sessions
from sonde.runtime.attach.programs import attach_cookie
from sonde.spec import Attach, ProgramSpec, Relocation
from unit.fake_world import KprobeWorld


class Sessions(KprobeWorld):
    features = KprobeWorld.features | {"kprobe_multi", "kprobe_session"}

    def kfunc_id(self, name: str) -> int:
        return 77 if name == "bpf_session_is_return" else 0


def spec(kind: str, functions: str = "ab", first: int = 0, **more: Any) -> ProgramSpec:
    code = insn.alu("mov", 0, imm=0).encode() * (3 if kind == "kprobe" else 2) + insn.exit_().encode()
    return ProgramSpec("p", "kprobe", code, [Attach(kind, f"{kind}:{name}", event=name) for name in functions],
                       [Relocation(1, "@", "fd")], [(0, kind)], first_probe=first, cookies=True, **more)


def test_entry_and_return_become_one() -> None:
    entry, exit, other = spec("kprobe"), spec("kretprobe", first=2), spec("kprobe", "cd", 4)
    [one, rest] = pair_sessions([entry, other, exit], Sessions())
    assert rest is other and one.method == "session" and one.parts == [entry, exit]
    assert one.code[4 * 8:] == entry.code + exit.code
    code, registers, off, imm = struct.unpack_from("<BBhi", one.code, 3 * 8)
    assert (code, registers, off, imm) == (0x55, 0, len(entry.code) // 8, 0)  # if r0 != 0, over the entry's
    assert struct.unpack_from("<BBhi", one.code, 8) == (0x85, 0x20, 0, 77)
    assert [r.index for r in one.relocations] == [5, 5 + len(entry.code) // 8]
    assert one.lines == [(4, "kprobe"), (4 + len(entry.code) // 8, "kretprobe")]


def test_cookies_name_both() -> None:
    [one] = pair_sessions([spec("kprobe"), spec("kretprobe", first=2)], Sessions())
    assert [attach_cookie(one, i) for i in (0, 1)] == [0 | 2 << 32, 1 | 3 << 32]
    assert attach_cookie(spec("kretprobe", first=2), 1) == 3 | 3 << 32
    plain = ProgramSpec("p", "kprobe", b"", [Attach("uprobe", "u", event="f")], first_probe=9)
    assert attach_cookie(plain, 0) == 9


@pytest.mark.parametrize("specs", [
    [spec("kprobe"), spec("kretprobe", "ac")],                                     # other functions
    [spec("kprobe", "a"), spec("kretprobe", "a")],                                 # one is better served otherwise
    [spec("kprobe"), spec("kretprobe", functions="ab", method="fexit")][:1],          # nothing to go with
    [spec("kprobe"), ProgramSpec("q", "tracing", b"", [Attach("kretprobe", "k", event=n, way="fexit")
                                                       for n in "ab"])],           # the return is no kretprobe
])
def test_what_stays_apart(specs: list[ProgramSpec]) -> None:
    assert pair_sessions(specs, Sessions()) == specs


def test_kernels_without() -> None:
    specs = [spec("kprobe"), spec("kretprobe")]
    assert pair_sessions(specs, KprobeWorld()) is specs
