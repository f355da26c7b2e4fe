"""What the child of a request does: each tool as a function of its arguments, within the policy."""

from __future__ import annotations

import json
import os
from itertools import islice

from ...base.memory_budget import LEAST, Memory
from ...base.record import Record
from ...errors import CompileError, SondeError, UsageError
from ...library.policy import Audit, Policy, user_name
from ...source import Source

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from ...base.json_checks import JsonObject
    from ...library.trace import Trace
    from ...runtime.traced_command import Process
    from ...semantics.script_options import Options
    from ...spec import ScriptSpec
    from ..options import Parsed

SERVICE = "sonde-mcp"
PICTURES = {"flamegraph": "a flame graph of its stacks", "heatmap": "its histograms over time"}
_TOOL_OPTIONS = {"pid", "by", "container"}  # Sonde's own that a tool's arguments may have
_NAME = "abcdefghijklmnopqrstuvwxyz0123456789_-"
_LONGEST_COST = 1.0  # s


class Job(Record):
    """A request of a model of user ``uid``'s: ``arguments`` have been checked against the tool's declaration. Its
    recordings are in ``folder``, where a new one is called ``name`` and may have ``room`` bytes."""

    tool: str
    arguments: dict[str, Any]
    policy: Policy
    uid: int
    folder: str
    name: str = ""
    room: int = 0

    @property
    def audit(self) -> Audit:
        """Where its lines go."""
        return Audit(self.policy.audit, user_name(self.uid), SERVICE)

    @property
    def rows(self) -> int:
        """The rows of each table."""
        return min(int(self.arguments.get("rows", 50)), self.policy.rows)

    @property
    def memory(self) -> Memory:
        """What it may use."""
        wanted = int(self.arguments.get("memory", 0)) or self.policy.memory
        return Memory(max(min(wanted, self.policy.memory) << 20, LEAST))

    def find_recording(self, name: str) -> str:
        """The path of a recording. UsageError if there is none of that name."""
        if name and not name.strip(_NAME) and os.path.isfile(path := os.path.join(self.folder, f"{name}.sonde")):
            return path
        there = sorted(each.removesuffix(".sonde") for each in os.listdir(self.folder) if each.endswith(".sonde"))
        raise UsageError(f"there is no recording {name[:64]!r}", [
            f"there are {', '.join(there)}" if there else "run and record make some"])


def carry_out(job: Job) -> JsonObject:
    """The answer. SondeError if there is none."""
    return _JOBS[job.tool](job)


# Looking things up ---------------------------------------------------------------------------------------------------

def _find(job: Job) -> JsonObject:
    from ..search.answering import tracepoint_entries
    from ..search.entries import TRACEPOINT
    from ..search.index import load_entries
    from ..search.ranking import find_answers
    entries = load_entries() + tracepoint_entries()
    best, more, corrected = find_answers(job.arguments["question"], entries, job.arguments["most"])
    return {"answers": [{"kind": each.kind, "name": each.name, "about": each.head,
                         "command": each.action if each.kind != TRACEPOINT else each.name} for each in best],
            "also": [each.name for each in more[:20] if each.name], "corrected": {**corrected}}


def _describe(job: Job) -> JsonObject:
    from ..commands.help import explain_name
    name = job.arguments["name"]
    text = explain_name(name)
    if not text:
        raise UsageError(f"there is no {name!r}", ["find answers questions"])
    return {"name": name, "text": text}


def _probes(job: Job) -> JsonObject:
    from ...kernel.types.listing import listing_lines
    from ...kernel.types.world import LiveWorld
    from ...kinds import KINDS, find_kind
    pattern = job.arguments["pattern"]
    for part in pattern.split(","):
        kind = find_kind(part.partition(":")[0].strip())
        names = [kind.name] if kind else [name for name, row in KINDS.items() if row.user and ":" in part]
        if job.policy.probes and not set(names) <= {*job.policy.probes}:
            raise UsageError(f"the policy does not allow {names[0]} probes",
                             [f"it allows {', '.join(job.policy.probes)}: name one of them"])
    probes: list[JsonObject] = []
    total = 0
    for line in listing_lines(LiveWorld(), pattern, True):
        if not line.startswith(" "):
            total += 1
            if total <= job.rows:
                probes.append({"probe": line, "arguments": []})
        elif total <= job.rows and probes:
            probes[-1]["arguments"].append(line.strip())  # type: ignore[union-attr]
    return {"probes": [*probes], "total": total}


# Scripts ------------------------------------------------------------------------------------------------------------

