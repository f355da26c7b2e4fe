"""Loading a script's maps and programs into the kernel."""

from __future__ import annotations

from ...errors import AttachError, VerifierError
from ...kernel.host import possible_cpus
from ...kernel.syscalls import Fd
from ...layouts.event_records import DATA_RING
from ...layouts.shared_maps import CURRENT
from ...spec import Attach, KernelDetail, MapSpec, ProgramSpec, ScriptSpec, detail_of
from ..maps.access import Map, create_map
from ..records.ringbuf import sized_ring
from . import links
from .programs import LoadedProgram, load_program, open_attach_target, split_by_function

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import TypeAlias

    from ..maps.ahead import MapAhead

Missing: TypeAlias = "Callable[[AttachError, Attach], None]"  # called with an attach point that is not available


class Loader:
    """Creates ``maps`` and loads programs that use them. VerifierError, PrivilegeError, SondeError. ``ring``: the data
    ring, which is being made."""

    def __init__(self, spec: ScriptSpec, maps: dict[str, Map], missing: Missing, ring: MapAhead | None = None) -> None:
        self._spec, self._maps, self._missing, self._ring = spec, maps, missing, ring

    def create_maps(self) -> None:
        """Create the maps that do not exist yet, in the order of the spec; those that were created stay in ``maps`` if
        one cannot be."""
        cpus = possible_cpus()
        missing = [spec for spec in self._spec.maps if spec.name not in self._maps]
        for spec in missing:
            if self._ring is None or spec.name != DATA_RING:
                self._maps[spec.name] = create_map(self._with_size(spec), cpus)
        if self._ring is not None:
            self._maps[DATA_RING] = self._ring.take()
            self._ring = None
        if CURRENT in self._maps:
            self._fill_current(self._maps[CURRENT])
        for made in self._maps.values():
            made.table = self._maps.get(made.spec.slots or made.spec.hot)

    def _fill_current(self, table: Map) -> None:
        from ...kernel.tasks.locator import locate_current_tasks
        if self._spec.locator is None:
            from ...kernel.tasks.current_task import locator_of_kernel
            self._spec.locator = locator_of_kernel(table.spec.cpus)
        locate_current_tasks(self._spec.locator, table.fd, table.spec.cpus)

    def _with_size(self, spec: MapSpec) -> MapSpec:
        """Rings get their size here: it is the machine's business."""
        if spec.type != "ringbuf":
            return spec
        return sized_ring(spec, self._spec.config.perf_rb_pages)

    def close(self) -> None:
        """Give up what is not in ``maps`` yet."""
        if self._ring is not None:
            self._ring.close()
        self._ring = None

    def load_programs(self) -> list[LoadedProgram]:
        """Load all programs, except those whose function does not exist."""
        programs: list[LoadedProgram] = []
        modules: dict[str, Fd | None] = {}
        try:
            for program in [part for spec in self._spec.programs for part in split_by_function(spec)]:
                programs += self._load_with_parts(program, modules)
        except BaseException:
            for loaded in programs:
                loaded.close()
            raise
        finally:
            for fd in modules.values():
                if fd is not None:
                    fd.close()
        return programs

    def _load_with_parts(self, spec: ProgramSpec, modules: dict[str, Fd | None]) -> list[LoadedProgram]:
        if spec.parts:
            session = self._load_session(spec)
            return [session] if session is not None else \
                [program for part in spec.parts for program in self._load_with_parts(part, modules)]
        module = detail_of(spec.attach[0], KernelDetail).module if spec.type == "tracing" else "vmlinux"
        if module != "vmlinux" and module not in modules:
            modules[module] = open_attach_target(module)
        try:
            return [self.load_program(spec, attach_btf=modules.get(module))]
        except AttachError as error:
            from .refusals import explain_load_error
            self._missing(explain_load_error(spec.attach[0], error), spec.attach[0])
            return []

    def _load_session(self, spec: ProgramSpec) -> LoadedProgram | None:
        """Entry and return as one program; None if the kernel will not have it: then its parts say why."""
        if any(map(links.reads_beyond_multi, spec.parts)):
            return None
        try:
            return self._load(spec, links.multi_attach_type(spec))
        except VerifierError:
            return None

    def load_program(self, spec: ProgramSpec, multi: bool = True, attach_btf: Fd | None = None) -> LoadedProgram:
        """A program; ``multi``: if one link can serve all its attach points, for that."""
        together = links.multi_attach_type(spec) if multi else 0
        if together:
            try:
                return self._load(spec, together, attach_btf)
            except VerifierError:
                pass  # kernels before that attach type refuse it; if the script is at fault the next load says so
        return self._load(spec, attach_btf=attach_btf)

    def _load(self, spec: ProgramSpec, expected_attach: int | None = None,
              attach_btf: Fd | None = None) -> LoadedProgram:
        config = self._spec.config
        return load_program(spec, self._maps, config.license, config.log_size, expected_attach, attach_btf)
