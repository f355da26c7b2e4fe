"""A script in an editor: its findings, its tree with types, and the type of what stands before the cursor."""

from __future__ import annotations

import gc
import sys

from ..base.fast_stdlib import TypeVar
from ..base.record import Record
from ..builtins import BUILTINS
from ..compiling import RECURSION, check_source, compile, script_environment
from ..errors import CompileError, SondeError
from ..functions import FUNCTIONS
from ..language.ast import FieldAccess, Node, Script
from ..language.diagnostics import Diagnostics
from ..language.includes import Files
from ..language.parser import parse_script
from ..semantics.callees import Language
from ..semantics.check import annotate_script
from ..semantics.defined_types import DefinedTypes
from ..semantics.nodes import walk_nodes
from ..semantics.script_options import Options
from ..source import ERROR, Diagnostic, Source, Span
from .scan import Scan

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from ..semantics.context import CheckContext
    from ..semantics.world import World
    from ..spec import ScriptSpec
    from ..types import Type

T = TypeVar("T")
LARGEST = 1 << 20  # characters of a script that is looked into
MARK = "__cursor__"  # the name that stands where one is to be completed
# What may have to follow the brackets that a half-written clause has open, to make it one that can be parsed.
_TAILS = ("", ";", " {}", ": 0;", "/ {}", "/ {", " { 0 }", ") {}")


class Machine:
    """What scripts are checked for: options, and a kernel, of which a new World is made when it may have changed."""

    def __init__(self, options: Options, open_world: Callable[[], World]) -> None:
        self.options = options
        self._open_world = open_world
        self.world = open_world()

    def renew(self) -> None:
        """Forget what is known of the kernel: modules come and go."""
        self.world = self._open_world()


def editor_options() -> Options:
    """Options as ``sonde check`` has them."""
    return Options(env=script_environment(), exercises=True)


class TypedTree(Record):
    """A tree with types, as far as they are known. ``context`` is None if the script could not be checked at all."""

    script: Script
    context: CheckContext | None
    syntax: list[Diagnostic]  # what the parser found

    def nodes(self) -> Iterator[Node]:
        """The nodes of the checked programs and of the functions; those of a macro's body have the macro's places."""
        if self.context is not None:
            for program in self.context.programs:
                yield from walk_nodes(program.probe.clause)
                for function in program.probe.functions.values():
                    yield from walk_nodes(function.clause)


class Document:
    """A script as it is in the editor at one time. What takes time is worked out when it is asked for, once."""

    def __init__(self, path: str, text: str, machine: Machine) -> None:
        self.source = Source(path, text)
        self.text = text
        self.machine = machine
        self._scan: Scan | None = None
        self._tree: TypedTree | None = None

    @property
    def scan(self) -> Scan:
        if self._scan is None:
            self._scan = Scan(self.text)
        return self._scan

    @property
    def tree(self) -> TypedTree:
        if self._tree is None:
            self._tree = annotate(self.source, self.machine)
        return self._tree

    def findings(self) -> list[Diagnostic]:
        """What checking the script reports: its errors and warnings, or why it cannot be checked here."""
        if len(self.text) > LARGEST:
            return [Diagnostic(ERROR, "too-large", f"a script of more than {LARGEST} characters is not checked", None)]
        try:
            checked = _with_room(lambda: check_source(self.source, self.machine.options, self.machine.world))
        except CompileError as error:
            return error.diagnostics
        except SondeError as error:
            return [Diagnostic(ERROR, "machine", error.message, None, error.hints)]
        except RecursionError:
            return [Diagnostic(ERROR, "too-deep", "the program is nested too deeply", None)]
        return checked.diagnostics.items

    def compiled(self) -> tuple[ScriptSpec | None, list[Diagnostic]]:
        """The spec, if there is one, and every finding: those of the code generator as well."""
        if len(self.text) > LARGEST:
            return None, self.findings()
        try:
            spec = compile(self.source, self.machine.options, self.machine.world)
        except (SondeError, RecursionError):
            findings = self.findings()
            return None, findings
        return spec, spec.warnings

    def type_before(self, offset: int) -> tuple[Type | None, bool]:
        """The type of what stands before the ``.`` or ``->`` that ends at ``offset``, and whether that is ``args``.

        The clause is cut there and closed again in each of a few ways, until it can be parsed.
        """
        for text in self._completed_texts(offset):
            tree = annotate(Source(self.source.name, text), self.machine)
            node = _marked_access(tree)
            if node is not None and node.operand.type is not None:
                return node.operand.type, node.operand.span.text == "args"
            if not tree.syntax:
                break
        return None, False

    def _completed_texts(self, offset: int) -> Iterator[str]:
        """The script with a name at ``offset`` and the rest of the item left out, closed in different ways."""
        item = self.scan.item_at(offset)
        if item is None or len(self.text) > LARGEST:
            return
        opened: list[str] = []
        for token in self.scan.before(offset)[item.first:]:
            if token.kind == "op" and token.text in "([{":
                opened.append({"(": ")", "[": "]", "{": "}"}[token.text])
            elif token.kind == "op" and token.text in ")]}" and opened:
                opened.pop()
        head, rest = self.text[:offset] + MARK, self.text[item.end:]
        inner = len(opened) - next((at for at, text in enumerate(reversed(opened)) if text == "}"), len(opened))
        for tail in _TAILS:
            yield head + "".join(reversed(opened[inner:])) + tail + "".join(reversed(opened[:inner])) + "\n" + rest


def annotate(source: Source, machine: Machine) -> TypedTree:
    """Parse a script, and type what could be parsed; what is wrong with it is for :meth:`Document.findings` to say."""
    options, world = machine.options, machine.world
    syntax = Diagnostics()
    tree = TypedTree(Script(Span(source, 0, len(source.text))), None, syntax.items)
    if len(source.text) > LARGEST:
        return tree

    def parse_and_type() -> None:
        files = Files(options.directories, options.headers, world.release, world.arch, options.sealed)
        tree.script = parse_script(source, syntax, options.params, files, DefinedTypes(world).find)
        tree.syntax = list(syntax.items)
        tree.context = annotate_script(tree.script, world, options, Diagnostics(),
                                            Language(FUNCTIONS, BUILTINS))[0]
    try:
        _with_room(parse_and_type)
    except (SondeError, RecursionError):
        pass
    return tree


def _marked_access(tree: TypedTree) -> FieldAccess | None:
    """The access to the field that is to be completed, with a type before it if any of the programs has one."""
    accesses = [node for node in tree.nodes() if isinstance(node, FieldAccess) and node.name == MARK]
    return next((node for node in accesses if node.operand.type is not None), accesses[0] if accesses else None)


def _with_room(work: Callable[[], T]) -> T:
    """Call ``work`` with the recursion that nested scripts need, and without collecting garbage meanwhile."""
    if sys.getrecursionlimit() < RECURSION:
        sys.setrecursionlimit(RECURSION)
    collecting = gc.isenabled()
    gc.disable()
    try:
        return work()
    finally:
        if collecting:
            gc.enable()
