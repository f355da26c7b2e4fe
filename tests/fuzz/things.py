"""The part of random programs that reads memory: structs, pointers, arrays, enums and buffers; see memory.py."""

from __future__ import annotations

import random

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

    def pick(self, *choices: str) -> str:
        raise NotImplementedError

    def chance(self, share: float) -> bool:
        raise NotImplementedError

    def varying(self, depth: int) -> str:
        raise NotImplementedError

    def name(self) -> str:
        raise NotImplementedError

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
        return self.pick(first, f"{first}->next", f"({first} + {self.upto(COUNT)})", f"({self.upto(COUNT)} + {first})",
                         f"{first}->next->next", first,
                         f"({self.other()} ? {first} : {first}->next)", f"({first}[{self.upto(COUNT)}].next)")

    def place(self) -> str:
        """A struct thing, up to its member."""
        return self.pick(f"{self.thing()}->", f"{self.thing()}->", f"(*{self.thing()}).",
                         f"{self.first_thing()}[{self.upto(COUNT)}].")

    def thing_number(self) -> str:
        """A number that is read."""
        order = self.pick("==", "!=", "<", ">")
        pick = self.random.randrange(10)
        if pick < 4:
            return self.place() + self.pick(*NUMBERS)
        if pick < 6:
            array = self.pick(*ARRAYS)
            return f"{self.place()}{array}[{self.upto(ARRAYS[array])}]"
        if pick < 7:
            kind = self.pick(*UNITS)
            return f"(({kind} *){self.thing()})[{self.upto(SMALLEST // UNITS[kind])}]"
        if pick < 8:
            kind = self.pick(*UNITS)
            return f"*({kind} *)(((uint8 *){self.thing()}) + {self.upto(SMALLEST - 8)})"
        return self.pick(
            f"((uint64){self.place()}hue)", f"({self.thing()} - {self.first_thing()})",
            f"({self.place()}hue {self.pick('+', '^')} 1)", "(@zero + sizeof(struct thing))",
            "(@zero + offsetof(struct thing, parts))", f"strlen(str({self.place()}text))",
            f"(memcmp({self.place()}part.b, {self.place()}bytes, {self.random.randrange(5)}) {order} 0)",
            f"bswap({self.place()}{self.pick(*'bdf')})",
            f"(*(&$thing))->{self.pick(*NUMBERS)}",
            f"(enum hue)({self.other()}) + 0", f"(@zero + strcap({self.place()}name))")

    def thing_text(self) -> str:
        return self.pick(f"{self.place()}name", f"str({self.place()}text)", f"str({self.place()}text, "
                         f"{self.random.choice((1, 2, 6, 20, 64))})", f"str({self.place()}name)",
                         f"str({self.place()}text, {self.upto(32)})", f"str({self.place()}name, 4)")

    def thing_condition(self) -> str:
        order = self.pick("==", "!=", "<", ">=")
        same = self.pick("==", "!=")
        array = self.pick("n", "bytes", "part.b")
        return self.pick(
            f"({self.thing()} {order} {self.thing()})", f"({self.place()}{array} {same} {self.place()}{array})",
            f"({self.place()}hue {order} {self.pick(*HUES)})", f"({self.place()}hue {order} {self.place()}hue)",
            f"(memcmp({self.place()}name, {self.place()}name, 3) {same} 0)", f"({self.thing()} || 0)",
            f"!{self.place()}{self.pick(*NUMBERS)}", f"({self.thing()} && {self.place()}{self.pick(*NUMBERS)})",
            f"({self.thing()} {same} 0)", f"is_err({self.thing()})")

    def buffer(self) -> str:
        member = self.pick(*BUFFERS)
        return self.pick(f"buf({self.place()}{member})", f"buf({self.place()}{member}, {self.random.randrange(1, 5)})",
                         f"buf({self.place()}text, {self.random.randrange(1, 40)})",
                         f"buf({self.place()}text, {self.upto(16)})", f'buf("hello", {self.random.randrange(1, 5)})')

    def value_of_thing(self) -> str:
        return self.pick(f"*{self.thing()}", f"{self.place()}{self.pick(*VALUES)}", self.thing(), self.buffer(),
                         f"(enum hue)({self.other()})", self.pick(*HUES))

    def thing_statement(self) -> str:
        """Prints, and maps of such values: @thing, @part, @hue, @raw and @at have been assigned to already."""
        name, key = f"${self.name()}", self.upto(4)
        return self.random.choice((
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
            lambda: f"for ({name} : @part) {{ @total += {name}.1.y + {name}.1.b[{self.upto(4)}] + {name}.0; }}",
            lambda: f"for ({name} : @thing) {{ if ({name}.1.low > 2) {{ continue; }} @total += {name}.1.e; }}",
            lambda: f"@array[{self.place()}n] = {self.pick('1', '2')}; delete(@array, {self.place()}n);",
            lambda: f"print(has_key(@part, {key}));",
            lambda: f"if (find(@part, {key}, {name})) {{ print({name}.x); }}"))()

    def first_things(self) -> str:
        """What the first clause assigns, so that the checker knows these maps."""
        return ("@thing[0] = *$thing; @part[1] = $thing->part; @hue[$thing->hue, 1] = RED; "
                "@raw[0] = buf($thing->text, 40); @at = $thing; @total = (int64)0; @array[$thing->n] = 1; ")
