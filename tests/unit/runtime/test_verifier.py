"""Verifier logs in words, and at the script's line."""

from __future__ import annotations

import pytest

from sonde.runtime.attach.verifier import explain_log

NULL_TEST = """\
0: R1=ctx() R10=fp0
; @x[pid] @ stdin:1
0: (85) call bpf_map_lookup_elem#1    ; R0_w=map_value_or_null(id=1,map=x,ks=8,vs=8)
1: (79) r1 = *(u64 *)(r0 +0)
R0 invalid mem access 'map_value_or_null'
processed 2 insns (limit 1000000) max_states_per_insn 0 total_states 0 peak_states 0 mark_read 0
"""

TOO_LARGE = """\
0: R1=ctx() R10=fp0
0: (b7) r0 = 0
1: (05) goto pc-2
BPF program is too large. Processed 1000001 insn
processed 1000001 insns (limit 1000000) max_states_per_insn 4 total_states 16666 peak_states 16666 mark_read 1
"""


def test_a_reason_on_an_instructions_line() -> None:
    """As Linux 7.2 writes it where it has no more to say of the instruction."""
    log = "16: (81) r1 = *(s32 *)(r10 -8)        ; R1=scalar()\n17: (65) if r1 s> 0x1 goto pc+53 infinite loop " \
          "detected at insn 71\ncur state: R6=scalar()\nold state: R6=scalar()\nprocessed 135 insns\n"
    assert explain_log(log, []).cause == "a loop does not end as far as the kernel can see"


def test_the_deciding_line_and_its_place() -> None:
    found = explain_log(NULL_TEST, [(0, "first"), (1, "second"), (2, "third")])
    assert (found.index, found.span) == (1, "second")
    assert "NULL" in found.cause
    assert found.line == "R0 invalid mem access 'map_value_or_null'"


@pytest.mark.parametrize("states", [
    "", "stack depth 16 max 0\ninsns processed 1000001\n", " R0=inv0 R1_w=inv(id=0,smin_value=-1) R10=fp0\n",
    "R0=inv0 R10=fp0\n"])
def test_complexity(states: str) -> None:
    """Linux 5.10 may write what registers hold behind it, on a line of its own."""
    found = explain_log(TOO_LARGE + states, [(0, "only")])
    assert "too complex" in found.cause and "1000001" in found.cause and found.span == "only"


@pytest.mark.parametrize(("line", "words"), [
    ("R1 invalid mem access 'scalar'", "number is used as an address"),
    ("R1 invalid mem access 'inv'", "number is used as an address"),
    ("back-edge from insn 12 to 3", "loop"),
    ("infinite loop detected at insn 7", "loop"),
    ("combined stack size of 2 calls is 544. Too large", "544 bytes"),
    ("invalid write to stack R10 off=-520 size=8", "512 bytes"),
    ("invalid stack off=-520 size=8", "512 bytes"),
    ("unknown func bpf_ktime_get_tai_ns#208", "bpf_ktime_get_tai_ns"),
    ("program of this type cannot use helper bpf_get_stack#67", "bpf_get_stack"),
    ("invalid func unknown#300", "unknown#300"),
    ("calling kernel function bpf_rdonly_cast is not allowed", "bpf_rdonly_cast"),
    ("cannot call GPL-restricted function from non-GPL compatible program", "GPL"),
    ("R2 pointer comparison prohibited", "compared"),
    ("R3 pointer arithmetic with <<= operator prohibited", "arithmetic"),
    ("invalid access to map value, value_size=8 off=8 size=8", "8 bytes at 8 of 8"),
    ("R2 unbounded memory access, use 'var &= const' or 'if (var < const)'", "limited"),
    ("R2 min value is negative, either use unsigned or 'var &= const'", "limited"),
    ("invalid bpf_context access off=176 size=8", "no 8 bytes at 176"),
    ("R3 !read_ok", "R3 is read before"),
    ("Cannot recursively attach", "itself a tracing program"),
    ("Can attach to only JITed progs", "only to compiled ones"),
    ("program requires BPF JIT compiler but it is not available", "net.core.bpf_jit_enable=1"),
    ("Unreleased reference id=2 alloc_insn=9", "never sent"),
    ("unreachable insn 4", "cannot be reached"),
    ("The sequence of 8193 jumps is too complex.", "branches"),
    ("perf_event programs can only use preallocated hash map", "preallocated"),
])
def test_rules(line: str, words: str) -> None:
    log = f"0: R1=ctx() R10=fp0\n5: (b7) r0 = 0\n{line}\nprocessed 3 insns (limit 1000000)\n"
    assert words in explain_log(log).cause


def test_a_message_before_the_walk_names_its_instruction() -> None:
    found = explain_log("unreachable insn 4\nprocessed 0 insns\n", [(0, "a"), (4, "b")])
    assert (found.index, found.span) == (4, "b")


def test_the_unknown_is_passed_on() -> None:
    assert explain_log("0: (b7) r0 = 0\nsomething new happened\n").cause == "something new happened"


@pytest.mark.parametrize("log", ["", "\n\n", "processed 1 insns", "0: (95) exit"])
def test_logs_that_say_nothing(log: str) -> None:
    assert explain_log(log, []).cause == "the kernel gave no reason"
