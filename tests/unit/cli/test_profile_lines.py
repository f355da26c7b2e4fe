"""What sonde profile --lines asks for, and what it does not go with."""

from __future__ import annotations

import pytest

from sonde.cli.commands.profile import build_script, main
from sonde.cli.options import Parsed
from sonde.errors import UsageError


def test_stacks_are_printed_by_the_second() -> None:
    script = build_script({"lines": "true", "frequency": "99"}, ["5"])
    assert "profile:hz:99" in script and "interval:s:1 { print(@samples); clear(@samples); }" in script
    assert "pystack" in script and "interval:s:5 { exit(); }" in script
    assert "hardware:cpu-cycles:1000" in build_script({"lines": "true", "period": "1000"}, [])


@pytest.mark.parametrize(("named", "form", "message"), [
    ({"lines": "true", "user": "true"}, "text", "takes neither -U nor -K"),
    ({"file": "shop.py"}, "text", "--file is for --lines"),
    ({"lines": "true"}, "folded", "--lines is shown as text, html, csv or json, not as folded"),
    ({"lines": "true", "processes": "4194304"}, "text", "there is no process 4194304"),
])
def test_what_does_not_go_together(named: dict[str, str], form: str, message: str) -> None:
    parsed = Parsed({"format": form}, ["profile"], [], dict(named))
    with pytest.raises(UsageError, match=message):
        main(parsed)
