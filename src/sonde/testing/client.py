"""A test run's side of the tracer."""

from __future__ import annotations

from ..objectives.client import Tracer
from ..objectives.rules import Rules
from ..objectives.script import tell_kernel

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any, Self


class Observer:
    """What the tests of a run do in the kernel, by one session of probes for all of them."""

    def __init__(self, marks: Sequence[Mapping[str, Any]]) -> None:
        self._tracer = Tracer()
        try:
            self.placeless = self._tracer.ask(do="observe", marks=list(marks)).get("placeless", "")
        except BaseException:
            self._tracer.close()
            raise

    def begin(self, rules: Rules) -> None:
        """From now on what these rules are about is noted. What was noted since the last test is forgotten."""
        tell_kernel(rules.bits)

    def end(self) -> tuple[dict[str, Any], str]:
        """What was seen since, and what was missed."""
        tell_kernel(0)
        answer = self._tracer.ask(do="read")
        return answer["seen"], answer["lost"]

    def close(self) -> None:
        self._tracer.close()


class ScriptRun:
    """A script that traces this process: a context manager. When it is left, ``events`` and ``maps`` are there:

    ``events`` are dicts with ``probe``, ``time``, ``kind`` and ``args``; ``maps["@name"]`` is a dict, with the key ()
    for a map without keys; ``lost`` says what was missed, "" if nothing was.
    """

    def __init__(self, script: str, params: Sequence[str] = ()) -> None:
        self._request = {"do": "trace", "script": script, "params": list(params)}
        self._tracer: Tracer | None = None
        self.events: list[dict[str, Any]] = []
        self.maps: dict[str, dict[Any, Any]] = {}
        self.lost = ""

    def __enter__(self) -> Self:
        self._tracer = Tracer()
        try:
            self._tracer.ask(**self._request)
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *exc: object) -> None:
        self.stop()

    def stop(self) -> None:
        """End it, and read its results."""
        if self._tracer is None:
            return
        try:
            answer = self._tracer.ask(do="stop")
        finally:
            self.close()
        self.events = [event | {"args": _tuples(event["args"])} for event in answer["events"]]
        self.maps = {name: {() if key is None else _tuples(key): _tuples(value) for key, value in pairs}
                     for name, pairs in answer["maps"].items()}
        self.lost = answer["lost"]

    def close(self) -> None:
        if self._tracer is not None:
            self._tracer.close()
            self._tracer = None


def _tuples(value: Any) -> Any:
    return tuple([_tuples(part) for part in value]) if isinstance(value, list) else value
