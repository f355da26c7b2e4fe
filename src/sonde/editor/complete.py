"""Completion: what could stand at the cursor, from the kernel's lists and types, the language's tables, the script."""

from __future__ import annotations

from ..base.record import Record
from ..builtins import BUILTINS
from ..errors import SondeError
from ..functions import FUNCTIONS
from ..kinds import KINDS, find_kind
from ..semantics.config import VARIABLES
from ..semantics.providers import PROVIDERS
from ..types import Pointer, Struct
from .describe import builtin_text, function_text
from .scan import Item

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from ..semantics.world import World
    from .analysis import Document

MOST = 200  # suggestions at once; more letters narrow them
_ITEM_SNIPPETS = {"config": "config = { }", "macro": "macro name(args) { }", "fn": "fn name($x: int64): int64 { }",
                  "struct": "struct name { }", "table": "table name { }", "import": 'import "file.bt";',
                  "let": "let @map = hash(10000);"}
_KEYWORDS = "if else while for unroll return break continue let sizeof offsetof true false".split()
_TYPES = "int8 int16 int32 int64 uint8 uint16 uint32 uint64 bool string".split()
_PERIODS = ("us", "ms", "s", "hz")


class Suggestion(Record):
    """A completion. ``kind``: a kind of LSP's in lower case (function, field, event ...). It takes the place of the
    text from ``start`` to the cursor."""

    label: str
    kind: str
    start: int
    detail: str = ""
    documentation: str = ""


class Suggestions(Record):
    """``cut``: there are more of them."""

    items: list[Suggestion]
    cut: bool


def complete(document: Document, offset: int) -> Suggestions:
    """What could stand at ``offset``; nothing within comments and strings."""
    scan = document.scan
    touching = scan.token_at(offset)
    if touching is not None and touching.start < offset and touching.kind in ("comment", "str", "unclosed", "directive",
                                                                             "char", "int", "float"):
        is_inside = offset < touching.end or touching.kind != "str" and "*/" not in touching.text[-2:]
        if is_inside:
            return Suggestions([], False)
    item = scan.item_at(offset)
    in_point = item is None or item.kind == "clause" and not any(
        token.text in ("{", "/") and token.kind == "op" for token in scan.before(offset)[item.first:])
    candidates = _complete_probe(document, offset) if in_point else _complete_code(document, item, offset)
    items: list[Suggestion] = []
    for each in candidates:
        if len(items) == MOST:
            return Suggestions(items, True)
        items.append(each)
    return Suggestions(items, False)


def _matching(names: Iterable[str], typed: str, start: int, kind: str, detail: str = "") -> Iterator[Suggestion]:
    """Suggestions of the names that begin with what is typed, or else have it somewhere."""
    low = typed.lower()
    pool = [name for name in dict.fromkeys(names) if low in name.lower()]
    for name in [*[n for n in pool if n.lower().startswith(low)], *[n for n in pool if not n.lower().startswith(low)]]:
        yield Suggestion(name, kind, start, detail)


# --- probes -----------------------------------------------------------------------------------------------


def _complete_probe(document: Document, offset: int) -> Iterator[Suggestion]:
    """Of an attach point: kinds, then what the kernel has of the kind."""
    start = offset
    while start and not document.text[start - 1].isspace() and document.text[start - 1] not in ",{}":
        start -= 1
    typed = document.text[start:offset]
    head, colon, rest = typed.partition(":")
    if not colon:
        yield from [Suggestion(each.label, each.kind, start, PROVIDERS_BY_NAME[each.label].form,
                               PROVIDERS_BY_NAME[each.label].documentation)
                    for each in _matching(PROVIDERS_BY_NAME, head, start, "event")]
        yield from [Suggestion(word, "keyword", start, snippet) for word, snippet in _ITEM_SNIPPETS.items()
                    if word.startswith(head)]
        return
    kind = find_kind(head)
    if kind is None:
        return
    try:
        names = probe_names(document.machine.world, kind.name, rest)
    except SondeError:  # such as tracefs that only root may read
        return
    yield from _matching(names, rest, start + len(head) + 1, "event", f"{kind.name} probe")


PROVIDERS_BY_NAME = {row.name: row for row in PROVIDERS}


