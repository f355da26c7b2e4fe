"""``sonde pyloop``: the iterations of a Python program's event loops, and what stops them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...layouts import cpython as py
from .generated import number_option, quote_string

if TYPE_CHECKING:
    from ..options import Parsed

PAGE = """\
pyloop: show how long the iterations of a Python program's event loops take, and what stops a loop, in which line

USAGE
  sonde pyloop [OPTIONS] -p PID [--follow] [SECONDS]
  sonde pyloop [OPTIONS] -c COMMAND [--follow]

  A line and a stack for each iteration that took too long, and a histogram of all at the end: at Ctrl-C, with the
  process, or after SECONDS.

OPTIONS
  -m, --least MS       an iteration of so many milliseconds is a stall (50)
  -F, --frequency HZ   look so many times a second at what a loop computes (99)

COLUMNS
  TIME(s)   seconds since the tracing began
  LAT(ms)   how long the iteration took
  CPU(ms)   for how much of that the thread was on a CPU
  TID       the loop's thread
  CAUSE     what took most of it: CPU, "no CPU" (others ran in its place), GIL, lock, DNS, "page fault" (memory had to
            be read), or syscall
  CALL      the system call that the thread slept in, or -
  TASK      the task of asyncio's that ran then, or -
  STACK     the functions of Python that ran then
  @role[TID]                   with --follow: what the loop's process is for, see sonde flame --help
  @iteration_us[TID]           histogram of how long the iterations took, in microseconds
  @stalled_ms[CAUSE, TASK]     milliseconds that stalls took, together

EXAMPLE
  # sonde pyloop -p 4242 1
   TIME(s)   LAT(ms)   CPU(ms) TID     CAUSE      CALL             TASK
     0.389   120.273     0.201 4242    syscall    clock_nanosleep  report

          write_report (/srv/shop.py:11)
          report (/srv/shop.py:18)
          Handle._run (/usr/lib/python3.13/asyncio/events.py:89)
          [...]

  @iteration_us[4242]:
  [8, 16)               74 |@@@                                                 |
  [16, 32)            1006 |@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@|
  [32, 64)             264 |@@@@@@@@@@@@@                                       |
  [...]
  [64K, 128K)            1 |                                                    |

  @stalled_ms[syscall, report]: 120

READING
  While an iteration lasts, no other task of the loop runs, and nobody is answered. "CPU": compute in pieces, or in
  another process. "syscall", "lock", "DNS": a call that blocks, for which asyncio.to_thread() or an asynchronous
  library would do. "GIL": sonde pygil shows which thread holds it. "no CPU": too many threads for the CPUs.

NEEDS
  CPython 3.11 to 3.14, x86_64, Linux 5.17; asyncio's own loop or uvloop

NOTES
  An iteration is what a thread of Python's does between the return of epoll_wait() (or epoll_pwait()) and the next
  call; threads that wait by select() or poll() only are not seen, and a call of another epoll ends an iteration.

  If a thread was on a CPU for half of the iteration or more, the cause is the CPU, and the stack is that of the line
  that was sampled most. Where there is none, the iteration was too short (-F takes more), or the virtual CPU itself
  stood still. Else cause, task and stack are those of its longest wait: what follows one another for the same cause, as
  many reads or the 5 ms that a wait for the GIL takes at once. Task and stack are read when it happens, not afterwards.
  An iteration that has not ended is shown when the tracing ends.

  "lock" is any other futex than the GIL's. "DNS" is all that the C library's getaddrinfo() sleeps for; with -c COMMAND,
  of this machine's C library. Who waited for the loop meanwhile is not shown.

  It takes 0.6 us of each iteration of a loop that never sleeps (paired, median of nine). A stack is read at each
  sample, and where the loop leaves the CPU within an iteration. On a machine that took the CPU from it all the time, a
  busy loop used 3 % more of it (paired, median of six). The system calls and switches of all other processes are looked
  at, too.
