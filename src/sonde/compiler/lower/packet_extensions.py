"""Past IPv6's extension headers (RFC 8200, 4302), in a function of its own: few packets have any, and the verifier
need not follow a loop over them once more in each program's main part."""

from __future__ import annotations

from ...types import Struct
from ..ir import BasicBlock, Operand, Reg
from ..widen import BOUNDED
from .core import Lower
from .packets import reader_function
from .state import FunctionState, Sharing

HOP_BY_HOP, ROUTING, FRAGMENT, AUTHENTICATION, OPTIONS = EXTENSIONS = 0, 43, 44, 51, 60
MOST_HEADERS = 8  # between the fixed one and the transport's
# Where the parts of what the function returns begin: the offset of the header reached, that header's protocol, the
# fragment as packet() tells it, and whether that header is the transport's.
PROTOCOL, FRAGMENT_WORD, REACHED = 32, 40, 56


def extensions_function(lo: Lower, type: Struct) -> str:
    """The function of (skb, begin, offset of the first extension header, its protocol). Once in a program."""
    key = ("packet extensions", type.name)
    if key not in lo.callbacks:
        reader = reader_function(lo, type)
        function = lo.add_function(f"extensions{len(lo.program.functions)}", 4)
        function.separate = True
        lo.callbacks[key] = function.name
        with lo.building(FunctionState(function, lo.b.span, Sharing())):
            _Walk(lo, reader).lower()
    return lo.callbacks[key]


class _Walk:
    """The walk, one header in each round."""

    def __init__(self, lo: Lower, reader: str) -> None:
        self.b, self.reader = lo.b, reader
        self.skb, self.begin, next, protocol = [self.b.mov(parameter) for parameter in self.b.function.params]
        self.next, self.protocol, self.fragment = (self.b.function.reg(n) for n in ("next", "protocol", "fragment"))
        for register, value in ((self.next, next), (self.protocol, protocol), (self.fragment, 0)):
            self.b.set(register, value)
        self.unread = self.b.block("unread")

    def lower(self) -> None:
        b = self.b
        rounds, head, body, reached = b.function.reg("rounds"), b.block(BOUNDED), b.block("header"), b.block("reached")
        b.set(rounds, 0)
        b.jump(head)
        b.start(head)
        b.branch("jlt", rounds, MOST_HEADERS, body, self.unread)
        b.start(body)
        self._pass_one(reached)
        b.set(rounds, b.alu("add", rounds, 1))
        b.jump(head)
        for block, flag in ((self.unread, 0), (reached, 1)):
            b.start(block)
            parts = ((self.protocol, PROTOCOL), (self.fragment, FRAGMENT_WORD), (flag, REACHED))
            whole: Operand = b.alu("and", self.next, (1 << PROTOCOL) - 1)
            for value, shift in parts:
                whole = b.alu("or", whole, b.alu("lsh", b.mov(value), shift))
            b.exit(whole)

    def _pass_one(self, reached: BasicBlock) -> None:
        """Go past a header; to ``reached`` if it is none of these."""
        b, size, following = self.b, self.b.function.reg("size"), self.b.block("following")
        options, authentication, fragment = (b.block(name) for name in ("options", "authentication", "fragment"))
        for number, block in zip(EXTENSIONS, (options, options, fragment, authentication, options)):
            other = b.block("other")
            b.branch("jeq", self.protocol, number, block, other)
            b.start(other)
        b.jump(reached)
        for block, more, shift in ((options, 1, 3), (authentication, 2, 2)):
            b.start(block)
            b.set(size, b.alu("lsh", b.alu("add", self._load(1, 1), more), shift))
            b.jump(following)
        b.start(fragment)
        b.set(size, 8)
        self._read_fragment(following)
        b.start(following)
        b.set(self.protocol, self._load(0, 1))
        b.set(self.next, b.alu("add", self.next, size))

    def _read_fragment(self, first: BasicBlock) -> None:
        """What follows the header in a later fragment is no transport header."""
        b, later = self.b, self.b.block("later")
        word = self._load(2, 2)
        b.set(self.fragment, b.alu("and", word, 0xFFF9))
        b.branch("jeq", b.alu("and", word, 0xFFF8), 0, first, later)
        b.start(later)
        b.set(self.protocol, self._load(0, 1))
        b.jump(self.unread)

    def _load(self, offset: int, size: int) -> Reg:
        b, good = self.b, self.b.block("good")
        value = b.function_call(self.reader, [self.skb, self.begin, b.alu("add", self.next, offset), size, 0])
        b.branch("jslt", value, 0, self.unread, good)
        b.start(good)
        return value
