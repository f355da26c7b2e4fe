"""What Go's versions do differently, as far as it can be seen from outside."""

from __future__ import annotations

_BY_REGISTERS = {"x86_64": 17, "aarch64": 18}  # since which minor version arguments are passed so
_GOID = ((10, 22, 152), (23, 24, 160), (26, 27, 152))  # versions, offset of goid in runtime.g (runtime/runtime2.go)


def minor_version(version: str) -> int:
    """``go1.19.8`` and ``go1.19+`` → 19."""
    digits = ""
    for character in version.removeprefix("go1."):
        if not character.isdigit():
            break
        digits += character
    return int(digits or 0) if len(digits) < 5 else 0


def uses_stack(version: str, arch: str) -> bool:
    """Whether functions get all their arguments on the stack."""
    return minor_version(version) < _BY_REGISTERS.get(arch, 1 << 16)


def goid_offset(version: str) -> int | None:
    """Where in a goroutine's ``g`` its number is; None where that is not known."""
    if version.endswith("+"):
        return None
    minor = minor_version(version)
    return next((offset for first, last, offset in _GOID if first <= minor <= last), None)
