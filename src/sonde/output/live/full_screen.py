"""The full screen of ``sonde top``: what it needs, and what runs alongside."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from ...base.installation import install_command
from ...base.tty import can_draw_on
from ...errors import SondeError, UsageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .top import TopApp


@contextmanager
def require_screen(instead: str) -> Iterator[None]:
    """Import an app within this. UsageError without a terminal, where ``instead`` does it, or without its package."""
    if not can_draw_on(0) or not can_draw_on(1):
        raise UsageError("sonde top needs a terminal", [f"without one: {instead}"])
    try:
        yield
    except ModuleNotFoundError as error:
        raise UsageError(f"sonde top needs the Python package {error.name}", [install_command("ui")]) from None


def run_app_beside(app: TopApp, name: str, work: Callable[[], object], request_end: Callable[[], object]) -> None:
    """The screen belongs to this thread, ``work`` to another one called ``name``, so that neither waits for the other.
    What was raised there is raised here, when the terminal is its own again."""
    from threading import Thread
    failed: list[BaseException] = []

    def work_in_thread() -> None:
        try:
            work()
        except BaseException as error:
            failed.append(error)
            app.give_up()

    thread = Thread(target=work_in_thread, name=name)
    thread.start()
    try:
        app.run()
    finally:
        request_end()
        thread.join()
    if failed or app.failure is not None:
        raise failed[0] if failed else app.failure or SondeError("the view has ended")
