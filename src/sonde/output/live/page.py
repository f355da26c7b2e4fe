"""The page of ``sonde serve``: self-contained; data arrives as events and is only ever inserted as text."""

from __future__ import annotations

from ..look import MONO, SANS, WORDS, colours, read_asset

STYLE = f"""
{colours(":root")}{WORDS}:root {{ color-scheme: light dark; }}
body {{ margin: 0; background: var(--paper); color: var(--ink); font: 14px {SANS}; }}
h2 {{ font: 600 .95rem {MONO}; }} table, pre {{ font: 13px {MONO}; }}
""" + read_asset("serve.css")


def build_page(nonce: str) -> str:
    """The whole page; ``nonce`` is what its policy lets style and script run by."""
    return ('<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8"/><title>sonde</title>'
            '<link rel="icon" href="data:,"/>'
            '<meta name="viewport" content="width=device-width"/>'
            f'<style nonce="{nonce}">{STYLE}</style></head>\n<body>\n{read_asset("serve.html")}'
            f'<script nonce="{nonce}">\n{read_asset("serve.js")}</script></body></html>\n')
