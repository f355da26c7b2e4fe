"""Corrections: what the hints of findings propose, as edits that are tried before they are offered."""

from __future__ import annotations

from ..base import regex_cache
from ..base.record import Record
from ..source import Diagnostic
from .analysis import Document

MOST = 5  # corrections that are tried for one finding
_PROPOSAL = regex_cache.compile(r"did you mean (.+)\?\Z")
_NAME = regex_cache.compile(r"[$@]?[\w.:*]+")


class Correction(Record):
    """Put ``text`` in the place of the characters ``start`` to ``end``, which ends ``finding``."""

    title: str
    finding: Diagnostic
    start: int
    end: int
    text: str


def corrections(document: Document, findings: list[Diagnostic], start: int, end: int) -> list[Correction]:
    """The corrections of the findings about any of the characters ``start`` to ``end``."""
    offered: list[Correction] = []
    for finding in findings:
        span = finding.span
        if span is not None and span.source.text == document.text and span.start <= end and span.end >= start:
            offered += [each for each in _proposals(document, finding)[:MOST] if _helps(document, each)]
    return offered


def _proposals(document: Document, finding: Diagnostic) -> list[Correction]:
    """By the hints: the name within the finding's text that is most like the proposed one is replaced."""
    from difflib import SequenceMatcher
    span = finding.span
    assert span is not None
    proposals = []
    for hint in finding.hints:
        match = _PROPOSAL.match(hint)
        for name in match[1].split(" or ") if match is not None else ():
            plain = name.removesuffix("()")
            words = list(_NAME.finditer(span.text))
            if words and (_NAME.fullmatch(plain) or plain == "=="):
                word = max(words, key=lambda word: SequenceMatcher(None, word[0], plain).ratio())
                proposals += [Correction(f"Change to {name}", finding, span.start + at, span.start + word.end(), plain)
                              for at in _starts(word[0], word.start())]
    return proposals


def _starts(word: str, start: int) -> list[int]:
    """Where a name may begin that ends with ``word``: ``args.flag`` may be all wrong, or only its last part."""
    return [start + at for at in [0, *[at + 1 for at, char in enumerate(word) if char in ".:"]]]


def _helps(document: Document, correction: Correction) -> bool:
    """Whether the finding is gone afterwards, and no other has come."""
    text = document.text[:correction.start] + correction.text + document.text[correction.end:]
    changed = Document(document.source.name, text, document.machine)
    before = [(item.code, item.message) for item in document.findings() if item.severity == "ERROR"]
    after = [(item.code, item.message) for item in changed.findings() if item.severity == "ERROR"]
    finding = (correction.finding.code, correction.finding.message)
    return finding not in after and len(after) <= max(len(before) - 1, 0) or \
        correction.finding.severity != "ERROR" and len(after) <= len(before)
