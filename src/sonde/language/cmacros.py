"""C macros that replace text: those with parameters, and names for more than a number or a string.

Imported when a script defines the first one.
"""

from __future__ import annotations

from ..base import regex_cache
from .lexer import TOKEN, Token

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

_PARAMETER = r"(?:[A-Za-z_]\w*(?:\s*\.\.\.)?|\.\.\.)"
_PARAMETERS = rf"\(\s*({_PARAMETER}?(?:\s*,\s*{_PARAMETER})*)\s*\)"


class CMacro:
    """``params`` is None for a macro without parentheses; ``variadic``: the last one takes all remaining arguments.
    It is called ``__VA_ARGS__``, or as in GNU C's ``args...``."""

    def __init__(self, name: str, params: list[str] | None, body: str) -> None:
        self.name = name
        self.variadic = bool(params) and params is not None and params[-1].endswith("...")
        self.params = params
        if params is not None and self.variadic:
            self.params = [*params[:-1], params[-1].removesuffix("...").rstrip() or "__VA_ARGS__"]
        self.body = tokenize_macro_body(body)


def parse_macro_parameters(text: str) -> tuple[list[str], int] | None:
    """``(a, b)`` → the names, and where the body starts; None if it is malformed."""
    match = regex_cache.match(_PARAMETERS, text, regex_cache.ASCII)
    if match is None:
        return None
    names = [n.strip() for n in match[1].split(",")] if match[1].strip() else []
    bare = [name.removesuffix("...").rstrip() for name in names]
    early = any(name.endswith("...") for name in names[:-1])
    return None if early or len(set(bare)) != len(bare) else (names, match.end())


def tokenize_macro_body(text: str) -> list[Token]:
    """The tokens of a macro's body; ``#`` and ``##`` are tokens here. Their positions mean nothing."""
    tokens: list[Token] = []
    pos = 0
    while (match := TOKEN.match(text, pos)) is not None:
        kind = match.lastgroup or ""
        start, pos = match.span(kind)
        piece = match[kind]
        if kind == "end":
            break
        if kind == "other":
            if text.startswith("##", start):
                piece, pos = "##", start + 2
            tokens.append((piece if piece in ("#", "##") else "bad", piece if piece in ("#", "##")
                           else "invalid-character", start, pos))
        elif kind == "bad":
            tokens.append(("bad", "unterminated-comment", start, len(text)))
            break
        elif kind != "comment":
            tokens.append((piece if kind == "op" else kind, piece, start, pos))
    return tokens


def expand_c_macros(tokens: list[Token], macros: dict[str, CMacro], plain: dict[str, str],
                    count: Callable[[list[Token]], None], hidden: frozenset[str] = frozenset()) -> list[Token]:
    """``tokens`` with every macro replaced; an expansion has the position of the macro's use. Names of ``plain``
    numbers and strings, which are constants elsewhere, are replaced in arguments: they may be pasted to something.
    ``count`` is given what each macro is replaced by at first, and raises an error when all of it is too much."""
    out: list[Token] = []
    index = 0
    again: Token | None = None  # a macro's name that another was replaced by, before its arguments
    while index < len(tokens):
        token, index, again = (tokens[index], index + 1, None) if again is None else (again, index, None)
        macro = macros.get(token[1]) if token[0] == "word" and token[1] not in hidden else None
        if macro is None:
            out.append(token)
            continue
        args: dict[str, list[Token]] = {}
        end = token[3]
        if macro.params is not None:
            if index >= len(tokens) or tokens[index][0] != "(":
                out.append(token)
                continue
            given, after = _collect_arguments(tokens, index)
            if given is None or not _accepts_arguments(macro, given):
                out.append(("bad", "macro-arguments", token[2], tokens[min(after, len(tokens)) - 1][3]))
                index = after
                continue
            args = _bind_arguments(macro, given)
            end = tokens[after - 1][3]
            index = after
        expanded = {name: [piece for token in expand_c_macros(arg, macros, plain, count, hidden)
                           for piece in _expand_plain(token, plain, macros)] for name, arg in args.items()}
        body = _substitute_arguments(macro, args, expanded)
        placed = [(kind, text, token[2], end) for kind, text, _, _ in body]
        count(placed)
        out += expand_c_macros(placed, macros, plain, count, hidden | {macro.name})
        if placed and index < len(tokens) and tokens[index][0] == "(" and _takes_arguments(out[-1], macros, macro.name):
            again = out.pop()
    return out


