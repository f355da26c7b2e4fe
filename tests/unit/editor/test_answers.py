"""What an editor is told about a script, by what a recorded kernel has. ``^`` is the cursor."""

from __future__ import annotations

from pathlib import Path

import pytest

from recorded_world import RecordedWorld
from sonde.editor.actions import corrections
from sonde.editor.analysis import Document, Machine, editor_options
from sonde.editor.complete import MOST, complete
from sonde.editor.describe import describe, describe_call
from sonde.editor.navigate import find_definition, find_uses, rename, renamed_range
from sonde.editor.outline import TOKEN_TYPES, colour_tokens, find_folds, list_symbols
from sonde.errors import UsageError

WORLD = Path(__file__).parents[1] / "world.json.z"
OPENAT = "tracepoint:syscalls:sys_enter_openat"


@pytest.fixture(scope="module")
def machine() -> Machine:
    return Machine(editor_options(), lambda: RecordedWorld(str(WORLD)))


def at_cursor(text: str, machine: Machine) -> tuple[Document, int]:
    offset = text.index("^")
    return Document("/tmp/script.bt", text[:offset] + text[offset + 1:], machine), offset


@pytest.mark.parametrize(("text", "first"), [
    ("trac^", ["tracepoint", "rawtracepoint"]),
    ("begin { } trac^", ["tracepoint"]),
    ("begin { }\n^", ["begin"]),
    ("tracepoint:irq:tasklet_e^", ["irq:tasklet_exit", "irq:tasklet_entry"]),
    ("tracepoint:irq:tasklet_en^ { @ = count(); }", ["irq:tasklet_entry"]),
    ("tracepoint:sys^", ["syscalls:sys_e"]), ("tracepoint:ir^", ["irq:"]),
    ("interval:^ { }", ["us:", "ms:", "s:", "hz:"]),
    (OPENAT + " { @ = str(args.fi^", ["filename"]),
    (OPENAT + " { @ = str(args.fi^) } end { }", ["filename"]),
    (OPENAT + " /args.fl^/ { @ = 1 }", ["flags"]),
    (OPENAT + " /args.fl^", ["flags"]),
    (OPENAT + " { if (args.fl^", ["flags"]),
    (OPENAT + " { while (1) { if args.fl^ }", ["flags"]),
    (OPENAT + " { $a = args.flags ? args.mo^", ["mode"]),
    (OPENAT + " { @[args.fl^] = count(); }", ["flags"]),
    (OPENAT + " { $t = curtask; print($t.real_parent.co^", ["comm"]),
    (OPENAT + " { $t = curtask; print($t->real_parent->co^); } end { @x = 1 }", ["comm"]),
    ("struct mine { int first; int second; }\nbegin { $m = (struct mine *)0; print($m.se^", ["second"]),
    ("macro twice(x) { x + x }\nbegin { print(twi^", ["twice"]),
    ("begin { @opens = 1; @other = 2 } end { print(@op^) }", ["@opens"]),
    ("begin { $one = 1; print($o^); } end { $on_other = 1 }", ["$one"]),
    ("config = { max_st^ }", ["max_strlen"]),
    ("begin { @ = hi^", ["hist"]),
    ("begin { $p = (struct task_st^", ["task_struct"]),
    ("begin { // hi^", []), ("begin { /* hi^ */ }", []), ('begin { printf("hi^', []), ('begin { printf("hi^"); }', []),
    ("begin { print(1^", []),
])
def test_completion(text: str, first: list[str], machine: Machine) -> None:
    document, offset = at_cursor(text, machine)
    labels = [each.label for each in complete(document, offset).items]
    assert [label[:len(name)] for label, name in zip(labels, first)] == first
    assert first or not labels
    if text.endswith("print($o^); } end { $on_other = 1 }"):
        assert labels == ["$one"]  # another clause has its own variables


def test_few_suggestions_at_once(machine: Machine) -> None:
    machine.world.struct_names = lambda: [f"some{n}" for n in range(1000)]  # type: ignore[method-assign]
    try:
        result = complete(*at_cursor("begin { $x = (struct som^", machine))
    finally:
        machine.renew()
    assert len(result.items) == MOST and result.cut


def test_completion_replaces_what_is_typed(machine: Machine) -> None:
    document, offset = at_cursor(OPENAT + " { print(args.fi^); }", machine)
    item = complete(document, offset).items[0]
    assert document.text[item.start:offset] == "fi"
    document, offset = at_cursor("tracepoint:irq:tasklet_en^", machine)
    item = complete(document, offset).items[0]
    assert document.text[:item.start] == "tracepoint:"


