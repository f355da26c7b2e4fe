"""What one pass of the checker knows: variables in scope, maps, the current program, findings."""

from __future__ import annotations

from ..arch import ARCHES
from ..base.package_files import is_shipped
from ..base.record import Record
from ..kinds import KINDS
from ..language.ast import (
    Assign,
    Call,
    Cast,
    Expr,
    MapDecl,
    MapRef,
    Node,
    ScratchVar,
    Stmt,
    Subprogram,
    Unary,
    Variable,
)
from ..language.diagnostics import MAX_SHOWN, Diagnostics, nearest_names
from ..layouts.shared_maps import MOST_GROUPS
from ..source import ERROR, Span
from ..spec import Attach, Config, UserDetail
from ..types import (
    BPF,
    CTX,
    GROUPS,
    KERNEL,
    NOTHING,
    USER,
    Aggregate,
    Bool,
    Enum,
    NoneType,
    Pointer,
    Real,
    Stack,
    StackCopy,
    Str,
    Struct,
    Symbol,
    Tuple,
    Type,
)
from . import convert
from .callees import Language
from .clashes import describe_both, describe_kind, mark_origin
from .ctypes_ import TypeNames
from .library_texts import keep_number, spell_numbers
from .nodes import walk_nodes
from .script_options import Options
from .typed import CheckedFunction, CheckedProbe, ScriptMap
from .world import World

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ..source import Note

# For what no histogram or stats() can be read, which those who ask for the value say themselves.
ARGUMENT = "an argument"
_REFUSING = ("a variable", "a condition", "a predicate", "a map key", "an operand", "a cast", "a tuple", "a loop",
             "return", ARGUMENT)
# Of these their users say themselves what is wrong with void.
_REPORTED_BY_USER = ("an operand", "a condition", "a predicate", "a cast", ARGUMENT)
_ASSIGNED = ("a variable", "a map")
_WITHOUT_VALUE = ["long double, and a number of 128 bits, has its place in a struct, and no value"]
_PURPOSES = {"a variable": "assigned to a scratch variable", "a map": "assigned to a map",
             "a map key": "used as a map key"}


class VarState(ScratchVar):
    """A variable while its type is being found; ``fixed`` when declared with a type, ``given`` when assigned to;
    ``aggregated``: it is that of a loop over a map of count() and the like."""

    inferred: Type | None = None
    fixed: bool = False
    given: bool = False
    aggregated: bool = False
    written: str = ""  # its type, as the script spells it
    typed_at: Span | None = None  # what gave it the type


class MapState(ScriptMap):
    """A map while its types are being found; ``keyed`` is None until it is used."""

    inferred_key: Type | None = None
    is_spelled: bool = False  # its keys have the texts of errors and the like: it has other strings there, too
    inferred_value: Type | None = None
    keyed: bool | None = None
    programs: dict[int, bool] = {}
    typed_at: Span | None = None  # what gave its values their type
    keyed_at: Span | None = None  # the same of its keys, or of its having none


class ProbeProgram(Record):
    """A program to be and where it stands: attach points that share it, their kind and arguments."""

    probe: CheckedProbe
    kind: str
    index: int

    @property
    def attach(self) -> Attach:
        """The first of the attach points: they agree in whatever the clause asks."""
        return self.probe.attach[0]

    @property
    def args(self) -> Struct | None:
        return self.probe.args

    @property
    def space(self) -> str:
        """Memory that a bare address points into."""
        return USER if KINDS[self.kind].user else KERNEL


class AssignmentSite(Record):
    """An assignment with its program and scopes, so that it can be checked again."""

    node: Assign
    program: ProbeProgram
    scopes: list[dict[str, VarState]]


