"""What was lost, in figures and in words: the same words on the screen, in every file and in Python."""

from __future__ import annotations

from ..base.record import Record
from ..source import shown_location
from ..spec import ErrorSite

# kind of ErrorSite → what happened; the first words are the ones that bpftrace's users search for
_MESSAGES = {
    "map_full": "Map full; can't update element. Try increasing max_map_keys config or manually setting the max "
                "entries in a map declaration e.g. `let @a = hash(5000)`",
    "map_busy": "Can't update map element: the kernel had no memory for {map} at that moment, or was at work on it.",
    "no_key": "Can't lookup map element because it does not exist.",
    "divide": "Divide or modulo by 0 detected. This can lead to unexpected results. 1 is being used as the result.",
    "loop": "A loop or a search was stopped after 8388608 rounds, the most that the kernel allows.",
    "index": "Array access out of bounds. This can lead to unexpected results. Element 0 is being used.",
    "stack_lost": "Stack trace lost: there was no room for it.",
    "pystack_read": "Python stack not read to its end: memory that is not there, or was being changed.",
    "pystack_deep": "Python stack deeper than 127 frames: the innermost are shown.",
    "pystack_names": "Python stack lost: there was no room for its names, or they could not be read.",
    "pytask_read": "Python task not known: memory that is not there, or was being changed.",
    "pythread_read": "Python thread not known: memory that is not there, or was being changed.",
    "pytask_kind": "Python task without a name: it is neither asyncio's own, nor of a class made from that.",
    "pytask_cut": "Name of a Python task longer than 63 bytes: it is cut.",
    "unwind_early": "User stack ends early: the unwind table of a file had not been read yet.",
    "unwind_refused": "User stack ends early: in a file that is not read.",
    "unwind_none": "User stack ends early: in code without unwind table and frame pointers.",
    "unwind_rule": "User stack ends early: at a rule of the unwind table that programs do not know.",
    "unwind_read": "User stack ends early: memory is not there.",
    "unwind_map": "User stack ends early: at an address that is not mapped.",
    "unwind_loop": "User stack ends early: it leads nowhere.",
    "unwind_compat": "User stack not read: a 32-bit program.",
    "unwind_deep": "User stack deeper than 127 frames: the innermost are shown.",
    "args_lost": "Event dropped: there was no room for its arguments until the function returned.",
    "return_missed": "Event dropped, and likely more: the kernel missed the return, with too many calls under way.",
    "tail_unseen": "Return not seen: the call ended with a jump to another function, which is not known.",
    "packet_bare": "A packet without the header that the filter needs: the filter does not match it.",
    "packet_read": "Part of a packet could not be read: the filter does not match it.",
    "socket_unknown": "A filter asked for what a socket does not say of its packets: it does not match.",
    "packet_headers": "A packet with more headers of IPv6 than a filter follows: the filter does not match it.",
    "preempted": "Event dropped: too many tasks were in this program on one CPU at once.",
    "read": "Bad address. This can lead to unexpected results. 0 is being used as the result.",
}

MOST_FUNCTIONS = 5  # of which a line says how many calls did not return
_EARLY = [kind for kind, text in _MESSAGES.items() if text.startswith("User stack ends early")]


class BudgetLosses(Record):
    """What a budget kept back. ``events`` are (probe, count) of those that found the gate closed; ``detached_ns`` for
    how long of ``traced_ns`` the programs were detached; ``dropped`` are (map, count) of elements whose other half may
    have been missed; ``share`` is the budget, of one CPU, and ``spent_ns`` what the programs took."""

    share: float
    events: list[tuple[str, int]]
    detached_ns: int
    traced_ns: int
    spent_ns: int
    dropped: list[tuple[str, int]]

    def __bool__(self) -> bool:
        return bool(self.events or self.detached_ns)

    @property
    def sentences(self) -> list[str]:
        """A line for what the programs took, and one for each way in which events were kept back."""
        traced, took = self.traced_ns / 1e9, 100 * self.spent_ns / max(self.traced_ns, 1)
        lines = [f"--budget {100 * self.share:.4g}%: the programs took {took:.2g}% of one CPU's time in {traced:.1f} s"]
        lines += [f"{count} event{_plural_suffix(count)} of {probe} skipped for the budget"
                  for probe, count in self.events]
        if self.detached_ns:
            away = self.detached_ns / 1e9
            lines.append(f"for {away:.1f} of {traced:.1f} s probes were detached: nothing counted what came then")
        lines += [f"{count} element{_plural_suffix(count)} of {name} dropped: what would have ended them may have been "
                  "missed" for name, count in self.dropped]
        return lines


