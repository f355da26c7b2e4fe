"""``-f flamegraph``: stacks as one self-contained SVG file for a browser: zoom, search, tooltips, other forms."""

from __future__ import annotations

from collections.abc import Iterator
from zlib import crc32

from ..look import read_asset
from ..units import scale_value
from . import svg
from .stacks import KERNEL, WAITS, WAKER, FlameNode, Folded, StackView, build_tree

WIDTH, MARGIN, ROW, TOP, BOTTOM = 1200, 10, 17, 58, 28  # flame.js makes the width that of the window
SIZE = 11.5    # of the text
LEAST = 0.1    # units: narrower frames are left out
SHADES = 6     # of each kind's colour
_HUES = {"user": (28, 88, 63), "kernel": (205, 62, 64), "head": (145, 35, 66), "waker": (285, 45, 70),
         "waker-kernel": (250, 42, 72), "waiting": (340, 55, 74)}
_LEGEND = {"head": "names", "user": "user, Python, JIT", "kernel": "kernel", "waker": "waker",
           "waker-kernel": "waker's kernel", "waiting": "waits"}
_CHANGES = {"style=\"fill:hsl(0,85%,60%)\"": "greater share than before", "style=\"fill:hsl(215,85%,60%)\"": "lesser"}


def _palette_css() -> str:
    """Colours by kind: orange for user frames, blue for the kernel's, green for names; for wakers violet and lilac."""
    light, dark = [], []
    for kind, (hue, saturation, lightness) in _HUES.items():
        for shade in range(SHADES):
            turn = hue + (shade - SHADES // 2) * 4
            light.append(f".{kind}{shade} {{ fill: hsl({turn},{saturation}%,{lightness + shade * 2}%); }}")
            dim = f"{saturation * 3 // 5}%,{lightness * 2 // 5 + shade * 2}%"
            dark.append(f".{kind}{shade} {{ fill: hsl({turn},{dim}); }}")
    return "\n".join([*light, "@media (prefers-color-scheme: dark) {", *dark, "}", "@media print {", *light, "}"])


STYLE = _palette_css() + """
.frame rect { stroke: var(--paper); stroke-width: .6; rx: 1.5px; }
.frame text { pointer-events: none; }
svg text.legend { pointer-events: none; }
svg .frame.changed text { fill: #1b1f24; }
.frame, .control { cursor: pointer; }
.frame:hover rect, .frame:focus rect { stroke: var(--ink); stroke-width: 1; }
.frame:focus { outline: none; }
.frame.found rect { fill: var(--found); }
.frame.under { opacity: .55; }
.control:hover { text-decoration: underline; }
@media print { .frame rect { stroke: #777; } }
"""


class FlamegraphView(StackView):
    """The flame graph of everything that was collected."""

    def finish(self) -> None:
        folded, unit = self.folded, self.unit
        total, about = sum(folded.values()), svg.about_run(self.run)
        if about is not None and self.run is not None and unit == "samples":
            about.lost[:0] = describe_early(self.run.early_user_stacks, total)
        self.write(flame_graph(folded, f"{self.entitle('Flame graph')}: {scale_value(total, unit)}", None, self.heads,
                               unit, about))


def describe_early(early: int, samples: int) -> list[str]:
    """The share of samples whose user stack ends early, in a line; none if all are whole, or if one sample has more
    than one stack."""
    return [f"{early:,} of {samples:,} samples ({early / samples:.0%}) have a user stack that lacks its outer frames"] \
        if 0 < early <= samples else []


def flame_graph(folded: Folded, title: str, before: Folded | None = None, heads: int = 1, unit: str = "",
                about: svg.About | None = None) -> str:
    """A whole SVG file. The ``heads`` outermost frames are no functions; weights are in ``unit``.

    With ``before``, another run, frames are coloured by what has changed since: red for a greater share of the whole,
    blue for a lesser one.
    """
    body, height = draw_flame_graph(folded, title, before, heads, unit)
    return svg.svg_document(WIDTH, height, STYLE, read_asset("scale.js", "flame.js"), body, title, about)


def flame_element(folded: Folded, name: str, heads: int = 1, unit: str = "") -> str:
    """The same as an element for a page, which has style and script once; the title is a name and the whole weight."""
    title = f"{name}: {scale_value(sum(folded.values()), unit)}"
    body, height = draw_flame_graph(folded, title, None, heads, unit)
    return svg.svg_element(WIDTH, height, "", body, title)


def draw_flame_graph(folded: Folded, title: str, before: Folded | None = None, heads: int = 1,
                     unit: str = "") -> tuple[list[str], int]:
    """The drawing without its frame, and its height."""
    root = build_tree(folded, before)
    boxes = list(_visible_boxes(root, heads))
    height = TOP + BOTTOM + ROW * (1 + max((depth for depth, _, _, _ in boxes), default=0))
    right = WIDTH - MARGIN
    foot = [f'<text class="soft detail" x="{MARGIN}" y="{height - 9}" font-size="12"> </text>\n',
            f'<text class="soft matched" x="{right}" y="{height - 9}" font-size="12" text-anchor="end"> </text>\n']
    frames = [_draw_frame(box, height, root, before is not None, unit) for box in boxes]
    head = [*_draw_head(title, before is None), *_draw_legend({box[3] for box in boxes}, before is None)]
    if not boxes:
        head.append(f'<text class="soft middle" x="{WIDTH / 2:g}" y="{TOP + 12}" font-size="12" text-anchor="middle">'
                    "no stacks were collected</text>\n")
    group = f'<g class="frames" data-height="{height}" data-unit="{svg.escape_markup(unit)}">\n'
    return [*head, group, *frames, "</g>\n", *foot], height


def _draw_head(title: str, can_invert: bool) -> Iterator[str]:
    """The title, and below it what can be clicked. Of a difference there is no weight before, by frame, to invert."""
    right = WIDTH - MARGIN
    yield (f'<text class="title middle" x="{WIDTH / 2:g}" y="22" font-size="16" text-anchor="middle">'
           f"{svg.escape_markup(title)}</text>\n")
    for name, text, x in (("search", "search", right), ("icicle", "icicles", right - 95),
                          ("invert", "inverted", right - 155), ("reset", "reset zoom", right - 255)):
        hidden = ' visibility="hidden"' if name == "reset" else ""
        if can_invert or name != "invert":
            yield (f'<text class="control {name}" x="{x}" y="44" font-size="12" text-anchor="end"{hidden}>'
                   f"{text}</text>\n")


def _draw_legend(kinds: set[str], by_kind: bool) -> Iterator[str]:
    """What the colours mean, of those that there are."""
    looks = {f'class="{kind}{SHADES // 2}"': meaning for kind, meaning in _LEGEND.items() if kind in kinds} if by_kind \
        else _CHANGES if kinds else {}
    x = MARGIN
    for look, meaning in looks.items():
        yield (f'<rect {look} x="{x}" y="35" width="10" height="10" rx="1.5"/>'
               f'<text class="soft legend" x="{x + 14}" y="44" font-size="11">{meaning}</text>\n')
        x += 28 + round(len(meaning) * 11 * svg.CHARACTER)


Box = tuple[int, int, FlameNode, str]  # depth, weight to its left, node, kind


def _visible_boxes(root: FlameNode, heads: int) -> Iterator[Box]:
    """All frames that are wide enough to be seen, each before those above it. No recursion: stacks can be deep."""
    least = LEAST * root.total / (WIDTH - 2 * MARGIN)
    pending: list[Box] = [(0, 0, root, "head")] if root.total else []
    while pending:
        depth, left, node, kind = pending.pop()
        yield depth, left, node, kind
        at = left
        above = []
        for name in sorted(node.children):
            child = node.children[name]
            if child.total and child.total >= least:
                above.append((depth + 1, at, child, _frame_kind(child, kind, depth < heads)))
            at += child.total
        pending += reversed(above)


def _frame_kind(node: FlameNode, below: str, is_head: bool) -> str:
    """What a frame is, by its name and what is under it."""
    if below == "waiting" or is_head and node.name == WAITS:
        return "waiting"
    if is_head:
        return "head"
    if node.name == WAKER or below.startswith("waker"):
        return "waker-kernel" if node.name.endswith(KERNEL) else "waker"
    return "kernel" if node.name.endswith(KERNEL) or below == "kernel" else "user"


def _draw_frame(box: Box, height: int, root: FlameNode, by_change: bool, unit: str) -> str:
    depth, left, node, kind = box
    inner, share = WIDTH - 2 * MARGIN, 1 / root.total
    x, width = MARGIN + left * share * inner, node.total * share * inner
    y = height - BOTTOM - ROW * (depth + 1)
    name = node.name.removesuffix(KERNEL)
    kernel = " (kernel)" if name != node.name else ""
    tip = f"{name}{kernel}: {scale_value(node.total, unit)} ({node.total * share:.2%})"
    frame = "frame"
    look = f'class="{kind}{crc32(name.encode("utf-8", "replace")) % SHADES}"'
    if by_change:
        change = _share_change(node, root)
        tip += f", {change:+.2%} of all"
        look = f'style="fill:{_change_colour(change)}"'
        frame += " changed"
    return (f'<g class="{frame}" tabindex="0" data-name="{svg.escape_markup(node.name)}" data-at="{left}" '
            f'data-weight="{node.total}" data-depth="{depth}"><title>{svg.escape_markup(tip)}</title>'
            f'<rect {look} x="{svg.format_coordinate(x)}" y="{y}" width="{svg.format_coordinate(width)}" '
            f'height="{ROW - 1}"/><text x="{svg.format_coordinate(x + 3)}" y="{y + 12}" font-size="{SIZE}">'
            f'{svg.escape_markup(fit_name(name, width))}</text>'
            "</g>\n")


def fit_name(name: str, width: float) -> str:
    """As much of a name as fits; "" rather than one or two characters."""
    room = int((width - 6) / (SIZE * svg.CHARACTER))
    if len(name) <= room:
        return name
    return name[:room - 1] + "…" if room >= 3 else ""


def _share_change(node: FlameNode, root: FlameNode) -> float:
    """By how much a frame's share of the whole has grown."""
    return (node.total / root.total if root.total else 0) - (node.before / root.before if root.before else 0)


def _change_colour(change: float) -> str:
    """Red for more, blue for less; the square root shows small changes too."""
    strength = min(1.0, abs(change)) ** 0.5
    return f"hsl({0 if change > 0 else 215},{round(85 * min(1.0, strength * 3))}%,{round(84 - 28 * strength)}%)"