class CheckContext:
    """State of one check. A pass visits every program; passes repeat until no type changes."""

    def __init__(self, world: World, options: Options, config: Config, types: TypeNames,
                 defines: dict[str, str], language: Language) -> None:
        self.world = world
        self.options = options
        self.config = config
        self.types = types
        self.defines = defines
        self.functions, self.builtins = language.functions, language.builtins
        self.maps: dict[str, MapState] = {}
        self.diagnostics = Diagnostics()
        self.changed = False
        self.explaining = False  # this pass is the one whose findings are kept
        self.defaults: dict[str, tuple[str, bool]] = {}  # of getopt(), by name: as shown, and whether it is a string
        # The maps (by name) and variables whose type has changed, until their readers have been looked at again.
        self.retyped: list[str | VarState] = []
        self.assigned: list[AssignmentSite] = []  # the assignments of this pass
        self.only_read: list[MapState] = []  # what this pass read elements of, while nothing is known to fill it
        self._filled: dict[str, Node] | None = None  # map -> where the script fills it first
        self.passes = 0  # over all programs so far, until no type changes any more
        self.program: ProbeProgram = None  # type: ignore[assignment]  # set before any clause is visited
        self.scopes: list[dict[str, VarState]] = []
        self.loops = self.whiles = self.unrolled = 0  # around what is being checked: all, by while, by unroll
        self.rounds = 1  # that the loops around this statement make, as far as that is plain to see
        self.unevaluated = False  # what is being checked is asked for its type only
        self.tasks: set[int] = set()  # the variables of loops over objects, by id
        self.clauses: Sequence[Node] = []  # all of the script's, also those that attach nowhere
        self.programs: Sequence[ProbeProgram] = ()
        self.subprograms: dict[str, Subprogram] = {}
        self.function: CheckedFunction | None = None  # whose body is being checked
        self.calling: list[str] = []                  # the functions that are being checked, outermost first
        self.visited: set[str] = set()                # the functions that this program has in this pass
        # The containers, pods and services that the script compares with, by kind and name.
        self.groups: set[tuple[str, str]] = {
            (kind, options.group) for kind in GROUPS if options.group}
        self.aggregate: Expr | None = None  # the call that may be an aggregate: the value of @x = ...
        self.evaluate: Callable[[CheckContext, Expr], Type | None] = None  # type: ignore[assignment]
        self.statements: Callable[[CheckContext, Sequence[Stmt]], None] = None  # type: ignore[assignment]

    def take_group(self, kind: str, text: str) -> bool:
        """Note a container, pod or service that is compared with; False if there are too many."""
        self.groups.add((kind, text))
        return len(self.groups) <= MOST_GROUPS

    # findings

    def error(self, code: str, message: str, node: Node | Span, hints: Sequence[str] = (),
              notes: Sequence[Note] = ()) -> None:
        self.diagnostics.error(code, message, node if isinstance(node, Span) else node.span, hints, notes)

    def warning(self, code: str, message: str, node: Node | Span | None, hints: Sequence[str] = ()) -> None:
        if self.options.warnings:
            self.diagnostics.warning(code, message, node.span if isinstance(node, Node) else node, hints)

    def report_unstable(self, node: Expr, feature: str, policy: str) -> None:
        """Say what the configuration wants said about a feature that may still change."""
        hint = [f"or set BPFTRACE_UNSTABLE_{feature.upper()}=enable"]
        if policy == "error":
            self.error("unstable", f"{feature} feature is not enabled by default. To enable this unstable feature, set "
                       f"the config flag to enable. unstable_{feature}=enable", node, hint)
        elif policy == "warn":
            self.warning("unstable", f"Script is using an unstable feature: {feature}. To prevent this warning you "
                         f"must explicitly enable it in the config e.g. unstable_{feature}=enable", None)

    @property
    def is_error_shown(self) -> bool:
        """Whether an error found now would be shown: if not, searching for hints is wasted time."""
        return self.explaining and sum([item.severity == ERROR for item in self.diagnostics.items]) < MAX_SHOWN

    # expressions

    def check_expression(self, node: Expr) -> Type | None:
        """The type of ``node``, which is stored in the tree; None if it is not known (yet), which has been said."""
        return self.evaluate(self, node)

    def check_value(self, node: Expr, purpose: str = "", at: Node | None = None) -> Type | None:
        """Like :meth:`check_expression`, where a value is required: calls that return nothing are refused."""
        type = self.check_expression(node)
        if isinstance(type, NoneType) and (purpose not in _REPORTED_BY_USER or isinstance(type, Real)):
            if type == NOTHING and purpose in _ASSIGNED:
                return None  # report_no_value() says it
            use = _PURPOSES.get(purpose, f"used{f' for {purpose}' if purpose else ''}")
            self.error("no-value", f"Value 'void' cannot be {use}.", at or node,
                       _WITHOUT_VALUE if isinstance(type, Real) else [])
            return None
        if isinstance(type, Aggregate) and isinstance(node, MapRef) and purpose not in _REFUSING:
            self.error("aggregate-value", f"'{type}' of {node.span.text} cannot be read in a program; print it instead",
                       node)
            return None
        return type

    def with_texts(self, node: Expr) -> Expr:
        """What stands for a checked expression where it is shown, kept or compared: strings of Go are their texts."""
        detail = self.program.attach.detail
        if not isinstance(node.type, Struct) or not isinstance(detail, UserDetail) or not detail.go:
            return node
        from .go_types import types_distance, with_texts
        text = with_texts(node, node.type, lambda: types_distance(self.world, self.program.attach) is not None)
        if text is not node:
            self.check_expression(text)
        return text

    def check_shown(self, node: Expr, purpose: str, at: Node | None = None) -> tuple[Expr, Type | None]:
        """Check a value; what stands for it where it is shown, and its type."""
        type = self.check_value(node, purpose, at)
        text = self.with_texts(node)
        return text, type if text is node else text.type

    def report_no_value(self, name: str, have: Type | None, node: Expr, at: Node, written: str = "") -> None:
        """Report that the value assigned to a variable or map has no type: it is nothing. Nothing is said if it has an
        error of its own."""
        if node.type not in (None, NOTHING) or isinstance(node, Call) and node.type is None:
            return
        if name[0] == "@":
            self.error("no-value", f"Type mismatch for {name}: trying to assign value of type 'none' when map already "
                       f"has a value type '{convert.type_name(have or convert.literal_type(0))}'", at)
        elif have is not None:
            self.report_mismatch(name, NOTHING, have, at, "no-value", written=written)
        elif node.type == NOTHING:
            self.error("no-value", "Invalid expression for assignment", at)

    # variables

    def begin_program(self, program: ProbeProgram) -> None:
        """Start on a program."""
        self.program = program
        self.scopes = [{}]
        self.loops, self.whiles, self.unrolled, self.rounds = 0, 0, 0, 1
        self.visited = set()
        program.probe.variables = []

    def find_variable(self, name: str) -> VarState | None:
        """The variable that ``$name`` means here."""
        for scope in reversed(self.scopes):
            if name in scope:
                return scope[name]
        return None

    def declare_variable(self, node: Variable) -> VarState:
        """A new variable in the innermost scope; the node remembers it from pass to pass."""
        state: VarState = node.slot if isinstance(node.slot, VarState) else VarState(
            node.name, None, node.span)  # type: ignore[arg-type]  # typed when the passes settle
        node.slot = state
        state.given = False
        self.scopes[-1][node.name] = state
        self.program.probe.variables.append(state)
        return state

    def advise(self, code: str, message: str, node: Node, hints: Sequence[str] = ()) -> None:
        """A warning about how a script is written; not about those that come with Sonde."""
        if self.options.advice and not is_shipped(node.span.source.name):
            self.warning(code, message, node, hints)

    def report_undefined_variable(self, node: Variable) -> None:
        hints: list[str] = []
        if self.is_error_shown and "#" not in node.name:
            from .meant import variable_hints
            hints = variable_hints(self, node.name, {name for scope in self.scopes for name in scope})
        if any(state.name == node.name for state in self.program.probe.variables):
            hints = [f"${node.name} ends with the block that it is assigned in: declare it before, let ${node.name};"]
        name = node.name.partition("#")[0]  # in a macro the names have numbers after them
        self.error("undefined-variable", f"Undefined or undeclared variable: ${name}", node, hints)

    def report_untyped(self, node: Variable) -> None:
        """Report the use of a variable before anything is assigned to it."""
        if not self.diagnostics.has_errors:  # else what it was to hold is wrong
            self.error("undefined-variable", "Could not resolve the type of this variable", node,
                       ["it is used before anything is assigned to it"])

    def assign_variable(self, state: VarState, type: Type, node: Expr, const: int | str | None = None,
                        at: Node | None = None) -> None:
        """Let ``$x`` hold a value of ``type``, growing it where it may grow. ``at`` is the whole assignment."""
        if isinstance(type, Aggregate):
            if state.fixed and state.inferred is not None:
                self.report_mismatch(f"${state.name}", type, state.inferred, at or node, written=state.written)
            else:
                self.error("aggregate-value", f"Value '{type}' cannot be assigned to a scratch variable.",
                           at or node)
            return
        storable = self.keep_stacks(type, node)
        if storable is None:
            return
        type = storable
        state.given = True
        if state.inferred is None:
            state.typed_at = (at or node).span
            self._retype_variable(state, type)
            return
        merged = convert.merge_types(state.inferred, type)
        if isinstance(const, int) and (isinstance(type, Enum) or any(isinstance(part, Cast)
                                                                     for part in walk_nodes(node))):
            const = None  # it has a type of its own
        self.warn_of_narrowing(state.inferred, type, node, const)
        if state.fixed:
            self._assign_fixed(state, type, merged, const, at or node)
        elif merged is None:
            self.report_mismatch(f"${state.name}", type, state.inferred, at or node, written=state.written)
        elif merged != state.inferred:
            self._retype_variable(state, merged)

    def _assign_fixed(self, state: VarState, type: Type, merged: Type | None, const: int | str | None,
                      at: Node) -> None:
        assert state.inferred is not None
        have = convert.as_int(state.inferred)
        alike = isinstance(type, Bool) == isinstance(state.inferred, Bool)
        if have is not None and convert.as_int(type) is not None and alike:
            if isinstance(const, int) and not convert.fits_int(const, have):
                self.report_mismatch(f"${state.name}", convert.literal_type(const), state.inferred, at,
                                     "out-of-range",
                                     [f"{const} does not fit"])
        elif (merged is None or merged.size > state.inferred.size) \
                and not (isinstance(type, Pointer) and isinstance(state.inferred, Pointer)):  # it is read as its own
            self.report_mismatch(f"${state.name}", type, state.inferred, at, written=state.written)

    def report_mismatch(self, name: str, given: Type, have: Type, at: Node, code: str = "type-mismatch",
                        hints: Sequence[str] = (), written: str = "") -> None:
        """Report that a variable or map holds values of another type than the one assigned."""
        state = self.maps.get(name) if name[0] == "@" else self.find_variable(name[1:])
        words = [describe_kind(have), describe_kind(given)]
        notes = [] if state is None else mark_origin(state.typed_at, at, f"{name} holds {words[0]} since here")
        if notes and words[0] != words[1]:
            hints = [*hints, f"use another name for {words[1]}"]
        self.error(code, f"Type mismatch for {name}: trying to assign value of type '{convert.type_name(given)}' when "
                   f"{'variable' if name[0] == '$' else 'map'} already has a type "
                   f"'{written or convert.type_name(have)}'", at, hints, notes)

    def warn_of_cast(self, given: Type, to: Type, node: Node) -> None:
        """Warn that an integer is converted to a type that does not hold all of its values."""
        self.advise("sign-mismatch", f"Expression of type: {convert.type_name(given)} being cast to type: "
                    f"{convert.type_name(to)}. This may cause unexpected results. Use an explicit cast to suppress "
                    "this warning.", node.to if isinstance(node, Cast) else node)

    def warn_of_narrowing(self, have: Type, give: Type, node: Expr, const: int | str | None = None) -> None:
        """Warn that an integer, assigned or chosen by ?:, goes where not all of its values fit. A map's count is
        exempt."""
        a, b = convert.as_int(have), convert.as_int(give)
        if a is None or b is None or isinstance(const, int) or isinstance(have, Bool) or isinstance(give, Bool):
            return
        if isinstance(node, MapRef) and isinstance(self.map_state(node).inferred_value, Aggregate):
            return
        if not convert.holds_int(a, b):
            self.warn_of_cast(give, have, node)

    def _retype_variable(self, state: VarState, type: Type) -> None:
        state.inferred = type
        state.type = convert.plain_type(type)
        self.changed = True
        self.retyped.append(state)

    # maps

    def map_state(self, node: MapRef | MapDecl) -> MapState:
        """The state of the map that ``node`` names."""
        state = self.maps.get(node.name)
        if state is None:
            state = self.maps[node.name] = MapState(node.name, None, None, node.span)  # type: ignore[arg-type]
        return state

    def use_map(self, node: MapRef) -> MapState:
        """The map of ``@x`` or ``@x[key]`` used as one element: checks the key and that the map has that form."""
        state = self.map_state(node)
        if node.key is None:
            self.check_key_form(state, False, node)
        elif self.check_key_form(state, True, node):
            node.key, type = self.check_shown(node.key, "a map key", node)
            self.add_key(state, type, node.key, node)
        return state

    def check_key_form(self, state: MapState, keyed: bool, node: Node) -> bool:
        """Maps are scalar or keyed, never both."""
        if state.keyed is None:
            state.keyed, state.keyed_at = keyed, node.span
            self.changed = True
        if state.keyed == keyed:
            return True
        now, before = ("with an explicit key (non-scalar map)", "without an explicit key (scalar map)")
        if not keyed:
            now, before = before, now
        notes = mark_origin(state.keyed_at, node, f"{state.name} has {'no' if keyed else 'a'} key here")
        self.error("map-key", f"{state.name} used as a map {now}, previously used {before}", node,
                   ["use another name for the one or the other"] if keyed else
                   [f"{state.name}[KEY] is one of its values; print({state.name}) prints all"], notes)
        return False

    def add_key(self, state: MapState, type: Type | None, node: Expr, at: Node | None = None) -> None:
        """Let the map have keys of ``type``, growing its key type where it may. ``at`` is all of ``@x[key]``."""
        type = self.keep_stacks(type, node) if type is not None else None
        if type is None:
            return
        if isinstance(type, (Aggregate, NoneType)):
            self.error("map-key", f"Value '{convert.type_name(type)}' cannot be used as a map key.", at or node)
            return
        if any(isinstance(part, Pointer) and part.space == CTX
               for part in (type.of if isinstance(type, Tuple) else [type])):
            self.error("map-key", "context cannot be part of a map key", at or node if isinstance(type, Tuple)
                       else node)
            return
        have = state.inferred_key
        type = type if state.is_spelled else keep_number(node, type)
        merged = type if have is None else convert.merge_keys(have, type)
        if merged is None and have is not None and not state.is_spelled:
            merged = convert.merge_keys(spell_numbers(have), spell_numbers(type))
            state.is_spelled = merged is not None
        if merged is None:
            assert have is not None
            words = describe_both(have, type)
            notes = mark_origin(state.keyed_at, at or node, f"its key is {words[0]} here")
            self.error("key-mismatch", f"Argument mismatch for {state.name}: trying to access with arguments: "
                       f"'{convert.type_name(type)}' when map expects arguments: '{convert.type_name(have)}'", at
                       or node, [f"this key is {words[1]}: a map's keys are all of one form"], notes)
        elif have is None or merged != have:
            state.inferred_key = merged
            self._note_retyped_map(state)

    def assign_map(self, state: MapState, type: Type, node: Node) -> None:
        """Let the map hold values of ``type``."""
        state.programs[self.program.index] = True
        storable = self.keep_stacks(type, node)
        if storable is None:
            return
        type = storable
        have = state.inferred_value
        if have is None:
            state.typed_at = node.span
        merged = type if have is None else convert.merge_types(have, type)
        if have is not None and isinstance(node, Assign) and node.op == "=":
            self.warn_of_narrowing(have, type, node.value, node.value.const)
        if merged is None:
            assert have is not None
            self._report_map_mismatch(state, type, have, node)
        elif have is None or merged != have:
            state.inferred_value = merged
            self._note_retyped_map(state)

    def _note_retyped_map(self, state: MapState) -> None:
        self.changed = True
        self.retyped.append(state.name)

    def _report_map_mismatch(self, state: MapState, type: Type, have: Type, node: Node) -> None:
        at = node.value if isinstance(node, Assign) and isinstance(type, Aggregate) else node
        bounds = {"hist": "bits in a single hist", "lhist": "lhist bounds in a single map"}
        same = isinstance(type, Aggregate) and isinstance(have, Aggregate) and type.kind == have.kind
        if same and isinstance(type, Aggregate) and type.kind in bounds:
            self.error("type-mismatch", f"Different {bounds[type.kind]} unsupported", at)
        else:
            self.report_mismatch(state.name, type, have, at)

    def find_left_out(self, name: str) -> Node | None:
        """Where the script fills a map in code that does not run here: a branch that a constant condition rules out, or
        a clause whose probes do not exist."""
        if self._filled is None:
            self._filled = {}
            for node in walk_nodes(list(self.clauses)):
                target = node.target if isinstance(node, Assign) else node.operand if isinstance(node, Unary) else None
                if isinstance(target, MapRef) and not (isinstance(node, Unary) and node.op == "&"):
                    self._filled.setdefault(target.name, node)
        return self._filled.get(name)

    def map_value_type(self, state: MapState, node: Node) -> Type | None:
        """The type of the map's values, or None after saying that nothing is ever stored in it."""
        if state.inferred_value is None:
            hints = self._where_filled(state, node) if self.is_error_shown else []
            self.error("undefined-map", f"Undefined map: {state.name}", node, hints)
        return state.inferred_value

    def element_value(self, state: MapState, node: Node) -> Type | None:
        """The same for ``@x`` and ``@x[key]`` where they are read: a map that is only read holds numbers, all 0."""
        if state.inferred_value is None and state not in self.only_read:
            self.only_read.append(state)
        return self.map_value_type(state, node)

    def aggregate_of(self, node: Expr) -> Aggregate | None:
        """What ``@x`` or ``@x[key]`` holds, if that is count_t or the like."""
        value = self.use_map(node).inferred_value if isinstance(node, MapRef) else None
        return value if isinstance(value, Aggregate) else None

    def aggregate_in(self, node: MapRef) -> Aggregate | None:
        """The same of a map as a whole."""
        value = self.map_state(node).inferred_value
        return value if isinstance(value, Aggregate) else None

    def check_condition(self, node: Expr, type: Type, at: Node | Span) -> bool:
        """Whether ``node``, of type ``type``, can be a condition. An aggregate cannot: no single number is meant."""
        aggregate = self.aggregate_of(node)
        if type == Symbol("probe"):
            node.const = self.program.attach.name  # whichever it is of several, it is not empty
            node.type = Str(len(node.const) + 1)
        if aggregate is None and (convert.can_be_condition(type) or isinstance(node.const, str)):
            return True
        hints = convert.meant_equal(node) if aggregate is None else [f"{node.span.text} != 0 asks for its number"]
        self.error("bad-condition", f"Invalid condition: {aggregate or convert.kind_of_type(type)}", at, hints)
        return False

    def _where_filled(self, state: MapState, node: Node) -> list[str]:
        filled = self.find_left_out(state.name)
        if filled is not None and filled.span != node.span and not self.diagnostics.has_errors:
            return [f"it is filled at {filled.span}, which is left out in this run"]
        others = [name for name, other in self.maps.items() if other.inferred_value is not None]
        return [f"did you mean {close}?" for close in nearest_names(state.name, others)[:1]] or [
            f"nothing is stored in it: {state.name} = count(), or {state.name} = 1"]

    def keep_stacks(self, type: Type, node: Node) -> Type | None:
        """The type of a value when it is stored. What would be sent as a copy of the stack is then walked by the
        program, which ``node`` notes. None after reporting that this kernel cannot do so."""
        if not is_stack_copy(type):
            return type
        obstacle = unwinding_obstacle(self.world)
        if obstacle:
            self.error("missing-feature", f"dw_ustack can be printed, but not kept here: {obstacle}", node,
                       ["print(dw_ustack), printf(\"%s\", dw_ustack), or ustack, which needs frame pointers"])
            return None
        for each in walk_nodes(node):
            if isinstance(each, Expr) and each.type is not None:
                each.type = stored_type(each.type)
        return stored_type(type)

    def pointer_space(self, type: Type | None) -> str:
        """Memory that a pointer made from ``type`` points into."""
        if isinstance(type, Pointer) and type.space not in ("", BPF):
            return type.space
        return self.program.space if self.program is not None else KERNEL


