"""Whole scripts: ``parse(source, diagnostics, params)`` → :class:`~sonde.language.ast.Script`.

A hand-written recursive descent parser, in layers: types, expressions, C definitions, statements, and here the top
level. A syntax error ends the item it is in (a probe, a definition); parsing goes on after it.
"""

from __future__ import annotations

from ..base import regex_cache
from ..source import Source, Span
from . import ast
from .ast import Expr, Script
from .attach_point import AttachPointReader
from .constants import NotConstantError, evaluate_constant
from .cursor import SYNTAX, ParseError
from .diagnostics import Diagnostics
from .file_parser import FileParser
from .includes import NO_FILES, Files
from .lexer import Token, parse_integer
from .map_sizes import MAP_SIZES

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from .cdecl import FindType

# The items that start with a word; anything else at the top level is a probe.
ITEM_WORDS = ("config", "struct", "union", "enum", "typedef", "let", "macro", "import", "fn", "table")
ITEM = (
    r"(?:(?P<config>config)|(?P<let>let)|(?P<macro>macro)|(?P<import>import))\b(?!\s*[:,/])"
    r"|(?P<c>struct|union|enum)\b(?=[\s{])|(?P<typedef>typedef)\s|(?P<fn>fn)\s+(?=[A-Za-z_]\w*\s*\()"
    r"|(?P<table>table)\s+(?=[A-Za-z_]\w*\s*\{)"
)


MAX_INCLUDES = 64  # files within files


def parse_script(source: Source, diagnostics: Diagnostics, params: Sequence[str] = (),
                 files: Files | None = None, find_type: FindType | None = None) -> Script:
    """The script as a tree; ``params`` are the positional parameters, which attach points may contain; ``files``
    finds what it includes and imports, which becomes part of the tree; ``find_type`` the types that constant
    expressions measure (``char name[sizeof(struct s)]``).

    Errors are added to ``diagnostics``, with what could be parsed returned; call ``diagnostics.raise_if_errors()``
    before the tree is used.
    """
    return Parser(source, diagnostics, params, files, find_type=find_type).parse_script()


def parse_expression(source: Source, diagnostics: Diagnostics) -> Expr | None:
    """A source that is one expression, such as the text of a ``#define``; None after an error."""
    parser = Parser(source, diagnostics, ())
    return parser.parse_whole_expression()


