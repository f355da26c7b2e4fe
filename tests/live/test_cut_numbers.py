"""A number that printf() shows as another is warned of, once for each printf(); what is meant is not."""

from __future__ import annotations

import pytest

from support import run_sonde


def warnings_of(statements: str, *args: str) -> list[str]:
    result = run_sonde(*args, "-e", f"begin {{ {statements} exit(); }}")
    assert result.returncode == 0, result.stderr
    return [line for line in result.stderr.splitlines() if "shows 32 bits" in line]


@pytest.mark.parametrize("form,value", [
    ("d", "5000000000"), ("i", "(int64)-5000000000"), ("x", "5000000000"), ("u", "nsecs << 20"), ("o", "1 << 40"),
    ("X", "(uint64)0xffffffff81234567"), ("-20d", "(uint64)1 << 33"), ("d", "(int64)-3000000000"),
    ("d", "(int8 *)0x7f0000001000"),
])
def test_what_is_shown_as_another_number(form: str, value: str) -> None:
    found = warnings_of(f'$i = 0; while ($i < 50) {{ $i++; printf("%{form}\\n", {value}); }}')
    assert len(found) == 1 and f"%{form[-1]} shows" in found[0] and "stdin:1:" in found[0]


@pytest.mark.parametrize("form,value", [
    ("lld", "5000000000"), ("ld", "5000000000"), ("d", "(int64)-2"), ("d", "(uint64)-2"), ("x", "(int64)-1"),
    ("x", "(uint64)-22"), ("u", "(uint64)4294967295"), ("d", "(uint64)0xfffffffe"), ("d", "(int64)2147483647"),
    ("hhd", "5000000000"), ("hx", "(uint64)0x12345678"), ("d", "pid"), ("d", "(int32)-5"), ("p", "curtask"),
    ("c", "(uint64)0x4100000041"), ("s", "5000000000"),
])
def test_what_is_meant(form: str, value: str) -> None:
    assert not warnings_of(f'printf("%{form}\\n", {value});')


def test_each_printf_and_the_output_itself() -> None:
    """The text is bpftrace's; in JSON and with other printing beside it the same is said."""
    both = 'printf("%d\\n", 5000000000); printf("%d %x\\n", 5000000001, 5000000002);'
    assert len(warnings_of(both)) == 2 and len(warnings_of(both, "-f", "json")) == 2
    assert not warnings_of(both, "--no-warnings")
    result = run_sonde("-e", f"begin {{ {both} exit(); }}")
    assert result.stdout.split() == ["705032704", "705032705", "2a05f202"]