class Program(Record):
    """A script that a model wants to have run, with what the command line would say of it."""

    source: Source
    parsed: Parsed
    options: Options
    process: Process | None
    is_own: bool  # limited to the user's own processes


def _program_of(job: Job) -> Program:
    """The script, or the tool with its arguments. UsageError, PolicyError."""
    from .. import requests
    given = job.arguments
    script, tool = given.get("script", ""), given.get("tool", "")
    if bool(script) == bool(tool):
        raise UsageError("give a script, or a tool")
    parsed = _parse_tool(tool, given.get("arguments", [])) if tool else _plain_script(script, given)
    if given.get("pid"):
        parsed.options |= {"pid": str(given["pid"]), "follow": "yes"}
    if given.get("unsafe"):
        parsed.options["unsafe"] = "yes"
    source, params = requests.program_of(parsed)
    assert source is not None
    return _prepare(job, source, parsed, params)


def _prepare(job: Job, source: Source, parsed: Parsed, params: list[str]) -> Program:
    from .. import requests
    options, process = requests.options_and_process(parsed, params)
    job.policy.restrict_options(options)
    options.timed = True
    return Program(source, parsed, options, process, _is_own(process, options, job))


def _is_own(process: Process | None, options: Options, job: Job) -> bool:
    """Whether a run is limited to a process of the user's, and to what that starts."""
    return process is not None and options.family and _owner(process.pid) == job.uid


def _plain_script(script: str, given: JsonObject) -> Parsed:
    from ..options import Parsed
    return Parsed({"e": script}, [], list(given.get("arguments", [])), given=["-e", script])  # type: ignore[arg-type]


def _parse_tool(tool: str, arguments: list[str]) -> Parsed:
    """A tool's arguments, as on the command line; of Sonde's own options those that limit what is traced."""
    from ...tools import tool_names
    from ..options import parse_command_line
    from ..requests import options_of_tool
    if tool not in tool_names():
        raise UsageError(f"there is no tool {tool!r}", ["find answers questions, describe has the manuals"])
    parsed = parse_command_line([tool, *arguments], options_of_tool)
    if refused := sorted({*parsed.options, *parsed.lists, *parsed.command_options} - _TOOL_OPTIONS):
        raise UsageError(f"{tool}: --{refused[0]} is no option here", ["describe has the tool's own"])
    if parsed.words[:1] != [tool] or parsed.command:
        raise UsageError(f"{tool}: its arguments begin another command")
    return parsed


def _owner(pid: int) -> int:
    """The user of a process; -1 if it has several (set-user-ID programs), or has ended."""
    try:
        with open(f"/proc/{pid}/status", encoding="utf-8", errors="replace") as file:
            users = next((line.split()[1:] for line in file if line.startswith("Uid:")), [])
    except OSError:
        return -1
    return int(users[0]) if len(set(users)) == 1 else -1


def _compile(source: Source, options: Options) -> ScriptSpec:
    from ...compiling.compile_child import compile_apart
    return compile_apart(source, options, lambda: None)


