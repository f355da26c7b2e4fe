"""Events and maps as tables of pandas, polars and Arrow: every value as the workload made it, and its type."""

from __future__ import annotations

import asyncio
import os
import re
import sys
import time
import warnings
from pathlib import Path
from typing import Any

import pytest

import sonde
from sonde.library import data_frames
from support import compile_c

pa = pytest.importorskip("pyarrow", reason="pyarrow is not installed")
pd = pytest.importorskip("pandas", reason="pandas is not installed")
pl = pytest.importorskip("polars", reason="polars is not installed")

ME = os.getpid()
GETPPID = f"tracepoint:syscalls:sys_enter_getppid /pid == {ME}/"
CALLS = 50


def calls(number: int = CALLS) -> None:
    for _ in range(number):
        os.getppid()


def test_events_have_columns_by_name_and_type() -> None:
    script = f'{GETPPID} {{ @n++; printf("n=%d comm=%s %d\\n", @n, comm, pid); if (@n == {CALLS}) {{ exit(); }} }}'
    before = time.time_ns()
    with sonde.trace(script) as tracing:
        calls()
        table = tracing.events(timeout=30).to_arrow()
    assert table.column_names == ["time", "probe", "n", "comm", "pid"]
    assert table.schema.field("time").type == pa.timestamp("ns", "UTC")
    assert pa.types.is_dictionary(table.schema.field("probe").type) and table.schema.field("n").type == pa.int64()
    assert table["n"].to_pylist() == list(range(1, CALLS + 1)) and set(table["pid"].to_pylist()) == {ME}
    times = [value.value for value in table["time"]]
    assert times == sorted(times) and before - 10**9 < times[0] <= times[-1] < time.time_ns() + 10**9
    assert table["probe"].to_pylist() == ["tracepoint:syscalls:sys_enter_getppid"] * CALLS


def test_records_and_durations_in_pandas() -> None:
    script = (f"{GETPPID} {{ print((name=comm, dur=(uint64)1500, level=AF_INET, ok=true)); @n++; "
              "if (@n == 3) { exit(); } }")
    with sonde.trace(script.replace("AF_INET", "2")) as tracing:
        calls(3)
        frame = tracing.events(timeout=30).to_pandas()
    assert list(frame.columns) == ["time", "probe", "name", "dur", "level", "ok"]
    assert str(frame["dur"].dtype) == "timedelta64[ns]" and set(frame["dur"]) == {pd.Timedelta(1500, "ns")}
    assert str(frame["time"].dtype) == "datetime64[ns, UTC]" and str(frame["probe"].dtype) == "category"
    assert frame["ok"].tolist() == [True] * 3 and frame["ok"].dtype == bool


def test_sites_share_columns_of_one_name() -> None:
    script = 'begin { printf("a=%d\\n", 1); printf("a=%d b=%s\\n", 2, "x"); printf("b=%d\\n", 7); exit(); }'
    with sonde.trace(script) as tracing:
        frame = tracing.events(timeout=30).to_pandas()
    assert frame["b"].isna().tolist() == [True, False, False] and frame["b"].tolist()[1:] == ["x", "7"]
    assert str(frame["a"].dtype) == "Int8" and frame["a"].tolist()[:2] == [1, 2]


def test_maps_of_many_types(tmp_path: Path) -> None:
    target = compile_c("int deep(int n) { return n + 1; }\nint outer(int n) { return deep(n) * 3; }\n"
                       "int main(void) { return outer(1) == 6 ? 0 : 1; }", tmp_path, "deep",
                       "-fno-omit-frame-pointer", "-O0")
    script = f"""uprobe:{target}:deep {{
        @stack[ustack, comm] = count(); @address[ntop(0x0100007f), pid == 0] = sum(-5);
        @h[comm] = hist(10); @s = stats(4); @avg[kstack] = avg(6); @t[(1, "x")] = (2, "y");
        @when[strftime("%H", nsecs)] = 1; }}
        begin {{ @e = (uint8)3; @unset[1] = 1; delete(@unset, 1); }}"""
    with sonde.trace(script, command=str(target)) as tracing:
        tracing.run(timeout=60)
    maps = tracing.maps
    stack = maps["@stack"].to_arrow()
    assert stack.schema.field("ustack").type == pa.list_(pa.string()) and stack["value"].to_pylist() == [1]
    frames = stack["ustack"].to_pylist()[0]
    assert frames[-1] == "deep" and frames[-2] == "outer" and frames[-3] == "main", "stacks are kept after the end"
    address = maps["@address"].to_pandas()
    assert address.values.tolist() == [["127.0.0.1", False, -5]]
    hist = maps["@h"].to_polars()
    assert hist.columns == ["comm", "low", "high", "count"] and hist.rows() == [("deep", 8, 16, 1)]
    assert hist.schema["count"] == pl.UInt64
    assert maps["@s"].to_pandas().values.tolist() == [[1, 4, 4]]
    assert maps["@t"].to_arrow().to_pylist() == [{"key1": 1, "key2": "x", "value1": 2, "value2": "y"}]
    assert maps["@when"].to_arrow().schema.field("nsecs").type == pa.timestamp("ns", "UTC")
    assert maps["@e"].to_arrow().to_pylist() == [{"value": 3}] and len(maps["@unset"].to_pandas()) == 0
    assert maps["@unset"].to_pandas()["key"].dtype == "int8"


