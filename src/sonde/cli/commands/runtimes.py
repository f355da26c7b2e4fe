"""The static probes (USDT) that language runtimes document, and which runtimes a process has.

Python: "Instrumenting CPython with DTrace and SystemTap" (3.6 to 3.11; 3.12 has no probes of functions any more). Java:
"HotSpot VM probes". Ruby: doc/dtrace_probes.rdoc. PHP: "DTrace Static Probes in Core PHP". Perl: perldtrace. Tcl: the
manual page dtrace(n) of its wiki. Node: the gc probes of releases before 19.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from glob import glob

from ...base.numbers import parse_whole
from ...base.record import Record
from ...errors import UsageError
from .generated import run_script

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from ...tools import Tool
    from ..options import Parsed

LONGEST = 120  # characters in the name of a class, method or file


class Collection(Record):
    """A garbage collection: its probes, what it is (``kind``, at the begin) and collects (``pool``, at the end), and
    how much it ``freed``, where ``$kept`` is the value of ``keep`` at the begin. ``key`` distinguishes those that
    overlap."""

    begin: str
    end: str
    kind: str
    freed: str = ""
    pool: str = '""'
    keep: str = "0"
    key: str = "0"


class RuntimeProbes(Record):
    """The probes of a runtime, by what they report, and the expressions of their arguments. ``counts`` are those of a
    method's probes that every call hits once; ``objects`` are (probe, type, bytes)."""

    provider: str
    enter: tuple[str, ...] = ()
    leave: tuple[str, ...] = ()
    counts: tuple[str, ...] = ()
    owner: str = ""    # class, package or file
    method: str = ""
    collections: tuple[Collection, ...] = ()
    objects: tuple[tuple[str, str, str], ...] = ()
    loads: tuple[str, ...] = ()
    thrown: tuple[str, ...] = ()
    threads: tuple[str, ...] = ()
    beside: tuple[str, ...] = ()  # where a command loads its runtime from, relative to the command's own folder


def _text(pointer: int, length: int) -> str:
    """A string with a separate length, as in HotSpot: str() takes the length with the NUL."""
    return f"str(arg{pointer}, arg{length} + 1)"


Needs = Callable[[RuntimeProbes], Iterable[str]]  # the probes of a language of which a command needs one

_POOL = "mem__pool__gc__"
LANGUAGES = {
    "java": RuntimeProbes(
        "hotspot", ("method__entry",), ("method__return",), ("method__entry",), _text(1, 2), _text(3, 4),
        (Collection("gc__begin", "gc__end", 'arg0 != 0 ? "full" : "partial"'),
         Collection(f"{_POOL}begin", f"{_POOL}end", _text(0, 1), "($kept - (int64)arg5) / 1024", _text(2, 3),
                    "(int64)arg5", "arg2")),
        (("object__alloc", _text(1, 2), "arg3"),), ("class__loaded",), (), ("thread__start", "thread__stop"),
        ("../lib/server/libjvm.so",)),
    "node": RuntimeProbes("node", collections=(Collection(
        "gc__start", "gc__done",
        'arg0 == 1 ? "scavenge" : arg0 == 2 ? "minor mark-compact" : arg0 == 4 ? "mark-sweep-compact"'
        ' : arg0 == 8 ? "incremental marking" : "weak callbacks"'),)),
    "perl": RuntimeProbes("perl", ("sub__entry",), ("sub__return",), ("sub__entry",), "str(arg3)", "str(arg0)",
                          loads=("loading__file",), beside=("../lib/libperl.so*", "../lib/*/libperl.so*")),
    "php": RuntimeProbes("php", ("function__entry",), ("function__return",), ("function__entry",), "str(arg3)",
                         "str(arg0)", loads=("compile__file__entry",), thrown=("exception__thrown",)),
    "python": RuntimeProbes(
        "python", ("function__entry",), ("function__return",), ("function__return",), "str(arg0)", "str(arg1)",
        (Collection("gc__start", "gc__done",
                    'arg0 == 0 ? "generation 0" : arg0 == 1 ? "generation 1" : "generation 2"', "(int64)arg0"),),
        loads=("import__find__load__start",), beside=("../lib/libpython3*.so*", "../lib/*/libpython3*.so*")),
    "ruby": RuntimeProbes(
        "ruby", ("method__entry", "cmethod__entry"), ("method__return", "cmethod__return"),
        ("method__entry", "cmethod__entry"), "str(arg0)", "str(arg1)",
        (Collection("gc__mark__begin", "gc__mark__end", '"mark"'),
         Collection("gc__sweep__begin", "gc__sweep__end", '"sweep"')),
        (("object__create", "str(arg0)", ""), ("array__create", '"Array"', ""), ("hash__create", '"Hash"', ""),
         ("symbol__create", '"Symbol"', ""), ("string__create", '"String"', "arg0")),
        ("load__entry", "require__entry"), ("raise",), (), ("../lib/libruby*.so*", "../lib/*/libruby*.so*")),
    "tcl": RuntimeProbes("tcl", ("proc__entry",), ("proc__return",), ("proc__entry",), '""', "str(arg0)",
                         objects=(("obj__create", '"Tcl_Obj"', ""),),
                         beside=("../lib/libtcl*.so*", "../lib/*/libtcl*.so*")),
}


