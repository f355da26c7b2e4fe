"""Configuration variables: one row each; the script's ``config`` block, then the environment, which wins."""

from __future__ import annotations

from ..base.record import Record
from ..language.ast import ConfigEntry
from ..language.diagnostics import Diagnostics, nearest_names
from ..source import Span
from ..spec import Config
from .world import World

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

LICENSES = ("Dual MIT/GPL", "Dual BSD/GPL", "Dual MPL/GPL", "GPL and additional rights", "GPL v2", "GPL")
STACK_MODES = ("bpftrace", "raw", "perf", "build_id")


class ConfigVariable(Record):
    """A row: ``read`` turns text into the value or raises ValueError with what was expected."""

    name: str
    read: Callable[[str], int | bool | str]
    documentation: str


def _number_reader(low: int = 0, high: int = 1 << 32) -> Callable[[str], int]:
    def read_number(text: str) -> int:
        try:
            value = int(text.replace("_", ""), 0)
        except ValueError:
            raise ValueError(f"expecting a number, got {text}") from None
        if not low <= value <= high:
            raise ValueError(f"must be between {low} and {high}")
        return value
    return read_number


TRUE, FALSE = ("1", "true", "yes", "on"), ("0", "false", "no", "off")


def _read_bool(text: str) -> bool:
    lowered = text.lower()
    if lowered in TRUE + FALSE:
        return lowered in TRUE
    if lowered.isdecimal():
        return int(lowered) != 0
    raise ValueError("Invalid bool value: valid values are true, false, 1 or 0.")


def _choice_reader(what: str, *allowed: str) -> Callable[[str], str]:
    def read_choice(text: str) -> str:
        for value in allowed:
            if text.lower() == value.lower():
                return value
        raise ValueError(f"Invalid value for {what}: valid values are {', '.join(allowed[:-1])}, and {allowed[-1]}.")
    return read_choice


def _read_license(text: str) -> str:
    if text in LICENSES:
        return text
    raise ValueError(f"Invalid value for license. Found: {text}. Valid values: {', '.join(LICENSES)}. Read more about "
                     "BPF programs and licensing: https://docs.kernel.org/bpf/bpf_licensing.html"
                     "#using-bpf-programs-in-the-linux-kernel")


def _read_cache_mode(text: str) -> str:
    if text.isdecimal() or text in ("true", "false"):  # the older form: on or off
        return "NONE" if text in ("0", "false") else "PER_PROGRAM"
    return _choice_reader("cache_user_symbols", "PER_PID", "PER_PROGRAM", "NONE")(text)


def _unstable(text: str) -> str:
    if text.isdecimal() or text in ("true", "false"):  # the older form: on or off
        return "error" if text in ("0", "false") else "enable"
    return _choice_reader("unstable config", "enable", "warn", "error")(text)


VARIABLES = {row.name: row for row in (
    ConfigVariable("cache_user_symbols", _read_cache_mode,
                   "PER_PROGRAM, PER_PID or NONE: how user symbols are remembered."),
    ConfigVariable("cpp_demangle", _read_bool, "Demangle C++ names in user stacks."),
    ConfigVariable("group_rows", str,
                   "Columns of tables: rows that agree in them are printed together, as soon as no other has come for "
                   "a second, or at the end. A blank stands between two names."),
    ConfigVariable("lazy_symbolication", _read_bool,
                   "Look user symbols up when printed (true) or ahead of time (false)."),
    ConfigVariable("license", _read_license, "Licence of the programs loaded into the kernel."),
    ConfigVariable("log_size", _number_reader(), "Bytes of verifier log."),
    ConfigVariable("max_bpf_progs", _number_reader(1), "Most programs that a script may need."),
    ConfigVariable("max_cat_bytes", _number_reader(), "Most bytes that cat() prints."),
    ConfigVariable("max_map_keys", _number_reader(1),
                   "Keys in a map without a declared size; from the environment, also in `hash(max_sockets)` etc."),
    ConfigVariable("max_probes", _number_reader(), "Most probes of a script; a pattern that one link serves is one."),
    ConfigVariable("max_strlen", _number_reader(0, 65536), "Bytes of str(), buf() and path() values."),
    ConfigVariable("missing_probes", _choice_reader("missing_probes", "ignore", "warn", "error"),
                   "What a probe that does not exist does."),
    ConfigVariable("on_stack_limit", _number_reader(), "Largest object kept on the stack, in bytes."),
    ConfigVariable("perf_rb_pages", _number_reader(0, 1 << 18), "Pages of the ring buffer."),
    ConfigVariable("print_maps_on_exit", _read_bool, "Print the maps at the end."),
    ConfigVariable("show_debug_info", _read_bool,
                   "User stacks: show file and line, and inlined functions, where debug information tells."),
    ConfigVariable("stack_mode", _choice_reader("stack_mode", *STACK_MODES),
                   "How stacks are printed: bpftrace, perf, raw or build_id."),
    ConfigVariable("str_trunc_trailer", str, "What is appended to strings that were cut."),
    ConfigVariable("unstable_dump", _unstable, "What using dump() does."),
    ConfigVariable("unstable_import_statement", _unstable, "What using import does."),
    ConfigVariable("unstable_iter", _unstable, "What loops over iter_task() and its kin do."),
    ConfigVariable("unstable_tseries", _unstable, "What using tseries() does."),
    ConfigVariable("unstable_typeinfo", _unstable, "What using typeinfo() does."),
    ConfigVariable("use_blazesym", _read_bool, "Accepted for compatibility."),
)}
_RENAMED = {"strlen": "max_strlen", "no_cpp_demangle": "cpp_demangle", "cat_bytes_max": "max_cat_bytes",
            "map_keys_max": "max_map_keys"}
