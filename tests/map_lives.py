"""What the texts of Sonde's scripts say of their maps: which have keys, where these are made, and where they end."""

from __future__ import annotations

from pathlib import Path

from command_scripts import command_scripts
from sonde import tools
from sonde.base.record import Record
from sonde.builtins import BUILTINS
from sonde.functions import FUNCTIONS
from sonde.language.ast import Assign, AttachPoint, Call, Clause, MapRef, Script, Unary
from sonde.language.diagnostics import Diagnostics
from sonde.language.includes import Files
from sonde.language.parser import parse_script
from sonde.semantics.callees import Language
from sonde.semantics.macros import expand_macros
from sonde.semantics.nodes import walk_nodes
from sonde.source import Source


class MapLife(Record):
    """A map with keys: the attach points of clauses that make keys, that delete some, and that empty the map; the
    functions that count in it; its declaration."""

    made: list[str]
    deleted: list[str]
    cleared: list[str]
    counted: list[str]
    kind: str = ""
    unit: int = 0


def script_paths() -> list[Path]:
    """The tools' scripts, and those of the flame graphs."""
    return sorted([*Path(tools.FOLDER).glob("*.bt"), *Path(tools.FOLDER, "flame").glob("*.bt")])


def scripts() -> dict[str, str]:
    """The texts of the tools' scripts, of the flame graphs', and of those that commands write."""
    written_by_commands = {name.replace(" ", "_"): text for name, text in command_scripts().items()}
    return {("flame/" if path.parent.name == "flame" else "") + path.stem: path.read_text()
            for path in script_paths()} | written_by_commands


def read_lives(text: str, name: str) -> dict[str, MapLife]:
    """The maps of a script that have keys, by name."""
    script = parse(text, name)
    lives: dict[str, MapLife] = {}
    for clause in script.clauses:
        points = [written(point) for point in clause.points]
        for node in walk_nodes([clause.predicate, clause.body]):
            note_use(lives, node, points)
    for declared in script.map_decls:
        if declared.name in lives:
            lives[declared.name].kind, lives[declared.name].unit = declared.kind, declared.unit
    for clause in script.clauses:
        note_clears(lives, clause)
    return lives


def parse(text: str, name: str) -> Script:
    diagnostics = Diagnostics()
    script = parse_script(Source(name, text), diagnostics, [], Files())
    expand_macros([*script.clauses, *script.functions], script.macros, script.tables,
                  Language(FUNCTIONS, BUILTINS), diagnostics)
    return script


def written(point: AttachPoint) -> str:
    """An attach point without what stands for "as the kernel has it"."""
    return point.text.replace("rawtracepoint:", "").replace("tracepoint:", "")


def note_use(lives: dict[str, MapLife], node: object, points: list[str]) -> None:
    if isinstance(node, Call) and node.name == "delete" and node.args and isinstance(node.args[0], MapRef):
        life_of(lives, node.args[0].name).deleted += points
    elif isinstance(node, Assign) and isinstance(node.target, MapRef) and node.target.key is not None:
        life = life_of(lives, node.target.name)
        life.made += points
        life.counted += [node.value.name] if isinstance(node.value, Call) else []
    elif isinstance(node, Unary) and isinstance(node.operand, MapRef) and node.operand.key is not None \
            and node.op in ("++", "--"):
        life_of(lives, node.operand.name).made += points


def note_clears(lives: dict[str, MapLife], clause: Clause) -> None:
    for node in walk_nodes(clause.body):
        if isinstance(node, Call) and node.name == "clear" and node.args and isinstance(node.args[0], MapRef) \
                and node.args[0].name in lives:
            lives[node.args[0].name].cleared += [written(point) for point in clause.points]


def life_of(lives: dict[str, MapLife], name: str) -> MapLife:
    return lives.setdefault(name, MapLife([], [], [], []))
