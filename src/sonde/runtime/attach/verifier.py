"""The kernel verifier's log explained, at the script's own line."""

from __future__ import annotations

import re

from ...base.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from ...source import Span


class Explanation(Record):
    """What a verifier log comes down to: ``index`` is the instruction (-1 unknown), ``line`` the kernel's own words."""

    cause: str
    index: int
    span: Span | None
    line: str


# What the kernel says → what it means. The first rule that matches the deciding line wins; groups fill {0}, {1} ...
_RULES: tuple[tuple[str, str], ...] = (
    (r"BPF program is too large\. Processed (\d+) insn",
     "the program is too complex: the verifier gave up after {0} instructions; simplify it or split the probe"),
    (r"The sequence of (\d+) jumps is too complex", "the program has too many branches; split the probe"),
    (r"program too large|too many insns|number of .* exceeds", "the program is too large for this kernel"),
    (r"infinite loop detected at insn (\d+)", "a loop does not end as far as the kernel can see"),
    (r"back-edge from insn (\d+) to (\d+)", "a loop is not allowed on this kernel, or has no bound that it can see"),
    (r"loop is not bounded|too many iterations", "a loop has no bound that the kernel can see"),
    (r"combined stack size of \d+ calls is (\d+)\. Too large",
     "too many or too large local variables: {0} bytes of stack, the kernel allows 512"),
    (r"(?:invalid stack|invalid write to stack|stack depth|invalid variable-offset .* stack).*?off=?-?(\d+)?",
     "a local variable lies outside the 512 bytes of stack that programs have"),
    (r"invalid (?:indirect )?read from stack", "a local variable is read before it was set"),
    (r"unknown func (?:bpf_)?(\w+)#\d+", "this kernel's programs of this type cannot call the helper bpf_{0}"),
    (r"program of this type cannot use helper (?:bpf_)?(\w+)#\d+",
     "programs of this probe type cannot call the helper bpf_{0}"),
    (r"invalid func (\S+)", "this kernel does not have the helper function {0}"),
    (r"calling kernel function (\S+) is not allowed", "this program may not call the kernel function {0}"),
    (r"kernel (?:btf_id|function) .*not", "a kernel function that the program calls is missing here"),
    (r"cannot call GPL[- ]restricted function", "a function is for programs under the GPL only: config license"),
    (r"R\d+ pointer comparison prohibited", "a pointer is compared with a number, which this kernel forbids"),
    (r"R\d+ (?:pointer arithmetic|bitwise operator|32-bit pointer arithmetic).*prohibited",
     "arithmetic on this pointer is forbidden"),
    (r"R\d+ invalid mem access '(?:map_value|mem|ringbuf_mem|.*)_or_null'",
     "memory is used without testing that it is there (it may be NULL)"),
    (r"R\d+ invalid mem access '(?:scalar|inv|imm)'",
     "a number is used as an address without a safe read"),
    (r"R\d+ invalid mem access '(\w+)'", "memory of kind {0} cannot be accessed like this"),
    (r"invalid access to map value, value_size=(\d+) off=(-?\d+) size=(\d+)",
     "access outside a map value: {2} bytes at {1} of {0}"),
    (r"invalid access to memory, mem_size=(\d+) off=(-?\d+) size=(\d+)",
     "access outside memory: {2} bytes at {1} of {0}"),
    (r"R\d+ (?:min value is negative|unbounded memory access|max value is outside)",
     "an index or a length is not limited to the memory that it is used with"),
    (r"invalid bpf_context access off=(\d+) size=(\d+)", "this probe's context has no {1} bytes at {0}"),
    (r"access beyond struct (\w+)", "access beyond the end of struct {0}"),
    (r"R(\d+) !read_ok", "register R{0} is read before it was set"),
    (r"Unreleased reference", "a ring buffer record is reserved but never sent"),
    (r"unreachable insn (\d+)", "a part of the program cannot be reached"),
    (r"misaligned", "memory is accessed at an address that is not aligned"),
    (r"only read is supported", "kernel memory cannot be written"),
    (r"must use preallocated|can only use preallocated", "this kernel wants preallocated maps in this probe type"),
    (r"attach_btf_id .*is not|invalid attach_btf_id|Cannot find .*btf", "the kernel has no such function to attach to"),
    (r"Cannot recursively attach|Cannot nest tracing program",
     "that program is itself a tracing program, to which this kernel attaches no other"),
    (r"Can attach to only JITed progs", "that program is interpreted, and the kernel attaches only to compiled ones"),
    (r"requires BPF JIT", "it takes BPF's JIT compiler, which is off (sysctl net.core.bpf_jit_enable=1)"),
    (r"missing btf func_info", "the program calls back into itself and lacks type information"),
)

_INSTRUCTION = re.compile(r"^(?:from \d+ to )?(\d+)(?:: \(|: R\d|: safe)")
_NOISE = re.compile(r"^(?:insns processed|processed \d+ insns|verification time|stack depth|max_states|mark_precise|"
                    r"func#|\s*$|;|(?:from \d+ to )?\d+: |(?:cur|old) state| ?R\d(?:_\w+)?=|last_idx|first_idx|"
                    r"regs=|parent |propagating|arg#\d)")

_GIVEN_UP = re.compile(r"BPF program is too large|infinite loop detected")  # may follow an instruction on its line


def explain_log(log: str, lines: Sequence[tuple[int, Span]] = (), limit: int = 240) -> Explanation:
    """The deciding line of a verifier log in words, its instruction, and that instruction's span in the script.

    ``lines`` are (instruction index, span), ascending. An unknown message is passed on as the kernel wrote it.
    """
    index, deciding = -1, ""
    for text in log.split("\n"):
        match = _INSTRUCTION.match(text)
        if match:
            index = int(match[1])
        if not _NOISE.match(text) or _GIVEN_UP.search(text):
            deciding = text.strip()
    index = _named_instruction(deciding, index)
    return Explanation(_explain_line(deciding)[:limit], index, _span_at(lines, index), deciding)


def first_sentence(log: str) -> str:
    """What the kernel said first; "" if it only counted."""
    return next((text.strip() for text in log.splitlines() if not _NOISE.match(text)), "")


def _explain_line(deciding: str) -> str:
    for pattern, words in _RULES:
        match = re.search(pattern, deciding)
        if match:
            return words.format(*[group or "" for group in match.groups()])
    return deciding or "the kernel gave no reason"


def _named_instruction(deciding: str, index: int) -> int:
    """Some messages name the instruction themselves, because they come before or after the walk."""
    match = re.search(r"(?:at|unreachable|from|alloc_insn=) ?(?:insn )?(\d+)", deciding)
    return int(match[1]) if match and ("insn" in deciding) else index


def _span_at(lines: Sequence[tuple[int, Span]], index: int) -> Span | None:
    nearest = None
    for start, span in lines:
        if start > index:
            break
        nearest = span
    return nearest
