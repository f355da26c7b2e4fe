"""How maps look in Jupyter: histograms with bars, flame graphs, tables; and a cell that is redrawn."""

from __future__ import annotations

from ..output import look
from ..output.text import sort_items, text_output
from ..output.views import svg
from ..output.views.html import map_elements
from ..output.views.stacks import Folder, shows_stacks, weight_symbol

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..runtime.provenance import Provenance
    from ..runtime.records.values import Items
    from ..spec import MapSpec
    from .traced_run import TracedRun


HEIGHT = 420  # pixels of a flame graph's frame
# Of the notebook's page only what is ours: its own paper and ink are taken.
_STYLE = (f"{look.colours('.sonde')}.sonde {{ --paper: transparent; --ink: inherit; }}\n"
          f"{look.within('.sonde', look.WORDS + look.TABLES)}")


def map_html(spec: MapSpec, items: Items, run: Provenance | None = None) -> str:
    """A map as HTML for a notebook's output, with the run that it is of."""
    name = f"<b>{svg.escape_markup(spec.name)}</b>"
    shown = _flame_html(spec, items) if shows_stacks(spec) and items else \
        f"{name}{''.join(map_elements(spec, sort_items(items)))}"
    return f'<div class="sonde"><style>{_STYLE}</style>{shown}{svg.run_html(run)}</div>'


def _flame_html(spec: MapSpec, items: Items) -> str:
    """The flame graph in a frame of its own: its style and script stay there."""
    from ..output.views.flamegraph import STYLE as FLAME_STYLE
    from ..output.views.flamegraph import flame_element
    folder = Folder([spec.name])
    folder.add_items(spec, items, "")
    drawing = flame_element(folder.folded, spec.name, folder.heads, weight_symbol(spec))
    page = svg.html_page(spec.name, FLAME_STYLE, [drawing], look.read_asset("scale.js", "flame.js"))
    return (f'<iframe srcdoc="{page.replace("&", "&amp;").replace(chr(34), "&quot;")}" sandbox="allow-scripts" '
            f'style="width:100%;height:{HEIGHT}px;border:0" title="{svg.escape_markup(spec.name)}"></iframe>')


def map_text(name: str, items: Items) -> str:
    """What sonde prints of a map."""
    pieces: list[bytes] = []
    text_output(pieces.append).write_map(name, items)
    return b"".join(pieces).decode("utf-8", "replace").rstrip("\n")


def show_maps(trace: TracedRun, timeout: float | None, every: float) -> None:
    """Draw the trace's maps in one output until the script ends or the time is over."""
    import sys

    from ..output import Printer
    from .data_frames import import_extra
    from .run_loop import RunLoop
    display = import_extra("IPython.display", "notebook")
    out = text_output(lambda data: sys.stdout.write(data.decode("utf-8", "replace")))
    printer = Printer(trace.spec, trace.context, out, trace.take_map)
    handle = display.display(display.HTML(_maps_html(trace)), display_id=True)
    try:
        for records in RunLoop(trace, timeout, lambda: max(every, 0.01)):
            printer.print_records(records, trace.act_on_site)
            handle.update(display.HTML(_maps_html(trace)))
    except KeyboardInterrupt:
        handle.update(display.HTML(_maps_html(trace)))


def _maps_html(trace: TracedRun) -> str:
    maps = "".join([map_html(view.spec, view.pairs()) for _, view in sorted(trace.maps.items())])
    return maps + svg.run_html(trace.provenance)