@pytest.mark.parametrize(("text", "part"), [
    ("tracepoint:syscalls:sys_ent^er_openat { @ = count(); }", "uint8 * filename"),
    (OPENAT + " { @x^[comm] = hist(args.flags); }", "@x[string[16]]: hist_t"),
    (OPENAT + " { $a^ = (int8)1; print($a); }", "$a: int8"),
    (OPENAT + " { print(args.flag^s); }", "int32 flags"),
    ("begin { @ = hi^st(1); }", "hist(n[, bits])"), ("begin { print(co^mm); }", "comm: string[16]"),
    ("config = { max_s^trlen = 64 }\nbegin { }", "Bytes of str()"),
    ("macro twice(x) { x + x }\nbegin { print(tw^ice(1)); }", "macro twice(x)"),
    ("fn add($a: int64): int64 { return $a + 1; }\nbegin { print(ad^d(1)); }", "fn add($a: int64): int64"),
    ("#define LIMIT 5\nbegin { print(LIM^IT); }", "#define LIMIT 5"),
    ("begin { $p = (struct task_s^truct *)0; print($p); }", "struct task_struct:"),
])
def test_hover(text: str, part: str, machine: Machine) -> None:
    known = describe(*at_cursor(text, machine))
    assert known is not None and part in known.text


def test_hover_of_a_probe_says_what_it_costs(machine: Machine) -> None:
    document, offset = at_cursor("tracepoint:syscalls:sys_enter_open^at { @ = count(); }", machine)
    spec, _ = document.compiled()
    known = describe(document, offset)
    assert spec is not None and known is not None
    assert f"1 program, {len(spec.programs[0].code) // 8} instructions" in known.text


@pytest.mark.parametrize(("text", "label", "active"), [
    ('begin { printf("%d", ^', "printf(format, ...)", 1),
    ("begin { print(str(comm, ^)) }", "str(data[, length], ...)", 1),
    ("macro both(a, b) { a + b }\nbegin { print(both((1, 2), ^", "both(a, b)", 1),
    ("begin { @[1, 2] = hist(^", "hist(n[, bits])", 0),
    ("begin { print(1); ^", "", 0), ("begin { ^", "", 0),
])
def test_signatures(text: str, label: str, active: int, machine: Machine) -> None:
    known = describe_call(*at_cursor(text, machine))
    assert (known.label, known.active) == (label, active) if known is not None else not label


@pytest.mark.parametrize(("text", "target"), [
    ("macro twice(x) { x + x }\nbegin { print(tw^ice(1)); }", "twice"),
    ("fn add($a: int64): int64 { return $a + 1; }\nbegin { print(ad^d(1)); }", "add"),
    ('table rows { pid: "%5d"; }\nbegin { ro^ws(pid); }', "rows"),
    ("#define LIMIT 5\nbegin { print(LI^MIT); }", "LIMIT"),
    ("begin { print(@m^[1]); @m[1] = 5; }", "@m"), ("begin { $x = 1; print($x^); }", "$x"),
])
def test_definitions(text: str, target: str, machine: Machine) -> None:
    document, offset = at_cursor(text, machine)
    span = find_definition(document, offset)
    assert span is not None and span.text == target
    assert span.start == (document.text.rindex(target) if target == "@m" else document.text.index(target))


def test_definitions_in_other_files(tmp_path: Path, machine: Machine) -> None:
    (tmp_path / "mine.bt").write_text("macro twice(x) { x + x }\n")
    text = 'import "mine.bt";\nbegin { print(twice(strlen(ntop_by(1, 2, 3)))); }\n'
    document = Document(str(tmp_path / "script.bt"), text, machine)
    for name, file in (("mine.bt", "mine.bt"), ("twice", "mine.bt"), ("ntop_by", "inet.bt")):
        span = find_definition(document, text.index(name) + 2)
        assert span is not None and Path(span.source.name).name == file
        assert name == file or span.text == name