def is_stack_copy(type: Type) -> bool:
    """Whether a value is, or has in it, a copy of a stack."""
    return isinstance(type, StackCopy) or isinstance(type, Tuple) and any(is_stack_copy(part) for part in type.of)


def stored_type(type: Type) -> Type:
    """The type with stack ids in place of copies of stacks."""
    if isinstance(type, StackCopy):
        return Stack(True, type.mode, type.limit)
    return Tuple(tuple([stored_type(part) for part in type.of]), type.names) if isinstance(type, Tuple) else type


# By what a program finds which file an address belongs to
_MAPPINGS = (("mm_struct", "mm_mt"), ("vm_area_struct", "vm_file"), ("file", "f_inode"), ("inode", "i_size"),
             ("super_block", "s_dev"))


def callback_hints(world: World) -> list[str]:
    """What callbacks in programs need, besides a newer kernel."""
    return [] if world.has_feature("jit") else ["BPF's JIT compiler is needed, too (CONFIG_BPF_JIT)"]


def unwinding_obstacle(world: World) -> str:
    """What keeps programs from unwinding stacks by tables; "" if nothing does."""
    row = ARCHES[world.arch]
    if not row.unwinds_in_kernel:
        return f"programs cannot follow the unwind tables of {row.name}"
    for name, member in _MAPPINGS:
        struct = world.find_struct(name)
        if struct is None or struct.field(member) is None:
            return "a process's mappings are found in kernels whose BTF has them in a maple tree (Linux 6.1)"
    return "" if world.has_feature("bpf_loop") else "unwinding needs loops in programs (Linux 5.17)"


def fold_constant(node: Expr, value: int, type: Type | None = None) -> Type:
    """Make ``node`` the constant ``value``, of its smallest type unless told."""
    node.const = value
    return convert.literal_type(value) if type is None else type
