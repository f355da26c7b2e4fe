"""What every probe kind needs to expand its attach points: the World, how to report, and how names are written."""

from __future__ import annotations

from ..base import regex_cache
from ..base.record import Record
from ..base.wildcards import pattern_matcher as pattern_matcher
from ..language.ast import AttachPoint
from ..language.diagnostics import Diagnostics, nearest_names
from ..source import Span
from ..spec import Attach, Config
from .nodes import Use
from .script_options import Options
from .world import World

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence


class WrittenPoint(Record):
    """An attach point as written: its kind, its last part, what its clause mentions, and how many the clause has."""

    kind: str
    text: str
    use: Use
    points: int

    def names_function(self, function: str) -> bool:
        """Whether the attach point means this function, or may mean it; offsets do not count."""
        return pattern_matcher(self.text.partition("+")[0].partition("(")[0])(function)


MANY, MOST_COMPARED = 5000, 3    # names to compare one with; names that are compared with so many
SEVERAL, FIRST_COMPARED = 500, 10  # likewise: comparing 50 with a kernel's tracepoints would take a second


class ProbeFinder:
    """What expanding needs: the World, options, and how to report. ``heard``: somebody is told what is missing, and
    what else could be meant, which takes long to find out."""

    def __init__(self, world: World, options: Options, config: Config, diagnostics: Diagnostics,
                 heard: bool = True) -> None:
        self.world = world
        self.options = options
        self.config = config
        self.diagnostics = diagnostics
        self.heard = heard
        self.use = Use([])  # what the clause at hand mentions
        self.kind = ""      # of the attach point at hand
        self.points = 1     # attach points of the clause, as written
        self.unmatched: list[str] = []  # what may be meant by the clause's patterns that match nothing
        self.written: list[WrittenPoint] | None = None  # all the script's attach points; None: it asks what exists
        self.untraceable: list[tuple[str, Span]] = []  # (function, where it is written), to be warned of
        self.stood_in: set[str] = set()  # functions of which it has been said that others are probed in their place
        self.left_out: set[int] = set()  # BPF programs of which it has been said that nothing can be attached to them
        self._compared = 0  # names that were compared with several or many
        self._tracepoints: list[tuple[str, str]] | None = None
        self._raw_tracepoints: list[tuple[str, str]] | None = None

    def error(self, code: str, message: str, point: AttachPoint, hints: Sequence[str] = ()) -> list[Attach]:
        given = len(self.options.params)
        if point.missing:
            hints = [f"{point.missing} is missing: {given or 'no'} parameter{' is' if given == 1 else 's are'} "
                     "given after the script", *hints]
        self.diagnostics.error(code, message, point.span, hints)
        return []

    def report_part_count(self, point: AttachPoint, wants: str, form: str, *more: str) -> list[Attach]:
        """The attach point has too few or too many parts: it ``wants`` so many after its kind."""
        return self.error("probe-form", f"{self.kind} probe type requires {wants} arguments, found "
                          f"{len(point.parts) - 1}", point, [f"write {form}", *more])

    def report_missing(self, point: AttachPoint, hints: Sequence[str] = (), message: str = "", wild: bool = False,
                       shown: str = "") -> list[Attach]:
        """Nothing like this exists here: an error, a warning or nothing, as ``missing_probes`` says. A pattern need not
        match, nor need one point of a clause that asks for its name; a clause none of whose points is there is reported
        as one. ``wild``: what was left out of the attach point stands for anything; ``shown``: where it was looked
        for, and what."""
        shown = shown or ":".join(point.parts[1:])
        if (wild or is_pattern(shown)) and not message or "probe" in self.use.names:
            self.unmatched += [f"no {self.kind} matches {shown}", *hints]
            return []
        message = message or f"No matches for {self.kind} {shown}."
        return self._report_missing_probe(message, f"{message.removesuffix('.')}. Skipping.", point.span, hints)

    def report_unattachable(self, code: str, message: str, point: AttachPoint,
                            hints: Sequence[str] = ()) -> list[Attach]:
        """The target exists, but a probe there would fail or do harm: treated as a missing one."""
        return self._report_missing_probe(message, f"{message.removesuffix('.')}. Skipping.", point.span, hints, code)

    def report_empty_clause(self, points: Sequence[AttachPoint]) -> None:
        """A clause has no attach points left."""
        self._report_missing_probe(
            "Probe has no valid attach points. If this is expected, set the 'missing_probes' config variable "
            "to 'warn'.",
            "Probe has no valid attach points. It is being removed which may cause issues with "
            "program behavior.", points[0].span.to(points[-1].span), self.unmatched)

    def warn_of_untraceable(self) -> None:
        """Tell what was put into ``untraceable``: kernel functions that are not among those that can be traced."""
        for function, span in self.untraceable if self.options.warnings else ():
            self.diagnostics.warning("untraceable", f"{function} is not traceable (either non-existing, inlined, or "
                                     'marked as "notrace"); attaching to it will likely fail', span)
        self.untraceable = []

    def _report_missing_probe(self, error: str, warning: str, span: Span, hints: Sequence[str],
                              code: str = "missing-probe") -> list[Attach]:
        if self.config.missing_probes == "error":
            self.diagnostics.error(code, error, span, hints)
        elif self.config.missing_probes == "warn" and self.options.warnings:
            self.diagnostics.warning(code, warning, span, hints)
        return []

    def nearest_names(self, name: str, candidates: Iterable[str]) -> list[str]:
        """The candidates most like ``name``, best first; of the kernel's many only for the first names, since each
        takes long."""
        pool = list(candidates)
        most = MOST_COMPARED if len(pool) > MANY else FIRST_COMPARED
        if not self.heard or len(pool) > SEVERAL and self._compared >= most:
            return []
        self._compared += len(pool) > SEVERAL
        return nearest_names(name, pool)

    def did_you_mean(self, prefix: str, name: str, candidates: Iterable[str]) -> list[str]:
        """One hint with the nearest names."""
        close = self.nearest_names(name, candidates)
        return [f"did you mean {' or '.join(prefix + c for c in close)}?"] if close else []

    @property
    def raw_tracepoints(self) -> list[tuple[str, str]]:
        if self._raw_tracepoints is None:
            self._raw_tracepoints = self.world.raw_tracepoints()
        return self._raw_tracepoints

    @property
    def tracepoints(self) -> list[tuple[str, str]]:
        if self._tracepoints is None:
            self._tracepoints = self.world.tracepoints()
        return self._tracepoints