def _takes_arguments(token: Token, macros: dict[str, CMacro], within: str) -> bool:
    """Whether a token names a macro with parameters, other than the one that it comes from."""
    macro = macros.get(token[1]) if token[0] == "word" and token[1] != within else None
    return macro is not None and macro.params is not None


def _expand_plain(token: Token, plain: dict[str, str], macros: dict[str, CMacro]) -> list[Token]:
    text = plain.get(token[1]) if token[0] == "word" and token[1] not in macros else None
    return [token] if text is None else tokenize_macro_body(text)


def _collect_arguments(tokens: list[Token], index: int) -> tuple[list[list[Token]] | None, int]:
    """The arguments that follow the ``(`` at ``index``, and the index after the ``)``."""
    depth, index = 1, index + 1
    arguments: list[list[Token]] = [[]]
    while index < len(tokens) and tokens[index][0] != "eof":
        token = tokens[index]
        index += 1
        depth += {"(": 1, "[": 1, "{": 1, ")": -1, "]": -1, "}": -1}.get(token[0], 0)
        if depth == 0:
            return arguments, index
        if token[0] == "," and depth == 1:
            arguments.append([])
        else:
            arguments[-1].append(token)
    return None, index


def _accepts_arguments(macro: CMacro, given: list[list[Token]]) -> bool:
    wants = len(macro.params or ())
    if macro.variadic:
        return len(given) >= wants - 1
    return len(given) == wants or wants == 0 and given == [[]]


def _bind_arguments(macro: CMacro, given: list[list[Token]]) -> dict[str, list[Token]]:
    names = macro.params or []
    if not macro.variadic:
        return dict(zip(names, given))
    first = len(names) - 1
    rest: list[Token] = []
    for at, arg in enumerate(given[first:]):
        rest += [(",", ",", 0, 0), *arg] if at else arg
    return {**dict(zip(names, given[:first])), names[-1]: rest}


def _substitute_arguments(macro: CMacro, args: dict[str, list[Token]],
                          expanded: dict[str, list[Token]]) -> list[Token]:
    """The body with its arguments: as text after ``#`` and beside ``##``, otherwise expanded."""
    out: list[Token] = []
    body = macro.body
    index = 0
    while index < len(body):
        token = body[index]
        index += 1
        if token[0] == "#" and index < len(body) and body[index][1] in args:
            out.append(_stringize_argument(args[body[index][1]]))
            index += 1
        elif token[0] == "##" and 1 < index < len(body):
            right = args.get(body[index][1], [body[index]])
            rest = macro.variadic and macro.params is not None and body[index][1] == macro.params[-1]
            index += 1
            if rest and out and out[-1][0] == ",":  # GNU C: the comma is left out with what would come after it
                out[-1:] = [out[-1], *right] if right else []
            elif not args.get(body[index - 3][1], right):
                out += right  # pasted to nothing
            elif right:
                out[-1:] = [*tokenize_macro_body(out[-1][1] + right[0][1]), *right[1:]]
        elif token[0] == "word" and token[1] in args:
            pasted = index < len(body) and body[index][0] == "##"
            out += (args if pasted else expanded)[token[1]]
        else:
            out.append(token)
    return out


def _stringize_argument(tokens: list[Token]) -> Token:
    """``#x``: the argument as a string literal."""
    text = ""
    for at, token in enumerate(tokens):
        text += (" " if at and token[2] > tokens[at - 1][3] else "") + token[1]
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return ("str", f'"{escaped}"', 0, 0)


