"""Which entries answer a question best."""

from __future__ import annotations

import re
from math import log

from ...base.record import Record
from .entries import COMMAND, FUNCTION, ONE_LINER, OPTION, PROBE, QUESTION, TOOL, TRACEPOINT, VARIABLE, Entry
from .words import SYNONYMS, nearest_term, terms_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

# What a term is worth that is a name, a word of one, a part of one, in the first line ...
_NAME, _WORD, _PART, _HEAD, _QUERY, _ALSO = 4.0, 2.6, 1.8, 2.2, 2.2, 1.0
_SYNONYM = 0.55  # of a term
# Where two answer equally well: what is run at once comes before what a script has to be written with.
_KINDS = {QUESTION: 1.25, TOOL: 1.15, COMMAND: 1.0, ONE_LINER: 0.85, FUNCTION: 0.8, OPTION: 0.75, VARIABLE: 0.6,
          TRACEPOINT: 0.45}
_EXACT = 4.0  # of a tracepoint's score, where the question is a part of its name with an underscore
_WHOLE = 2.0  # of a recipe's score, where just this was asked
_LEAST_SHARE = 0.4  # of the best one's score: what has less is no answer


class Question(Record):
    """The terms of a question, each with the ways to say it; ``corrected`` says which were taken for misspelt, ``text``
    is all of it."""

    text: str
    terms: list[list[tuple[str, float]]]
    corrected: dict[str, str]


class _Document:
    """An entry by its terms, each with what it is worth there."""

    def __init__(self, entry: Entry) -> None:
        self.entry = entry
        self.name = entry.name.lower()
        self.function = self.name.split("(")[0] if entry.kind == FUNCTION else ""
        self.worth: dict[str, float] = {}
        heads = terms_of(entry.head)
        self.whole = set(heads) if entry.kind == QUESTION else set[str]()
        plain = re.split(r"[(\[:]", entry.name)[0] if entry.kind in (FUNCTION, PROBE) else entry.name
        if entry.kind == OPTION:
            plain = entry.name.split(",")[-1].split()[0].lstrip("-")
        named = [] if entry.kind == QUESTION else terms_of(plain.replace("_", " "))
        for terms, worth in ((terms_of(entry.also.replace("_", " ")), _ALSO), (terms_of(entry.queries), _QUERY),
                             (heads, _HEAD / (1 + len(heads) / 25)), (named, _NAME if len(named) == 1 else _WORD)):
            for term in terms:
                self.worth[term] = max(worth, self.worth.get(term, 0.0))

    def worth_of(self, term: str) -> float:
        """What a term of the question is worth here."""
        worth = self.worth.get(term, 0.0)
        if worth < _PART and self.entry.kind in (TOOL, COMMAND) and len(term) > 2 and term in self.name:
            return _PART
        if len(self.function) > 3 and term.startswith(self.function):  # a histogram is made by hist()
            return max(worth, _NAME)
        return worth


def find_answers(question: str, entries: Sequence[Entry], most: int = 3,
                 ) -> tuple[list[Entry], list[Entry], dict[str, str]]:
    """The best answers, best first; more that are nearly as good; and the words that were taken for others."""
    documents = [_Document(entry) for entry in entries]
    holders: dict[str, int] = {}
    for document in documents:
        for term in document.worth:
            holders[term] = holders.get(term, 0) + 1
    query = understand(question, holders, [document.name for document in documents])
    scores = sorted([(-_score(document, query, holders, len(documents)), at)
                     for at, document in enumerate(documents)])
    least = -scores[0][0] * _LEAST_SHARE if scores else 0.0
    ranked = [documents[at].entry for score, at in scores if -score > max(least, 0.0)]
    ranked = _one_tracepoint_first(_without_repeats(ranked), most)
    return ranked[:most], ranked[most:], query.corrected


def understand(question: str, holders: dict[str, int], names: Sequence[str]) -> Question:
    """The question's terms, with synonyms; a word that is nowhere is taken for the one that is most like it."""
    query = Question(question.strip().lower(), [], {})
    for term in dict.fromkeys(terms_of(question)):
        if term not in holders and term not in SYNONYMS and not any(term in name for name in names):
            near = nearest_term(term, [*holders, *SYNONYMS])
            if near:
                query.corrected[term] = near
                term = near
        query.terms.append([(term, 1.0), *[(other, _SYNONYM) for other in SYNONYMS.get(term, [])]])
    return query


def _score(document: _Document, query: Question, holders: dict[str, int], total: int) -> float:
    """How well an entry answers: rare terms count for more, and all terms together for more than one of them often."""
    score, matched = 0.0, 0.0
    for ways in query.terms:
        best, share = 0.0, 0.0
        for term, weight in ways:
            worth = document.worth_of(term)
            if worth:
                rarity = log(1 + total / holders.get(term, 2))
                if worth * weight * rarity > best:
                    best, share = worth * weight * rarity, weight
        score += best
        matched += share
    coverage = matched / max(1, len(query.terms))
    if document.whole and document.whole == {ways[0][0] for ways in query.terms}:
        coverage *= _WHOLE
    if document.entry.kind == TRACEPOINT and "_" in query.text and query.text in document.name:
        coverage *= _EXACT
    return score * coverage * _KINDS.get(document.entry.kind, 0.7)


def _one_tracepoint_first(ranked: list[Entry], most: int) -> list[Entry]:
    """Of the best ones at most one is a tracepoint, if there is anything else: they have many brothers."""
    points = [entry for entry in ranked if entry.kind == TRACEPOINT]
    others = [entry for entry in ranked if entry.kind != TRACEPOINT]
    if not points or ranked.index(points[0]) >= most:
        return [*others, *points]
    first = ranked.index(points[0])
    return [*others[:first], points[0], *others[first:], *points[1:]]


def _without_repeats(entries: list[Entry]) -> list[Entry]:
    """Of several entries with the same command, the first."""
    seen: set[str] = set()
    single = []
    for entry in entries:
        action = entry.action if entry.kind != OPTION else entry.name
        if action not in seen:
            seen.add(action)
            single.append(entry)
    return single
