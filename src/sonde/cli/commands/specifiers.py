"""Probes as bcc's trace and argdist write them: ``p:c:write(int fd, char *buf, size_t len)``."""

from __future__ import annotations

import re

from ...base.record import Record
from ...errors import UsageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

_HEAD = re.compile(r"(?:(?P<kind>[prtu]?):)?(?:(?P<place>[^:()\s]*):)?(?P<name>[\w.$*?@]+)"
                   r"(?P<offset>\+(?:0x)?[0-9a-fA-F]+)?")
_WORD = re.compile(r'"(?:[^"\\]|\\.)*"|\'(?:[^\'\\]|\\.)*\'|\$?[A-Za-z_]\w*|.', re.DOTALL)
_SPECIAL = {"$retval": "retval", "$pid": "tid", "$tgid": "pid", "$PID": "pid", "$TID": "tid", "$uid": "uid",
            "$gid": "gid", "$cpu": "cpu", "$task": "curtask", "$COMM": "comm", "NULL": "0"}
_MOST = 6  # arguments in registers


class Specifier(Record):
    """``kind`` is p, r, t or u; ``parameters`` are the (name, type) of the signature; ``rest`` is the text after."""

    kind: str
    target: str
    name: str
    offset: str
    parameters: list[tuple[str, str]]
    rest: str

    @property
    def attach_point(self) -> str:
        """The attach point of the language."""
        if self.kind == "t":
            return f"tracepoint:{self.target}:{self.name}"
        if self.kind == "u":
            return f"usdt:{resolve_library(self.target)}:*:{self.name}"
        returns = "ret" if self.kind == "r" else ""
        where = f"{resolve_library(self.target)}:" if self.target else ""
        return f"{'u' if self.target else 'k'}{returns}probe:{where}{self.name}{self.offset}"

    @property
    def entry_point(self) -> str:
        """For a probe at a function's return, the attach point of its entry."""
        return Specifier("p", self.target, self.name, "", self.parameters, "").attach_point

    def translate_expression(self, text: str) -> str:
        """Translate a C expression with the names of the signature to the language."""
        return "".join(self._translate_word(word) for word in _split_words(text.replace("@user", "")))

    def _translate_word(self, word: str) -> str:
        for number, (name, type) in enumerate(self.parameters):
            if word == name:
                return f"(({type})arg{number})"
        if match := re.fullmatch(r"arg([1-9])", word):
            if int(match[1]) > _MOST:
                raise UsageError(f"{word}: only arg1 to arg{_MOST} can be used")
            return f"arg{int(match[1]) - 1}"
        return _SPECIAL.get(word, word)


def _split_words(text: str) -> Iterator[str]:
    """Split into strings, names and single characters; STRCMP("x", y) becomes a comparison."""
    while (call := re.search(r"\bSTRCMP\s*\(", text)) is not None:
        inside, rest = split_at_closing(text[call.end():])
        literal, _, value = inside.partition(",")
        text = f"{text[:call.start()]}(str({value.strip()}) == {literal.strip()}){rest}"
    return iter(_WORD.findall(text))


def split_at_closing(text: str) -> tuple[str, str]:
    """The text before and after the bracket that closes one opened before ``text``."""
    depth = 1
    at = 0
    for word in _WORD.findall(text):
        depth += (word in ("(", "[")) - (word in (")", "]"))
        if not depth:
            return text[:at], text[at + 1:]
        at += len(word)
    raise UsageError(f"a bracket is not closed: ({text}")


def split_outside_brackets(text: str, separator: str) -> list[str]:
    """The parts of ``text`` between separators outside of strings and brackets."""
    parts, depth = [""], 0
    for word in _WORD.findall(text):
        depth += (word in ("(", "[")) - (word in (")", "]"))
        if word == separator and not depth:
            parts.append("")
        else:
            parts[-1] += word
    return [part.strip() for part in parts]


def read_specifier(text: str) -> Specifier:
    """The probe that ``text`` begins with; UsageError if there is none."""
    match = _HEAD.match(text.strip())
    if match is None:
        raise UsageError(f"'{text}' names no probe", [
            "p::function, r:library:function, t:category:event, u:library:probe"])
    kind, target = match["kind"] or "p", match["place"] or ""
    rest = text.strip()[match.end():]
    if kind in "tu" and not target:
        raise UsageError(f"'{text}': {kind}: needs a {'category' if kind == 't' else 'library'}")
    parameters: list[tuple[str, str]] = []
    if rest.startswith("("):
        signature, rest = split_at_closing(rest[1:])
        parameters = [_parse_parameter(part) for part in split_outside_brackets(signature, ",") if part]
    return Specifier(kind, target, match["name"], match["offset"] or "", parameters, rest.strip())


def _parse_parameter(text: str) -> tuple[str, str]:
    match = re.fullmatch(r"(.*[\s*])(\w+)", text, re.DOTALL)
    if match is None:
        raise UsageError(f"'{text}': a parameter has a type and a name")
    return match[2], match[1].replace("const ", "").strip()


def resolve_library(name: str) -> str:
    """``c`` is libc; a path, or a program in PATH, stays as it is."""
    import shutil
    if "/" in name:
        return name
    return shutil.which(name) or (name if name.startswith("lib") else f"lib{name}")
