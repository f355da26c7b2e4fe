"""What Go's versions do differently, and what their functions begin with (bytes from `go tool objdump`)."""

from __future__ import annotations

import pytest

from sonde.arch import ARCHES
from sonde.arch.function_entries import marker_length, stack_check_length
from sonde.arch.go_versions import goid_offset, minor_version, uses_stack


@pytest.mark.parametrize(("version", "minor"), [
    ("go1.19.8", 19), ("go1.27rc1", 27), ("go1.18+", 18), ("go1.5", 5), ("go1.", 0), ("devel", 0),
    ("go1." + "9" * 99, 0)])
def test_minor_version(version: str, minor: int) -> None:
    assert minor_version(version) == minor


def test_conventions() -> None:
    assert not uses_stack("go1.17", "x86_64") and uses_stack("go1.16.15", "x86_64")
    assert uses_stack("go1.17", "aarch64") and uses_stack("go1.27", "s390x") and uses_stack("", "x86_64")


def test_goid_offset() -> None:
    assert [goid_offset(f"go1.{minor}.1") for minor in (9, 10, 19, 22, 23, 24, 25, 27, 28)] == [
        None, 152, 152, 152, 160, 160, None, 152, None]
    assert goid_offset("go1.18+") is None  # that may be any later one


@pytest.mark.parametrize(("arch", "code", "length"), [
    ("x86_64", "493b6610 7620 4883ec10", 4), ("x86_64", "493b6610 0f86e1000000 55", 4),
    ("x86_64", "4c8d6424f8 4d3b6610 7610 55", 9), ("x86_64", "4c8da42448fcffff 4d3b6610 0f8696120000 4881", 12),
    ("x86_64", "4989e4 4981ece0180100 0f828c000000 4d3b6610 0f8682000000 4881", 20),
    ("x86_64", "64488b0c25f8ffffff 483b6110 7620 4883", 13), ("x86_64", "554889e5", 0), ("x86_64", "493b6610", 0),
    ("aarch64", "900b40f9 ff6330eb 29010054 fe0f1ef8", 12), ("aarch64", "900b40f9 f1030ad1 3f0210eb a9040054 f403", 16),
    ("aarch64", "900b40f9 1b1c83d2 3b00a0f2 f1633beb 03050054 3f0210eb a9040054", 28), ("aarch64", "c0035fd6", 0),
    ("s390x", "c0035fd6", 0)])
def test_stack_checks(arch: str, code: str, length: int) -> None:
    assert stack_check_length(ARCHES[arch], bytes.fromhex(code)) == length


@pytest.mark.parametrize(("arch", "code", "length"), [
    ("x86_64", "f30f1efa 55 4889e5", 4), ("x86_64", "f30f1efa 4157", 4), ("x86_64", "f30f1efa 4889f8", 0),
    ("x86_64", "f30f1efa 418b07", 0), ("x86_64", "55 4889e5", 0), ("x86_64", "f30f1efa", 0), ("i386", "f30f1efb 53", 4),
    ("i386", "f30f1efa 53", 0), ("aarch64", "5f2403d5", 0)])
def test_markers(arch: str, code: str, length: int) -> None:
    """The instruction behind one must be one that the kernel emulates: a push."""
    assert marker_length(ARCHES[arch], bytes.fromhex(code)) == length