class Parser(FileParser):
    """Parses one source."""

    def __init__(self, source: Source, diagnostics: Diagnostics, params: Sequence[str], files: Files | None = None,
                 outer: FileParser | None = None, find_type: FindType | None = None) -> None:
        super().__init__(source, diagnostics, params, files or Files(), _load_file, outer, find_type)
        self._points = AttachPointReader(source, diagnostics, params)
        self._begun = self._configured = False  # whether probes or the like, and a config block, have been seen

    def parse_script(self) -> Script:
        """Every item of the source."""
        for header in self.files.headers:
            self._include_file(header, True, Span(self.source, 0, 0))
        self._parse_items()
        script = self._script
        script.defines = self._preprocessor.defines
        script.includes = self._preprocessor.includes
        self._check_not_empty(script)
        return script

    def _parse_items(self) -> None:
        text, end = self.source.text, len(self.source.text)
        pos = self._lexer.skip_directives(0)
        while pos < end and not self.should_stop():
            self.load_tokens([("eof", "", pos, pos)])
            is_item = text.startswith(ITEM_WORDS, pos)
            item = regex_cache.compile(ITEM, regex_cache.ASCII).match(text, pos) if is_item else None
            try:
                pos = self._parse_clause(pos) if item is None else self._parse_item(item, pos)
            except ParseError:
                pos = self._recover_from_error(pos)
            pos = self._lexer.skip_directives(pos)
        self._preprocessor.check_conditionals_closed()

    def parse_whole_expression(self) -> Expr | None:
        self.load_tokens(self._lexer.tokenize_item(0))
        try:
            node = self.parse_expression()
            if self.kind != "eof":
                self.fail_unexpected("an operator, or the end")
            return node
        except ParseError:
            return None

    def _check_not_empty(self, script: Script) -> None:
        if not self.diagnostics.has_errors and not (
                script.clauses or script.macros or script.tables or script.functions or script.map_decls
                or script.definitions or script.imports or script.defines or script.config):
            self.error("empty-script", "No probes to attach", None,
                       ['for example: begin { printf("hello\\n"); }'])

    def _recover_from_error(self, pos: int) -> int:
        """Where to go on after an error in the item at ``pos``."""
        end = self.tokens[-1][2]  # the lexer has found the end of the item
        if end > pos:
            following = self._lexer.skip_trivia(end)
            return following + 1 if self.source.text.startswith(";", following) else end  # of a definition
        brace = self.source.text.find("{", pos)
        if brace < 0:
            return len(self.source.text)
        return max(pos + 1, self._lexer.tokenize_item(brace)[-1][2])

    # --- items --------------------------------------------------------------------------------------------

    def _parse_item(self, item: regex_cache.Match[str], pos: int) -> int:
        kind = item.lastgroup
        self._begun |= kind in ("macro", "fn", "let", "table")
        if kind == "config":
            self.load_tokens(self._lexer.tokenize_item(pos))
            self._parse_config()
        elif kind == "c":
            return self._parse_definition(pos)
        elif kind == "typedef":
            self.load_tokens(self._lexer.tokenize_item(pos, closing=";"))
            self._script.definitions += self.parse_typedef()
            self._check_order("C definitions", self.span_since(pos))
        elif kind == "macro":
            self.load_tokens(self._lexer.tokenize_item(pos))
            self._parse_macro()
        elif kind == "table":
            self.load_tokens(self._lexer.tokenize_item(pos))
            self._parse_table()
        elif kind == "fn":
            self.load_tokens(self._lexer.tokenize_item(pos))
            self._parse_function()
        else:
            self.load_tokens(self._lexer.tokenize_item(pos, closing=";"))
            self._parse_map_declaration() if kind == "let" else self._parse_import()
            return self.span_since(pos).end
        return self.tokens[-1][2]

    def _parse_clause(self, pos: int) -> int:
        """``points /predicate/ { body }``; returns where it ends."""
        start, points = pos, []
        self._begun = True
        while True:
            point, end = self._points.read(pos)
            points.append(point)
            self.count_statement()
            pos = self._lexer.skip_directives(end)
            if not self.source.text.startswith(",", pos):
                break
            pos = self._lexer.skip_directives(pos + 1)
            if self.source.text.startswith(("{", "/"), pos) and not self.source.text.startswith("//", pos):
                break
        predicate = None
        if self.source.text.startswith("/", pos):
            self.load_tokens(self._lexer.tokenize_item(pos + 1, predicate=True))
            predicate = self.parse_expression()
            self.expect("/{", "'/' to close predicate")
        elif self.source.text.startswith("{", pos):
            self.load_tokens(self._lexer.tokenize_item(pos))
        else:
            self._report_missing_block(points[-1], pos)
        body = self.parse_block()
        self._script.clauses.append(ast.Clause(self.span_since(start), points, predicate, body))
        return self.tokens[-1][2]

    def _report_missing_block(self, point: ast.AttachPoint, pos: int) -> None:
        """Something other than a block follows an attach point."""
        text = self.source.text
        if point.text.startswith(("$", "@")) or "(" in point.text:
            self.fail(SYNTAX, "syntax: expected '{'", point.span,
                      ["a statement outside of a probe: say when it is to run: begin { ... }"])
        if pos >= len(text):
            self.fail(SYNTAX, "syntax: expected '{'", Span(self.source, pos, pos), ["there is a } too many"]
                      if point.text == "}" else [f"say what it is to do: {point.text} {{ ... }}"])
        rest = regex_cache.compile(r"[@$]?\w+|\S", regex_cache.ASCII).match(text, pos)
        assert rest is not None
        from .slips import missing_block_hints
        hints = missing_block_hints(text, point.span.start, pos)
        self.fail(SYNTAX, "syntax: expected '{'", Span(self.source, *rest.span()), [f"found '{rest[0][:40]}'", *hints])

    def _check_order(self, what: str, span: Span) -> None:
        if self._begun:
            self.error(SYNTAX, f"syntax: {what} must appear before probes and functions", span)

    def _parse_definition(self, pos: int) -> int:
        """A struct, union or enum; the ``;`` after it may be missing."""
        self.load_tokens(self._lexer.tokenize_item(pos))
        if self.peek(2)[0] == ";":  # a forward declaration adds nothing
            return self.tokens[-1][2]
        node = self.parse_enum() if self.is_at_word("enum") else self.parse_struct()
        if self.kind != "eof":
            self.fail_unexpected("'{' and the fields" if isinstance(node, ast.CStruct) else "';'")
        self._script.definitions.append(node)
        self._check_order("C definitions", node.span)
        text, end = self.source.text, self._lexer.skip_trivia(self.tokens[-1][2])
        attributes = regex_cache.compile(r"[A-Za-z_](?:/\*(?s:.*?)\*/|[^;{#])*;?").match(text, end)
        if attributes is not None:  # attributes, if it is not the next item
            self.load_tokens(self._preprocessor.expand_tokens(self._lexer.tokenize_line(*attributes.span())))
            self.parse_attributes(node)
            end = self.token[2]
        return end + text.startswith(";", end)

    def _parse_config(self) -> None:
        """``config = { name = value; ... }``."""
        word = self.token_span(self.advance())
        self._check_order("config", word)
        if self._configured:
            self.error(SYNTAX, "syntax: duplicate config block", word)
        self._configured = True
        self.expect("=")
        self.expect("{")
        while self.kind != "}":
            start = self.token[2]
            name = self.expect("word", "config key")[1]
            self.expect("=", "'='")
            value = self._parse_config_value()
            self._script.config.append(ast.ConfigEntry(self.span_since(start), name, value))
            if self.kind != "}":
                self.expect(";", "';'")
            while self.kind == ";":
                self.advance()
        self.advance()

    def _parse_config_value(self) -> str:
        """The text of a value, without its quotes."""
        if self.kind == "str":
            return self.string_value(self.advance())
        if self.kind == "int":
            return str(self.integer_value(self.advance()))
        start = self.token[2]
        if self.kind != "word":
            self.fail_unexpected("string, int, boolean, or ident")
        self.advance()
        text = self.span_since(start).text
        return {"true": "1", "false": "0"}.get(text, text)

    def _parse_map_declaration(self) -> None:
        """``let @m = hash(100);`` or ``let @m;``."""
        start = self.advance()[2]
        if self.kind != "map":
            self.fail(SYNTAX, "syntax: root-level let statements need to be map declarations, e.g. let @a = hash(2);",
                      Span(self.source, start, start + 3), ["variables are declared within probes"])
        name = self.advance()[1]
        kind, entries, unit = "", 0, 0
        if self.kind != ";":
            self.expect("=", "'='")
            kind = self.expect("word", "map type name", ["for example: let @m = hash(100);"])[1]
            self.expect("(", "'('")
            if self.kind == ")":
                self.fail_unexpected("positive integer for map declaration max entries")
            entries, unit = self._parse_entries()
            self.expect(")", "')'")
        self.accept(";")
        span = self.span_since(start)
        self._script.map_decls.append(ast.MapDecl(span, name, kind, entries, unit))

    def _parse_entries(self) -> tuple[int, int]:
        """A number, a ``#define`` of one, a positional parameter, or a multiple of a kind of objects; the second value
        is the size of that kind, else 0."""
        head = self.first_word()
        node = self.parse_expression()
        units: list[int] = []
        try:
            entries = evaluate_constant(node, lambda part: self._lookup_entries(part, units))
        except NotConstantError:
            self.fail("not-constant", "syntax: expected positive integer for map declaration max entries", head,
                      ["it must be known when compiling"])
        if not 0 < entries < 1 << 32:
            self.error("bad-size", "syntax: expected positive integer for map declaration max entries" if entries < 0
                       else f"a map cannot have {entries} entries", head)
            return 1, 0
        return entries, max(units, default=0)

    def _lookup_entries(self, node: Expr, units: list[int]) -> int | None:
        if isinstance(node, ast.Positional) and 0 < node.number <= len(self.params):
            return parse_integer(self.params[node.number - 1])
        known = self.lookup_constant(node)
        if known is not None or not isinstance(node, ast.Name) or node.name not in MAP_SIZES:
            return known
        units.append(MAP_SIZES[node.name])
        return MAP_SIZES[node.name]

    def _parse_import(self) -> None:
        start = self.advance()[2]
        self._check_order("root imports", self.span_since(start))
        token = self.expect("str", "string after 'import'")
        span = self.span_since(start)
        self.expect(";", "';' after import")
        self.import_files(token, span)

    def _parse_macro(self) -> None:
        """``macro name(a, $b, @c) { ... }``."""
        start = self.advance()[2]
        name = self.expect("word", "macro name")[1]
        self.expect("(", "'('")
        params: list[Expr] = []
        while self.kind != ")" or params:
            param = self._parse_macro_parameter()
            if any(param.span.text == other.span.text for other in params):
                self.error("redeclared", f"Ident for macro argument has already been used: {param.span.text}",
                           param.span)
            params.append(param)
            if self.kind == ")":
                break
            self.expect(",", "')'")
        self.advance()
        body = self.parse_value_block()
        self._script.macros.append(ast.Macro(self.span_since(start), name, params, body))

    def _parse_table(self) -> None:
        """``table name { column: format; ... }``, where ``other;`` is all columns of another table."""
        start = self.advance()[2]
        name = self.advance()[1]
        head = self.span_since(start)
        self.advance()
        columns: list[ast.TableColumn] = []
        while self.kind != "}":
            self.count_statement()
            columns += self._parse_columns()
            self.expect(";", "';'")
        self.advance()
        for at, column in enumerate(columns):
            if any(column.name == other.name for other in columns[:at]):
                self.error("redeclared", f"two columns are called {column.name}", column.span)
        self._script.tables.append(ast.Table(head, name, columns))

    def _parse_columns(self) -> list[ast.TableColumn]:
        if self.kind not in ("word", "str"):
            self.fail_unexpected("the name of a column",
                                 ['a name that is no word is written in quotes: "LAT(ms)": "%5d";'])
        token = self.advance()
        if token[0] == "word" and self.kind == ";":
            other = next((table for table in self._script.tables if table.name == token[1]), None)
            if other is None:
                self.fail("unknown-table", f"there is no table {token[1]} before this one", self.token_span(token),
                          [f'a column has a format: {token[1]}: "%d";'])
            return other.columns
        name = token[1] if token[0] == "word" else self.string_value(token)
        self.expect(":", "':' and the column's format")
        format = self.parse_expression()
        shown = None
        if self.is_at_word("if"):
            self.advance()
            shown = self.parse_expression()
        return [ast.TableColumn(self.span_since(token[2]), name, token[3], format, shown)]

    def _parse_function(self) -> None:
        """``fn name($a: T, $b: T): T { ... }``."""
        start = self.advance()[2]
        name = self.advance()[1]
        self.advance()
        params: list[ast.VarDecl] = []
        while self.kind != ")":
            at = self.token[2]
            target = self.parse_variable()
            self.expect(":", "':'")
            declared = self.parse_type()
            if any(target.name == other.target.name for other in params):
                self.error("redeclared", f"two parameters are called ${target.name}", target.span)
            params.append(ast.VarDecl(self.span_since(at), target, declared))
            if self.kind != ")":
                self.expect(",", "')'")
        self.advance()
        returns = self.parse_type() if self.accept(":") else None
        head = self.span_since(start)
        body = self.parse_block()
        self._script.functions.append(ast.Subprogram(head, name, params, returns, body))

    def _parse_macro_parameter(self) -> Expr:
        if self.kind not in ("word", "var", "map"):
            self.fail_unexpected("macro argument ($var, @map, or identifier)",
                                 ["name is an expression, $name a variable, @name a map"])
        kind, text, _, _ = token = self.advance()
        if kind == "var":
            return ast.Variable(self.token_span(token), name=text[1:])
        if kind == "map":
            return ast.MapRef(self.token_span(token), name=text)
        return ast.Name(self.token_span(token), name=text)

    # --- other files --------------------------------------------------------------------------------------

    def import_files(self, token: Token, span: Span) -> None:
        """A script, a header, or a directory of them becomes part of this script; each file only once."""
        name = self.string_value(token)
        self._script.imports.append(ast.StrLiteral(self.token_span(token), value=name))
        refused: dict[str, str] = {}
        path = self.files.find_import(name, self.source, refused)
        for path_refused, reason in refused.items():
            self.diagnostics.warning("untrusted-import", f'skipping due to {reason}: "{path_refused}"', span)
        if path is None:
            self.error("import-not-found", "Unable to find suitable path for import", span, [
                "what is imported may be written to by nobody but root and you"] if refused else [
                NO_FILES if self.files.sealed else f"there is no file or directory '{name}'",
                "the name is relative to the script that imports it, or one of Sonde's own: stdlib/..."])
            return
        try:
            if path.endswith((".bt", ".h", ".c")):
                _load_file(self, path, span)
                return
            for file, reason in self.files.list_directory(path).items():
                if reason:
                    self.error("untrusted-import", f'cowardly refusing to import from a directory with {reason}: '
                               f'"{file}"', span)
                    return
                _load_file(self, file, span)
        except OSError as error:
            self.error("import-not-found", f"Cannot import '{name}': {error.strerror}", span)


def _load_file(outer: FileParser, path: str, span: Span) -> None:
    """Parse another file, included or imported, into the script."""
    if path in outer.loaded:
        return
    if outer.within >= MAX_INCLUDES:
        outer.report_inclusion("include-depth", f"files include one another too deeply: {path}", span)
        return
    if path.endswith(".c"):
        outer.report_inclusion("not-supported", f"{path} is a program in C, which would have to be compiled", span,
                               ["Sonde brings no C compiler along: write a macro or a fn in the language, or load the "
                                "program with bpftool and trace it with fentry:bpf:NAME"])
        return
    try:
        source = outer.files.read_source(path)
    except OSError as error:
        outer.report_inclusion("header-not-found", f"failed to open file '{path}': {error.strerror}", span)
        return
    outer.effort.count_file(len(source.text), span)
    if path.endswith(".bt"):
        outer.loaded.add(path)
        Parser(source, outer.diagnostics, outer.params, outer.files, outer)._parse_items()
        return
    from .headers import HeaderParser
    parser = HeaderParser(source, outer.diagnostics, (), outer.files, _load_file, outer)
    if parser.is_read_once:
        outer.loaded.add(path)
    parser.parse_whole_header()
