"""``#`` lines: definitions, includes and conditional text, as far as scripts use them."""

from __future__ import annotations

from ..base import regex_cache
from ..source import Source, Span
from .diagnostics import Diagnostics
from .effort import Effort

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from .cmacros import CMacro
    from .lexer import Token

# Compiled when the first # line is met: most scripts have none.
# A backslash at the end of a line joins the next, and so does a comment that ends there.
_LINE = (r"#[ \t]*(?P<name>\w*)"
         r"(?P<rest>(?:[^\n\\/\"]|\\\r?\n|//[^\n]*|/\*[\s\S]*?\*/|\"[^\"\\\n]*(?:\\.[^\"\\\n]*)*\"|[\\/\"])*)")
_COMMENT = r"/\*(?s:.*?)(?:\*/|\Z)|//.*"
_QUOTED_OR_COMMENT = r'"[^"\\\n]*(?:\\.[^"\\\n]*)*"|' + _COMMENT
_BRANCH = _QUOTED_OR_COMMENT + r"|(?m:^[ \t]*#[ \t]*(ifdef|ifndef|if|elif|else|endif)\b)"

_PRAGMA = r'_Pragma\s*\(\s*"([^"\n]*)"\s*\)|\w+'
_PLAIN = r'(?:0[xX][0-9a-fA-F]+|[0-9]+)[uUlL]*|"[^"\\]*"'  # a plain number or string: the name of a constant


