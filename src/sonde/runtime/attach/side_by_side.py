"""Many blocking system calls in parallel."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from threading import Thread
    from typing import TypeVar

    Item = TypeVar("Item")

MOST = 64  # threads


def run_in_threads(work: Callable[[Item], object], items: Sequence[Item]) -> None:
    """Call ``work`` for each item, in no order; raises what one of them did when all are done. Where there can be no
    threads (a service's TasksMax), and for one item alone, all is done here and now."""
    left, failures = list(items), list[Exception]()

    def work_off() -> None:
        while left:
            try:
                item = left.pop()
            except IndexError:  # another thread has taken the last one
                return
            try:
                work(item)
            except Exception as error:
                failures.append(error)

    threads: list[Thread] = []
    if len(left) > 1:
        from threading import Thread
        try:
            for _ in range(min(MOST, len(items))):
                thread = Thread(target=work_off)
                thread.start()
                threads.append(thread)
        except RuntimeError:
            pass
    work_off()
    for thread in threads:
        thread.join()
    if failures:
        raise failures[0]
