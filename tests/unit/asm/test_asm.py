"""Instructions: their bytes, their text, labels and map references."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bpf_machine import Machine, Memory
from sonde.asm import insn as asm
from sonde.asm.assemble import assemble, format_listing
from sonde.asm.insn import Insn
from sonde.errors import SondeError
from sonde.source import Source, Span
from sonde.spec import Relocation

# Encodings and texts as the kernel knows them (kernel/bpf/disasm.c; bpftool prog dump xlated opcodes).
KNOWN: list[tuple[Insn, str, str]] = [
    (asm.alu("mov", 0, imm=0), "b700000000000000", "r0 = 0"),
    (asm.alu("mov", 6, 1), "bf16000000000000", "r6 = r1"),
    (asm.alu("mov", 1, imm=-1, bits=32), "b4010000ffffffff", "w1 = -1"),
    (asm.alu("mov", 2, 3, bits=32), "bc32000000000000", "w2 = w3"),
    (asm.alu("add", 2, imm=-8), "07020000f8ffffff", "r2 += -8"),
    (asm.alu("sub", 1, 2), "1f21000000000000", "r1 -= r2"),
    (asm.alu("mul", 3, imm=24), "2703000018000000", "r3 *= 24"),
    (asm.alu("div", 3, 4), "3f43000000000000", "r3 /= r4"),
    (asm.alu("sdiv", 3, 4), "3f43010000000000", "r3 s/= r4"),
    (asm.alu("smod", 3, imm=5), "9703010005000000", "r3 s%= 5"),
    (asm.alu("mod", 1, imm=7, bits=32), "9401000007000000", "w1 %= 7"),
    (asm.alu("or", 1, 2), "4f21000000000000", "r1 |= r2"),
    (asm.alu("and", 1, imm=255), "57010000ff000000", "r1 &= 255"),
    (asm.alu("xor", 1, 2), "af21000000000000", "r1 ^= r2"),
    (asm.alu("lsh", 1, imm=32), "6701000020000000", "r1 <<= 32"),
    (asm.alu("rsh", 1, imm=32), "7701000020000000", "r1 >>= 32"),
    (asm.alu("arsh", 1, 2), "cf21000000000000", "r1 s>>= r2"),
    (asm.alu("neg", 4), "8704000000000000", "r4 = -r4"),
    (asm.sign_extend(1, 2, 8), "bf21080000000000", "r1 = (s8)r2"),
    (asm.sign_extend(1, 2, 32), "bf21200000000000", "r1 = (s32)r2"),
    (asm.byte_swap(1, 16), "dc01000010000000", "r1 = be16 r1"),
    (asm.byte_swap(1, 64), "dc01000040000000", "r1 = be64 r1"),
    (asm.load(1, 6, 8, 8), "7961080000000000", "r1 = *(u64 *)(r6 + 8)"),
    (asm.load(1, 10, -4, 4), "61a1fcff00000000", "r1 = *(u32 *)(r10 - 4)"),
    (asm.load(1, 2, 0, 2), "6921000000000000", "r1 = *(u16 *)(r2 + 0)"),
    (asm.load(1, 2, 0, 1), "7121000000000000", "r1 = *(u8 *)(r2 + 0)"),
    (asm.load(1, 2, 0, 4, True), "8121000000000000", "r1 = *(s32 *)(r2 + 0)"),
    (asm.load(1, 2, 0, 1, True), "9121000000000000", "r1 = *(s8 *)(r2 + 0)"),
    (asm.store(10, -8, 1, 8), "7b1af8ff00000000", "*(u64 *)(r10 - 8) = r1"),
    (asm.store(10, -8, 1, 1), "731af8ff00000000", "*(u8 *)(r10 - 8) = r1"),
    (asm.store_imm(10, -8, 5, 4), "620af8ff05000000", "*(u32 *)(r10 - 8) = 5"),
    (asm.store_imm(10, -8, -1, 8), "7a0af8ffffffffff", "*(u64 *)(r10 - 8) = -1"),
    (asm.atomic_add(1, 0, 2, 8), "db21000000000000", "lock *(u64 *)(r1 + 0) += r2"),
    (asm.atomic_add(1, 4, 2, 4), "c321040000000000", "lock *(u32 *)(r1 + 4) += r2"),
    (asm.atomic_exchange("xchg", 1, 0, 2, 8), "db210000e1000000", "lock *(u64 *)(r1 + 0) xchg r2"),
    (asm.atomic_exchange("fetch_add", 1, 0, 2, 8), "db21000001000000", "lock *(u64 *)(r1 + 0) fetch_add r2"),
    (asm.call_helper(14), "850000000e000000", "call helper 14"),
    (asm.call_kfunc(7000), "85200000581b0000", "call kfunc 7000"),
    (asm.exit_(), "9500000000000000", "exit"),
    (Insn(asm.JMP32 | asm.JMP_OPS["ja"], imm=70000), "0600000070110100", "gotol +70000"),
    (asm.load_imm64(1, 0x1122334455667788), "18010000887766550000000044332211", "r1 = 0x1122334455667788 ll"),
    (asm.load_imm64(1, -1), "18010000ffffffff00000000ffffffff", "r1 = 0xffffffffffffffff ll"),
]


def of_the_other_order(code: bytes) -> bytes:
    """struct bpf_insn of a big-endian machine: its opcode, dst and src, and two numbers."""
    return b"".join([bytes((code[at], (code[at + 1] & 15) << 4 | code[at + 1] >> 4))
                     + code[at + 2:at + 4][::-1] + code[at + 4:at + 8][::-1] for at in range(0, len(code), 8)])


@pytest.mark.parametrize(("insn", "code", "text"), [each for each in KNOWN if " = be" not in each[2]])
def test_instructions_of_big_endian_machines(insn: Insn, code: str, text: str) -> None:
    encoded = insn.encode("big")
    assert encoded == of_the_other_order(bytes.fromhex(code))
    (_, back), = asm.decode_program(encoded, "big")
    assert str(back) == text


def test_byte_swaps_are_to_the_order_that_a_machine_has_not() -> None:
    assert asm.byte_swap(1, 16, "big").encode("big").hex() == "d410000000000010"
    assert [str(asm.byte_swap(1, 32, order)) for order in ("little", "big")] == ["r1 = be32 r1", "r1 = le32 r1"]


@pytest.mark.parametrize(("insn", "code", "text"), KNOWN, ids=[text for _, _, text in KNOWN])
def test_known_instructions(insn: Insn, code: str, text: str) -> None:
    assert insn.encode().hex() == code and str(insn) == text
    (index, back), = asm.decode_program(bytes.fromhex(code))
    assert index == 0 and str(back) == text and back.encode().hex() == code


@given(st.lists(st.one_of(
    st.builds(asm.alu, st.sampled_from([*asm.ALU_SIGNS, "sdiv", "smod"]), st.integers(0, 9),
              st.none() | st.integers(0, 10), st.integers(-(1 << 31), (1 << 31) - 1), st.sampled_from([32, 64]))
    .map(lambda i: i if not i.code & 8 else Insn(i.code, i.dst, i.src, i.off)),
    st.builds(asm.load, st.integers(0, 9), st.integers(0, 10), st.integers(-32768, 32767),
              st.sampled_from([1, 2, 4, 8])),
    st.builds(asm.store_imm, st.integers(0, 10), st.integers(-32768, 32767), st.integers(-(1 << 31), (1 << 31) - 1),
              st.sampled_from([1, 2, 4, 8])),
    st.builds(asm.load_imm64, st.integers(0, 9), st.integers(-(1 << 63), (1 << 64) - 1)),
), max_size=20))
def test_decoding_gives_back_what_was_encoded(program: list[Insn]) -> None:
    code = b"".join(i.encode() for i in program)
    found = list(asm.decode_program(code))
    assert [str(i) for _, i in found] == [str(i) for i in program]
    assert b"".join(i.encode() for _, i in found) == code
    assert [at for at, _ in found] == [sum(2 if i.wide else 1 for i in program[:n]) for n in range(len(program))]


@pytest.mark.parametrize("code", [b"\0" * 7, b"\x18" + b"\0" * 7])
def test_truncated_code(code: bytes) -> None:
    with pytest.raises(ValueError):
        list(asm.decode_program(code))


def test_labels_maps_functions_and_lines() -> None:
    source = Source("stdin", "one two")
    one, two = Span(source, 0, 3), Span(source, 4, 7)
    items: list[Insn | str] = [
        "main", asm.map_fd(1, "@x"), "loop", asm.map_value(2, "__state", 16), asm.branch("jeq", 1, None, 0, "end"),
        asm.branch("jslt", 1, 2, 0, "loop", 32), asm.func_address(3, "each"), asm.jump("loop"), "end", asm.exit_(),
        "each", asm.alu("mov", 0, imm=1), asm.exit_()]
    for item in items:
        if isinstance(item, Insn):
            item.span = two if item.code == 0x95 else one
    made = assemble(items, ["main", "each"])
    assert made.relocations == [Relocation(0, "@x", "fd", 0), Relocation(2, "__state", "value", 16)]
    assert made.functions == [(0, "main"), (10, "each")]
    assert made.lines == [(0, one), (9, two), (10, one), (11, two)]
    texts = dict(asm.decode_program(made.code))
    assert texts[4].off == 4 and texts[5].off == -4 and texts[8].off == -7
    assert texts[6].src == asm.PSEUDO_FUNC and texts[6].imm & 0xFFFFFFFF == 10 - 6 - 1
    shown = format_listing(made.code, made.relocations, made.lines)
    assert "r1 = map[@x] ll" in shown and "r2 = map[__state][0]+16 ll" in shown and "; stdin:1:1-4: one" in shown


def test_function_addresses_count_slots() -> None:
    """The immediate is the distance from the next slot's predecessor, as the verifier's check_ld_imm wants it."""
    made = assemble([asm.func_address(2, "f"), asm.exit_(), "f", asm.exit_()], ["f"])
    (_, first), *_ = asm.decode_program(made.code)
    assert first.imm & 0xFFFFFFFF == 3 - 0 - 1


def test_jumps_that_just_reach() -> None:
    filler: list[Insn | str] = [asm.alu("mov", 1, imm=1)] * 32767
    for items in (["main", asm.jump("end"), *filler, "end", asm.exit_()], ["main", *filler, asm.jump("main")]):
        assert len(assemble(items, long_jumps=lambda: True).code) == 8 * (len(items) - (2 if "end" in items else 1))


@pytest.mark.parametrize("count", [10, 32_760, 32_770, 50_000, 300_000])
@pytest.mark.parametrize("long_jumps", [True, False])
def test_long_jumps(long_jumps: bool, count: int) -> None:
    """Forward and back, with a condition that has an opposite, one that has none, and without: in the interpreter."""
    filler: list[Insn | str] = [asm.alu("add", 2, imm=1)] * count
    items = ["main", asm.alu("mov", 0, imm=0), asm.alu("mov", 1, imm=5), asm.branch("jset", 1, None, 4, "end"),
             "back", asm.alu("add", 0, imm=1000), asm.branch("jset", 1, None, 2, "never"), asm.jump("out"),
             "never", *filler, "end", asm.alu("add", 0, imm=1), asm.branch("jeq", 1, None, 5, "back"),
             "out", asm.exit_()]
    made = assemble(items, ["main"], lambda: long_jumps)
    assert Machine(made.code, {}, Memory(), {}, {}).run() == 1001
    offsets = [insn for _, insn in asm.decode_program(made.code) if insn.code == asm.JMP32]
    assert bool(offsets) == (long_jumps and count > 32_767)


def test_more_long_jumps_than_islands_hold() -> None:
    far: list[Insn | str] = [asm.branch("jeq", 1, None, n, f"end{n}") for n in range(20_000)]
    items = [*far, *[asm.alu("mov", 1, imm=1)] * 30_000,
             *[item for n in range(20_000) for item in (f"end{n}", asm.alu("mov", 0, imm=n))], asm.exit_()]
    with pytest.raises(SondeError, match="too long"):
        assemble(items)
    assert assemble(items, long_jumps=lambda: True).code
