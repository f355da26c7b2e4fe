"""``--otlp-profiles``: maps keyed by stacks sent to an OpenTelemetry collector as a profile, at the end of the run."""

from __future__ import annotations

from collections.abc import Callable

from ..errors import UsageError
from ..output.views.otlp import encode_profiles
from ..output.views.stacks import Folder, shows_stacks
from ..spec import MapSpec, ScriptSpec
from . import Exporter as Base
from . import complete_endpoint

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..runtime.provenance import Provenance
    from ..runtime.records.values import Items

DEFAULT = "http://127.0.0.1:4318/v1development/profiles"
TIMEOUT = 5.0  # s for the export
_ANSWER = 1 << 16  # bytes of the answer that are read


class ProfilesExporter(Base):
    """Collects what the script prints and clears, and sends it when the run is over."""

    def __init__(self, endpoint: str, spec: ScriptSpec, memory: int, provenance: Callable[[], Provenance],
                 complain: Callable[[str], object]) -> None:
        self._endpoint = complete_endpoint(endpoint, DEFAULT) if endpoint else DEFAULT
        self._maps = [named for named in spec.shown_maps if shows_stacks(named)]
        if not self._maps:
            raise UsageError("--otlp-profiles sends maps keyed by stacks, and this script has none",
                             ["for example: profile:hz:99 { @[ustack, kstack, comm] = count(); }"])
        self._folder = Folder([named.name for named in self._maps], memory)
        self._provenance, self._complain = provenance, complain

    def start_message(self) -> str:
        return f"Sending a profile to {self._endpoint} at the end"

    def add_map(self, named: MapSpec, items: Items, then: str) -> None:
        if named in self._maps:
            self._folder.add_items(named, items, then)

    def finish(self) -> None:
        from http.client import HTTPException
        from urllib.error import HTTPError
        from urllib.request import Request, urlopen
        folded = self._folder.folded
        if not folded:
            self._complain("WARNING: OTLP: there is no profile to send: nothing was collected in "
                           + ", ".join([named.name for named in self._maps]))
            return
        body = encode_profiles(folded, self._maps, "", self._provenance())
        request = Request(self._endpoint, body, {"Content-Type": "application/x-protobuf", "User-Agent": "sonde"})
        self.failed = True
        try:
            with urlopen(request, timeout=TIMEOUT) as answer:
                answer.read(_ANSWER)
            self.failed = False
        except HTTPError as error:
            error.close()
            self._complain(f"WARNING: OTLP: {self._endpoint} does not take the profile: status {error.code}")
        except (OSError, HTTPException) as error:
            self._complain(f"WARNING: OTLP: {self._endpoint} cannot be reached: {getattr(error, 'reason', error)}")
