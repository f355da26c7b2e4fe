"""``sonde symbols``: the store of symbols that outlive their files."""

from __future__ import annotations

import sys

from ...errors import MachineError, UsageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..options import Parsed

PAGE = """\
symbols: names of functions that outlive their files, and go to other machines

USAGE
  sonde symbols list
  sonde symbols take FILE...
  sonde symbols -p PID take
  sonde symbols -o PACK pack [BUILD-ID...]
  sonde symbols use PACK
  sonde symbols drop BUILD-ID...

  Sonde keeps symbols by the build id of their file in the user's cache directory, and names by them the functions of
  files that are gone or have no symbols of their own. Those of files that were removed or replaced while they were
  traced come there by themselves; take puts those of other files there, with -p of all that a process has mapped. pack
  writes them (all, or those with these build ids) to a file, which use takes in, on another machine perhaps.

COLUMNS
  BUILD ID   the file's
  FUNCTIONS  how many names there are, aliases included; "debug file" for one that a debuginfod server gave
  SIZE       bytes
  FILE       what the file was called

EXAMPLE
  # sonde symbols take /usr/local/bin/server
  Symbols of 1 file taken
  # sonde symbols -o server.pack pack
  Symbols of 1 file in server.pack

NEEDS
  nothing but the right to read the files

NOTES
  The store has room for 1024 files of 256 MiB in all; what was used longest ago goes first. Its files are ELF files: nm
  and gdb read them too. docs/stacks.md tells which names come from where.
"""
TAKES = {"pid", "output", "debuginfo", "debuginfod"}
_ACTIONS = ("list", "take", "pack", "use", "drop")


def main(parsed: Parsed) -> int:
    """Do what the words say; the exit status."""
    words = [*parsed.words[1:], *parsed.rest]
    action, names = (words[0], words[1:]) if words else ("list", [])
    if action not in _ACTIONS or action == "list" and names or action == "use" and len(names) != 1:
        raise UsageError(f"sonde symbols takes {', '.join(_ACTIONS[:-1])} or {_ACTIONS[-1]}",
                         ["sonde symbols --help explains"])
    if parsed.has("pid") and action != "take" or parsed.has("output") != (action == "pack"):
        raise UsageError("-p PID goes with take, -o PACK with pack", ["sonde symbols --help explains"])
    if action == "take":
        return _take_files(names, parsed)
    if action == "pack":
        return _write_pack(names, parsed.get("output"))
    if action == "use":
        return _use_pack(names[0])
    return _drop_symbols(names) if action == "drop" else _list_symbols()


MOST_PROBLEMS = 20  # problems; a pack may have thousands of files


def _say(text: str) -> None:
    from ...output.text import terminal_safe
    sys.stdout.write(terminal_safe(text) + "\n")


def _plural(count: int, what: str = "file") -> str:
    return f"{count} {what}" if count == 1 else f"{count} {what}s"


def _report_problems(problems: list[str]) -> int:
    from ...output.text import terminal_safe
    for problem in problems[:MOST_PROBLEMS]:
        sys.stderr.write(terminal_safe(f"WARNING: {problem}").replace("\n", "\\n") + "\n")
    if len(problems) > MOST_PROBLEMS:
        sys.stderr.write(f"WARNING: and {len(problems) - MOST_PROBLEMS} more\n")
    return 1 if problems else 0


def _list_symbols() -> int:
    from ...kernel.foreign.files import open_stored
    from ...kernel.names import symbol_store
    _say(f"{'BUILD ID':<40} {'FUNCTIONS':>10} {'SIZE':>10}  FILE")
    for prefix, open_entry in ((symbol_store.SYMBOLS, symbol_store.open_symbols),
                               (symbol_store.DEBUG, symbol_store.open_debug_file)):
        for entry in symbol_store.list_symbols(prefix):
            build_id = bytes.fromhex(entry.build_id)
            file = open_stored(open_entry, build_id, open_entry(build_id))
            count, origin = "damaged", ""
            try:
                if file is not None and prefix == symbol_store.SYMBOLS:
                    count, origin = str(len(file.functions())), file.origin
                elif file is not None:
                    count = "debug file"
            except MachineError:
                pass
            if file is not None:
                file.close()
            _say(f"{entry.build_id:<40} {count:>10} {entry.size:>10}  {origin}".rstrip())
    return 0


def _take_files(names: list[str], parsed: Parsed) -> int:
    from ...kernel.foreign.files import open_elf
    from ...kernel.names import symbol_store
    from ...kernel.names.binaries import find_binaries, mapped_files
    from ..requests import pid_of
    pid, problems, taken = pid_of(parsed), [], 0
    paths = [path for name in names for path in find_binaries(name)[:1] or [name]]
    if pid:
        mapped = mapped_files(pid)
        if not mapped:
            raise MachineError(f"process {pid} is not there, or its mappings cannot be read")
        paths += mapped
    if not paths:
        raise UsageError("sonde symbols take wants files, or -p PID", ["sonde symbols --help explains"])
    for path in paths:
        try:
            file = open_elf(path)
            if not file.build_id:
                raise MachineError("it has no build id")
            if not symbol_store.put_symbols(file.build_id, file.symbol_file(path)):
                raise MachineError("its symbols cannot be stored: there is no cache directory of the user's own")
            taken += 1
        except MachineError as problem:
            problems.append(problem.message if path in problem.message else f"{path}: {problem.message}")
    _say(f"Symbols of {_plural(taken)} taken")
    return _report_problems(problems)


def _write_pack(build_ids: list[str], path: str) -> int:
    from ...kernel.names import symbol_store
    from ...kernel.names.symbol_pack import write_pack
    known = [entry.build_id for entry in symbol_store.list_symbols()]
    count = write_pack(path, _find_ids(build_ids, known) if build_ids else known)
    _say(f"Symbols of {_plural(count)} in {path}")
    return 0


def _find_ids(wanted: list[str], known: list[str]) -> list[str]:
    """The build ids with these prefixes, each of which must match one."""
    chosen = []
    for text in wanted:
        matching = [digits for digits in known if digits.startswith(text.lower()) and text]
        if len(matching) != 1:
            raise UsageError(f"{_plural(len(matching), 'build id')} in the store begin{'s' * (len(matching) == 1)} "
                             f"with {text}", ["sonde symbols list shows all"])
        chosen += matching
    return chosen


def _use_pack(path: str) -> int:
    from ...kernel.names.symbol_pack import use_pack
    taken, problems = use_pack(path)
    _say(f"Symbols of {_plural(taken)} taken")
    return _report_problems(problems)


def _drop_symbols(build_ids: list[str]) -> int:
    from ...kernel.names import symbol_store
    known = {entry.build_id for prefix in (symbol_store.SYMBOLS, symbol_store.DEBUG)
             for entry in symbol_store.list_symbols(prefix)}
    for digits in _find_ids(build_ids, sorted(known)):
        symbol_store.drop_symbols(digits)
    _say(f"Symbols of {_plural(len(build_ids))} dropped")
    return 0