@pytest.mark.parametrize(("text", "name", "renamed"), [
    ("begin { $a^ = 1; print($a); /* $a */ } end { $a = 2; print($a); }", "b",
     "begin { $b = 1; print($b); /* $a */ } end { $a = 2; print($a); }"),
    ('begin { @a[1] = 1; printf("@a"); } end { print(@a^); }', "@bytes",
     'begin { @bytes[1] = 1; printf("@a"); } end { print(@bytes); }'),
    ("macro m(@a) { @a[1] } begin { @a^[1] = 1; print(m(@a)); }", "b",
     "macro m(@a) { @a[1] } begin { @b[1] = 1; print(m(@b)); }"),
    ("macro m(@a^) { @a[1] } begin { @a[1] = 1; print(m(@a)); }", "b",
     "macro m(@b) { @b[1] } begin { @a[1] = 1; print(m(@a)); }"),
    ("macro twice(x) { x + x } begin { print(tw^ice(args.twice)); }", "double",
     "macro double(x) { x + x } begin { print(double(args.twice)); }"),
])
def test_renaming(text: str, name: str, renamed: str, machine: Machine) -> None:
    document, offset = at_cursor(text, machine)
    result = document.text
    for part, fresh in reversed(rename(document, offset, name)):
        result = result[:part.start] + fresh + result[part.end:]
    assert result == renamed


@pytest.mark.parametrize(("text", "name"), [
    ("begin { $a^ = 1; $b = 2; }", "b"), ("begin { @a^ = 1; @b = 2; }", "b"), ("begin { $a^ = 1; }", "1x"),
    ("begin { $a^ = 1; }", "x y"),
    ("macro m(x) { x } begin { print(m^(1)); }", "print"), ("macro m(x) { x } begin { print(m^(1)); }", "if"),
    ("macro m(x) { x } begin { print(m^(1)); }", "pid"), ("begin { pri^nt(1); }", "x"), ("begin { @^ = 1; }", "x"),
    ("macro m(x) { x } macro n(x) { x } begin { print(m^(1)); }", "n"),
])
def test_a_name_that_would_change_the_meaning_is_refused(text: str, name: str, machine: Machine) -> None:
    with pytest.raises(UsageError):
        rename(*at_cursor(text, machine), name)


def test_uses_and_what_can_be_renamed(machine: Machine) -> None:
    document, offset = at_cursor("begin { @a^ = 1; } end { print(@a); }", machine)
    assert [document.text[use.start:use.end] for use in find_uses(document, offset)] == ["@a", "@a"]
    assert renamed_range(document, offset) is not None
    assert renamed_range(*at_cursor("begin { pri^nt(1); }", machine)) is None


@pytest.mark.parametrize(("text", "fixed"), [
    ("begin { printt(1); }", "begin { print(1); }"), ("begin { print(con); }", "begin { print(config); }"),
    (OPENAT + " { print(args.filenam); }", OPENAT + " { print(args.filename); }"),
    ("begin { @ab = 1; print(@ac); }", "begin { @ab = 1; print(@ab); }"),
    ("config = { max_strle = 64 }\nbegin { print(1); }", "config = { max_strlen = 64 }\nbegin { print(1); }"),
    (OPENAT[:-1] + " { print(1); }", OPENAT + " { print(1); }"),
])
def test_corrections_end_the_finding(text: str, fixed: str, machine: Machine) -> None:
    document = Document("/tmp/script.bt", text, machine)
    offered = corrections(document, document.findings(), 0, len(text))
    assert fixed in [text[:each.start] + each.text + text[each.end:] for each in offered]
    for each in offered:
        assert not Document("x", text[:each.start] + each.text + text[each.end:], machine).findings()


def test_findings_are_the_compilers(machine: Machine) -> None:
    assert [item.code for item in Document("x", "begin { nosuch(); ", machine).findings()] == ["unclosed-brace"]
    assert not Document("x", OPENAT + " { @ = count(); }", machine).findings()
    assert [item.code for item in Document("x", "begin { $x = 1; let @y; }", machine).findings()] != []
    assert [item.code for item in Document("x", "x" * (1 << 21), machine).findings()] == ["too-large"]


def test_folds_symbols_and_colours(machine: Machine) -> None:
    text = "// one\n// two\nmacro m(x) { x }\nbegin {\n  print(m(1));\n  if (1) {\n    @a = pid;\n  }\n}\n/* a\nb */\n"
    scan = Document("x", text, machine).scan
    assert [(fold.first, fold.last, fold.comment) for fold in find_folds(scan)] == \
        [(0, 1, True), (5, 6, False), (3, 7, False), (9, 10, True)]
    assert [(each.name, each.kind) for each in list_symbols(scan)] == [("macro m", "macro"), ("begin", "clause")]
    colours = {text[each.start:each.end]: (TOKEN_TYPES[each.type], each.modifiers) for each in colour_tokens(scan)}
    assert colours["m"] == ("macro", 0) and colours["print"] == ("function", 1) and colours["begin"] == ("event", 0)
    assert colours["@a"] == ("variable", 2) and colours["pid"] == ("variable", 1) and colours["if"] == ("keyword", 0)
