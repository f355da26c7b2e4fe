"""Random whole programs that the checker accepts and whose result is known: nothing in them depends on the machine.

A program is written from a seed and a size; ``smaller`` ones of the same seed are what a failure is shrunk to.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable

from fuzz.things import WHOLE, Things

EDGES = (0, 1, 2, 3, 5, 7, 8, 63, 64, 100, 127, 128, 255, 256, 1000, 32767, 32768, 65535, 65536, (1 << 31) - 1, 1 << 31,
         (1 << 32) - 1, 1 << 32, (1 << 63) - 1)
INTS = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")
TEXTS = ("", "a", "ab", "abc", "abcd", "hello", "hello world", "x" * 15, "x" * 16, "y" * 40, "long " * 16)
AGGREGATES = ("count", "sum", "avg", "min", "max", "stats", "hist", "lhist")
READABLE = ("count", "sum", "avg", "min", "max")
Shape = str  # "int", "str", "pair" (int, str), "nested" (int, (str, int)), "record" (a=int, b=str)
SHAPES: tuple[Shape, ...] = ("int", "str", "pair", "nested", "record")
PATTERNS = ("*", "h*o", "*ell*", "?bc*", "*[a-d]", "x*x*x", "long *g long*", "*[!a]?", "abc")
NAMED = {"number": "42", "flag": "true", "word": "given"}  # --number=42 ... for getopt()
MACROS = """macro twice(e) { (e) + (e) }
macro between(low, high, most) { let $v = (int64)(low); ($v < high && $v < most) ? $v : high }
macro bump($v, e) { $v += (int8)(e); $v++; $v }
"""
# What bpftrace refuses (indexes with a sign) or does otherwise; see Writer.common.
_ADDITIONS = re.compile(r"getopt|\]\)|\)\[\(|& [0137]\]|\?:")
EVENT = "tracepoint:syscalls:sys_enter_getppid"


class Map:
    """A map of the program: the shapes of its key ("" for none) and value, or the aggregate that it is."""

    def __init__(self, name: str, key: Shape, value: str, random: random.Random) -> None:
        self.name, self.key, self.value = name, key, value
        self.parameters = {"lhist": ", 0, 100, 7", "hist": random.choice(["", ", 2", ", 5"])}.get(value, "")
        self.cast = random.choice(["", "", "(uint64)"]) if value in ("sum", "avg", "min", "max", "stats") else ""


class Writer(Things):
    """Writes one program. ``events``: also a clause for EVENT, of the process whose pid is $1. ``memory``: perhaps one
    that reads the memory of that process. ``common``: nothing that bpftrace does not know, or does otherwise."""

    def __init__(self, seed: int, size: int = 8, events: bool = False, memory: bool = False,
                 common: bool = False) -> None:
        self.random = random.Random(seed)
        self.common = common
        self.operators = "+-*&|^" if common else "+-*/%&|^"
        self.size = size
        self.events = events
        self.things = memory and self.chance(0.5)
        self.inside = False  # a clause, which has a $thing
        self.scopes: list[dict[str, Shape]] = [{}]
        self.frozen: set[str] = set()  # variables that must not be assigned to: they bound a loop
        self.names = 0
        self.loops = 0
        self.busy: set[str] = set()    # maps that are being iterated over
        self.maps: list[Map] = []  # those that are assigned to already
        self.functions: list[tuple[str, list[str]]] = []  # of the script: name, types of parameters
        self.text_functions: list[tuple[str, list[str]]] = []  # those that return strings
        self.functions_of_things: list[str] = []
        self.macros = False

    def _map(self, index: int) -> Map:
        key = self.pick("", "int", "str", "pair", "nested", "int", "record")
        return Map(f"@m{index}", key, self.pick(*SHAPES, "int", "int", *AGGREGATES), self.random)

    def pick(self, *choices: str) -> str:
        return self.random.choice(choices)

    def chance(self, share: float) -> bool:
        return self.random.random() < share

    # --- values -------------------------------------------------------------------------------------------

    def of(self, shape: Shape, depth: int) -> str:
        """An expression of a shape."""
        known = self.known(shape)
        if known and shape not in ("int", "str") and self.chance(0.5):
            return self.pick(*known)
        inner = max(0, depth - 1)
        if shape == "pair":
            return f"({self.number(inner)}, {self.text(inner)})"
        if shape == "nested":
            return f"({self.number(inner)}, ({self.text(inner)}, {self.number(inner)}))"
        if shape == "record":
            return f"(a={self.number(inner)}, b={self.text(inner)})"
        return self.number(depth) if shape == "int" else self.text(depth)

    def known(self, shape: Shape) -> list[str]:
        """Variables and elements of a shape."""
        found = [f"${name}" for scope in self.scopes for name, have in scope.items() if have == shape]
        found += [self.element(m, True) for m in self.maps if m.value == shape and self.chance(0.3)]
        if shape == "int":
            found += [f"({self.element(m, True)} + 0)" for m in self.maps if m.value in READABLE and self.chance(0.2)]
        return found

    def element(self, m: Map, plain: bool = False) -> str:
        return m.name if not m.key else f"{m.name}[{self.key(m, plain)}]"

    def key(self, m: Map, plain: bool = False) -> str:
        """A key; small ones are likely, so that they are met again. A ``plain`` one is made of literals."""
        if plain or self.chance(0.6):
            number, text = self.random.randrange(4), f'"{self.pick(*TEXTS)}"'
            return {"int": str(number), "str": text, "pair": f"{number}, {text}", "record": f"(a={number}, b={text})",
                    "nested": f"({number}, ({text}, 1))"}[m.key]
        return f"{self.number(1)}, {self.text(1)}" if m.key == "pair" else self.of(m.key, 1)

    def literal(self) -> str:
        return str(self.random.choice(EDGES)) if self.chance(0.9) else self.pick("0xffffffffffffffff", "-1", "-128")

    def atom(self) -> str:
        """A number that is not known when compiling."""
        if self.inside and self.chance(0.2):
            return self.thing_number()
        known = self.known("int")
        if known and self.chance(0.8):
            return self.pick(*known)
        shape = self.pick("pair", "nested", "record")
        composite = [f"${name}" for scope in self.scopes for name, have in scope.items() if have == shape]
        if composite and self.chance(0.4):
            return self.pick(*composite) + {"pair": ".0", "nested": ".1.1", "record": ".a"}[shape]
        keyed = [m.name for m in self.maps if m.key]
        if keyed and self.chance(0.2):
            return f"len({self.pick(*keyed)})"
        return "@zero" if self.chance(0.5) else f"(@zero + {self.literal()})"

    def number(self, depth: int) -> str:
        if depth <= 0:
            return self.literal() if self.chance(0.3) else self.atom()
        return self.varying(depth)

    def varying(self, depth: int) -> str:
        """A number that is not known when compiling, so that folding it cannot overflow."""
        if depth <= 0 or self.chance(0.15):
            return self.atom()
        left = self.varying(depth - 1)
        right = self.literal() if self.chance(0.25) else self.varying(depth - 1)
        pick = self.random.randrange(20)
        if pick < (8 if self.common else 5):
            return f"({left} {self.pick(*'+-*&|^')} {right})"
        if pick < 7:
            return f"({left} {self.pick('/', '%')} {self.varying(depth - 1)})"
        if pick < 8:
            return f"({left} {self.pick('<<', '>>')} {self.pick(f'({self.varying(0)} & 63)', '3', '63')})"
        if pick < 10:
            return f"{self.pick(*'-~')}({self.pick(*INTS)})({left})"  # not of a bool
        if pick < 12:
            return f"(({self.pick(*INTS)})({left}))"
        if pick < 14:
            return f"({self.condition(depth - 1)} ? {left} : {right})"
        return self.unusual(depth, left, right)

    def unusual(self, depth: int, left: str, right: str) -> str:
        choices: list[Callable[[], str]] = [
            lambda: f"strlen({self.unknown_text(depth - 1)})",
            lambda: f"strstr({self.text(depth - 1)}, {self.unknown_text(0)})",
            lambda: f"strncmp({self.unknown_text(0)}, {self.text(depth - 1)}, {self.random.randrange(8)})",
            lambda: f"bswap(({self.pick('uint16', 'uint32', 'uint64', 'int8')})({left}))",
            lambda: f"({left} ?: {right})", lambda: f"({left}, {self.text(depth - 1)}).0",
            lambda: f"(x={left}, y={right}).x", lambda: f"((uint8[8])(uint64)({left}))[{self.random.randrange(8)}]",
            lambda: f"((uint32[2])(int64)({left}))[({self.varying(0)}) & 1]",
            lambda: f"(if ({self.condition(depth - 1)}) {{ {left} }} else {{ {right} }})",
            lambda: f"{{ let $b = {left}; $b + 1 }}",
            lambda: f"({self.unknown_text(depth - 1)})[({left}) & {self.random.choice((0, 1, 3, 7))}]",
            lambda: f'(getopt("number", 255) + {left})', lambda: f'(getopt("flag") ? {left} : {right})',
            lambda: f'(getopt("absent", 5) - {left})', lambda: f"(int64){self.condition(depth - 1)}",
            lambda: f"(int64)(bool)({left})", lambda: f"(1, (a={left}, b=({right}, 2))).1.b.0",
            lambda: f"({self.condition(depth - 1)} + {right})"]
        if self.functions:
            choices += [lambda: self.call(depth)] * 2
        if self.macros:
            choices += [lambda: f"twice({left})", lambda: f"between({left}, {right}, 1000)"]
        steps = [name for scope in self.scopes for name, shape in scope.items() if shape == "int"
                 and name not in self.frozen]
        if steps:
            choices += [lambda: self.step(f"${self.pick(*steps)}")] * 2
            if self.macros:
                choices.append(lambda: f"bump(${self.pick(*steps)}, {right})")
        maps = [m for m in self.maps if m.value == "int" and m.name not in self.busy]
        if maps:
            choices.append(lambda: self.step(self.element(self.random.choice(maps))))
        found = self.random.choice(choices)()
        while self.common and _ADDITIONS.search(found):
            found = self.random.choice(choices)()
        return found

    def call(self, depth: int) -> str:
        """Of a function of the script."""
        return self.called(*self.random.choice(self.functions), depth)

    def called(self, name: str, types: list[str], depth: int) -> str:
        short = f'(@zero {self.pick("==", "<")} 1 ? "{self.pick(*TEXTS[:7])}" : "{self.pick(*TEXTS[:7])}")'
        values = [short if t.startswith("string") else f"({t})({self.varying(depth - 1)})"
                  for t in types]
        return f"{name}({', '.join(values)})"

    def step(self, target: str) -> str:
        return self.pick(f"{target}++", f"++{target}", f"{target}--", f"--{target}")

    def condition(self, depth: int) -> str:
        if self.inside and self.chance(0.15):
            return self.thing_condition()
        order = self.pick("==", "!=", "<", "<=", ">", ">=")
        if depth <= 0:
            return f"({self.atom()} {order} {self.literal()})"
        pick = self.random.randrange(12)
        if pick < 4:
            return f"({self.varying(depth - 1)} {order} {self.number(depth - 1)})"
        if pick < 6:
            return f"({self.condition(depth - 1)} {self.pick('&&', '||')} {self.condition(depth - 1)})"
        if pick < 7:
            return f"!({self.condition(depth - 1)})"
        if pick < 9:
            return f"({self.unknown_text(depth - 1)} {self.pick('==', '!=')} {self.text(depth - 1)})"
        if pick < 10:
            return f"strcontains({self.unknown_text(depth - 1)}, {self.text(0)})"
        if pick < 10.5 and self.chance(0.3) and not self.common:
            return f'globmatch({self.unknown_text(depth - 1)}, "{self.pick(*PATTERNS)}")'
        if pick < 11:
            shape = self.pick("pair", "nested", "record")
            return f"({self.of(shape, depth)} {self.pick('==', '!=')} {self.of(shape, depth)})"
        numbers = [m for m in self.maps if m.value in ("int", *READABLE)]
        if numbers and self.chance(0.3):
            m = self.random.choice(numbers)
            return f"{self.pick('', '!')}{self.element(m)}" if m.value == "int" else f"({self.element(m)} + 0)"
        if self.chance(0.3) and not self.common:
            return self.pick(f'one_of({self.varying(depth - 1)}, "0-2,5,127-300,65535")', f"(bool)({self.varying(0)})",
                             f"(bool)({self.unknown_text(depth - 1)})",
                             f"({self.condition(0)} {self.pick('==', '!=')} {self.condition(0)})")
        keyed = [m for m in self.maps if m.key]
        if keyed:
            m = self.random.choice(keyed)
            return f"has_key({m.name}, {self.whole_key(m)})"
        return self.varying(depth - 1)

    def whole_key(self, m: Map) -> str:
        return f"({self.key(m)})" if m.key == "pair" else self.key(m)

    def text(self, depth: int) -> str:
        if depth <= 0 and self.chance(0.6):
            return f'"{self.pick(*TEXTS)}"'
        return self.unknown_text(depth)

    def unknown_text(self, depth: int) -> str:
        """A string that is not known when compiling."""
        if self.inside and self.chance(0.2):
            return self.thing_text()
        known = self.known("str")
        pick = self.random.randrange(6)
        if known and pick < 3:
            return self.pick(*known)
        if depth <= 0:
            one, other = self.pick(*TEXTS), self.pick(*TEXTS)
            return f'(@zero {self.pick("==", "<")} {self.random.randrange(2)} ? "{one}" : "{other}")'
        if self.text_functions and depth > 0 and self.chance(0.15):
            name, types = self.random.choice(self.text_functions)
            return self.called(name, types, depth)
        if depth > 0 and self.chance(0.05):
            return self.pick(f'str_concat(getopt("word", "no"), {self.unknown_text(0)})',
                             f"str({self.unknown_text(depth - 1)}, {self.random.choice((1, 3, 9, 40))})")
        if pick == 3 and depth > 0:
            return f"str_concat({self.text(depth - 1)}, {self.unknown_text(depth - 1)})"
        if pick == 4 and depth > 0:
            shape = self.pick("pair", "nested", "record")
            return self.of(shape, depth - 1) + {"pair": ".1", "nested": ".1.0", "record": ".b"}[shape]
        return f"({self.condition(depth - 1)} ? {self.text(depth - 1)} : {self.text(depth - 1)})"

    # --- statements ---------------------------------------------------------------------------------------

    def name(self) -> str:
        self.names += 1
        return f"v{self.names}"

    def body(self, count: int, depth: int) -> str:
        """A block of statements, a scope of its own."""
        self.scopes.append({})
        found = " ".join([self.statement(depth) for _ in range(count)])
        self.scopes.pop()
        return f"{{ {found} }}"

    def inner(self, depth: int) -> str:
        return self.body(self.random.randrange(1, 4), depth - 1)

    def statement(self, depth: int) -> str:
        if self.inside and self.chance(0.15):
            return self.thing_statement()
        pick = self.random.randrange(20)
        if depth > 0 and pick < 3:
            other = f" else {self.inner(depth)}" if self.chance(0.5) else ""
            return f"if ({self.condition(2)}) {self.inner(depth)}{other}"
        if depth > 0 and pick < 6:
            return self.loop(depth)
        if pick < 9:
            return self.declaration()
        if pick < 11:
            return self.assignment()
        if pick < 16:
            return self.update(self.random.choice(self.maps))
        if pick < 18:
            return self.output()
        return self.rare(depth)

    def declaration(self) -> str:
        name, shape = self.name(), self.pick("int", "int", *SHAPES)
        value = self.of(shape, 3)
        self.scopes[-1][name] = shape
        if shape == "int" and self.chance(0.5):
            type = self.pick(*INTS)
            return f"let ${name}: {type} = ({type})({value});"
        return f"{self.pick('let ', '')}${name} = {value};"

    def assignment(self) -> str:
        """To a variable that is there; its declared type may be narrower, so the value is what the checker calls
        computed."""
        found = [(n, s) for scope in self.scopes for n, s in scope.items() if n not in self.frozen]
        if not found:
            return self.declaration()
        name, shape = self.random.choice(found)
        if shape != "int":
            return f"${name} = {self.of(shape, 2)};"
        if self.chance(0.3):
            return f"{self.step('$' + name)};"
        if self.chance(0.2) and not self.common:
            return f"${name} {self.pick('<<', '>>')}= {self.varying(1)} & 63;"
        return f"${name} {self.pick('', *self.operators)}= ({self.varying(2)}) + 0;"

    def update(self, m: Map) -> str:
        if m.name in self.busy:
            return self.output()
        if m.value in AGGREGATES:
            return f"{self.element(m)} = {self.aggregation(m)};"
        if m.value != "int" or self.chance(0.4):
            return f"{self.element(m)} = {self.of(m.value, 2)};"
        if self.chance(0.3):
            return f"{self.step(self.element(m))};"
        if self.chance(0.2) and not self.common:
            return f"{self.element(m)} {self.pick('<<', '>>')}= {self.varying(1)} & 63;"
        return f"{self.element(m)} {self.pick(*self.operators)}= {self.varying(2)};"

    def aggregation(self, m: Map, amount: str = "") -> str:
        amount = "" if m.value == "count" else f"{m.cast}({amount or self.number(2)})"
        return f"{m.value}({amount}{m.parameters})"

    def output(self) -> str:
        pick = self.random.randrange(6)
        if pick < 2:
            return f"print({self.of(self.pick(*SHAPES), 2)});"
        if pick < 3:
            return self.unusual_print() if self.chance(0.4) else \
                f"print(({self.number(1)}, {self.condition(1)}, {self.text(1)}));"
        if pick < 5:
            return self.printf()
        m = self.random.choice(self.maps)
        limits = "" if self.chance(0.6) else self.pick(", 2", ", 3, 10", ", 0, 3", ", 1, 2")
        return f"print({m.name}{limits if m.key else ''});"

    def unusual_print(self) -> str:
        """Values that print as something else than numbers, strings and tuples of these."""
        number = self.varying(1)
        value = self.pick(f"ntop((uint32)({number}))", f"strerror(({number}) & 31)",
                          f"signal_name(({number} & 15) + 1)",
                          f"(uint8[4])(uint32)({number})", f"(uint16[4])(uint64)({number})", f"(bool)({number})",
                          f"({self.condition(1)}, ({number}, (int8[2])(int16)({number})))", f"buf({self.text(1)}, 40)",
                          f"(a={self.condition(1)}, b=(c={number}, d={self.text(0)}))", f"({number},)",
                          f"buf({self.text(1)}, {self.random.randrange(1, 9)})")
        return f"print({value});"

    def printf(self) -> str:
        forms, values = [], []
        for _ in range(self.random.randrange(1, 5)):
            if self.chance(0.3):
                forms.append(f"%{self.pick('', '10', '-10', '3', '.3', '-8.2')}s")
                values.append(self.text(2) if self.chance(0.8) else f"!({self.condition(1)})")
            elif self.chance(0.15):
                forms.append(f"%{self.pick('', '5', '-3')}c|%{self.pick('', '20', '-20')}p|%{self.pick('', '12', '-9')}"
                             f"{self.pick('r', 'rx', 'rh')}")
                values += [f"(int64)({self.number(1)})", f"(int64)({self.number(1)})",
                           f"buf({self.text(1)}, {self.random.randrange(9)})"]
            else:
                flags = self.pick("", "", "5", "-7", "08", "+", "#", ".3", " ")
                kind = self.pick(*"diuxXo") if flags not in ("+", " ") else self.pick(*"di")
                kind = self.pick(*"xXo") if flags == "#" else kind
                forms.append(f"%{flags}{self.pick('', '', 'hh', 'h', 'l', 'll')}{kind}")
                values.append(self.number(2))
        return f'printf("{"|".join(forms)}\\n", {", ".join(values)});'

    def rare(self, depth: int) -> str:
        m = self.random.choice(self.maps)
        name = self.name()
        choices: list[Callable[[], str]] = [
            lambda: f"if ({self.condition(1)}) {{ return; }}" if self.chance(0.2) else self.output(),
            lambda: f"if ({self.condition(0)} && {self.condition(0)}) {{ exit(); }}" if self.chance(0.2)
            else self.declaration(), lambda: self.body(2, depth - 1)]
        if self.loops:
            choices += [lambda: f"if ({self.condition(1)}) {{ {self.pick('break', 'continue')}; }}"] * 3
        if m.key and m.name not in self.busy:
            choices += [lambda: f"delete({m.name}, {self.whole_key(m)});",
                        lambda: f"print(delete({m.name}, {self.whole_key(m)}));"]
        if m.key and m.value in (*SHAPES, *READABLE):
            choices.append(lambda: f"{f'let ${name}; ' if self.common else ''}if (find({m.name}, {self.whole_key(m)}, "
                           f"${name})) {{ print(${name}); }}")
        if self.chance(0.3):
            choices.append(lambda: f"{self.pick('clear', 'zero')}({m.name});")
        return self.random.choice(choices)()

    def loop(self, depth: int) -> str:
        name = self.name()
        if self.loops > 1:
            return self.update(self.random.choice(self.maps))
        pick = self.random.randrange(6)
        keyed = [m for m in self.maps if m.key and m.value in (*SHAPES, *READABLE)]
        if pick < 2 and keyed:
            return self.over_map(self.random.choice(keyed))
        if self.chance(0.2):
            return self.long_loop(name)
        self.loops += 1
        if pick < 3 and not self.common:  # where break and continue are refused
            found = f"unroll ({self.random.randrange(1, 4)}) {self.inner(depth)}"
        elif pick < 4:
            self.scopes.append({name: "int"})
            self.frozen.add(name)
            found = (f"let ${name} = 0; while (${name} < {self.random.randrange(1, 7)}) {{ ${name}++; "
                     f"{self.inner(depth)} }}")
            self.scopes.pop()
        else:
            start = self.pick("0", "(-2)" if self.common else "-2", "3", "(@zero - 1)")
            end = self.pick("4", "6", f"(({self.varying(1)}) & 7)", "(@zero + 5)")
            self.scopes.append({name: "int"})
            found = f"for (${name} : {start}..{end}) {self.inner(depth)}"
            self.scopes.pop()
        self.loops -= 1
        return found

    def long_loop(self, name: str) -> str:
        """Thousands of rounds, of which none does much; or a loop whose end is in its middle."""
        count = self.random.choice((17, 257, 1000, 3000))
        self.scopes.append({name: "int"})
        self.frozen.add(name)
        body = "".join([self.light(name) for _ in range(self.random.randrange(1, 4))])
        self.scopes.pop()
        end = self.pick(str(count), f"(@zero + {count})")
        return self.pick(f"for (${name} : {self.pick('0', '(-7)' if self.common else '-7')}..{end}) {{ {body} }}",
                         f"let ${name} = 0; while (${name} < {count}) {{ ${name}++; {body} }}",
                         f"let ${name} = {count}; while (1) {{ ${name}--; if (${name} < 1) {{ break; }} {body} }}",
                         f"let ${name} = (@zero + {count}); while (${name} > 0) {{ {body.replace('continue', 'break')} "
                         f"${name} -= 2; }}")

    def light(self, counter: str) -> str:
        """A statement that may run often: it prints nothing and adds few elements."""
        numbers = [n for scope in self.scopes for n, s in scope.items() if s == "int" and n not in self.frozen]
        pick = self.random.randrange(5)
        if pick < 2 and numbers:
            return self.pick(f"{self.step('$' + self.pick(*numbers))}; ",
                             f"${self.pick(*numbers)} {self.pick(*'+-^|')}= (${counter} & 127); ")
        if pick < 3:
            return f"if (${counter} % {self.random.randrange(2, 9)} == 0) {{ continue; }} "
        found = [m for m in self.maps if m.value in AGGREGATES and m.name not in self.busy]
        if found:
            m = self.random.choice(found)
            return f"{self.element(m, True)} = {self.aggregation(m, self.pick(f'(${counter} + 3)', f'-${counter}'))}; "
        return f"if ({self.condition(1)} && ${counter} > 100) {{ break; }} "

    def over_map(self, m: Map) -> str:
        """What the body does must not depend on the order of the elements."""
        name, total = self.name(), self.name()
        if self.chance(0.2):
            key = {"int": ".0", "str": "", "pair": ".0.0", "nested": ".0.0", "record": ".0.a"}[m.key]
            test = f"(${name}{key} {self.pick('<', '==', '>')} {self.literal()})" if key else f'${name}.0 == "ab"'
            return (f"for (${name} : {m.name}) {{ if ({test}) {{ delete({m.name}, ${name}.0); }} }} "
                    f"print(len({m.name}));")
        if self.chance(0.2):
            return (f"let ${total}: int64 = 0; for (${name} : {m.name}) {{ ${total}++; "
                    f"if (${total} >= {self.random.randrange(1, 5)}) {{ break; }} }} print(${total});")
        key = {"int": ".0", "str": "", "pair": ".0.0", "nested": ".0.1.1", "record": ".0.a"}[m.key]
        value = {"str": "", "pair": ".1.0", "nested": ".1.1.1", "record": ".1.a"}.get(m.value, ".1")
        numbers = [f"${name}{part}" for part in (key, value) if part]
        strings = [f"${name}{part}" for part in ({"str": ".0", "pair": ".0.1"}.get(m.key, ""),
                                                 {"str": ".1", "pair": ".1.1"}.get(m.value, "")) if part]
        terms = [f"({n} {self.pick('+', '*', '^')} {self.literal()})" for n in numbers] + [
            f"strlen({s})" for s in strings] + ["1"]
        skip = f"if ({self.pick(*terms)} {self.pick('==', '<', '>')} {self.literal()}) {{ continue; }} " \
            if self.chance(0.5) else ""
        others = [o for o in self.maps if o.value in AGGREGATES and o.key == "" and o is not m
                  and o.name not in self.busy]
        more = ""
        if others:
            o = self.random.choice(others)
            more = f"{o.name} = {self.aggregation(o, self.pick(*terms))}; "
        return (f"let ${total}: int64 = 0; for (${name} : {m.name}) {{ {skip}{more}${total} {self.pick('+', '^')}= "
                f"{self.pick(*terms)}; }} print(${total});")

    # --- programs -----------------------------------------------------------------------------------------

    def clause(self, head: str, count: int) -> str:
        self.scopes, self.inside = [{}], self.things
        text = f"{{ {self.enter()}{self.body(count, 3)} }}" if self.things else self.body(count, 3)
        self.inside = False
        return f"{head} {text}\n"

    def enter(self) -> str:
        return f"$thing = {WHOLE}; "

    def first(self) -> str:
        """Every map is assigned to, so that the checker knows it."""
        found = f"begin {{ @zero = 0; {self.enter() + self.first_things() if self.things else ''}"
        self.inside = self.things
        for i in range(self.random.randrange(2, 3 + self.size // 2)):
            m = self._map(i)
            value = self.aggregation(m) if m.value in AGGREGATES else self.of(m.value, 2)
            found += f" {self.element(m)} = {value};"
            self.maps.append(m)
        self.inside = False
        return found + " }\n"

    def function(self, number: int) -> str:
        """A function of the script: of its parameters it makes a number."""
        types = [self.pick(*INTS, "string[16]", "string[48]") for _ in range(self.random.randrange(1, 4))]
        names = [self.name() for _ in types]
        self.scopes = [{n: "str" if t.startswith("string") else "int" for n, t in zip(names, types)}]
        self.frozen |= {n for n, t in zip(names, types) if t.startswith("string")}  # one that is longer does not fit
        result, body = self.pick(*INTS), ""
        for _ in range(self.random.randrange(3)):
            body += self.random.choice((self.declaration, self.assignment, self.printf, self.early(result)))() + " "
        if self.chance(0.4):
            body += self.long_loop(self.name()) + " "
        head = ", ".join([f"${n}: {t}" for n, t in zip(names, types)])
        text = f"fn f{number}({head}): {result} {{ {body}return ({result})({self.varying(2)}); }}\n"
        self.functions.append((f"f{number}", types))
        self.scopes = self.scopes[:1]
        self.scopes[0] = {n: self.scopes[0][n] for n in names}
        if self.chance(0.4):
            text += (f"fn s{number}({head}): string[{self.random.choice((8, 48, 100))}] {{ "
                     f"if ({self.condition(1)}) {{ return {self.text(0)}; }} return {self.unknown_text(1)}; }}\n")
            self.text_functions.append((f"s{number}", types))
        self.scopes = [{}]
        if self.things:
            text += self.function_of_things(number)
        return text

    def function_of_things(self, number: int) -> str:
        """One that is given a thing, called as every other."""
        self.scopes, self.inside = [{"number": "int"}], True
        body = "".join([self.random.choice((self.declaration, self.assignment, self.printf))() + " "
                        for _ in range(self.random.randrange(2))])
        text = (f"fn t{number}($thing: struct thing *, $number: int64): int64 {{ {body}"
                f"if ({self.condition(1)}) {{ return {self.number(0)}; }} return (int64)({self.varying(2)}); }}\n")
        self.scopes, self.inside = [{}], False
        self.functions_of_things.append(f"t{number}")
        return text

    def early(self, result: str) -> Callable[[], str]:
        return lambda: f"if ({self.condition(1)}) {{ return ({result})({self.varying(1)}); }}"

    def script(self) -> str:
        text = "config = { perf_rb_pages = 256 }\n"
        if self.chance(0.2):
            self.macros, text = True, text + MACROS
        if self.chance(0.3) and not self.common:
            text += "".join([self.function(n) for n in range(self.random.randrange(1, 3))])
        text += self.first()
        for _ in range(self.random.randrange(1, 3)):
            text += self.clause("begin", self.random.randrange(1, 1 + self.size))
        if self.events:
            text += self.clause(f"{EVENT} /pid == $1 && {self.condition(1)}/", self.random.randrange(1, 1 + self.size))
        if self.chance(0.5):
            text += self.clause("end", self.random.randrange(1, 1 + self.size))
        return text
