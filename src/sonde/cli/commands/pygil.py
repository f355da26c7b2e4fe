"""``sonde pygil``: who holds a Python program's global interpreter lock, and who waits for it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...errors import UsageError
from ...layouts import cpython as py
from .generated import number_option

if TYPE_CHECKING:
    from ..options import Parsed

PAGE = """\
pygil: show who holds the lock of a Python program's interpreter (GIL), who waits for it, and in which lines

USAGE
  sonde pygil [OPTIONS] -p PID [--follow] [SECONDS]
  sonde pygil [OPTIONS] -c COMMAND [--follow]

  Prints when it ends: at Ctrl-C, with the process, or after SECONDS.

OPTIONS
  -n, --top N   lines of Python, of those that waited and held longest (10)
  --holds       also how long each single hold lasts: see NOTES for what that costs

COLUMNS
  @role[TID]                             with --follow: what the thread's process is for, see sonde flame --help
  @wait_us[TID, COMM]                    histogram of how long each wait for the lock took, in microseconds
  @waited_us[TID, COMM, PYSTACK]         microseconds that a thread waited, by what it was to go on with
  @held_us[TID, COMM, STATE]             microseconds that a thread held it: running, asleep, or "no CPU": another
                                         program ran in its place
  @blocking_us[TID, COMM, STATE, PYSTACK]  the same while another thread waited, by the line
  @hold_us[TID, COMM]                    with --holds: histogram of how long each hold took

EXAMPLE
  # sonde pygil -n 1 -p 4242 3
  Tracing the GIL of process 4242. Ctrl-C to end.
  @wait_us[4244, python3.13]:
  [16K, 32K)             2 |@@@@@                                               |
  [32K, 64K)            20 |@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@|

  @held_us[4243, python3.13, no CPU]: 17250
  @held_us[4243, python3.13, running]: 818181
  @waited_us[4244, python3.13,
          serve (/srv/shop.py:13)
          Thread.run (/usr/lib/python3.13/threading.py:992)
          [...]
  ]: 787677
  @blocking_us[4243, python3.13, running,
          count_stock (/srv/shop.py:7)
          Thread.run (/usr/lib/python3.13/threading.py:992)
          [...]
  ]: 777777

READING
  Waits are what the lock costs. What to change is in @blocking_us: "running" lines compute (move them to a process of
  their own), "asleep" lines wait in C code that does not let the lock go, "no CPU" means more threads than CPUs.

NEEDS
  CPython 3.11 to 3.14 with the GIL and glibc, x86_64, Linux 5.17; neither symbols nor debug information

NOTES
  Waits are exact: each begins when a thread goes to sleep for the lock, and ends when it wakes and takes it. A thread
  that takes the lock without sleeping has not waited. One that sleeps again, because another was faster, waits on; this
  is known from the lock's count of switches. A wait includes the time in which the lock is free already and the thread
  waits for a CPU. Of a wait that has not ended when the tracing does, the part up to the last time the thread woke is
  counted: it wakes every 5 ms. Holds are sampled 99 times a second while the holder runs; while it does not run, they
  are exact, but for a thread that held the lock off the CPU already when the tracing began: it is seen from its next
  run on.

  --holds watches the word of the lock itself by a hardware breakpoint: one exception when it is taken, one when it is
  let go, about 14 us for both on a virtual machine. A program whose threads compute loses nothing that can be measured,
  as they hand it over 200 times a second; one that let it go and took it 200,000 times a second ran at a sixth of its
  speed. It watches the main interpreter's lock; the other columns cover all interpreters of the process.

  Builds without the GIL have nothing to wait for, and are refused, as are PyPy and GraalPy.
"""

_WATCH = """
let @since = lruhash(max_threads);

watchpoint:ADDRESS:4:w /TRACED/ {
  if (*(int32 *)uptr(ADDRESS) == 1) { @since[tid] = nsecs; }
  else if (has_key(@since, tid)) {
    @hold_us[tid, comm] = hist((uint64)(nsecs - @since[tid]) / 1000);
    delete(@since, tid);
  }
}
"""


def main(parsed: Parsed) -> int:
    """Trace; the exit status."""
    from .python_commands import Subject
    subject, lock = Subject("pygil", parsed, glibc=True), 0
    if subject.python is not None:
        lock = subject.python.find_lock() if "holds" in parsed.named else 0
    elif "holds" in parsed.named:
        raise UsageError("--holds needs a process that runs Python already (-p PID), to know where its lock lies")
    text = build_script(parsed.named, subject.condition, "the command" if subject.is_child else
                        f"process {subject.process.pid}", lock, parsed.seconds, subject.follows)
    return subject.trace("pygil", text)


def build_script(named: dict[str, str], traced: str, subject: str, lock: int, seconds: int,
                 follows: bool = False) -> str:
    """The program for the ``subject``, the processes of which the condition ``traced`` is true; for --holds with the
    address of the ``lock``."""
    from . import gil_script
    top, us = number_option(named, "top", 10), "($ns + 500) / 1000"
    shown = ["print(@wait_us);", *(["print(@hold_us);"] if lock else []), "print(@held_us);",
             f"print(@waited_us, {top});", f"print(@blocking_us, {top});"]
    return gil_script.build_script(gil_script.GilCounts(
        who=["tid", "comm"], stacks="pystack",
        wait=f"@wait_us[$who.0, $who.1] = hist({us}); @waited_us[$who.0, $who.1, $who.2] = sum({us});",
        wait_maps="@wait_us, @waited_us",
        hold=f"@held_us[$who.1, $who.2, $who.0] = sum({us});\n"
             f"  if ($blocks) {{ @blocking_us[$who.1, $who.2, $who.0, $who.3] = sum({us}); }}",
        hold_maps="@held_us, @blocking_us",
        sample='@held_us[tid, comm, "running"] = sum(PERIOD / 1000);\n'
               '    if (@waiters[pid] > 0) { @blocking_us[tid, comm, "running", pystack] = sum(PERIOD / 1000); }',
        shows="\n  ".join(shown),
        begin=f'begin {{ printf("Tracing the GIL of {subject}. Ctrl-C to end.\\n"); }}\n\n',
        watch=_WATCH.replace("ADDRESS", hex(lock + py.GIL_LOCKED)) if lock else ""), traced, 99, seconds, follows)
