"""The page of ``sonde serve``: self-contained; data arrives as events and is only ever inserted as text."""

from __future__ import annotations

from ..look import page_style, read_asset


def build_page(nonce: str) -> str:
    """The whole page; ``nonce`` is what its policy lets style and script run by."""
    return ('<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8"/><title>sonde</title>'
            '<link rel="icon" href="data:,"/>'
            '<meta name="viewport" content="width=device-width"/>'
            f'<style nonce="{nonce}">{page_style()}{read_asset("serve.css")}</style></head>\n'
            f'<body>\n{read_asset("serve.html")}'
            f'<script nonce="{nonce}">\n{read_asset("scale.js", "chart.js", "serve.js")}</script></body></html>\n')
