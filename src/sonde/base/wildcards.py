"""Names in which ``*`` stands for anything: of probes, in scripts and listings."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable


COLD = ".cold"  # of GCC and Clang: f.cold is the rarely executed part of a function
RUNNING = "/proc/*/exe"  # as a path: the programs that processes run, each once


def pattern_matcher(pattern: str) -> Callable[[str], bool]:
    """What a name must be like. No pattern takes longer than its length times the name's."""
    first, *pieces = pattern.split("*")
    if not pieces:
        return lambda name: name == first
    *middle, last = [piece for piece in pieces[:-1] if piece] + pieces[-1:]

    def matches(name: str) -> bool:
        """Each piece at the first place after the one before it: no other choice of places leaves more room."""
        if not name.startswith(first):
            return False
        at = len(first)
        for piece in middle:
            at = name.find(piece, at) + len(piece)
            if at < len(piece):
                return False
        return len(name) - at >= len(last) and name.endswith(last)
    return matches


def split_taken(text: str) -> tuple[str, tuple[int, str] | None]:
    """``pattern(argN=STRUCT)``: the pattern, and N and STRUCT, of functions whose argument N is the first that points
    to a struct STRUCT; without brackets, the text and None. ValueError if something else is in the brackets."""
    pattern, bracket, rest = text.partition("(")
    if not bracket:
        return text, None
    argument, equals, struct = rest.removesuffix(")").partition("=")
    number = argument.removeprefix("arg")
    if not (equals and rest.endswith(")") and argument[:3] == "arg" and len(number) == 1 and number in "012345"
            and struct.isidentifier()):
        raise ValueError(text)
    return pattern, (int(number), struct)


def bpf_matcher(pattern: str) -> Callable[[int, str], bool]:
    """Whether a pattern takes a function of a BPF program, by the program's number or type (see spec.BpfFunction)."""
    matches = pattern_matcher(pattern)
    return lambda number, type: matches(str(number)) or bool(type) and matches(type)


def function_matcher(pattern: str) -> Callable[[str], bool]:
    """The same for functions of programs. Parts that a compiler moved out of a function do not count as functions, for
    what jumps there has passed the function's entry; but their names can be written."""
    matches = pattern_matcher(pattern)
    return matches if COLD in pattern else lambda name: matches(name) and COLD not in name