class Preprocessor:
    """Obeys the ``#`` lines, one after another; ``condition(start, end)`` evaluates the text of an ``#if``, and
    ``predefines(name)`` says what is defined before the first line.

    ``defines`` has the object-like macros (name → text), ``macros`` those that are replaced as text (all with
    parameters, and those that are not a plain number or string), ``includes`` the headers in order, each passed to
    ``include(name, quoted, span, next)``, and ``packs`` the limits of alignment that ``#pragma pack`` sets (0: none),
    last the one in force. A header's preprocessor shares the tables of its ``outer`` one.
    """

    def __init__(self, source: Source, diagnostics: Diagnostics, condition: Callable[[int, int], bool],
                 predefines: Callable[[str], bool], include: Callable[[str, bool, Span, bool], None] | None = None,
                 outer: Preprocessor | None = None) -> None:
        self.defines: dict[str, str] = outer.defines if outer is not None else {}
        self.macros: dict[str, CMacro] = outer.macros if outer is not None else {}
        self.includes: list[str] = outer.includes if outer is not None else []
        self.packs: list[int] = outer.packs if outer is not None else [0]
        self.effort: Effort = outer.effort if outer is not None else Effort(diagnostics)
        self._include_file = include
        self._source = source
        self._diagnostics = diagnostics
        self._condition = condition
        self._predefines = predefines
        self._open: list[Span] = []  # the #if of each conditional that we are in

    def handle_directive(self, pos: int) -> int:
        """Obey the line whose ``#`` is at ``pos``; returns where the text goes on."""
        line = _directive_line(self._source.text, pos)
        name, end = line["name"], line.end()
        span = Span(self._source, pos, end)
        if name in ("if", "ifdef", "ifndef"):
            self._open.append(span)
            return end if self._branch_holds(name, line) else self._skip_branches(end)
        if name in ("elif", "else", "endif"):
            if not self._open:
                self._error("unbalanced-conditional", f"#{name} without #if", span)
            elif name == "endif":
                self._open.pop()
            else:  # the branch before it was taken
                return self._skip_branches(end, taken=True)
            return end
        self._handle_simple(name, line["rest"], span)
        return end

    def handle_pragma(self, pos: int) -> int:
        """Obey ``_Pragma("...")``, or a macro that stands for one, if that is at ``pos``; returns where the text goes
        on."""
        pragma = regex_cache.compile(_PRAGMA, regex_cache.ASCII)
        match = pragma.match(self._source.text, pos)
        if match is None:
            return pos
        text, macro = match[1], self.macros.get(match[0])
        if macro is not None and macro.params is None and len(macro.body) == 4 and macro.body[0][1] == "_Pragma":
            text = macro.body[2][1].strip('"')
        if text is None:
            return pos
        self._set_pack(text, Span(self._source, *match.span()))
        return match.end()

    def check_conditionals_closed(self) -> None:
        """Report conditionals that are still open at the end of the text."""
        for span in self._open:
            self._error("unbalanced-conditional", "this conditional has no #endif", span)

    def is_defined(self, name: str) -> bool:
        return name in self.defines or name in self.macros or self._predefines(name)

    def expand_tokens(self, tokens: list[Token]) -> list[Token]:
        """The tokens with ``macros`` expanded."""
        if not any(token[1] in self.macros for token in tokens):
            return tokens
        from .cmacros import expand_c_macros
        return expand_c_macros(tokens, self.macros, self.defines, self._count_tokens)

    def _count_tokens(self, tokens: list[Token]) -> None:
        if tokens:
            self.effort.count_tokens([token[1] for token in tokens], Span(self._source, *tokens[0][2:]))

    def _error(self, code: str, message: str, span: Span, hints: tuple[str, ...] = ()) -> None:
        if not self._diagnostics.is_full:
            self._diagnostics.error(code, message, span, hints)

    def _handle_simple(self, name: str, rest: str, span: Span) -> None:
        rest = rest.replace("\\\r\n", " ").replace("\\\n", " ")
        if name == "define":
            self._define_macro(rest, span)
        elif name == "undef":
            self._undefine_macro(regex_cache.sub(_COMMENT, " ", rest).strip())
        elif name in ("include", "include_next"):
            self._handle_include(regex_cache.sub(_COMMENT, " ", rest) if "<" not in rest else rest, span, name)
        elif name == "error":
            self._error("error-directive", f"#error{rest.rstrip()}", span)
        elif name == "pragma":
            self._set_pack(rest, span)
        elif name not in ("warning", "line", "ident", "") and not name.isdigit():
            self._error("unknown-directive", f"unknown directive #{name}", span, ("comments start with //",))
        elif not name and not rest.startswith("!") and regex_cache.sub(_COMMENT, " ", rest).strip():
            self._error("unknown-directive", "unknown directive", span, ("comments start with //",))

    def _set_pack(self, rest: str, span: Span) -> None:
        """Obey ``pack(2)``, ``pack()``, ``pack(push)``, ``pack(push, 2)`` and ``pack(pop)``; no other pragma changes a
        layout."""
        match = regex_cache.match(r"\s*pack\s*\(([^)]*)\)", rest)
        if match is None:
            return
        words = [self.defines.get(word.strip(), word.strip()) for word in match[1].split(",")]
        if words[0] == "push":
            self.packs.append(self.packs[-1])
        elif words[0] == "pop":
            self.packs[1:] = self.packs[1:-1]
        if words[-1] in ("", "1", "2", "4", "8", "16"):
            self.packs[-1] = int(words[-1] or 0)
        elif words[0] not in ("push", "pop") or words[-1][0].isdigit():
            self._diagnostics.warning("ignored-attribute", f"#pragma {match[0].strip()} has no effect", span,
                                      ["it takes 1, 2, 4, 8 or 16"])

    def _undefine_macro(self, name: str) -> None:
        self.defines.pop(name, None)
        self.macros.pop(name, None)

    def _define_macro(self, rest: str, span: Span) -> None:
        match = regex_cache.match(r"[ \t]+([A-Za-z_]\w*)(\(?)", rest, regex_cache.ASCII)
        if match is None:
            self._error("bad-define", "#define needs a name", span, ("write #define NAME value",))
            return
        name = match[1]
        self._undefine_macro(name)
        text = regex_cache.sub(_QUOTED_OR_COMMENT, lambda m: m[0] if m[0][0] == '"' else " ", rest[match.end():])
        if match[2]:
            self._define_function_macro(name, "(" + text, span)
            return
        self.defines[name] = text = text.strip()
        if not regex_cache.fullmatch(_PLAIN, text, regex_cache.ASCII):
            from .cmacros import CMacro
            self.macros[name] = CMacro(name, None, text)

    def _define_function_macro(self, name: str, text: str, span: Span) -> None:
        from .cmacros import CMacro, parse_macro_parameters
        parameters = parse_macro_parameters(text)
        if parameters is None:
            self._error("bad-define", f"the parameters of the C macro {name} are malformed", span,
                        (f"write #define {name}(a, b) ...",))
        else:
            self.macros[name] = CMacro(name, parameters[0], text[parameters[1]:].strip())

    def _handle_include(self, rest: str, span: Span, directive: str) -> None:
        match = regex_cache.match(r'\s*(?:<([^>\n]+)>|"([^"\n]+)")', rest)
        if match is None:
            self._error("bad-include", f"#{directive} needs a header", span, ("write #include <linux/sched.h>",))
            return
        self.includes.append(match[1] or match[2])
        if self._include_file is not None:
            self._include_file(match[1] or match[2], bool(match[2]), span, directive == "include_next")

    def _branch_holds(self, name: str, line: regex_cache.Match[str]) -> bool:
        """Whether the branch after ``#if``, ``#ifdef``, ``#ifndef`` or ``#elif`` is taken."""
        if name in ("if", "elif"):
            return self._condition(line.start("rest"), line.end())
        word = "".join(regex_cache.sub(_COMMENT, " ", line["rest"]).split()[:1])  # what follows it is ignored
        if not word.isidentifier():
            self._error("bad-condition", f"#{name} needs a name", Span(self._source, line.start(), line.end()))
        return self.is_defined(word) == (name == "ifdef")

    def _skip_branches(self, pos: int, taken: bool = False) -> int:
        """Skip the branches that are not taken: to after the #elif or #else that is taken, or after the #endif."""
        depth = 0
        for branch in regex_cache.compile(_BRANCH).finditer(self._source.text, pos):
            name = branch[1]
            if name is None:  # text that may look like one
                continue
            if name.startswith("if"):
                depth += 1
            elif depth:
                depth -= name == "endif"
            else:
                line = _directive_line(self._source.text, self._source.text.index("#", branch.start()))
                if name == "endif":
                    self._open.pop()
                    return line.end()
                if not taken and (name == "else" or self._branch_holds(name, line)):
                    return line.end()
        return len(self._source.text)


def _directive_line(text: str, pos: int) -> regex_cache.Match[str]:
    """The logical line whose ``#`` is at ``pos``."""
    line = regex_cache.compile(_LINE, regex_cache.ASCII).match(text, pos)
    assert line is not None
    return line
