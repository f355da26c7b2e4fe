"""%f %e %g %a: what the C library prints, with flags, width and precision."""

from __future__ import annotations

import ctypes
import random
import struct

import pytest

from sonde.output.float_format import float_renderer
from sonde.spec import FormatPart


@pytest.mark.parametrize("conversion", "fFeEgGaA")
def test_as_the_c_library(conversion: str) -> None:
    rng, libc = random.Random(conversion), ctypes.CDLL(None)
    if not hasattr(libc, "gnu_get_libc_version"):
        pytest.skip("other C libraries print %a in other ways")
    buffer = ctypes.create_string_buffer(1000)
    for _ in range(400):
        spec = "".join([flag for flag in "-+ #0" if rng.random() < 0.2]) + rng.choice(["", "5", "20"]) \
            + rng.choice(["", ".0", ".1", ".3", ".13", ".20"])
        value, = struct.unpack("d", struct.pack("Q", rng.choice([
            rng.getrandbits(64), rng.getrandbits(52), 0, 1 << 63, 0x7FF << 52, 0xFFF << 52,
            struct.unpack("Q", struct.pack("d", rng.gauss(0, 100)))[0]])))
        if value != value:
            continue  # C has a sign there
        libc.snprintf(buffer, 1000, f"%{spec}{conversion}".encode(), ctypes.c_double(value))
        assert float_renderer(FormatPart("", conversion, spec))(value) == buffer.value, (spec, value)