def _check(job: Job) -> JsonObject:
    from ...output.findings import finding_data
    try:
        program = _program_of(job)
        job.policy.check_source(program.source)
        spec = _compile(program.source, program.options)
    except CompileError as error:
        return {"compiles": False, "allowed": False, "refused": "", "sizes": {},
                "diagnostics": [finding_data(item) for item in error.diagnostics]}
    refused = ""
    try:
        job.policy.check_script(spec, program.is_own)
    except UsageError as error:
        refused = "; ".join([error.message, *error.hints])
    sizes: JsonObject = {"probes": len(spec.probes), "programs": len(spec.programs),
                         "instructions": sum(len(each.code) for each in spec.programs) // 8}
    return {"compiles": True, "allowed": not refused, "refused": refused, "sizes": sizes,
            "diagnostics": [finding_data(item) for item in spec.warnings]}


# Tracing ------------------------------------------------------------------------------------------------------------

def _allowed(job: Job, program: Program, make: Callable[[], Trace]) -> Trace:
    """A trace that is loaded, and attaches nothing yet. PolicyError if it is more than is allowed."""
    trace = make()
    try:
        job.policy.check_script(trace.spec, program.is_own)
        trace.load()
        job.policy.check_script(trace.spec, program.is_own)  # it may have been compiled once more
    except BaseException:
        trace.close()
        raise
    return trace


def _cost(job: Job) -> JsonObject:
    from ...library.trace import Trace
    from ..commands.cost import measure_cost
    program = _program_of(job)
    if program.options.unsafe:
        raise UsageError("what acts cannot be tried")
    _start(job, program)

    def make() -> Trace:
        from .. import requests
        process = requests.process_of(program.parsed)
        program.is_own = _is_own(process, program.options, job)
        return _allowed(job, program, lambda: Trace(
            program.source, program.options, process, None, True, True, None, job.memory, 0.0, _compile))
    if program.process is not None:
        program.process.close()
    return measure_cost(make, min(float(job.arguments["seconds"]) or _LONGEST_COST, _LONGEST_COST)).as_data()


def _start(job: Job, program: Program) -> None:
    """Write the audit line, whether it may begin or not."""
    text = program.source.text if not program.parsed.tool else " ".join(program.parsed.given)
    try:
        job.policy.check_source(program.source)
    except UsageError as error:
        job.audit.write_script("refused", text, run=job.name, why=error.message)
        raise
    job.audit.write_script("started", text, run=job.name, tool=job.tool)


def _run(job: Job) -> JsonObject:
    notes = _trace(job, _program_of(job))
    from ...recording.replay import open_replay
    return _answer(job, open_replay(job.find_recording(job.name), job.memory), job.name, notes)


def _record(job: Job) -> JsonObject:
    from ...compiling import live_world
    from ...recording.events import events_script, plain_events
    from ..options import Parsed
    events, pid = job.arguments["events"], job.arguments["pid"]
    source = Source("events", events_script(events, live_world()), internal=True)
    parsed = Parsed({"pid": str(pid), "follow": "yes"} if pid else {}, [], [], process_option="pid",
                    given=["record", "--events", events])
    notes = _trace(job, _prepare(job, source, parsed, []), plain_events(events, live_world()))
    names = [name for name, _, _ in _recorded(job)]
    counting = "".join([f"{name} {{ @events[probe] = count(); }}\n" for name in names])
    return _ask_script(job, job.name, counting, notes)


def _recorded(job: Job) -> list[Any]:
    from ...recording.events import read_events
    from ...recording.replay import open_recording
    recording = open_recording(job.find_recording(job.name), job.memory)
    try:
        return [(each.name, each.format, each.site) for each in read_events(recording.facts.events, recording.spec)]
    finally:
        recording.close()


def _trace(job: Job, program: Program, events: Any = None) -> list[str]:
    """Record a run, bounded; notes on it."""
    from ...recording.recorder import RecordingTrace
    from .. import requests
    policy, wanted = job.policy, float(job.arguments["seconds"])
    budget = float(job.arguments["budget"]) / 100
    limits = policy.describe_limits(wanted, budget or policy.allowed_budget(0))
    notes = [line.removeprefix("WARNING: ") for line in limits]
    path = os.path.join(job.folder, f"{job.name}.sonde")
    _start(job, program)

    def make() -> Trace:
        trace = RecordingTrace(program.source, program.options, program.process, None, True, False, None, job.memory,
                               policy.allowed_budget(budget), _compile)
        trace.record_to(requests.open_to_write(path), requests.recording_facts(program.parsed, events))
        trace.words = program.parsed.given
        return trace
    reason = "failed"
    try:
        trace = _allowed(job, program, make)
        reason = _follow(trace, policy.allowed_seconds(wanted), job, notes)
    except BaseException as error:
        reason = error.message if isinstance(error, SondeError) else type(error).__name__
        if os.path.exists(path):
            os.unlink(path)
        raise
    finally:
        job.audit.write_line("ended", run=job.name, reason=reason)
    return notes


def _follow(trace: Trace, seconds: float, job: Job, notes: list[str]) -> str:
    """Let it run until it ends, the time is over, or its recording is full; why it ended."""
    from ...library.run_loop import RunLoop
    from ...output import make_output
    from ...recording.recorder import KeepingPrinter
    path, null = os.path.join(job.folder, f"{job.name}.sonde"), os.open(os.devnull, os.O_WRONLY | os.O_CLOEXEC)
    out = make_output("text", null, null, "line", True, trace.ending)
    with trace:
        session = trace.session
        notes += [warning.message for warning in session.warnings]
        session.tell = lambda text: notes.append(str(text)[:500]) if len(notes) < 50 else None
        trace.keeps_maps = False
        printer = KeepingPrinter(trace.spec, trace.context, out, trace.take_map, True, outside=trace.outside)
        printer.ending = trace.ending
        for records in RunLoop(trace, seconds, lambda: 0.5):
            printer.print_batches(records, trace.act_on_site)
            if os.stat(path).st_size > job.room:
                notes.append(f"the recording was full at {job.room >> 20} MiB, and the run ended")
                session.request_end("room")
        if not session.done:
            session.request_end("seconds")
        for records in trace.drain_batches():
            printer.print_batches(records, trace.act_on_site)
        printer.print_final_maps()
        return session.reason


# Asking again -------------------------------------------------------------------------------------------------------

def _ask(job: Job) -> JsonObject:
    from ...recording.replay import open_replay
    name = job.arguments["recording"]
    path = job.find_recording(name)
    if job.arguments["script"]:
        return _ask_script(job, name, job.arguments["script"], [])
    return _answer(job, open_replay(path, job.memory), name, [])


def _ask_script(job: Job, name: str, script: str, notes: list[str]) -> JsonObject:
    from ...recording.queries import open_question
    from ...semantics.script_options import Options
    options = Options()
    job.policy.restrict_options(options)
    options.kinds = []  # it attaches nothing
    trace = open_question(job.find_recording(name), Source("stdin", script), options, job.memory)
    return _answer(job, trace, name, notes)


def _answer(job: Job, trace: Any, name: str, notes: list[str]) -> JsonObject:
    """What a run that is over has to show."""
    from ...output.findings import finding_data
    from ...output.views import fitting_views
    from ...recording.replay import reporting_damage
    from .result_tables import loss_table, run_tables
    recording = trace.recording
    with reporting_damage(recording.name), trace:
        tables = run_tables(trace, job.rows)
        losses, end = trace.losses, recording.end
    notes = [*notes, *[message for message, _ in recording.facts.missing]]
    if recording.truncated:
        notes.append("the recording ends before its run did")
    if end is not None and end.left_out:
        notes.append(f"{end.left_out} names were left out for want of room")
    if tables.cut:
        notes.append("rows were left out: total says how many there are; ask for fewer columns, or for aggregates")
    views = [view for view in fitting_views(recording.spec) if view in PICTURES]
    whole = not losses and not tables.cut and not recording.truncated and not (end is not None and end.left_out)
    return {"recording": name, "seconds": end.run.seconds if end is not None else 0.0,
            "ended": end.reason if end is not None else "truncated", "tables": [*tables.tables], "complete": whole,
            "losses": loss_table(losses), "notes": [*notes],
            "diagnostics": [finding_data(item) for item in trace.spec.warnings],
            "pictures": [{"uri": f"sonde://recordings/{name}/{view}.svg", "about": PICTURES[view]} for view in views]}


def _compare(job: Job) -> JsonObject:
    from ...comparing.findings import compare_runs
    from ...comparing.report import report_json
    from ...comparing.runs import read_run
    from .result_tables import plain_table
    paths = [job.find_recording(job.arguments[side]) for side in ("before", "after")]
    before, after = ([read_run(path, (), job.memory)] for path in paths)
    data = json.loads(report_json(compare_runs(before, after), before, after, []))["data"]
    columns = (("name", "text"), ("key", "text"), ("kind", "text"), ("before", "number"), ("after", "number"),
               ("ratio", "number"), ("p", "number"), ("test", "text"), ("changed", "bool"), ("quantiles", "object"))
    findings = sorted(data["findings"], key=lambda each: not each["changed"])
    names = {"p": "adjusted_p"}
    rows = [[each.get(names.get(name, name)) for name, _ in columns] for each in findings]
    return {"before": before[0].title, "after": after[0].title,
            "findings": plain_table("findings", columns, rows, job.rows),
            "changed": sum([bool(each["changed"]) for each in findings])}


def _picture(job: Job) -> JsonObject:
    """A view of a recording, drawn to a file beside it."""
    from ..main import main
    view, path = job.arguments["view"], job.find_recording(job.arguments["recording"])
    if view not in PICTURES:
        raise UsageError(f"there is no picture {view!r}", [f"there are {', '.join(PICTURES)}"])
    target = os.path.join(job.folder, f"picture-{os.getpid()}.svg")
    try:
        if main(["replay", "-q", "-f", view, "-o", target, path]):
            raise UsageError("the recording has nothing to draw")
        with open(target, encoding="utf-8", errors="replace") as file:
            return {"text": "".join(islice(file, 1_000_000))}
    finally:
        if os.path.exists(target):
            os.unlink(target)


_JOBS: dict[str, Callable[[Job], JsonObject]] = {
    "find": _find, "describe": _describe, "probes": _probes, "check": _check, "cost": _cost, "run": _run,
    "record": _record, "ask": _ask, "compare": _compare, "picture": _picture}
