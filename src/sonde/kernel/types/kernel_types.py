"""The kernel's types, functions and raw tracepoints as BTF describes them: what all Worlds share."""

from __future__ import annotations

import os

from ...base.fast_stdlib import cached_property
from ...btf import codec
from ...btf.query import Btf
from ...errors import MachineError
from ...spec import BpfFunction, KernelFunction
from ...types import BOOL, Enum, Int, Struct, StructField, Type, round_up

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

BTF_DIRECTORY = "/sys/kernel/btf"
_INT_WORDS = frozenset(("signed", "unsigned", "long", "short", "int", "char"))
_ENUMS = (codec.ENUM, codec.ENUM64)


def parse_c_integer(words: list[str]) -> Type | None:
    """``unsigned long`` in any spelling; None if it is not an integer type."""
    if words in (["bool"], ["_Bool"]):
        return BOOL
    if not words or not _INT_WORDS.issuperset(words):
        return None
    if "char" in words:
        bits = 8
    elif "short" in words:
        bits = 16
    else:
        bits = 64 if "long" in words else 32
    return Int(bits, "unsigned" not in words)


class KernelTypes:
    """Answers of a World that need BTF only; opened when the first of them is wanted."""

    def _open_btf(self) -> Btf | None:
        """The kernel's own BTF; None if there is none."""
        raise NotImplementedError

    def _open_modules(self) -> dict[str, Btf]:
        """BTF of loaded modules by name."""
        return {}

    def sample_limit(self) -> int:
        """Samples a second that an event of perf may make; 0, since no file of types has it."""
        return 0

    @cached_property
    def btf(self) -> Btf | None:
        """BTF of vmlinux."""
        return self._open_btf()

    @cached_property
    def modules(self) -> dict[str, Btf]:
        """BTF of modules by name, in order of name."""
        return self._open_modules() if self.btf else {}

    def _all_btfs(self) -> Iterator[tuple[str, Btf]]:
        """vmlinux, then the modules, opened only as far as the caller looks."""
        if self.btf:
            yield "vmlinux", self.btf
            yield from self.modules.items()

    def kfunc_id(self, name: str) -> int:
        """BTF id of a function of vmlinux; 0 if there is none."""
        return self.btf.find_id(name, codec.FUNC) if self.btf else 0

    def has_helper(self, name: str) -> bool:
        """Whether the helper ``bpf_NAME`` exists: enum bpf_func_id lists them."""
        return self.btf is not None and self.btf.enum_constant(f"BPF_FUNC_{name}") is not None

    def find_struct(self, name: str, union: bool = False) -> Struct | None:
        """``struct name``, of the kernel or a module."""
        return next((struct for _, btf in self._all_btfs() if (struct := btf.find_struct(name, union))), None)

    def named_type(self, name: str) -> Type | None:
        """A typedef (resolved), ``enum x``, ``struct x``, ``union x`` or integer type by its C name."""
        words = [word for word in name.split() if word not in ("const", "volatile")]
        integer = parse_c_integer(words)
        if integer and words != ["char"] or not words:  # whether char has a sign, BTF says
            return integer
        if len(words) == 2 and words[0] in ("struct", "union"):
            return self.find_struct(words[1], words[0] == "union")
        kinds = _ENUMS if words[0] == "enum" else (codec.TYPEDEF, codec.INT)
        for _, btf in self._all_btfs():
            number = btf.find_id(words[-1], *kinds) if len(words) <= 2 else 0
            if number:
                return btf.convert_type(number)
        return integer

    def enum_constant(self, name: str) -> tuple[int, Enum | None] | None:
        """The value of an enum constant, and its enum."""
        return next((constant for _, btf in self._all_btfs() if (constant := btf.enum_constant(name))), None)

    def struct_names(self) -> list[str]:
        """All struct and union names."""
        names: dict[str, None] = {}
        for _, btf in self._all_btfs():
            names.update(dict.fromkeys([name for name, _ in btf.named_types(codec.STRUCT, codec.UNION)]))
        return list(names)

    def raw_tracepoints(self) -> list[tuple[str, str]]:
        """(module, event) of every raw tracepoint: the kernel makes a typedef ``btf_trace_EVENT`` for each."""
        return [(module, name.removeprefix("btf_trace_")) for module, btf in self._all_btfs()
                for name, _ in btf.named_types(codec.TYPEDEF) if name.startswith("btf_trace_")]

    def raw_tracepoint_args(self, event: str) -> Struct | None:
        """Arguments of a raw tracepoint: field i at offset 8 * i."""
        params = self.raw_tracepoint_params(event)
        if params is None:
            return None
        btf, pairs = params
        fields = tuple([StructField(name or f"arg{i}", btf.convert_type(kind), 8 * i)
                        for i, (name, kind) in enumerate(pairs)])
        return Struct(f"_rawtracepoint_{event}", 8 * len(fields), lambda: fields)

    def raw_tracepoint_params(self, event: str) -> tuple[Btf, list[tuple[str, int]]] | None:
        """(name, type id) of the arguments, and the BTF that the ids belong to.

        The names come from the functions ``__probestub_EVENT`` (Linux 6.4, include/linux/tracepoint.h) and
        ``__traceiter_EVENT`` (5.10), whose first parameter is the callback's data; the typedef ``btf_trace_EVENT`` has
        only types.
        """
        for _, btf in self._all_btfs():
            if not btf.find_id(f"btf_trace_{event}", codec.TYPEDEF):
                continue
            for name, kind in ((f"__probestub_{event}", codec.FUNC), (f"__traceiter_{event}", codec.FUNC),
                               (f"btf_trace_{event}", codec.TYPEDEF)):
                number = btf.find_id(name, kind)
                if number:
                    return btf, [(param.name, param.type) for param in btf.function_params(number)[1:]]
        return None

    def kernel_function(self, name: str, module: str = "") -> KernelFunction | None:
        """A function's prototype; ``module`` "" is the kernel proper, then every module; "bpf:ID" a BPF program."""
        if module.startswith("bpf:"):
            return self._program_function(int(module[4:]), name)
        for owner, btf in self._all_btfs():
            number = btf.find_id(name, codec.FUNC) if module in ("", owner) else 0
            if number >= btf.first:
                return function_prototype(btf, number, name, owner)
        return None

    def _program_function(self, number: int, name: str) -> KernelFunction | None:
        """A function of a loaded BPF program, in Worlds that have any."""
        return None

    def bpf_functions(self) -> list[BpfFunction]:
        """The functions of loaded BPF programs."""
        return []

    def kernel_functions(self) -> list[tuple[str, str]]:
        """(module, function) of every function that could be traced."""
        raise NotImplementedError

    def is_function_traceable(self, name: str) -> bool:
        """Whether a function, of the kernel or a module, is one of those."""
        return any(known == name for _, known in self.kernel_functions())

    def takes_typed_program(self, function: KernelFunction, returns: bool, among_many: bool = False) -> bool:
        """Whether the kernel loads programs for it, as far as types say (btf_distill_func_proto() in kernel/bpf/btf.c).
        """
        return not function.variadic and not isinstance(function.result, Struct)

    def is_changed(self, name: str) -> bool:
        """Whether a function exists only as changed by the compiler; types do not say."""
        return False

    def forbidden_functions(self) -> frozenset[str]:
        """Functions in which kprobes are forbidden; types do not say."""
        return frozenset()

    def function_obstacle(self, function: str, module: str, kind: str) -> tuple[str, list[str]]:
        """(why a function cannot be probed, hints); types only say whether it exists."""
        return "no such function", ["the kernel does not have it, or it is inlined wherever it is used"]

    def function_names(self) -> list[tuple[str, str]]:
        """(module, function) of every function with a prototype."""
        return [(owner, name) for owner, btf in self._all_btfs() for name, _ in btf.named_types(codec.FUNC)]

    def functions_taking(self, struct: str) -> dict[tuple[str, str], int]:
        """(module, function) -> position of its first parameter ``struct NAME *``; of functions that can be traced, if
        it is known which."""
        if struct not in self._takers:
            from ...btf.takers import functions_taking

            traceable = set(self.kernel_functions())
            self._takers[struct] = {(owner, name): position
                                    for owner, name, position in functions_taking(self._all_btfs(), struct)
                                    if not traceable or (owner, name) in traceable}
        return self._takers[struct]

    @cached_property
    def _takers(self) -> dict[str, dict[tuple[str, str], int]]:
        return {}

    def function_params(self, function: str) -> tuple[Btf, list[tuple[str, int]], int] | None:
        """(name, type id) of a kernel function's parameters and the id of its result, with their BTF."""
        for _, btf in self._all_btfs():
            number = btf.find_id(function, codec.FUNC)
            if number:
                result = btf.skip_modifiers(btf.raw_type(number).value).value
                return btf, [(param.name, param.type) for param in btf.function_params(number)], result
        return None


def function_prototype(btf: Btf, id: int, name: str, module: str) -> KernelFunction:
    """What BTF says about the function with that id."""
    params = btf.function_params(id)
    variadic = bool(params) and not params[-1].type
    fields, at = [], 0
    for index, param in enumerate(params[:-1] if variadic else params):
        type = btf.convert_type(param.type)
        fields.append(StructField(param.name or f"arg{index}", type, at))
        at += max(8, round_up(type.size, 8))
    members = tuple(fields)
    result = btf.skip_modifiers(btf.raw_type(id).value).value
    return KernelFunction(name, module, id, Struct(f"_function_{name}", at, lambda: members),
                          btf.convert_type(result) if result else None, variadic)


def open_modules(base: Btf, directory: str = BTF_DIRECTORY) -> dict[str, Btf]:
    """BTF of every loaded module. One that cannot be read (it was just unloaded) is left out."""
    from ...btf.query import open_file

    modules = {}
    try:
        names = sorted(os.listdir(directory))
    except OSError:
        return {}
    for name in names:
        if name != "vmlinux":
            try:
                modules[name] = open_file(f"{directory}/{name}", base)
            except MachineError:
                continue
    return modules
