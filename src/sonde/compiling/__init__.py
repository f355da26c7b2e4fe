"""From a script's text to its spec: parsed, checked and compiled for a kernel, or recalled from the cache."""

from __future__ import annotations

import gc
import os
import sys

from ..semantics.script_options import Options
from ..source import Source
from ..spec import ScriptSpec
from ..types import UINT64

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from typing import Any, TypeAlias

    from ..language.includes import Files
    from ..semantics.typed import CheckedScript
    from ..semantics.world import World
    from ..spec import KernelFunction

Show: TypeAlias = "Callable[[str, str], None]"
DIRECT = ("rdonly_cast", "typed_arguments")  # features by which programs load kernel memory without a helper call
COSTLY = (*DIRECT, "atomic_fetch")  # features by which programs run faster, and the verifier has more to look at
RECURSION = 12000  # Python's own limit is too low for scripts that nest as deeply as language.cursor.MAX_DEPTH allows


def mask_features(world: World, denied: Iterable[str]) -> World:
    """The World without some features, for --no-feature, and to compile again without direct loads."""
    mask: Any = FeatureMask(world, frozenset(denied))
    less: World = mask
    return less


class FeatureMask:
    """A World that denies some features."""

    def __init__(self, world: World, denied: frozenset[str]) -> None:
        self._world = world
        self._denied = denied

    def __getattr__(self, name: str) -> Any:
        return getattr(self._world, name)

    def has_feature(self, name: str) -> bool:
        return name not in self._denied and self._world.has_feature(name)


class RefusalMask:
    """A World in which some functions take no fentry or fexit."""

    def __init__(self, world: World, functions: Sequence[str]) -> None:
        self._world = world
        self._functions = frozenset(functions)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._world, name)

    def takes_typed_program(self, function: KernelFunction, returns: bool, among_many: bool = False) -> bool:
        return function.name not in self._functions \
            and self._world.takes_typed_program(function, returns, among_many)


def mask_refusals(world: World, functions: Sequence[str]) -> World:
    """The World after the kernel has refused to attach to ``functions``."""
    mask: Any = RefusalMask(world, functions)
    less: World = mask
    return less


def live_world() -> World:
    """The World of the running kernel."""
    from ..kernel.types.world import LiveWorld
    return LiveWorld()


def compile(source: str | Source, options: Options | None = None, world: World | None = None,
            show: Show | None = None, verify: bool = False) -> ScriptSpec:
    """Compile a script; attaches nothing. Raises CompileError with every diagnostic.

    ``world`` describes the kernel that the script is for (default: the running one). ``show(stage, text)``
    gets each stage of the compiler as text; ``verify`` checks the intermediate code after each pass.
    """
    options = options or Options(env=script_environment())
    world = world or live_world()
    return _compile_source(source if isinstance(source, Source) else Source("stdin", source), options, world, show,
                           verify)[0]


def compile_or_recall(source: Source, options: Options) -> ScriptSpec:
    """What :func:`compile` gives for the running kernel; from the cache, if this script was compiled here before."""
    from .spec_cache import RecordingWorld, keep_compiled, load_compiled, script_key
    key = script_key(source, options)
    spec = load_compiled(key) if key else None
    if spec is None:
        witness = RecordingWorld(live_world())
        spec, looked = _compile_source(source, options, witness)
        if key and not looked and script_key(source, options) == key:
            keep_compiled(key, spec, options, witness)
    return spec


def _compile_source(source: Source, options: Options, world: World, show: Show | None = None,
                    verify: bool = False) -> tuple[ScriptSpec, bool]:
    """The spec, and whether files were looked for outside of Sonde's own folders."""
    if sys.getrecursionlimit() < RECURSION:
        sys.setrecursionlimit(RECURSION)
    files = _files_of(options, world)
    collecting = gc.isenabled()
    gc.disable()  # little becomes free before the end, and looking for it takes a third of the time of a large script
    try:
        checked = check_source(source, options, world, show, files)
        from ..compiler.pipeline import compile_checked
        return compile_checked(checked, world, show, verify), files.looked
    finally:
        if collecting:
            gc.enable()


def check_source(source: str | Source, options: Options, world: World, show: Show | None = None,
                 files: Files | None = None) -> CheckedScript:
    """A script parsed and checked, before anything is made of it. Raises CompileError with every diagnostic."""
    from ..builtins import BUILTINS
    from ..functions import FUNCTIONS
    from ..language.diagnostics import REPORTED_LATE, Diagnostics
    from ..language.parser import parse_script
    from ..semantics.callees import Language
    from ..semantics.check import check_script
    from ..semantics.defined_types import DefinedTypes
    if isinstance(source, str):
        source = Source("stdin", source)
    diagnostics = Diagnostics()
    script = parse_script(source, diagnostics, options.params,
                          files or _files_of(options, world), DefinedTypes(world).find)
    if show is not None:
        from ..language.dump import dump_script
        show("ast", dump_script(script))
    diagnostics.items.sort(key=lambda item: item.code in REPORTED_LATE)
    diagnostics.raise_if_errors()
    checked = check_script(script, source, world, options, diagnostics, Language(FUNCTIONS, BUILTINS))
    if show is not None:
        from ..language.dump import dump_clauses
        show("types", dump_clauses([p.clause for p in checked.probes]))
    return checked


def _files_of(options: Options, world: World) -> Files:
    from ..language.includes import Files
    return Files(options.directories, options.headers, world.release, world.arch, options.sealed)


def format_source(source: str | Source, params: Sequence[str] = ()) -> str:
    """The script laid out evenly, with its comments. Raises CompileError if it cannot be parsed; files that it
    includes or imports need not be there."""
    from ..language.diagnostics import Diagnostics
    from ..language.formatter import format_script as lay_out
    from ..language.includes import Files
    from ..language.parser import parse_script
    source = source if isinstance(source, Source) else Source("stdin", source)
    diagnostics = Diagnostics()
    script = parse_script(source, diagnostics, _Any(params), Files(release=os.uname().release),
                          lambda written, definitions: UINT64)  # sizes do not show
    diagnostics.keep_only([d for d in diagnostics.items if d.code not in ("header-not-found", "import-not-found")])
    diagnostics.raise_if_errors()
    return lay_out(source, script)


class _Any(list[str]):
    """Parameters that a script is formatted without: $3 stays $3."""

    def __len__(self) -> int:
        return 1 << 20

    def __getitem__(self, index: Any) -> Any:
        return super().__getitem__(index) if index < super().__len__() else f"${index + 1}"


def script_environment() -> dict[str, str]:
    """The environment's variables that configure scripts."""
    return {k: v for k, v in os.environ.items() if k.startswith(("BPFTRACE_", "SONDE_"))}