class Runtime(Record):
    """A runtime in a file that can be opened from here, which of its language's probes it has, and a condition that
    selects the processes."""

    name: str
    path: str
    probes: frozenset[str]
    condition: str = ""

    @property
    def language(self) -> RuntimeProbes:
        return LANGUAGES[self.name]

    def clause(self, probes: Iterable[str], action: str, condition: str = "") -> str:
        """``action`` at those of ``probes`` that the runtime has; "" if it has none."""
        provider = f"usdt:{self.path}:{self.language.provider}"
        points = ",\n".join(f"{provider}:{name}" for name in probes if name in self.probes)
        held = " && ".join(f"({part})" for part in (self.condition, condition) if part)
        return f"{points}\n{f'/{held}/' if held else ''}\n{{\n{action}\n}}\n" if points else ""


def page_of(name: str) -> Tool:
    """The page of a command, with its USAGE and COLUMNS."""
    from . import command_page
    return command_page(name)


def choose_process(parsed: Parsed, name: str) -> list[str]:
    """The words after the command's ``name``, without the PID, which becomes Sonde's -p. UsageError without a PID and
    -c."""
    words = parsed.words[1:] + parsed.rest
    if not parsed.has("pid") and not parsed.has("cmd"):
        if not words:
            raise UsageError(f"{name} needs a PID, or a command: -c COMMAND", [f"see sonde {name} --help"])
        parsed.options["pid"] = words.pop(0)
    return words


def seconds_of(name: str, words: list[str], most: int = 1) -> list[int]:
    """The ``words`` as numbers from 1 on, at most this many."""
    if len(words) > most:
        raise UsageError(f"{name} takes no parameter '{words[most]}'", [f"see sonde {name} --help"])
    numbers = []
    for word in words:
        number = parse_whole(word, 10**9)
        if not number:
            raise UsageError(f"'{word}' is no number of seconds", [f"see sonde {name} --help"])
        numbers.append(number)
    return numbers


def find_runtimes(parsed: Parsed, needs: Needs) -> list[Runtime]:
    """The runtimes of the process that -p or -c names that have one of the probes of their language that the command
    ``needs``; -l chooses the language. UsageError if there are none."""
    from .. import requests
    pid = requests.pid_of(parsed)
    wanted = wanted_languages(parsed, needs)
    if pid:
        from ...kernel.names.binaries import mapped_files
        if not os.path.exists(f"/proc/{pid}"):
            raise UsageError(f"there is no process {pid}")
        files, whose, condition = mapped_files(pid), f"process {pid}", ""
    else:
        command = parsed.get("cmd")
        files, whose = list(_files_of_command(command)), command
        condition = "" if parsed.has("follow") else "pid == cpid"
    if pid and not files:
        from ...base.installation import as_root
        raise UsageError(f"process {pid} shows none of its files: it is the kernel's, or another user's",
                         [f"run as root: {as_root()}"] if os.geteuid() else [])
    runtimes = [runtime for path in files for runtime in runtimes_in(path, condition)]
    chosen = usable_of(runtimes, wanted, needs)
    if not chosen:
        others = sorted({runtime.name for runtime in runtimes})
        has = f"it has others, of {', '.join(others)}" if others else "its runtime was built without, or it has none"
        raise UsageError(f"{whose} has no such static probes of {either(wanted)}: {has}", [
            f"sonde -p {pid} -l 'usdt:*:*' lists all that it has" if pid else
            "start it, and give its PID: what it loads later cannot be seen from its name", BUILT])
    return chosen


def wanted_languages(parsed: Parsed, needs: Needs, *others: str) -> list[str]:
    """The language of -l; without it, all languages of which the command ``needs`` a probe. UsageError if it is neither
    one of them nor of the ``others`` that -l takes."""
    usable = [name for name, language in LANGUAGES.items() if any(needs(language))]
    chosen = parsed.named.get("language", "")
    if chosen and chosen not in (*usable, *others):
        raise UsageError(f"-l takes {either([*usable, *others])}, not '{chosen}'")
    return [chosen] if chosen else usable


def usable_of(runtimes: list[Runtime], wanted: list[str], needs: Needs) -> list[Runtime]:
    """Those of the ``wanted`` languages that have a needed probe."""
    return [runtime for runtime in runtimes if runtime.name in wanted and runtime.probes.intersection(
        needs(runtime.language))]


def runtimes_in(path: str, condition: str) -> list[Runtime]:
    """The runtimes whose probes the file has."""
    from ...compiling import live_world
    here: dict[str, set[str]] = {}
    for probe in live_world().usdt_probes(path):
        here.setdefault(probe.provider, set()).add(probe.name)
    return [Runtime(name, path, frozenset(here[language.provider]), condition)
            for name, language in LANGUAGES.items() if language.provider in here]


BUILT = "runtimes have them where they were built --with-dtrace (Python) or --enable-dtrace (Ruby, PHP, Java)"


def either(names: list[str]) -> str:
    """``a, b or c``."""
    return " or ".join(part for part in (", ".join(names[:-1]), names[-1]) if part)


def _files_of_command(command: str) -> Iterator[str]:
    """The program that a command runs, and the libraries that may contain its runtime."""
    import shlex
    import shutil
    words = shlex.split(command)
    while words and (os.path.basename(words[0]) == "env" or "=" in words[0]):
        words.pop(0)
    program = shutil.which(words[0]) if words else None
    if program is None:
        return
    real = os.path.realpath(program)
    if runtimes_in(real, ""):
        yield real
        return
    folder = os.path.dirname(real)
    for name, language in LANGUAGES.items():
        if name in os.path.basename(real):
            yield from sorted({os.path.realpath(file) for pattern in language.beside
                               for file in glob(os.path.join(folder, pattern))})


def trace(name: str, text: str, parsed: Parsed) -> int:
    """Run a command's script; its rows have the columns of its page. The exit status."""
    parsed.columns = page_of(name).columns
    return run_script(name, text, parsed)


HEAD = f"config = {{ max_strlen = {LONGEST}; print_maps_on_exit = false }}\n"
