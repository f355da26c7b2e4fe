"""The constants of Linux's headers, and which header's."""

from __future__ import annotations

import pytest

from compiled import world
from sonde import compiling
from sonde.base.package_files import read_shipped
from sonde.errors import CompileError
from sonde.semantics import header_constants
from sonde.semantics.header_constants import FILE, header_constant, pack_constants, unpack_constants
from sonde.semantics.script_options import Options
from sonde.types import Array


def assert_that(condition: str, includes: str = "") -> None:
    compiling.compile(f"{includes}\nbegin {{ static_assert({condition}, \"\"); }}", Options(), world())


@pytest.mark.parametrize(("name", "value"), [
    ("ETH_GSTRING_LEN", 32), ("UNIX_PATH_MAX", 108), ("__NEW_UTS_LEN", 64), ("KVM_EXIT_IO", 2), ("TS_COMM_LEN", 32),
    ("PT_LOAD", 1), ("EV_KEY", 1), ("DT_REG", 8), ("KEY_ESC", 1), ("FUSE_ROOT_ID", 1), ("KVM_RUN", 0xae80),
    ("SCHAR_MIN", -128), ("__SIZEOF_LONG__", 8)])
def test_names_of_headers_are_known(name: str, value: int) -> None:
    assert_that(f"{name} == {value}")


def test_fragments_are_those_of_the_kernel() -> None:
    """A kernel is configured for 17 to 45 of them."""
    shared = world().find_struct("skb_shared_info", False)
    if shared is None:
        assert header_constant("MAX_SKB_FRAGS", [], world()) is None
        return
    frags = shared.field("frags")
    assert frags is not None and isinstance(frags.type, Array)
    assert_that(f"MAX_SKB_FRAGS == {frags.type.count}")


def test_the_header_that_is_included_decides(monkeypatch: pytest.MonkeyPatch) -> None:
    headers = {"linux/a.h": {"X_MAX": 1, "SAME": 5, "Mixed": 3}, "linux/b.h": {"X_MAX": 2, "SAME": 5}}
    monkeypatch.setattr(header_constants, "_known", lambda: headers)
    asked = [header_constant("X_MAX", includes, world()) for includes in ([], ["linux/a.h"], ["linux/b.h", "x.h"])]
    assert asked == [None, 1, 2]
    assert header_constant("SAME", [], world()) == 5
    assert header_constant("Mixed", [], world()) is None and header_constant("Mixed", ["linux/a.h"], world()) == 3


def test_the_file_is_small_and_has_many_names() -> None:
    data = read_shipped(FILE)
    assert len(data) <= 60_000 and sum(map(len, unpack_constants(data).values())) > 9000


def test_what_a_script_defines_comes_first() -> None:
    assert_that("EV_KEY == 7", "#define EV_KEY 7")
    assert_that("EV_KEY == 8", "enum e { EV_KEY = 8 };")


def test_other_names_stay_unknown() -> None:
    with pytest.raises(CompileError, match="Unknown identifier: 'NO_SUCH_CONSTANT'"):
        assert_that("NO_SUCH_CONSTANT == 1")


def test_packing() -> None:
    headers = {"linux/a.h": {"A_ONE": 1, "A_TWO": 2, "A_FOUR": 4, "B": -1, "A_X": 1 << 40}, "linux/b.h": {"C": 0}}
    assert unpack_constants(pack_constants(headers)) == headers