def probe_names(world: World, kind: str, rest: str) -> list[str]:
    """What can follow ``kind:``, as far as the machine has a list of it."""
    if kind in ("interval", "profile"):
        unit, colon, _ = rest.partition(":")
        return [f"{unit}:{n}" for n in (1, 10, 99, 100)] if colon else [f"{unit}:" for unit in _PERIODS]
    if kind == "tracepoint":
        events = world.tracepoints()
        return [f"{category}:{event}" for category, event in events] if ":" in rest or len(rest) > 2 else \
            sorted({f"{category}:" for category, _ in events})
    if kind == "rawtracepoint":
        return sorted({event for _, event in world.raw_tracepoints()})
    if kind in ("kprobe", "kretprobe"):
        return [name for _, name in world.kernel_functions()]
    if kind in ("fentry", "fexit"):
        return [name for _, name in world.function_names()]
    if kind == "iter":
        return [name.removeprefix("bpf_iter__") for name in world.struct_names() if name.startswith("bpf_iter__")]
    if kind in ("software", "hardware"):
        from ..layouts import uapi
        return [f"{name}:" for name in (uapi.SOFTWARE_EVENTS if kind == "software" else uapi.HARDWARE_EVENTS)]
    if KINDS[kind].user and ":" in rest:
        return _user_names(world, kind, rest)
    return []


def _user_names(world: World, kind: str, rest: str) -> list[str]:
    """``path:function`` or ``path:provider:probe`` of a file that is named in full."""
    target = rest.partition(":")[0]
    paths = world.find_binaries(target)
    if len(paths) != 1:
        return []
    if kind == "usdt":
        return sorted({f"{target}:{probe.provider}:{probe.name}" for probe in world.usdt_probes(paths[0])})
    return sorted({f"{target}:{function.name}" for function in world.user_functions(paths[0])})


# --- code -------------------------------------------------------------------------------------------------


def _complete_code(document: Document, item: Item | None, offset: int) -> Iterator[Suggestion]:
    """Within an item: fields, variables, maps, options, names."""
    text, start = document.text, offset
    while start and (text[start - 1].isalnum() or text[start - 1] == "_"):
        start -= 1
    typed = text[start:offset]
    tokens = [token for token in document.scan.before(start) if token.kind not in ("comment", "directive")]
    before = tokens[-1].text if tokens and tokens[-1].kind == "op" and tokens[-1].end <= start else ""
    if before in (".", "->"):
        yield from _complete_field(document, start, typed)
    elif text[start - 1:start] in ("$", "@"):
        sign = text[start - 1]
        names = [token.text for token in document.scan.tokens if token.kind == {"$": "var", "@": "map"}[sign]
                 and token.end != offset and (sign == "@" or item is None or document.scan.items[token.item] is item)]
        yield from _matching(sorted(set(names)), sign + typed, start - 1, "variable")
    elif item is not None and item.kind == "config":
        for each in _matching(VARIABLES, typed, start, "property"):
            yield Suggestion(each.label, each.kind, start, "config", VARIABLES[each.label].documentation)
    elif tokens and tokens[-1].text in ("struct", "union"):
        yield from _matching(document.machine.world.struct_names(), typed, start, "struct", tokens[-1].text)
    else:
        yield from _complete_name(document, start, typed)


def _complete_field(document: Document, start: int, typed: str) -> Iterator[Suggestion]:
    type, is_args = document.type_before(start)
    if isinstance(type, Pointer):
        type = type.to
    if isinstance(type, Struct):
        for each in _matching(type.field_names(), typed, start, "field"):
            field = type.field(each.label)
            yield Suggestion(each.label, "field", start, str(field.type) if field is not None else "",
                             "an argument of the probe" if is_args else f"member of {type}")


def _complete_name(document: Document, start: int, typed: str) -> Iterator[Suggestion]:
    """Functions, builtins, and what the script defines."""
    script = document.tree.script
    own = [*[(macro.name, "function", "macro") for macro in script.macros],
           *[(function.name, "function", "fn") for function in script.functions],
           *[(table.name, "struct", "table") for table in script.tables],
           *[(name, "constant", "#define") for name in script.defines]]
    kinds = {name: (kind, detail) for name, kind, detail in own}
    for each in _matching(kinds, typed, start, "function"):
        yield Suggestion(each.label, kinds[each.label][0], start, kinds[each.label][1])
    for each in _matching(BUILTINS, typed, start, "variable"):
        yield Suggestion(each.label, "variable", start, "builtin", builtin_text(BUILTINS[each.label]))
    for each in _matching(FUNCTIONS, typed, start, "function"):
        row = FUNCTIONS[each.label]
        yield Suggestion(each.label, "function", start, row.signature, function_text(row))
    yield from _matching(_KEYWORDS, typed, start, "keyword")
    yield from _matching(_TYPES, typed, start, "struct", "type")
