"""Pieces that all drawings share: escaped text, colours for light and dark, and self-contained documents."""

from __future__ import annotations

from collections.abc import Iterable

from ...base.record import Record
from ...runtime.provenance import Provenance
from ..look import MONO, WORDS, colours
from ..text import CONTROLS

CHARACTER = 0.605  # width of a character of the font, of its height
STEP = 16  # from line to line of what stands above and below a drawing
_MARKUP = {ord("&"): "&amp;", ord("<"): "&lt;", ord(">"): "&gt;", ord('"'): "&quot;", ord("'"): "&#39;"}
# What XML 1.0 does not allow at all, surrogates (bytes that are no UTF-8) among it.
_FORBIDDEN = CONTROLS | dict.fromkeys((65534, 65535), "�")

STYLE = f"""
{colours("svg, :root")}{WORDS}svg {{ font-family: {MONO}; background: var(--paper); }}
body svg {{ max-width: 100%; height: auto; }}
svg text {{ fill: var(--ink); }}
svg text.soft {{ fill: var(--soft); }}
svg text.lost {{ fill: var(--lost); }}
"""


def escape_markup(text: str) -> str:
    """Text for the content and the attributes of XML and HTML, whatever a traced program has put into it."""
    text = text.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
    return text.translate(_FORBIDDEN).translate(_MARKUP)


def escape_lines(text: str) -> str:
    """The same of text whose line breaks are wanted."""
    return "\n".join(map(escape_markup, text.split("\n")))


class About(Record):
    """What a drawing is of: ``lost`` is to stand on top of it in red, ``foot`` below."""

    lost: list[str] = []
    foot: list[str] = []


def about_run(run: Provenance | None) -> About | None:
    """The run that a drawing shows."""
    return About([f"Incomplete: {line}" for line in run.lost], [run.command, run.origin]) if run is not None else None


def svg_document(width: int, height: int, style: str, script: str, body: Iterable[str], label: str,
                 about: About | None = None) -> str:
    """A whole SVG file of its natural size: what is larger than the window is scrolled. The script is ours alone: data
    is never put into it."""
    if about is not None:
        lost, foot = [[piece for line in lines for piece in wrap_text(line, width)]
                      for lines in (about.lost, about.foot)]
        top = STEP * len(lost) + (6 if lost else 0)
        body = [*_text_elements(lost, "lost", 0), f'<g transform="translate(0,{top})">', *body, "</g>\n",
                *_text_elements(foot, "soft", top + height)]
        height += top + STEP * len(foot) + 6
    return (f'<?xml version="1.0" encoding="UTF-8"?>\n{svg_element(width, height, style, body, label)[:-len("</svg>")]}'
            f"<script><![CDATA[{script}]]></script>\n</svg>\n")


def wrap_text(text: str, width: int) -> list[str]:
    """A long line as several that fit so many units."""
    import textwrap
    return textwrap.wrap(text, int((width - 20) / (12 * CHARACTER)), max_lines=4, placeholder=" …") or [""]


def _text_elements(lines: list[str], look: str, y: int) -> list[str]:
    return [f'<text class="{look}" data-about="" x="10" y="{y + STEP * i}" font-size="12">'
            f"{escape_markup(line)}</text>\n" for i, line in enumerate(lines, 1)]


def run_html(run: Provenance | None) -> str:
    """The same for a page."""
    if run is None:
        return ""
    lost = f'<ul class="lost">{"".join([f"<li>{escape_markup(line)}</li>" for line in run.lost])}</ul>\n' if run.lost \
        else ""
    return f'{lost}<p class="soft"><code>{escape_markup(run.command)}</code><br/>{escape_markup(run.origin)}</p>\n'


def svg_element(width: int, height: int, style: str, body: Iterable[str], label: str) -> str:
    """An ``<svg>`` element, for a file of its own or within a page."""
    return (f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" '
            f'height="{height}" role="img" aria-label="{escape_markup(label)}">\n<style>{STYLE}{style}</style>\n'
            f'{"".join(body)}</svg>')


def html_page(title: str, style: str, body: Iterable[str], script: str) -> str:
    """A whole HTML file. Its policy forbids to fetch anything, or to run any script but those within."""
    policy = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'"
    return (f'<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8"/><title>{escape_markup(title)}</title>\n'
            f'<meta name="viewport" content="width=device-width"/>\n'
            f'<meta name="color-scheme" content="light dark"/>\n'
            f'<meta http-equiv="Content-Security-Policy" content="{policy}"/>\n'
            f"<style>{STYLE}{style}</style></head>\n<body>\n{''.join(body)}\n<script>{script}</script></body></html>\n")


def format_coordinate(value: float) -> str:
    """A coordinate, short."""
    return f"{value:.2f}".rstrip("0").rstrip(".")
