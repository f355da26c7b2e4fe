"""Scripts as they are typed: after each letter every question has an answer, and none ends in an exception."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from recorded_world import RecordedWorld
from sonde.editor.actions import corrections
from sonde.editor.analysis import Document, Machine, editor_options
from sonde.editor.complete import complete
from sonde.editor.describe import describe, describe_call
from sonde.editor.navigate import find_definition, find_uses, rename
from sonde.editor.outline import colour_tokens, find_folds, list_symbols
from sonde.editor.positions import Lines
from sonde.editor.scan import Scan
from sonde.errors import SondeError
from sonde.language.lexer import TOKEN

TESTS = Path(__file__).parents[2]
MACHINE = Machine(editor_options(), lambda: RecordedWorld(str(TESTS / "unit" / "world.json.z")))
SCRIPTS = [case.read_text() for case in sorted((TESTS / "golden").glob("*.case"))]
SCRIPTS += [script.read_text() for script in sorted((TESTS.parent / "src/sonde/tools").glob("s*.bt"))]
TYPED = """macro twice(x) { x + x }
tracepoint:syscalls:sys_enter_openat /args.flags & 1/ {
  @opens[comm, str(args.filename)] = count();  // a comment
  if (twice(pid) > 5) { printf("%d\\n", curtask.real_parent.tgid); }
}
"""


def ask_everything(text: str, offset: int, acts: bool = False) -> None:
    document = Document("/tmp/typed.bt", text, MACHINE)
    for finding in document.findings():
        assert finding.span is None or finding.span.source.text != text or \
            0 <= finding.span.start <= finding.span.end <= len(text)
    complete(document, offset)
    describe(document, offset)
    describe_call(document, offset)
    find_definition(document, offset)
    find_uses(document, offset)
    find_folds(document.scan)
    colour_tokens(document.scan)
    list_symbols(document.scan)
    try:
        rename(document, offset, "other")
    except SondeError:
        pass
    if acts:
        corrections(document, document.findings(), max(0, offset - 3), offset)


def test_a_script_typed_letter_by_letter() -> None:
    for offset in range(len(TYPED) + 1):
        ask_everything(TYPED[:offset], offset, acts=offset % 8 == 0)


def test_letters_typed_into_other_scripts() -> None:
    choices = random.Random(7)
    for _ in range(60):
        text = choices.choice(SCRIPTS)
        offset = choices.randrange(len(text) + 1)
        typed = choices.choice('. -> @ $ ( { } / " /* args. struct 😀 \0 # \\'.split(" "))
        ask_everything(text[:offset], offset)
        scan_is_whole(text[:offset] + typed + text[offset:])


def scan_is_whole(text: str) -> None:
    """Tokens follow one another; between them are spaces alone; items follow one another, and have their tokens."""
    scan = Scan(text)
    last = 0
    for token in scan.tokens:
        assert token.start >= last and token.end > token.start and text[token.start:token.end] == token.text
        assert not text[last:token.start].strip()
        last = token.end
    for item, after in zip(scan.items, scan.items[1:]):
        assert item.start < item.end <= after.start and item.first < item.last <= after.first


@settings(max_examples=150)
@given(st.text(st.sampled_from("{}()[];,:/*\"'#\\$@=<>&|!?.-+ \n\tbeginx1\u00e9\U0001f600\0"), max_size=60))
def test_any_text_has_a_scan(text: str) -> None:
    scan_is_whole(text)
    ask_everything(text, len(text) // 2)


@pytest.mark.parametrize("text", SCRIPTS[-12:])
def test_the_scan_has_the_lexers_tokens(text: str) -> None:
    """In the items of a right script there is every variable and map that the lexer has."""
    scan = Scan(text)
    names = [token.text for token in scan.tokens if token.kind in ("var", "map")]
    starts = [token.start for token in scan.tokens if token.kind == "point"]
    pos, expected = scan.items[0].start, []
    while pos < len(text):
        point = next((token for token in scan.tokens if token.kind == "point" and token.start == pos), None)
        match = TOKEN.match(text, pos)
        assert match is not None
        if point is not None:
            pos = point.end
            continue
        if match.lastgroup in ("var", "map"):
            expected.append(match[match.lastgroup])
        after = next((start for start in starts if pos < start < match.end()), 0)
        pos = after or max(match.end(), pos + 1)
    assert names == expected


@settings(max_examples=200)
@given(st.text(st.sampled_from("a\u00e9\U0001f600\n\r"), max_size=30), st.sampled_from(["utf-8", "utf-16", "utf-32"]))
def test_positions_there_and_back(text: str, encoding: str) -> None:
    lines = Lines(text, encoding)
    codec = {"utf-8": ("utf-8", 1), "utf-16": ("utf-16-le", 2), "utf-32": ("utf-32-le", 4)}[encoding]
    for offset in range(len(text) + 1):
        if text[offset - 1:offset + 1] == "\r\n":  # nothing is between the two
            continue
        line, column = lines.position(offset)
        assert lines.offset(line, column) == (offset)
        start = lines.starts[line]
        assert column == len(text[start:offset].encode(codec[0])) // codec[1]
    assert lines.offset(10 ** 6, 0) == len(text)
