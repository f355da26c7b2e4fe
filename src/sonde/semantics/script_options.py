"""What else, besides its text, decides what a script means."""

from __future__ import annotations

from ..base.record import Record


class Options(Record):
    """What besides the text decides what a script means."""

    params: list[str] = []      # positional parameters
    named: dict[str, str] = {}  # --name=value after --
    pid: int = 0                # -p
    group: str = ""             # -C: events of tasks in this container, pod or service only
    by: str = ""                # --by: container, pod or service, to be shown instead of tasks' names
    command: str = ""           # the program of -c
    cpid: int = 0               # pid of the -c child, or of the process of -p whose family is traced
    family: bool = False        # only events while this process, or what it starts, runs
    knows_family: bool = False  # the script asks itself which tasks are of the family
    unsafe: bool = False
    returns: str = ""           # --returns: the way of uretprobes: "instructions", "kernel"; "": as fits the file
    mode: str = ""              # "test" or "bench": run the probes of that kind, and no others but begin and end
    compile_only: bool = False  # nothing is attached: what attaching would refuse is not asked
    exercises: bool = False     # probes of tests and benchmarks are compiled beside the others
    warnings: bool = True
    advice: bool = True         # of them those about how a script is written: False if Sonde itself has written it
    count_reads: bool = False   # -k: use counted helper reads instead of direct loads
    probe_filter: str = ""
    directories: list[str] = []  # -I: where headers are looked for
    headers: list[str] = []      # --include: read before the script
    timed: bool = False         # every record tells when it was made, also where their order does not need it
    env: dict[str, str] = {}    # BPFTRACE_* and SONDE_* variables
    gated: bool = False         # --budget: programs can be kept from working; see spec.Gate
    unwind_rows: int = 1 << 21  # room for rows of unwind tables (--memory), a power of two; see layouts.unwind_format
    flight: int = 0             # --flight: bytes of each CPU's region (layouts/shared_maps.py), a power of two
    sealed: bool = False        # the script is not its caller's: none of the machine's files is read for it
    discreet: bool = False      # it may follow the pointers that it is given, and make no addresses itself
    shares_maps: bool = False   # other scripts and the runtime write to its maps, too
    sums: bool = False          # histograms keep the sum of their values, too
    kinds: list[str] = []       # of probes that it may have, besides its own and intervals; empty: all

    @property
    def is_followed(self) -> bool:
        """Whether the processes that the one of -p or -c starts are traced, too."""
        return self.family or self.knows_family

    @property
    def own_process(self) -> int:
        """The process of -p or -c, to which probes in user programs and samples are limited, as in bpftrace; 0 where
        what it starts is followed: these are attached for all processes then, and see the first call of each."""
        return 0 if self.is_followed else self.pid or self.cpid

    @property
    def lone_process(self) -> int:
        """The process of -p where nothing but it is traced."""
        return 0 if self.is_followed else self.pid
