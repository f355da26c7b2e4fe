"""The script that follows a Python program's GIL: who waits for it, and who holds it. sonde pygil and sonde flame --gil
count its waits and holds each in their own way."""

from __future__ import annotations

from ...base.record import Record
from ...layouts import cpython as py
from .python_commands import note_roles

_SCRIPT = """\
config = { print_maps_on_exit = false; max_map_keys = 16384 }
DECLARE_ROLES
let @wait = lruhash(max_threads);
let @where = lruhash(max_threads);
let @waiting = lruhash(max_threads);
let @waiters = lruhash(max_threads);
let @off = lruhash(max_threads);
let @off_where = lruhash(max_threads);

macro holder(gil) { *(uint64 *)uptr(gil + HOLDER) }
macro is_mine(gil) { *(int32 *)uptr(gil + LOCKED) == 1 && holder(gil) == pythread }
macro switches(gil) { *(uint64 *)uptr(gil + SWITCHES) }
macro end_wait(id, $wait, @where, WAIT_MAPS) {
  $ns = (uint64)($wait.1 - $wait.0);
  $who = @where[id];
  COUNT_WAIT
}
macro end_hold(id, $off, @off_where, @waiters, HOLD_MAPS) {
  $ns = (uint64)(nsecs - $off.0);
  $who = @off_where[id];
  $blocks = $off.2 || @waiters[$off.1] > 0;
  COUNT_HOLD
}

BEGIN
// A wait begins. If the lock was switched twice since this thread woke, it has had it: the wait before is over.
tracepoint:syscalls:sys_enter_futex /TRACED && ((args.op & 127) == 0 || (args.op & 127) == 9)/ {
  $gil = pygil;
  $at = (uint64)args.uaddr - $gil;
  if ($gil != 0 && $at >= WAITING && $at < SIZE && !is_mine($gil)) {
    $wait = @wait[tid];
    if ($wait.0 != 0 && switches($gil) - $wait.2 >= 2) {
      end_wait(tid, $wait, @where, WAIT_MAPS);
      delete(@wait, tid);
    }
    if (!has_key(@wait, tid)) {
      @wait[tid] = (nsecs, nsecs, switches($gil));
      @where[tid] = (WHO, STACKS);
      NOTE_ROLE
    }
    @waiting[tid] = $gil;
    @waiters[pid]++;
  }
}

tracepoint:syscalls:sys_exit_futex /TRACED && has_key(@waiting, tid)/ {
  $gil = @waiting[tid];
  $wait = @wait[tid];
  delete(@waiting, tid);
  @waiters[pid]--;
  @wait[tid] = ($wait.0, nsecs, switches($gil) - (holder($gil) == pythread ? (uint64)1 : 0));
}

tracepoint:sched:sched_process_exit /has_key(@wait, tid)/ {
  $wait = @wait[tid];
  end_wait(tid, $wait, @where, WAIT_MAPS);
  delete(@wait, tid);
  delete(@where, tid);
  if (has_key(@waiting, tid)) { // it was killed there: the call does not return
    delete(@waiting, tid);
    @waiters[pid]--;
  }
}

// The thread that holds it leaves the CPU; it runs again.
tracepoint:sched:sched_switch /TRACED || has_key(@off, args.next_pid)/ {
  if (TRACED && !is_dead(curtask)) {
    $gil = pygil;
    if ($gil != 0 && is_mine($gil)) {
      @off[args.prev_pid] = (nsecs, pid, @waiters[pid] > 0);
      @cpython = 1;
      @off_where[args.prev_pid] = ((args.prev_state & 0xff) == 0 ? "no CPU" : "asleep", WHO, STACKS);
    }
  }
  if (has_key(@off, args.next_pid)) {
    $off = @off[args.next_pid];
    end_hold(args.next_pid, $off, @off_where, @waiters, HOLD_MAPS);
    delete(@off, args.next_pid);
    delete(@off_where, args.next_pid);
  }
}

profile:hz:HERTZ /TRACED/ {
  $gil = pygil;
  if ($gil != 0 && is_mine($gil)) {
    @cpython = 1;
    KEEP_ROLE
    COUNT_SAMPLE
  }
}
WATCH
end {
  for ($each : @wait) {
    $wait = $each.1;
    end_wait($each.0, $wait, @where, WAIT_MAPS);
  }
  for ($each : @off) {
    $off = $each.1;
    end_hold($each.0, $off, @off_where, @waiters, HOLD_MAPS);
  }
  if (@cpython == 0) { printf("No thread with the GIL of a CPython was seen.\\n"); }
  PRINT_ROLES
  SHOW_MAPS
}
"""


class GilCounts(Record):
    """What a command makes of waits and holds. ``who`` and ``stacks`` are expressions that are noted of a thread when
    its wait begins or it leaves the CPU; ``wait``, ``hold`` and ``sample`` are statements. In ``wait`` and ``hold``,
    $ns is how long it took, and $who has what was noted; in ``hold``, $who.0 is "asleep" or "no CPU", and $blocks says
    whether another thread waited. ``wait_maps`` and ``hold_maps``: the maps that they use."""

    who: list[str]
    stacks: str
    wait: str
    wait_maps: str
    hold: str
    hold_maps: str
    sample: str
    shows: str
    begin: str = ""
    watch: str = ""


def build_script(counts: GilCounts, traced: str, hertz: int, seconds: int, roles: bool = False) -> str:
    """The program for processes of which the condition ``traced`` is true; with ``roles`` it also shows what each
    thread's process is for."""
    text = note_roles(_SCRIPT, roles) + (f"interval:s:{seconds} {{ exit(); }}\n" if seconds else "")
    for name, value in (
            ("WATCH\n", counts.watch), ("BEGIN\n", counts.begin), ("COUNT_WAIT", counts.wait),
            ("COUNT_HOLD", counts.hold), ("COUNT_SAMPLE", counts.sample), ("SHOW_MAPS", counts.shows),
            ("WAIT_MAPS", counts.wait_maps), ("HOLD_MAPS", counts.hold_maps), ("WHO", ", ".join(counts.who)),
            ("STACKS", counts.stacks), ("PERIOD", str(10**9 // hertz)), ("HERTZ", str(hertz)), ("TRACED", traced),
            ("HOLDER", str(py.GIL_HOLDER)), ("LOCKED", str(py.GIL_LOCKED)), ("SWITCHES", str(py.GIL_SWITCHES)),
            ("WAITING", str(py.GIL_WAITING)), ("SIZE", str(py.GIL_SIZE))):
        text = text.replace(name, value)
    return text