"""
_MAPS = """\
config = { print_maps_on_exit = false; max_map_keys = 16384 }
DECLARE_ROLES
let @start = hash(max_threads);
let @off = lruhash(max_threads);
let @what = lruhash(max_threads);
let @sum = lruhash(max_threads);
let @worst = lruhash(max_threads);
let @sample = lruhash(max_threads);
let @samples = lruhash(max_threads);
let @resolves = lruhash(max_threads);
table loop { "TIME(s)": "%4llu.%03llu"; "LAT(ms)": "%5llu.%03llu"; "CPU(ms)": "%5llu.%03llu"; TID: "%-7d";
             CAUSE: "%-10s"; CALL: "%-16s"; }
table stalls { loop; TASK: "%-20s"; STACK: "\\n%s"; }
begin { heading(stalls); }
"""
# A time off the CPU is over. @sum has of an iteration: its start, all such time, the longest wait, the last one, that
# one's cause and call. A wait is what follows one another for the same: that for the GIL is interrupted every 5 ms.
_FOLD = """\
    $off = @off[KEY];
    $ns = (uint64)(nsecs - $off.0);
    $sum = @sum[$off.1];
    $same = $sum.0 == $off.2;
    $what = @what[KEY];
    $wait = ($same && $sum.4 == $what.0 && $sum.5 == $what.1 ? $sum.3 : (uint64)0) + $ns;
    $longest = !$same || $wait > $sum.2;
    if ($longest) { @worst[$off.1] = $what; }
    @sum[$off.1] = ($off.2, ($same ? $sum.1 : (uint64)0) + $ns, $longest ? $wait : $sum.2, $wait, $what.0, $what.1);
"""
# A stall of $ns from $start on.
_REPORT = """\
      $sum = @sum[THREAD];
      $asleep = $sum.0 == $start ? $sum.1 : (uint64)0;
      $cpu = $ns > $asleep ? $ns - $asleep : (uint64)0;
      if ($cpu >= $asleep) {
        $sample = @sample[THREAD];
        if ($sample.0 == $start) {
          stalls(HEAD, "CPU", "-", $sample.1 == "" ? "-" : $sample.1, $sample.2);
          @stalled_ms["CPU", $sample.1 == "" ? "-" : $sample.1] = sum($ns / 1000000);
        } else {
          stalls(HEAD, "CPU", "-", "-", "        (no sample)");
          @stalled_ms["CPU", "-"] = sum($ns / 1000000);
        }
      } else {
        $worst = @worst[THREAD];
        $task = $worst.2 == "" ? "-" : $worst.2;
        stalls(HEAD, $worst.0, $worst.1 < 0 ? "-" : syscall_name($worst.1), $task, $worst.3);
        @stalled_ms[$worst.0, $task] = sum($ns / 1000000);
      }
"""
_HEAD = ("elapsed / 1000000000, elapsed / 1000000 % 1000, $ns / 1000000, $ns / 1000 % 1000, $cpu / 1000000, "
         "$cpu / 1000 % 1000, THREAD")
_SCRIPT = """\
tracepoint:syscalls:sys_exit_epoll_wait, tracepoint:syscalls:sys_exit_epoll_pwait,
tracepoint:syscalls:sys_exit_epoll_pwait2 /TRACED/ {
  $start = @start[tid];
  if ($start == 0 && (has_key(@start, tid) || pythread != 0)) {
    NOTE_ROLE
    @start[tid] += nsecs;
  }
}

tracepoint:syscalls:sys_enter_epoll_wait, tracepoint:syscalls:sys_enter_epoll_pwait,
tracepoint:syscalls:sys_enter_epoll_pwait2 /TRACED/ {
  $start = @start[tid];
  if ($start != 0) {
    $ns = nsecs - $start;
    @start[tid] -= $start;
    @iteration_us[tid] = hist($ns / 1000);
    if ($ns >= LEAST) {
      if (has_key(@off, tid)) {  // though it runs: the kernel ran no program when the wait ended
        @unseen = count();
        delete(@off, tid);
        delete(@what, tid);
      }
REPORT_HERE    }
  }
}

profile:hz:HERTZ /TRACED/ {
  $start = @start[tid];
  if ($start != 0) {
    $line = pystack(1);
    @samples[tid, $start, $line] += 1;
    $count = @samples[tid, $start, $line];
    $most = @sample[tid];
    if ($most.0 != $start || $count >= $most.3) { @sample[tid] = ($start, pytask, pystack, $count); }
    KEEP_ROLE
  }
}

