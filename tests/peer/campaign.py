"""Give many programs to both tracers, and say in what their answers differ, cause by cause.

``python tests/peer/campaign.py KIND COUNT [FIRST]``, where a kind is one of programs.LISTS or programs.KINDS. Those of
``functions`` are for kernels that can probe them: ``tests/vm/vmrun.py -- python tests/peer/campaign.py functions``.
bpftrace mostly waits, for the kernel to attach and detach its probes: several programs are under way at a time.
"""

from __future__ import annotations

import multiprocessing
import os
import re
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from multiprocessing import connection
from pathlib import Path
from typing import Any

sys.path[:0] = [str(Path(__file__).parents[1]), str(Path(__file__).parents[2] / "src")]

from peer.programs import programs  # noqa: E402
from peer.tracers import (  # noqa: E402
    SECONDS,
    Answer,
    ask_peer,
    ask_sonde,
    difference,
    find_peer,
    import_sonde,
    traceable_functions,
    without_place,
)

AT_ONCE = 12
PATIENCE = 5 * SECONDS  # for all that one program is asked
VERDICTS = ("crash", "refused", "accepted")
_UNLISTED = re.compile("No matches for|no valid attach points")
_NAMES = re.compile(r"'[^']*'|\"[^\"]*\"|[@$][\w@$]*|\b\d+\b")
Result = tuple[str, list[str], str, Answer, Answer]


def compare(arguments: list[str]) -> tuple[str, Answer, Answer]:
    """(in what the two answers differ, the peer's, Sonde's)."""
    peer, own = ask_peer(arguments), ask_sonde(arguments)
    found = difference(peer, own)
    if found == "accepted" and _UNLISTED.search(peer.first):  # it lists few probes while others load programs
        peer = ask_peer(arguments)
        found = difference(peer, own)
    if found == "output" and difference(peer, ask_peer(arguments)) == found:  # what it prints depends on the moment
        found = difference(peer, Answer(own.status, peer.output, own.errors))
    if "-d" in arguments and found not in VERDICTS:
        found = ""
    if not found and "--fmt" in arguments and not own.refused:
        again = ask_sonde(["--fmt", "-e", own.output])
        found = "" if again.output == own.output else "unstable"
    return found, peer, own


def compare_all(programs: Iterable[tuple[str, list[str]]], at_once: int) -> Iterator[Result]:
    """Each program compared in a process of its own: one that dies, or is not done in time, costs its program alone."""
    fork = multiprocessing.get_context("fork")
    waiting, running = iter(programs), {}
    while True:
        while len(running) < at_once and (named := next(waiting, None)):
            results, result = fork.Pipe(duplex=False)
            process = fork.Process(target=_compare_into, args=(result, named[1]))
            process.start()
            result.close()
            running[results] = process, named, time.monotonic() + PATIENCE
        if not running:
            return
        ready = connection.wait(running, timeout=1)
        for results in [each for each in running if each in ready or running[each][2] < time.monotonic()]:
            process, named, _ = running.pop(results)
            yield *named, *_received(results, process)


def _compare_into(result: Any, arguments: list[str]) -> None:
    result.send(compare(arguments))


def _received(results: Any, process: Any) -> tuple[str, Answer, Answer]:
    """What a process has sent; it ends here."""
    try:
        found = results.recv() if results.poll() else None
    except EOFError:
        found = None
    process.kill() if found is None else process.join()
    results.close()
    return found or ("unanswered", Answer(0, "", ""), Answer(0, "", ""))


def cause(found: str, peer: Answer, own: Answer) -> str:
    """What differences of one cause have in common: the sentences, without names and numbers."""
    if found == "warnings":
        theirs, ours = (Counter(map(without_place, answer.warnings)) for answer in (peer, own))
        only = [f"only {who}: {line}" for who, lines in (("bpftrace", theirs - ours), ("Sonde", ours - theirs))
                for line in lines]
        return _NAMES.sub("_", only[0] if only else "place")
    said = [without_place(peer.first), *([without_place(own.first)] if found != "place" else [])]
    return _NAMES.sub("_", " <> ".join(said))


def report(results: list[Result]) -> None:
    groups: defaultdict[tuple[str, str], list[Result]] = defaultdict(list)
    for result in results:
        if result[2]:
            groups[result[2], cause(*result[2:])].append(result)
    for (found, why), members in sorted(groups.items(), key=lambda group: -len(group[1])):
        print(f"== {len(members)} {found}: {why}")
        for name, arguments, _, peer, own in sorted(members, key=lambda member: len(member[1][-1]))[:3]:
            print(f"  {name}: {shown(arguments, peer)}")
            for who, answer in (("bpftrace", peer), ("sonde", own)):
                said = answer.found("ERROR")[:2] or answer.warnings[:3]
                print(f"    {who + ':':9} {answer.status} {distinct(answer, own if answer is peer else peer)!r} "
                      f"{'; '.join(said)} {answer.underlined.strip()}")
    print(summary(results))


def distinct(answer: Answer, other: Answer) -> str:
    """The beginning of an output; of a long one, of what only this tracer has."""
    lines = answer.output.splitlines() if len(answer.output) > 300 else []
    return "\n".join(line for line in lines if line not in other.output)[:300] or answer.output[:300]


def shown(arguments: list[str], peer: Answer) -> str:
    """The arguments; of a long program the line of the first complaint."""
    *options, program = arguments[:arguments.index("-e") + 2] if "-e" in arguments else arguments
    place = re.match(r"stdin:(\d+):", (peer.found("ERROR") or peer.warnings or [""])[0])
    if len(program) > 400 and place:
        program = f"... {program.splitlines()[int(place[1]) - 1].strip()[-300:]}"
    return f"{' '.join(options)} {program[:600]}"


def summary(results: list[Result]) -> str:
    """The figures; programs that bpftrace took and LLVM or the kernel did not are left out of them."""
    results = [result for result in results if not result[3].broken or result[2]]
    seen = Counter(found or "same" for _, _, found, _, _ in results)
    refused = sum(peer.refused for _, _, _, peer, _ in results)
    both = [found for _, _, found, peer, own in results if peer.refused and own.refused]

    def share(part: int, whole: int) -> str:
        return f"{100 * part / max(1, whole):.1f} %"

    different = sum(seen[name] for name in VERDICTS)
    return (f"{dict(seen)}\n{len(results) - refused} that bpftrace runs, {refused} that it refuses: same verdict "
            f"{share(len(results) - different, len(results))}, same in all {share(seen['same'], len(results))}; of "
            f"those that both refuse, same words {share(len(both) - both.count('words'), len(both))}, and place "
            f"{share(both.count(''), len(both))}")


def main(kind: str, count: str = "1000", first: str = "0") -> None:
    if find_peer()[1]:
        sys.exit(find_peer()[1])
    import_sonde()
    traceable_functions()
    at_once = int(os.environ.get("AT_ONCE", AT_ONCE))
    report(list(compare_all(programs(kind, int(first), int(count)), at_once)))


if __name__ == "__main__":
    main(*sys.argv[1:])
