"""The part of random programs that reads memory: structs, pointers, arrays, enums and buffers; see memory.py."""

from __future__ import annotations

import random
from collections.abc import Callable

from fuzz.memory import COUNT

WHOLE = "(struct thing *)uptr($2)"
NUMBERS = ("a", "b", "c", "d", "e", "f", "low", "high", "rest", "word", "inner", "more", "part.x", "part.y",
           "parts[1].x")
ARRAYS = {"n": 4, "bytes": 4, "part.b": 4, "parts[0].b": 4, "name": 12}  # member: elements
BUFFERS = ("name", "bytes", "part.b", "parts[1].b")
VALUES = ("part", "n", "bytes", "part.b", "parts", "hue", "next", "text", "name", "parts[1]", "n[2]")
HUES = ("RED", "GREEN", "BLUE")
UNITS = {"int8": 1, "uint8": 1, "int16": 2, "uint16": 2, "int32": 4, "uint32": 4, "int64": 8, "uint64": 8}
SMALLEST = 96  # bytes of a thing that are surely there


class Things:
    """What :class:`fuzz.programs.Writer` writes of things; it has the abstract methods."""

    random: random.Random
    inside: bool  # where there is a $thing
    functions_of_things: list[str]

    def pick(self, *choices: str) -> str:
        raise NotImplementedError

    def chance(self, share: float) -> bool:
        raise NotImplementedError

    def varying(self, depth: int) -> str:
        raise NotImplementedError

    def name(self) -> str:
        raise NotImplementedError

    def one(self, *choices: Callable[[], str]) -> str:
        return self.random.choice(choices)()

    def other(self) -> str:
        """A number that has nothing to do with things."""
        inside, self.inside = self.inside, False
        found = self.varying(1)
        self.inside = inside
        return found

    def upto(self, count: int) -> str:
        """A place in so many elements, known or not."""
        if self.chance(0.5):
            return str(self.random.randrange(count))
        return f"(({self.other()}) & {(1 << count.bit_length() - 1) - 1})"

    # pointers and what they point at

    def first_thing(self) -> str:
        """A pointer to the first thing."""
        return f"({WHOLE})" if self.chance(0.3) else "$thing"

    def thing(self) -> str:
        """A pointer to some thing."""
        first = self.first_thing()
        return self.one(
            lambda: first, lambda: f"{first}->next", lambda: f"({first} + {self.upto(COUNT)})",
            lambda: f"({self.upto(COUNT)} + {first})", lambda: f"{first}->next->next",
            lambda: f"({self.other()} ? {first} : {first}->next)", lambda: f"({first}[{self.upto(COUNT)}].next)")

    def place(self) -> str:
        """A struct thing, up to its member."""
        return self.one(lambda: f"{self.thing()}->", lambda: f"{self.thing()}->", lambda: f"(*{self.thing()}).",
                        lambda: f"{self.first_thing()}[{self.upto(COUNT)}].")

    def member(self) -> str:
        return self.place() + self.pick(*NUMBERS)

    def element_of_thing(self) -> str:
        array = self.pick(*ARRAYS)
        return f"{self.place()}{array}[{self.upto(ARRAYS[array])}]"

    def of_thing(self) -> str:
        """What a function of the script makes of one."""
        if not self.functions_of_things:
            return self.member()
        return f"{self.pick(*self.functions_of_things)}({self.first_thing()}, (int64)({self.other()}))"

    def thing_number(self) -> str:
        """A number that is read."""
        kind = self.pick(*UNITS)
        return self.one(
            *[self.member] * 5, *[self.element_of_thing] * 4, *[self.of_thing] * 2,
            lambda: f"(({kind} *){self.thing()})[{self.upto(SMALLEST // UNITS[kind])}]",
            lambda: f"*({kind} *)(((uint8 *){self.thing()}) + {self.upto(SMALLEST - 8)})",
            lambda: f"((uint64){self.place()}hue)", lambda: f"({self.thing()} - {self.first_thing()})",
            lambda: f"({self.place()}hue {self.pick('+', '^')} 1)", lambda: "(@zero + sizeof(struct thing))",
            lambda: "(@zero + offsetof(struct thing, parts))", lambda: f"strlen(str({self.place()}text))",
            lambda: f"(int64)(memcmp({self.place()}part.b, {self.place()}bytes, {self.random.randrange(5)}) "
                    f"{self.pick('==', '!=', '<', '>')} 0)",
            lambda: f"bswap({self.place()}{self.pick(*'bdf')})", lambda: f"(*(&$thing))->{self.pick(*NUMBERS)}",
            lambda: f"(enum hue)({self.other()}) + 0", lambda: f"(@zero + strcap({self.place()}name))",
            lambda: f"(uint32){self.place()}{self.pick('bytes', 'part.b')}",
            lambda: f"{self.place()}part.b[{self.upto(4)}]")

    def thing_text(self) -> str:
        return self.one(
            lambda: f"{self.place()}name", lambda: f"str({self.place()}text)", lambda: f"str({self.place()}name)",
            lambda: f"str({self.place()}text, {self.random.choice((1, 2, 6, 20, 64))})",
            lambda: f"str({self.place()}text, {self.upto(32)})", lambda: f"str({self.place()}name, 4)")

    def thing_condition(self) -> str:
        order, same = self.pick("==", "!=", "<", ">="), self.pick("==", "!=")
        array = self.pick("n", "bytes", "part.b")
        return self.one(
            lambda: f"({self.thing()} {order} {self.thing()})", lambda: f"({self.thing()} || 0)",
            lambda: f"({self.place()}{array} {same} {self.place()}{array})",
            lambda: f"({self.place()}hue {order} {self.pick(*HUES)})",
            lambda: f"({self.place()}hue {order} {self.place()}hue)",
            lambda: f"(memcmp({self.place()}name, {self.place()}name, 3) {same} 0)",
            lambda: f"!{self.place()}{self.pick(*NUMBERS)}",
            lambda: f"({self.thing()} && {self.place()}{self.pick(*NUMBERS)})",
            lambda: f"({self.thing()} {same} 0)", lambda: f"is_err({self.thing()})")

    def buffer(self) -> str:
        member = self.pick(*BUFFERS)
        return self.one(
            lambda: f"buf({self.place()}bytes)", lambda: f"buf({self.place()}{member}, {self.random.randrange(5)})",
            lambda: f"buf({self.place()}text, {self.random.randrange(1, 40)})",
            lambda: f"buf({self.place()}text, {self.upto(16)})",
            lambda: f"buf({self.place()}{member}, {self.upto(16)})",
            lambda: f'buf("hello", {self.random.randrange(1, 5)})')

    def value_of_thing(self) -> str:
        return self.one(
            lambda: f"*{self.thing()}", lambda: f"{self.place()}{self.pick(*VALUES)}", self.thing, self.buffer,
            lambda: f"(enum hue)({self.other()})", lambda: self.pick(*HUES),
            lambda: f"(int32[4]){self.place()}n")

    def thing_statement(self) -> str:
        """Prints, and maps of such values: @thing, @part, @hue, @raw and @at have been assigned to already."""
        name, key = f"${self.name()}", self.upto(4)
        return self.one(
            lambda: f"print({self.value_of_thing()});",
            lambda: f"print(({self.other()}, {self.value_of_thing()}));",
            lambda: f'printf("%s|%d|%r|%p\\n", {self.place()}hue, {self.place()}hue, {self.buffer()}, {self.thing()});',
            lambda: f'printf("%rx|%-20rh|%10s|%c\\n", {self.buffer()}, {self.buffer()}, {self.thing_text()}, '
                    f'{self.thing_number()});',
            lambda: f"@thing[{key}] = *{self.thing()};",
            lambda: f"@part[{key}] = {self.place()}{self.pick('part', 'parts[0]', 'parts[1]')};",
            lambda: f"@hue[{self.place()}hue, {key}] = {self.place()}hue;",
            lambda: f"@raw[{key}] = {self.buffer()};",
            lambda: f"@at = {self.thing()}; print(@at->{self.pick(*NUMBERS)});",
            lambda: f"print(@thing[{key}].{self.pick(*NUMBERS)});",
            lambda: f"print(@thing[{key}].{self.pick(*VALUES)});",
            lambda: f"print(@part[{key}].b[{self.upto(4)}]);",
            lambda: f"{name} = *{self.thing()}; print({name}.{self.pick(*NUMBERS, *VALUES)});",
            lambda: f"{name} = {self.place()}n; print({name}[{self.upto(4)}]); print({name});",
            lambda: f"{name} = ({self.other()}, {self.place()}part); print({name}.1.{self.pick('x', 'y', 'b')});",
            lambda: f"{name} = {self.first_thing()}; {name}++; {name} += {self.upto(2)}; "
                    f"print({name}->{self.pick(*NUMBERS)}); print({name} - {self.first_thing()});",
            lambda: f"let {name}: enum hue = (enum hue)({self.other()}); print({name}); print({name} == GREEN);",
            lambda: f"for ({name} : @part) {{ @total += {name}.1.y + {name}.1.b[{name}.0 & 3] + {name}.0; }}",
            lambda: f"for ({name} : @thing) {{ if ({name}.1.low > 2) {{ continue; }} @total += {name}.1.e; }}",
            lambda: f"@array[{self.place()}n] = {self.pick('1', '2')}; delete(@array, {self.place()}n);",
            lambda: f"print(has_key(@part, {key}));",
            lambda: f"if (find(@part, {key}, {name})) {{ print({name}.x); }}")

    def first_things(self) -> str:
        """What the first clause assigns, so that the checker knows these maps."""
        return ("@thing[0] = *$thing; @part[1] = $thing->part; @hue[$thing->hue, 1] = RED; "
                "@raw[0] = buf($thing->text, 40); @at = $thing; @total = (int64)0; @array[$thing->n] = 1; ")