DNS
tracepoint:sched:sched_switch /TRACED || has_key(@off, args.next_pid)/ {
  if (TRACED) {
    $start = @start[tid];
    if ($start != 0 && !is_dead(curtask)) {
      $taken = (args.prev_state & 0xff) == 0;
      $call = $taken ? (int64)-1 : syscall_id;
      $gil = $call == FUTEX ? pygil : (uint64)0;
      $futex = syscall_arg0;
      $cause = $taken ? "no CPU" : @resolves[tid] ? "DNS" : $call < 0 ? "page fault"
          : $call != FUTEX ? "syscall" : $gil != 0 && $futex >= $gil && $futex < $gil + GIL_SIZE ? "GIL" : "lock";
      @off[args.prev_pid] = (nsecs, tid, $start);
      @what[args.prev_pid] = ($cause, $call, pytask, pystack);
    }
  }
  if (has_key(@off, args.next_pid)) {
FOLD_NEXT    delete(@off, args.next_pid);
    delete(@what, args.next_pid);
  }
}

tracepoint:sched:sched_process_exit { delete(@start, tid); delete(@resolves, tid); }

end {
  for ($each : @off) {
FOLD_EACH  }
  for ($each : @start) {
    $start = $each.1;
    $ns = (uint64)(nsecs - $start);
    if ($start != 0 && $ns >= LEAST) {
REPORT_EACH    }
  }
  if (len(@start) == 0 && len(@iteration_us) == 0) { printf("NO_LOOP\\n"); }
  warn_count(@unseen, "in stalls, the ends of %lld waits were not seen: they count as CPU time");
  PRINT_ROLES
  print(@iteration_us);
  print(@stalled_ms);
}
"""
_DNS = """\
uprobe:LIBRARY:getaddrinfo /exists("uprobe:LIBRARY:getaddrinfo") && TRACED/ { @resolves[tid] = true; }
uretprobe:LIBRARY:getaddrinfo /exists("uprobe:LIBRARY:getaddrinfo") && TRACED/ { delete(@resolves, tid); }
"""
_NO_LOOP = "No event loop was seen: no thread of CPython's returned from epoll_wait()."
_FUTEX = 202  # the system call, on x86_64: syscall_id is for that only


def main(parsed: Parsed) -> int:
    """Trace; the exit status."""
    from .python_commands import Subject
    subject = Subject("pyloop", parsed)
    library = subject.python.c_library if subject.python is not None else "libc"
    text = build_script(parsed.named, subject.condition, library, parsed.seconds, subject.follows)
    return subject.trace("pyloop", text)


def build_script(named: dict[str, str], traced: str, library: str, seconds: int, follows: bool = False) -> str:
    """The program for processes of which the condition ``traced`` is true, and for their C ``library``."""
    from .python_commands import note_roles
    least, hertz = number_option(named, "least", 50, 3600000), number_option(named, "frequency", 99, 20000)
    text = _MAPS + _SCRIPT + (f"interval:s:{seconds} {{ exit(); }}\n" if seconds else "")
    name = library if library == "libc" else quote_string(library)
    for word, value in (
            ("DNS\n", _DNS.replace('"uprobe:LIBRARY', '"uprobe:' + library).replace("LIBRARY", name)),
            ("FOLD_NEXT", _FOLD.replace("KEY", "args.next_pid")), ("FOLD_EACH", _FOLD.replace("KEY", "$each.0")),
            ("REPORT_HERE", _REPORT.replace("HEAD", _HEAD).replace("THREAD", "tid")),
            ("REPORT_EACH", _REPORT.replace("HEAD", _HEAD).replace("THREAD", "$each.0")),
            ("NO_LOOP", _NO_LOOP), ("TRACED", traced), ("LEAST", str(least * 1000000)), ("HERTZ", str(hertz)),
            ("GIL_SIZE", str(py.GIL_SIZE)), ("FUTEX", str(_FUTEX))):
        text = text.replace(word, value)
    return note_roles(text, follows)
