"""dw_ustack: a copy of registers and stack, unwound when its frames are first asked for."""

from __future__ import annotations

from struct import Struct as Layout
from sys import byteorder

from ...arch import this_arch
from ...types import STACK_COPY, STACK_PAGE, StackCopy
from .values import DecodingContext, StackTrace

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

_HEAD = Layout("=II").unpack_from


class UnwoundStack(StackTrace):
    """A user stack unwound in user space; stacks are equal if their frames are."""

    __slots__ = ("_addresses",)

    def __init__(self, type: StackCopy, tgid: int, addresses: Sequence[int], context: DecodingContext) -> None:
        super().__init__(type, hash(tuple(addresses)), tgid, len(addresses), context)
        self._addresses = addresses

    @property
    def addresses(self) -> Sequence[int]:
        """Instruction addresses, innermost first."""
        return self._addresses

    @property
    def lost(self) -> bool:
        """Never: the record has the frames."""
        return False


def stack_decoder(type: StackCopy, context: DecodingContext) -> Callable[[bytes, int], UnwoundStack]:
    """A function from (buffer, offset) to the unwound stack that was copied there."""
    arch = this_arch()
    pointer = arch.stack_pointer

    def get(buffer: bytes, offset: int) -> UnwoundStack:
        tgid, copied = _HEAD(buffer, offset)
        copied = min(copied, STACK_COPY)
        raw = bytes(buffer[offset + 8:offset + 8 + type.registers])
        registers = {name: int.from_bytes(raw[at:at + 8], byteorder) for name, at in arch.registers.items()
                     if at + 8 <= len(raw)}
        start = offset + 8 + type.registers
        base = int.from_bytes(raw[pointer:pointer + 8], byteorder) & -STACK_PAGE
        addresses = context.unwind_stack(registers, bytes(buffer[start:start + copied]), base, tgid, type.limit)
        return UnwoundStack(type, tgid, addresses, context)
    return get