_IGNORED = {"symbol_source", "max_type_res_iterations", "max_ast_nodes", "unstable_addr", "unstable_import",
            "unstable_macro", "unstable_map_decl", "unstable_dw_ustack"}
_OUTSIDE = {"btf", "kernel_build", "kernel_source", "vmlinux", "color", "dummy_ts_map", "version"}  # environment only


SHORT_TEXTS = 200  # max_strlen where keys of maps have 512 bytes at most


def read_config(entries: list[ConfigEntry], env: dict[str, str], world: World, diagnostics: Diagnostics) -> Config:
    """The configuration that holds for a script."""
    config = Config()
    if not world.has_feature("long_keys"):
        config.max_strlen = SHORT_TEXTS
    for entry in entries:
        _set_variable(config, _plain_name(entry.name), entry.value, entry.span, diagnostics, entry.name)
    for prefix in ("BPFTRACE_", "SONDE_"):
        for key, value in env.items():
            if key.startswith(prefix):
                name = key[len(prefix):].lower()
                if name in VARIABLES or name in _RENAMED:
                    _set_variable(config, name, value, None, diagnostics, key)
                if _RENAMED.get(name, name) == "max_map_keys":
                    config.map_keys_asked = config.max_map_keys
    return config


def _plain_name(name: str) -> str:
    lowered = name.lower()
    return lowered[9:] if lowered.startswith("bpftrace_") else lowered


def _set_variable(config: Config, name: str, text: str, span: Span | None, diagnostics: Diagnostics,
                  shown: str = "") -> None:
    negated = name == "no_cpp_demangle"
    if name in _RENAMED:
        if span is not None:
            diagnostics.warning("config-renamed", f"{name} has been renamed, please use {_RENAMED[name]}", span)
        name = _RENAMED[name]
    if name in _IGNORED:
        if name != "unstable_dw_ustack" and span is not None:
            diagnostics.warning("config-ignored", f"{name} is deprecated and has no effect", span)
        return
    row = VARIABLES.get(name)
    if row is None:
        _report_unknown_variable(name, span, diagnostics, shown)
        return
    try:
        value = row.read(text)
    except ValueError as problem:
        named = str(problem).startswith("Invalid value for license")
        named_as = shown if span is not None else name
        diagnostics.error("config-value", str(problem) if named else f"{named_as}: {problem}", span,
                          [f"it is set by {shown} of the environment"] if span is None else [])
        return
    setattr(config, name, (not value) if negated else value)


def _report_unknown_variable(name: str, span: Span | None, diagnostics: Diagnostics, shown: str) -> None:
    if name in _OUTSIDE:
        diagnostics.error("config-environment", f"{name}: can only be set as an environment variable", span)
        return
    close = nearest_names(name, VARIABLES)
    diagnostics.error("unknown-config", f"{shown or name}: not a known configuration option", span,
                      [f"did you mean {c}?" for c in close[:1]])
