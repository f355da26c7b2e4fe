"""Numbers and addresses on the command line that are none: said in a line, whatever they are made of."""

from __future__ import annotations

import pytest

from sonde.base.numbers import parse_whole
from sonde.cli.main import main
from sonde.errors import UsageError
from sonde.exporters.prometheus import split_address

PROGRAM = ("-e", "begin { @ = 1; exit(); }")
LONG = "9" * 5000   # int() takes 4,300 digits at most
SQUARE = "\u00b2"   # str.isdigit() says yes, int() no
ARABIC = "\u0661"   # int() says 1
LOADED = "1" + "0" * 18 + "1"


@pytest.mark.parametrize("number", [LONG, SQUARE, ARABIC, LOADED, "-1", "1.5", ""])
@pytest.mark.parametrize("words", [
    ("--count", "NUMBER", *PROGRAM), ("-p", "NUMBER", *PROGRAM), ("--memory", "NUMBER", *PROGRAM),
    ("serve", "--port", "NUMBER", *PROGRAM), ("profile", "NUMBER"), ("profile", "-C", "NUMBER"),
    ("profile", "-F", "NUMBER"), ("profile", "-p", "NUMBER"), ("trace", "--tid", "NUMBER", "do_sys_open"),
    ("export", "--prometheus", "--keys", "NUMBER", *PROGRAM), ("uflow", "-p", "NUMBER"),
    ("opensnoop", "--duration", "NUMBER"), ("opensnoop", "-p", "NUMBER"), ("runqlat", "NUMBER"),
    ("tcpconnect", "--port", "NUMBER"), ("-e", 'begin { signal("NUMBER"); exit(); }', "--unsafe")], ids=" ".join)
def test_numbers(words: tuple[str, ...], number: str, capfd: pytest.CaptureFixture[str]) -> None:
    assert main([word.replace("NUMBER", number) for word in words]) == 1
    said = capfd.readouterr().err
    assert "internal error" not in said and ("ERROR" in said or "USAGE" in said), said
    assert len(said) < 8000


@pytest.mark.parametrize("number", [SQUARE, "x", "0", "1e400", LONG])
def test_seconds_between_two_sendings(number: str, capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["export", "--otlp", "--interval", number, *PROGRAM]) == 1
    assert "--interval takes" in capfd.readouterr().err


@pytest.mark.parametrize("text", [SQUARE, LONG, "x:" + SQUARE, "x:65536", "x:-1", "x:", "a" * 70 + ".x:80", "..:80",
                                  "\u00e9" + "a" * 70 + ":80", "\udcff:80"])
def test_what_is_no_address(text: str) -> None:
    with pytest.raises(UsageError, match="is no address"):
        split_address(text)


@pytest.mark.parametrize("text, found", [("80", ("127.0.0.1", 80)), ("[::1]:0", ("::1", 0)), ("h:9", ("h", 9))])
def test_what_is_one(text: str, found: tuple[str, int]) -> None:
    assert split_address(text) == found


@pytest.mark.parametrize("text, most, found", [
    ("0", 9, 0), ("007", 9, 7), ("9", 9, 9), ("10", 9, None), (str((1 << 63) - 1), (1 << 63) - 1, (1 << 63) - 1),
    ("+1", 9, None), ("1_0", 99, None), (" 1", 9, None)])
def test_whole_numbers(text: str, most: int, found: int | None) -> None:
    assert parse_whole(text, most) == found
