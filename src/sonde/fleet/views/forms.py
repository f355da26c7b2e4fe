"""Which form of -f is shown by what."""

from __future__ import annotations

import os

from ...output.views import view_class
from ..state.gathered import FleetState
from .live import LivePresenter
from .show import JsonPresenter, ParquetPresenter, Presenter, ViewPresenter


def make_presenter(fleet: FleetState, form: str, path: str, descriptor: int, title: str, by_host: bool,
                   quiet: bool, redraw: bool = False) -> Presenter:
    """What shows a fleet in a form of -f; UsageError if there is none. ``redraw``: on a terminal, while it goes on."""
    if form == "parquet":
        return ParquetPresenter(fleet, path, by_host, quiet)
    if form == "json":
        return JsonPresenter(fleet, descriptor, quiet)
    if form == "text" and redraw and not path and os.isatty(descriptor):
        return LivePresenter(fleet, descriptor, quiet)
    if form == "text":
        return Presenter(fleet, descriptor, quiet)
    view_class(form)
    return ViewPresenter(fleet, form, descriptor, path, title, by_host, quiet)
