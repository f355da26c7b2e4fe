"""What keeps the programs of a script attached, and what could not be attached."""

from __future__ import annotations

from ...errors import AttachError, StandInError
from ...kinds import KINDS
from ...spec import Attach, Config, ProgramSpec
from . import links as attaching
from .links import Links
from .loading import Loader
from .programs import LoadedProgram

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from .iterators import Iterators


class Attachments:
    """Links, those that a budget may close (``gated``), and iterators. ``warnings`` has the attach points that were
    left out, ``count`` how many were not."""

    def __init__(self, config: Config) -> None:
        self.links, self.gated = Links(), Links()
        self.late: list[Links] = []  # of files that followed processes have mapped since
        self.iterators: Iterators | None = None
        self.warnings: list[AttachError] = []
        self.count = 0
        self._first_offsets: dict[tuple[str, str], int] = {}  # of static probes, by file and name
        self._first_miss: AttachError | None = None
        self._policy, self._most = config.missing_probes, config.max_probes
        self._unmatched: list[AttachError] = []  # of attach points that a pattern found
        self._refused: list[tuple[AttachError, str]] = []  # of functions that Sonde chose another way for

    def attach_all(self, programs: list[LoadedProgram], loader: Loader, budgeted: bool,
                   start_clock: Callable[[], object]) -> None:
        """Attach ``programs``, of which some may become others, and call ``start_clock`` before those that the clock
        runs. AttachError as ``missing_probes`` says, StandInError where the way was Sonde's choice."""
        self._demand_stand_ins()
        for point in [point for program in programs for point in program.spec.attach if point.kind == "usdt"]:
            self._first_offsets.setdefault((point.target, point.event), point.offset)
        ordered = attaching.attach_order(programs)
        ticking = [program for program in ordered if KINDS[program.spec.attach[0].kind].ticks]
        for program in ordered[:len(ordered) - len(ticking)]:
            self._attach(program, programs, loader, budgeted)
        start_clock()
        for program in ticking:
            self._attach(program, programs, loader, budgeted)
        self._demand_stand_ins()
        self._sum_up()

    def _demand_stand_ins(self) -> None:
        """StandInError if any was."""
        if self._refused:
            raise StandInError(self._refused[0][0], [name for _, name in self._refused])

    def _attach(self, program: LoadedProgram, programs: list[LoadedProgram], loader: Loader, budgeted: bool) -> None:
        spec = program.spec
        links = self.gated if budgeted and attaching.is_gated(spec) else self.links
        if attaching.multi_attach_type(spec):
            if attaching.attach_multi(spec, program.fd, links, self.miss):
                clauses = sum([part.clauses for part in spec.parts] or [spec.clauses])
                self.count += self._count_points(spec, len(spec.attach)) * clauses
                return
            if spec.parts:  # some function cannot be attached to: the parts find out which
                at = programs.index(program)
                program.close()
                programs[at:at + 1] = parts = [loader.load_program(part) for part in spec.parts]
                for part in parts:
                    self._attach(part, programs, loader, budgeted)
                return
            if spec.type != "tracing":
                self._check_number(spec)
                program.fd.close()
                program.fd = loader.load_program(spec, multi=False).fd
        elif attaching.reads_beyond_multi(spec):
            self._check_number(spec)
        attached = attaching.attach_program(spec, program.fd, links, self.miss)
        self.count += self._count_points(spec, attached) * spec.clauses

    def _count_points(self, spec: ProgramSpec, attached: int) -> int:
        """How many attach points a program has, of which so many places were attached: a static probe of several is
        one, as in bpftrace."""
        others = [point for point in spec.attach if point.kind == "usdt"
                  and point.offset != self._first_offsets.get((point.target, point.event), point.offset)]
        return max(0, attached - len(others))

    def _check_number(self, spec: ProgramSpec) -> None:
        """AttachError if more places than ``max_probes`` allows were to be attached to one by one."""
        if len(spec.attach) > self._most:
            raise AttachError(f"Can't attach to {len(spec.attach)} probes one by one because it exceeds the current "
                              f"limit of {self._most} probes.", spec.attach[0].name, 0,
                              ["the kernel does not take them together"])

    def miss(self, error: AttachError, point: Attach) -> None:
        """An attach point is not available: an error, a warning or nothing, as ``missing_probes`` says; it is to be
        attached in another way where this one was Sonde's choice."""
        self._first_miss = self._first_miss or error
        if point.way and point.reason and KINDS[point.method].typed:
            self._refused.append((error, point.event))
        elif point.wild:
            self._unmatched.append(error)
        elif self._policy == "error":
            raise error
        elif self._policy == "warn":
            self.warnings.append(error)

    def _sum_up(self) -> None:
        """One warning for all functions that a pattern found and that cannot be attached."""
        left, self._unmatched = self._unmatched, []
        if left:
            more = f" and {len(left) - 3} more" if len(left) > 3 else ""
            names = ", ".join(error.probe for error in left[:3])
            self.warnings.append(AttachError(
                f"left out, since the kernel cannot attach there: {names}{more}", left[0].probe, left[0].errno,
                [left[0].message]))

    def require_any(self) -> None:
        """AttachError if there were attach points, and none could be attached."""
        missed = self._first_miss
        if not self.count and missed is not None:
            raise AttachError("Attachment failed for all probes.", missed.probe, missed.errno,
                              [warning.message for warning in self.warnings[:5] or [missed]])

    def start_iterators(self, programs: list[LoadedProgram]) -> Iterators | None:
        """Start reading the iterators; None if there are none."""
        for program in programs:
            point = program.spec.attach[0]
            if KINDS[point.kind].iterates:
                if self.iterators is None:
                    from .iterators import Iterators
                    self.iterators = Iterators()
                if point.pin:
                    self.iterators.pin_iterator(point.name, program.fd, point.pin)
                else:
                    self.iterators.add_iterator(point.name, program.fd)
        if self.iterators is not None:
            self.iterators.start()
        return self.iterators

    def slow_links(self) -> int:
        """How many links the kernel closes one by one, each after a pause."""
        return sum([links.count_slow_links() for links in (self.gated, self.links, *self.late)])

    def stop(self) -> None:
        """Detach all programs; links that are slow to close are closed later."""
        for links in (self.gated, self.links, *self.late):
            links.detach_all()

    def close(self) -> None:
        """Release everything."""
        for links in (self.gated, self.links, *self.late):
            links.close()
        if self.iterators is not None:
            self.iterators.close()