# --- names ------------------------------------------------------------------------------------------------


def is_pattern(text: str) -> bool:
    """Whether a name may stand for many. ``*`` is the only wildcard, as in bpftrace: C++ has ``operator[]``."""
    return "*" in text or "[" in text and "]" in text


def split_offset(text: str) -> tuple[str, int] | None:
    """``name+0x10`` → ("name", 16); None if what follows the + is no number."""
    name, plus, offset = text.partition("+")
    if not plus:
        return name, 0
    value = parse_number(offset)
    return None if value is None else (name, value)


def parse_number(text: str) -> int | None:
    """``99``, ``0x10``, ``1e6``, ``1_000``; None for anything else."""
    text = text.replace("_", "")
    if regex_cache.fullmatch(r"\d{1,18}e\d{1,2}", text):
        mantissa, exponent = text.split("e")
        return int(mantissa) * int("1" + "0" * int(exponent))
    if regex_cache.fullmatch(r"0[xX][0-9a-fA-F]{1,16}", text):
        return int(text, 16)
    return int(text) if regex_cache.fullmatch(r"\d{1,19}", text) else None


def describe_bad_number(text: str) -> str:
    """Why :func:`parse_number` does not take ``text``."""
    digits = text.replace("_", "")
    if regex_cache.fullmatch(r"\d{20,}", digits) or regex_cache.fullmatch(r"0[xX][0-9a-fA-F]{17,}", digits):
        return f"overflow error, maximum value is {2 ** 64 - 1}: {text}"
    return f"invalid {'trailing bytes' if digits[:1].isdigit() and digits[:2] != '0x' else 'integer'}: {text}"


def describe_bad_offset(text: str) -> str:
    """What is wrong with ``name+text``."""
    offset = text.partition("+")[2]
    return f"Invalid offset: {describe_bad_number(offset)}" if offset else "Invalid offset"
