"""``--otlp-profiles``: maps keyed by stacks sent to an OpenTelemetry collector as profiles: at intervals, or one at the
end of the run."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from time import monotonic, time_ns

from ..errors import UsageError
from ..output.views.otlp import encode_profiles
from ..output.views.stacks import Folder, shows_stacks
from ..runtime.provenance import Provenance
from ..spec import MapSpec, ScriptSpec
from . import Exporter as Base
from . import complete_endpoint
from .otlp_http import TIMEOUT, key_values, post_message

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..runtime.records.values import Items
    from .resource import Facts

DEFAULT = "http://127.0.0.1:4318/v1development/profiles"
MOST_WAITING = 16 << 20  # bytes of profiles that a collector may be late with
RETRY = 5.0              # s until a collector is asked again
LAST = TIMEOUT + 1       # s at the end for what is left
SIGNAL = "PROFILES"


def maps_with_stacks(spec: ScriptSpec) -> list[MapSpec]:
    """The maps that become profiles; UsageError if there are none."""
    maps = [named for named in spec.shown_maps if shows_stacks(named)]
    if not maps:
        raise UsageError("--otlp-profiles sends maps keyed by stacks, and this script has none",
                         ["for example: profile:hz:99 { @[ustack, kstack, comm] = count(); }"])
    return maps


class ProfilesExporter(Base):
    """Every ``interval`` seconds (0: at the end only) the maps are read and cleared; ``memory`` bounds the stacks of
    one interval. A thread of its own sends the profiles; those that find ``MOST_WAITING`` bytes waiting are lost."""

    def __init__(self, endpoint: str, spec: ScriptSpec, memory: int, provenance: Callable[[], Provenance],
                 complain: Callable[[str], object], facts: Callable[[], Facts], interval: float = 0) -> None:
        self._endpoint = complete_endpoint(endpoint, DEFAULT) if endpoint else DEFAULT
        self._maps = maps_with_stacks(spec)
        self._memory, self._interval = memory, interval
        self._provenance, self._complain, self._facts = provenance, complain, facts
        self._begin_period()
        self._first_period = True
        self._waiting: deque[bytes] = deque()
        self._sent = self._lost = 0
        self._problem = ""
        self._wake, self._ended = threading.Event(), False
        self._thread = threading.Thread(target=self._send_profiles, name="otlp-profiles", daemon=True)
        self._thread.start()

    def start_message(self) -> str:
        return f"Sending a profile to {self._endpoint} " + (
            f"every {self._interval:g} s" if self._interval else "at the end")

    def _begin_period(self) -> None:
        self._folder = Folder([named.name for named in self._maps], self._memory)
        self._began, self._next = time_ns(), monotonic() + self._interval

    def add_map(self, named: MapSpec, items: Items, then: str) -> None:
        if named in self._maps:
            self._folder.add_items(named, items, then)

    def due_maps(self) -> list[MapSpec]:
        return self._maps if self._interval and monotonic() >= self._next else []

    def end_period(self) -> None:
        folded = self._folder.folded
        if folded:
            run = self._provenance()
            if self._interval:  # else it is of the whole run
                began = run.started if self._first_period else self._began
                run = Provenance(run.command, run.host, run.kernel, began, max(time_ns() - began, 0) / 1e9, run.lost)
            body = encode_profiles(folded, self._maps, "", run, key_values(1, self._facts()))
            if sum(map(len, self._waiting)) + len(body) <= MOST_WAITING:
                self._waiting.append(body)
                self._wake.set()
            else:
                self._lost += 1
        self._first_period = False
        self._begin_period()

    def _send_profiles(self) -> None:
        while not self._ended:
            self._wake.wait()
            self._wake.clear()
            while self._waiting and not self._send_first() and not self._ended:
                self._wake.wait(RETRY)
        while self._waiting and self._send_first():
            pass

    def _send_first(self) -> bool:
        """Send the oldest; False if the collector has to be asked again later."""
        answer = post_message(self._endpoint, self._waiting[0], SIGNAL)
        problem = answer.problem or ("did not take it" if answer.rejected else "")
        if problem and not self._problem and not self._ended:
            self._complain(f"WARNING: OTLP: {self._endpoint} {problem}" + ("; trying again" if answer.again else ""))
        elif self._problem and not problem:
            self._complain(f"OTLP: {self._endpoint} takes profiles again")
        self._problem = problem
        if answer.again:
            return False
        self._waiting.popleft()
        self._sent, self._lost = (self._sent, self._lost + 1) if problem else (self._sent + 1, self._lost)
        return True

    def finish(self) -> None:
        self.end_period()
        if not self._sent and not self._lost and not self._waiting:
            self._complain("WARNING: OTLP: there is no profile to send: nothing was collected in "
                           + ", ".join([named.name for named in self._maps]))
        self._ended = True
        self._wake.set()
        self._thread.join(LAST)
        lost = self._lost + len(self._waiting)
        self.failed = bool(lost)
        if lost:
            self._complain(f"WARNING: OTLP: {self._endpoint} {self._problem or 'does not answer'}: "
                           f"{'the profile is' if lost == 1 else f'{lost} profiles are'} lost")