def test_enums_are_categories() -> None:
    script = (f"{GETPPID} {{ @[(enum bpf_map_type)1] = count(); }}")
    with sonde.trace(script) as tracing:
        calls(4)
    frame = tracing.maps["@"].to_pandas()
    assert str(frame["key"].dtype) == "category" and frame.values.tolist() == [["BPF_MAP_TYPE_HASH", 4]]


def test_a_table_that_lacks_something_warns() -> None:
    script = f"{GETPPID} {{ @n++; @small[@n] = 1; }}"
    with sonde.trace(f"config = {{ max_map_keys = 8 }} {script}") as tracing:
        calls(20)
    with pytest.warns(RuntimeWarning, match="the trace is incomplete: @small was full"):
        assert len(tracing.maps["@small"].to_pandas()) == 8
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with sonde.trace(f"{GETPPID} {{ @ = count(); }}") as whole:
            calls(20)
        assert whole.maps["@"].to_pandas()["value"].tolist() == [20]


def test_async_iteration() -> None:
    """Events come while other tasks run; cancelling a reader loses none."""
    script = f'{GETPPID} {{ @n++; printf("%d\\n", @n); if (@n == {CALLS}) {{ exit(); }} }}'

    async def work() -> tuple[list[int], int]:
        seen: list[int] = []
        turns = 0

        async def read(tracing: sonde.Trace) -> None:
            async for event in tracing:
                seen.append(event.args[0])

        async with sonde.trace(script) as tracing:
            reader = asyncio.create_task(read(tracing))
            for _ in range(CALLS // 2):
                turns += 1
                os.getppid()
                await asyncio.sleep(0.001)
            reader.cancel()
            await asyncio.gather(reader, return_exceptions=True)
            calls(CALLS - CALLS // 2)
            async for event in tracing.events(timeout=30):
                seen.append(event.args[0])
        return seen, turns
    seen, turns = asyncio.run(work())
    assert seen == list(range(1, CALLS + 1)) and turns == CALLS // 2


def test_async_time_out() -> None:
    async def work() -> list[Any]:
        async with sonde.trace("interval:s:100 { print(1); }") as tracing:
            return [event async for event in tracing.events(timeout=0.05)]
    assert asyncio.run(work()) == []


def test_notebook_displays(tmp_path: Path) -> None:
    script = f'{GETPPID} {{ @h = hist(10); @s[kstack] = count(); @t["<b>"] = count(); }}'
    with sonde.trace(script) as tracing:
        calls(7)
    shown = {name: view._repr_mimebundle_() for name, view in tracing.maps.items()}
    assert "[8, 16)" in shown["@h"]["text/plain"] and re.search(r"8.*16.*>7<", shown["@h"]["text/html"])
    assert "<iframe srcdoc=" in shown["@s"]["text/html"] and "_[k]" in shown["@s"]["text/html"]
    assert "&lt;b&gt;" in shown["@t"]["text/html"] and "<b>\"" not in shown["@t"]["text/html"]
    assert shown["@t"]["text/plain"] == "@t[<b>]: 7"
    assert tracing.maps["@h"].value._repr_html_().startswith("<pre>[8, 16)")


def test_a_package_that_does_not_run_here_is_one_sentence(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "broken_extra.py").write_text("raise RuntimeError('the CPU\\nlacks X86_V2')")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(sonde.SondeError, match=r"^this needs broken_extra, which cannot be imported here: the CPU "
                                               r"lacks X86_V2$"):
        data_frames.import_extra("broken_extra", "tables")


def test_a_missing_package_is_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with sonde.trace("begin { @ = count(); }") as tracing:
        pass
    with pytest.raises(sonde.SondeError, match=r"this needs pyarrow: .*-m pip install pyarrow pandas polars"):
        tracing.maps["@"].to_pandas()