class Losses(Record):
    """What was lost, (name or site, count) each, without zeros. ``str()`` has it in words."""

    records: list[tuple[str, int]]        # by probe: the data ring was full, or the end came before they were printed
    errors: list[tuple[ErrorSite, int]]   # by place in the script: map full, failed reads, division by zero ...
    skipped: list[tuple[str, int]]        # by first probe of a program: the kernel did not run it (nested, too many)
    late: int = 0                         # records that came too late for their place: printed, but out of order
    short: int = 0                        # user stacks (dw_ustack) that were not unwound to their end
    unseen: int = 0                       # mappings of processes that were not seen: names of user code may be missing
    early: int = 0                        # Python stacks of processes that were not known yet
    shared: int = 0                       # addresses of user code at which a process had one file after another
    withheld: BudgetLosses | None = None      # what a budget kept back; None without one
    unplaced: list[tuple[str, int]] = []  # by container, pod or service: its events before it was known to be that
    unnamed: list[tuple[str, int]] = []   # the same for containers whose name nothing gives
    unknown: int = 0                      # control groups that could not be followed: names and filters may lack them
    strayed: int = 0                      # processes of -p or -c that could not be followed
    uncovered: int = 0                    # files that followed processes mapped before probes were set in them
    unreturned: list[tuple[str, int]] = []  # by function: calls that had not returned at the end. They are no loss:
    at_least: bool = False                  # there may be more, if calls were under way at the beginning

    def __bool__(self) -> bool:
        return bool(self.records or self.errors or self.skipped or self.late or self.short or self.unseen
                    or self.early or self.shared or self.unplaced or self.unnamed or self.unknown or self.strayed
                    or self.uncovered or self.withheld)

    def __str__(self) -> str:
        return "; ".join(self.sentences) or "nothing was lost"

    @property
    def early_user_stacks(self) -> int:
        """User stacks that lack their outer frames, for any reason."""
        return self.short + sum([count for site, count in self.errors if site.kind in _EARLY])

    @property
    def sentences(self) -> list[str]:
        """A line for each cause; none if nothing was lost."""
        lost = sum(count for _, count in self.records)
        by_probe = ", ".join([f"{count} of {probe}" for probe, count in self.records])
        lines = [f"Lost {lost} events: {by_probe}"] if lost else []
        for site, count in join_placeless(self.errors):
            location = f"{site.span}: " if shown_location(site.span) is not None else ""
            lines.append(location + with_times(describe_error(site), count))
        return lines + (self.withheld.sentences if self.withheld else []) + self.notes

    @property
    def unreturned_line(self) -> str:
        """Says how many calls did not return; "" if all did."""
        calls = sum([count for _, count in self.unreturned])
        if not calls:
            return ""
        shown = sorted(self.unreturned, key=lambda row: -row[1])
        names = ", ".join([f"{count} of {name}" for name, count in shown[:MOST_FUNCTIONS]])
        names += f", and of {len(shown) - MOST_FUNCTIONS} functions more" if len(shown) > MOST_FUNCTIONS else ""
        return (f"{'at least ' * self.at_least}{calls} call{_plural_suffix(calls)} did not return ({names}): left by "
                "an exception, longjmp() or the end of a thread, or under way at the end")

    @property
    def notes(self) -> list[str]:
        """The losses that have no place in the script."""
        lines = [f"{self.late} event{_plural_suffix(self.late)} came late, out of order"] if self.late else []
        if self.short:
            end = "ends" if self.short == 1 else "end"
            lines.append(
                f"{self.short} user stack{_plural_suffix(self.short)} {end} early: "
                "deeper than the 16 KiB that are copied, or through code without unwind tables")
        if self.unseen:
            lines.append(
                f"{self.unseen} mapping{_plural_suffix(self.unseen)} of processes went unseen: names in user stacks "
                "may be missing")
        if self.early:
            lines.append(f"{self.early} Python stack{_plural_suffix(self.early)} or task"
                         f"{_plural_suffix(self.early)} not read: the process had just begun")
        if self.shared:
            lines.append(f"{self.shared} address{'es' * (self.shared > 1)} in user stacks belonged to one program of a "
                         "process and then to another: they have the later one's names")
        lines += [f"{count} event{_plural_suffix(count)} of {name} came before that was known, and count"
                  f"{'s' if count == 1 else ''} as outside of it" for name, count in self.unplaced]
        lines += [f"{count} event{_plural_suffix(count)} count{'s' if count == 1 else ''} as outside of {name}: "
                  "nothing said what their containers are called" for name, count in self.unnamed]
        if self.unknown:
            lines.append(f"{self.unknown} control group{_plural_suffix(self.unknown)} could not be followed: names of "
                         "containers may be missing, and their events count as outside of any")
        if self.strayed:
            lines.append(f"{self.strayed} process{'es' * (self.strayed > 1)} could not be followed: what they and "
                         "those that they started did is not shown")
        if self.uncovered:
            lines.append(f"{self.uncovered} file{_plural_suffix(self.uncovered)} had no probes when processes mapped "
                         f"{'them' if self.uncovered > 1 else 'it'}: calls until then, or all of them, are not counted")
        return lines + [f"{probe}: {describe_skipped(probe, count)}" for probe, count in self.skipped]


def _plural_suffix(count: int) -> str:
    return "" if count == 1 else "s"


def describe_skipped(probe: str, count: int) -> str:
    """How often a program was not run: because it was running on that CPU already, where another event interrupted it
    or another task preempted it. A kretprobe's calls under way share a few of the kernel's records."""
    if probe.startswith("kretprobe:"):
        return f"the kernel missed {count} return{_plural_suffix(count)}: too many calls under way, or nested"
    also = " (or, by a kretprobe, with too many calls under way)" if probe.startswith("fexit:") else ""
    return f"the kernel skipped {count} event{_plural_suffix(count)}, nested or while the program was preempted{also}"


def join_placeless(errors: list[tuple[ErrorSite, int]]) -> list[tuple[ErrorSite, int]]:
    """The same, adding up failures that read the same because their places are not shown."""
    joined: dict[object, tuple[ErrorSite, int]] = {}
    for index, (site, count) in enumerate(errors):
        hidden = site.span is not None and shown_location(site.span) is None
        key = (site.kind, site.map, site.helper) if hidden else index
        joined[key] = (site, count + joined[key][1]) if key in joined else (site, count)
    return list(joined.values())


def describe_error(site: ErrorSite) -> str:
    """What happened at a place in the script."""
    if site.kind == "map_full" and site.span is not None and site.span.source.internal:
        return f"Map full; can't update element of {site.map}: what belongs to its keys is missing."
    return _MESSAGES.get(site.kind, f"{site.helper or site.kind} failed.").format(map=site.map)


def with_times(text: str, count: int) -> str:
    """``text``, and how often it happened if it was more than once."""
    return text if count == 1 else f"{text} [{count} times]"
