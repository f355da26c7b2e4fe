"""The library on the running kernel."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest

import sonde
from sonde.runtime.records.values import StackTrace

GETPPID = "tracepoint:syscalls:sys_enter_getppid"


def calls(number: int) -> None:
    for _ in range(number):
        os.getppid()


def test_maps_are_mappings_with_typed_keys_and_values() -> None:
    pid = os.getpid()
    script = (f"{GETPPID} /pid == {pid}/ {{ @[comm, pid] = count(); @n = count(); @h = hist(10); @s = stats(4); "
              '@t[1] = (2, "x"); }')
    with sonde.trace(script) as tracing:
        calls(100)
        key = next(iter(tracing.maps["@"]))
        assert key[1] == pid and tracing.maps["@"][key] == 100 and len(tracing.maps["@"]) == 1
        assert tracing.maps["@n"].value == 100
        histogram = tracing.maps["@h"].value
        assert isinstance(histogram, sonde.Histogram) and histogram.total == 100
        assert [(b.low, b.high, b.count) for b in histogram] == [(8, 16, 100)]
        stats = tracing.maps["@s"].value
        assert (stats.count, stats.average, stats.total) == (100, 4, 400)
        assert tracing.maps["@t"][1] == (2, "x")
        with pytest.raises(KeyError):
            tracing.maps["@t"][2]
    assert tracing.maps["@n"].value == 100, "maps outlive the session"
    assert not tracing.losses


def test_events_are_typed_and_in_order() -> None:
    script = f'{GETPPID} /pid == {os.getpid()}/ {{ @n++; printf("%d %s\\n", @n, comm); if (@n == 50) {{ exit(7); }} }}'
    with sonde.trace(script) as tracing:
        calls(60)
        events = list(tracing.events(timeout=20))
    assert [event.args[0] for event in events] == list(range(1, 51))
    assert {event.kind for event in events} == {"printf"} and {event.probe for event in events} == {GETPPID}
    assert tracing.status == 7


def test_who_is_asked_for_maps_goes_on_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    """SIGUSR1 is for the command line, which prints them."""
    looks = []
    with sonde.trace("interval:s:60 { @ = 1; }", handle_signals=True) as tracing:
        poll = tracing.session.poll
        monkeypatch.setattr(tracing.session, "poll", lambda timeout=None: looks.append(1) or poll(timeout))
        os.kill(os.getpid(), signal.SIGUSR1)
        assert not list(tracing.events(timeout=0.3))
    assert len(looks) < 10


def test_callbacks_and_printed_maps() -> None:
    seen: list[tuple[str, tuple[object, ...]]] = []
    with sonde.trace('begin { @x[1] = 2; print(@x); print((1, "a")); clear(@x); exit(); }') as tracing:
        tracing.run(lambda event: seen.append((event.kind, event.args)), timeout=20)
    assert seen == [("print_map", ("@x", [(1, 2)])), ("print", ((1, "a"),))]
    assert len(tracing.maps["@x"]) == 0


def test_commands_and_parameters() -> None:
    script = f'{GETPPID} /pid == cpid/ {{ @["$1" == "one"] = count(); }}'.replace('"$1" == "one"', "str($1)")
    code = "import os\nfor i in range(33): os.getppid()"
    with sonde.trace(script, params=["one"], command=[sys.executable, "-c", code]) as tracing:
        tracing.run(timeout=30)
    assert dict(tracing.maps["@"]) == {"one": 33}


def test_a_stack_that_was_not_kept_has_no_frames() -> None:
    with sonde.trace(f"{GETPPID} /pid == {os.getpid()}/ {{ @[kstack] = count(); }}") as tracing:
        calls(3)
    [(kept, count)] = tracing.maps["@"].items()
    assert count == 3 and kept.depth > 0 and kept.frames
    assert not StackTrace(kept.type, kept.id + 1, 0, kept.depth, kept._context).frames


def children() -> set[str]:
    with open(f"/proc/self/task/{threading.get_native_id()}/children") as file:
        return set(file.read().split())


def test_a_trace_that_fails_leaves_no_command_behind(tmp_path: Path) -> None:
    before = children()
    with pytest.raises(sonde.CompileError):
        sonde.trace("begin { print(piid); }", command=["sleep", "60"])
    assert children() == before
    nothing = tmp_path / "nothing"
    nothing.write_bytes(b"\0")
    nothing.chmod(0o755)
    with pytest.raises(sonde.SondeError, match="cannot execute"), sonde.trace("begin { }", command=[str(nothing)]):
        pass
    assert children() == before
    maps = "; ".join(f"@m{n}[pid] = 1" for n in range(3))  # more memory than there is
    with pytest.raises(sonde.SondeError), \
            sonde.trace(f"config = {{ max_map_keys = 4000000000 }} begin {{ {maps}; }}", command=["sleep", "60"]):
        pass
    assert children() == before


def test_a_trace_that_is_not_entered() -> None:
    before = children()
    sonde.trace("begin { exit(); }", command=["sleep", "60"]).close()
    assert children() == before


def test_errors_carry_data() -> None:
    with pytest.raises(sonde.CompileError) as caught:
        sonde.trace("tracepoint:sched:sched_swich { }")
    first = caught.value.diagnostics[0]
    assert first.code == "missing-probe" and "sched_switch" in " ".join(first.hints)
    with pytest.raises(sonde.CompileError) as caught:
        sonde.compile("begin { print(piid); }")
    assert caught.value.diagnostics[0].span.text == "piid"


def test_spec_is_data() -> None:
    spec = sonde.compile("begin { @x = count(); }")
    assert [p.attach[0].kind for p in spec.programs] == ["begin"] and spec.find_map("@x").value.kind == "count"


def test_a_trace_can_be_left_early() -> None:
    with sonde.trace(f"{GETPPID} {{ @ = count(); }}") as tracing:
        for _ in tracing.events(timeout=0.05):
            break
    tracing.close()


EXITS = 'interval:ms:5 { @n++; printf("%d\\n", @n); if (@n == 5) { exit(7); } }'


def test_the_status_does_not_depend_on_who_reads() -> None:
    with sonde.trace(EXITS) as stopped:
        time.sleep(0.3)
        assert [event.args[0] for event in stopped.stop()] == [1, 2, 3, 4, 5]
        assert stopped.status == 7
    with sonde.trace(EXITS) as left:
        time.sleep(0.3)
    assert left.status == 7 and left.maps["@n"].value == 5 and not left.losses
    with sonde.trace(EXITS + " end { exit(8); }") as ended:
        time.sleep(0.3)
    assert ended.status == 8
    with sonde.trace("begin { }", command=["sh", "-c", "exit 3"]) as command:
        list(command)
    assert command.status == 3


def test_readers_share_the_events_of_a_trace() -> None:
    seen: list[int] = []

    async def read(tracing: sonde.Trace) -> None:
        async for event in tracing:
            seen.append(event.args[0])
            await asyncio.sleep(0)

    async def work(script: str, stop: bool, close: bool) -> None:
        async with sonde.trace(script) as tracing:
            readers = [asyncio.create_task(read(tracing)) for _ in range(3)]
            if stop or close:
                await asyncio.sleep(0.1)
            if stop:
                tracing.stop()
            if not close:
                await asyncio.gather(*readers)
        await asyncio.gather(*readers)

    asyncio.run(asyncio.wait_for(work(EXITS.replace("== 5", "== 50"), False, False), 20))
    assert sorted(seen) == list(range(1, 51))
    for stop, close in ((True, False), (False, True)):
        asyncio.run(asyncio.wait_for(work('interval:ms:5 { printf("%d %s\\n", 1, ustack); }', stop, close), 20))


@pytest.mark.parametrize(("arguments", "complaint"), [
    ({"source": None}, "source is the text of a script, not None"),
    ({"params": (5,)}, r"params is a list of texts: \$1, \$2 ... of the script, not \(5,\)"),
    ({"params": "57"}, "params is a list of texts.* not '57'"),
    ({"pid": "1"}, "pid is the id of a process .* not '1'"),
    ({"pid": True}, "pid is .* not True"),
    ({"pid": -1}, "pid is .* not -1"),
    ({"pid": 1 << 40}, "pid is "),
    ({"command": ["ls", 5]}, "command is a command: a text, or a list of its words, not"),
    ({"memory": "1G"}, "memory is a number of bytes"),
    ({"budget": 2}, "budget is a share of one CPU's time from 0.001 to 1, as 0.02 for 2% .*, not 2"),
    ({"budget": -1}, "budget is .* not -1"),
    ({"budget": "2%"}, "budget is .* not '2%'"),
    ({"budget": float("nan")}, "budget is .* not nan"),
    ({"container": 5}, "container is the name of a container, pod or service, not 5"),
    ({"flight": 5}, 'flight is a time like "30s".* not 5'),
])
def test_arguments_that_make_no_sense(arguments: dict[str, Any], complaint: str) -> None:
    with pytest.raises(sonde.UsageError, match=complaint):
        sonde.trace(**{"source": "begin { }"} | arguments)


def test_the_arguments_of_a_fleet_are_checked_too() -> None:
    with pytest.raises(sonde.UsageError, match=r"budget is a share of one CPU's time .*, not 2"):
        sonde.fleet("local:a", "begin { }", budget=2)


def test_a_trace_is_entered_once() -> None:
    with sonde.trace("begin { @ = 1; } interval:s:60 { }") as tracing:
        with pytest.raises(sonde.UsageError, match="entered once"):
            tracing.attach()
        assert tracing.maps["@"].value == 1, "it goes on"
    with pytest.raises(sonde.UsageError, match="entered once"), tracing:
        pass
    assert tracing.maps["@"].value == 1
    fresh = sonde.trace("begin { @ = 1; }")
    with pytest.raises(sonde.UsageError, match="not attached"):
        dict(fresh.maps["@"])
    fresh.close()


def test_a_warning_does_not_call_itself_one() -> None:
    with pytest.warns(RuntimeWarning, match="^no container.* is called nosuch yet"), \
            sonde.trace(f"{GETPPID} {{ @ = count(); }}", container="nosuch"):
        pass
