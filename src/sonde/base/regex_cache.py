"""Regular expressions that stand in Sonde's own source, used as by ``re``.

Importing ``re`` and compiling with it take a tenth of a script's first start. What a pattern is compiled to, numbers
for the interpreter's matcher, is kept in the cache directory, for the interpreter that made it; what is not there yet
is compiled by ``re``. Patterns out of scripts and options are not for here: they would be kept, too.
"""

from __future__ import annotations

import _sre  # type: ignore[import-not-found]
import marshal
import sys

from .cache_dir import digest, read_cache, thin_cache, write_cache
from .fast_stdlib import cache

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from re import Match as Match
    from re import Pattern
    from typing import Any

    Matcher = tuple[int, list[int], int, dict[str, int]]  # flags, instructions, groups, and the numbers of those named

ASCII, DOTALL = 256, 16  # as in re
PREFIX = "patterns-"
MOST_FILES, MOST_BYTES = 8, 4 << 20
_KEY = marshal.dumps((sys.version, _sre.MAGIC, _sre.CODESIZE))
_NAME = PREFIX + digest(_KEY).hex()

_new: dict[tuple[str, int], Matcher] = {}


@cache
def _cached_matchers() -> dict[tuple[str, int], Matcher]:
    """What earlier runs compiled."""
    data = read_cache(_NAME) or b""
    if len(data) <= 8 or digest(data[8:]) != data[:8]:
        return {}
    key, known = marshal.loads(data[8:])
    return known if key == _KEY else {}


def keep_patterns() -> None:
    """At the end of a run: keep what was compiled in it."""
    if _new and not sys.dont_write_bytecode:
        data = marshal.dumps((_KEY, _cached_matchers() | _new))
        if write_cache(_NAME, [digest(data), data]):
            thin_cache(PREFIX, MOST_FILES, MOST_BYTES)


@cache
def _compiled(pattern: str, flags: int) -> Pattern[str]:
    matcher = _cached_matchers().get((pattern, flags))
    return assemble(pattern, matcher) if matcher else _compile_anew(pattern, flags)


def assemble(pattern: str, matcher: Matcher) -> Pattern[str]:
    """What ``re.compile`` returned when it made these instructions."""
    flags, code, groups, numbers = matcher
    names = {number: name for name, number in numbers.items()}
    made: Pattern[str] = _sre.compile(pattern, flags, code, groups, numbers,
                                      tuple([names.get(number) for number in range(groups + 1)]))
    return made


def _compile_anew(pattern: str, flags: int) -> Pattern[str]:
    import re
    made = re.compile(pattern, flags)
    try:
        code = list(map(int, re._compiler._code(re._parser.parse(pattern, flags), flags)))  # type: ignore[attr-defined]
        matcher = made.flags, code, made.groups, dict(made.groupindex)
        if assemble(pattern, matcher) == made:
            _new[pattern, flags] = matcher
    except (AttributeError, TypeError, ValueError, RuntimeError):
        pass  # no re of CPython 3.11 to 3.14: it compiles at each start
    return made


def compile(pattern: str, flags: int = 0) -> Pattern[str]:
    """As ``re.compile``, for what stands in the source."""
    return _compiled(pattern, flags)


def match(pattern: str, text: str, flags: int = 0) -> Match[str] | None:
    """As ``re.match``."""
    return _compiled(pattern, flags).match(text)


def fullmatch(pattern: str, text: str, flags: int = 0) -> Match[str] | None:
    """As ``re.fullmatch``."""
    return _compiled(pattern, flags).fullmatch(text)


def search(pattern: str, text: str, flags: int = 0) -> Match[str] | None:
    """As ``re.search``."""
    return _compiled(pattern, flags).search(text)


def sub(pattern: str, by: str | Callable[[Match[str]], str], text: str, flags: int = 0) -> str:
    """As ``re.sub``."""
    return _compiled(pattern, flags).sub(by, text)


def split(pattern: str, text: str) -> list[str | Any]:
    """As ``re.split``."""
    return _compiled(pattern, 0).split(text)


def finditer(pattern: str, text: str) -> Iterator[Match[str]]:
    """As ``re.finditer``."""
    return _compiled(pattern, 0).finditer(text)
