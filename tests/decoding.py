"""A decoding context of known names, for tests of values and output."""

from __future__ import annotations

from collections.abc import Sequence


class Names:
    """A context that knows two kernel symbols, one program and one stack."""

    text_size = 8
    trailer = ".."

    def stack_frames(self, stack: int) -> Sequence[int]:
        return {7: (0x1001, 0x2002), 8: (0x400010,)}.get(stack, ())

    def ksym(self, address: int) -> tuple[str, int] | None:
        return {0x1001: ("do_x", 1), 0x1000: ("do_x", 0)}.get(address)

    def usym(self, address: int, tgid: int) -> tuple[str, int, str] | None:
        return ("main", 16, "/bin/x") if (address, tgid) == (0x400010, 5) else None

    def code_places(self, address: int, tgid: int) -> Sequence[tuple[str, str, int]]:
        return ()

    def source_text(self, file: str, tgid: int) -> None:
        return None

    def build_id(self, address: int, tgid: int) -> tuple[str, int] | None:
        return ("abcd", 0x10) if address == 0x400010 else None

    def probe_name(self, index: int) -> str:
        return ["begin", "tracepoint:a:b"][index]

    def user_name(self, uid: int) -> str:
        return "root" if uid == 0 else str(uid)

    def syscall_name(self, number: int) -> str:
        return "read" if number == 0 else str(number)

    def cgroup_path(self, cgroup: int, filter: str) -> str:
        return f"unified:/{cgroup}{filter}"

    def group_name(self, kind: str, cgroup: int) -> str:
        return f"{kind}-{cgroup}"

    def wall_clock(self, nanoseconds: int, clock: str) -> int:
        return nanoseconds + 1_700_000_000_000_000_000

    def boot_time(self) -> int:
        return 0
