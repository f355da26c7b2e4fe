"""Questions: whether what people ask finds what answers it, in a source tree and in what is built."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

from cookbook import all_entries
from sonde.cli.main import main
from sonde.cli.search import answering
from sonde.cli.search.build import collect_entries
from sonde.cli.search.entries import QUESTION, TRACEPOINT, Entry
from sonde.cli.search.index import index_text
from sonde.cli.search.ranking import find_answers
from sonde.cli.search.words import nearest_term, stem, terms_of

ROOT = Path(__file__).parents[3]


@pytest.fixture(scope="module")
def entries() -> list[Entry]:
    """As the index of a built package has them."""
    return [Entry(*line.split("\t")) for line in index_text(collect_entries()).splitlines()]


def names_of(entry: Entry) -> set[str]:
    """By what an answer may be expected: its name, and of a question what its command runs."""
    words = set(re.split(r"[ ,(\[:]+", entry.name))
    return words | set(re.findall(r"[-\w]+", entry.action)) if entry.kind == QUESTION else words


def jobs() -> list[tuple[str, str, str]]:
    """(what people type, the question of the cookbook's entry that answers, names of which one answers)."""
    rows = [line.split("|") for line in (ROOT / "tests" / "jobs.txt").read_text().splitlines() if line[0] != "#"]
    return [(query.strip(), question.strip(), " ".join(names).strip()) for query, question, *names in rows]


@pytest.mark.parametrize(("query", "question", "names"), jobs())
def test_one_search_finds_what_does_the_job(query: str, question: str, names: str, entries: list[Entry]) -> None:
    best, _, _ = find_answers(query, entries)
    answers = set().union(*map(names_of, best)) if best else set()
    assert question or names
    assert not names or answers & set(names.split()), [entry.name or entry.head for entry in best]
    assert not question or question in [entry.head for entry in best], [entry.name or entry.head for entry in best]


def test_the_tutorial_names_forty_jobs_and_three_commands_solve_each() -> None:
    """The command of the entry, and those that it names to go on with."""
    recipes = {entry.question: entry for entry in all_entries()}
    named = re.findall(r"^\| [\w ]+ \| ((?:[\w ]+, )*[\w ]+) \|$", (ROOT / "docs" / "tutorial.md").read_text(), re.M)
    asked = {query: question for query, question, _ in jobs() if question}
    assert sorted(asked) == sorted(job for row in named[1:] for job in row.split(", ")) and len(asked) == 40
    for query, question in asked.items():
        commands = [recipes[question].command, *re.findall(r"`(sonde [^`]+)`", recipes[question].next)]
        assert len(commands) <= 3, f"{query}: {commands}"


def test_every_tool_is_found_by_its_own_first_line(entries: list[Entry]) -> None:
    for entry in entries:
        if entry.kind in ("tool", "command"):
            best, _, _ = find_answers(entry.head, entries)
            assert entry.name in [each.name for each in best], entry.head


def test_every_question_of_the_cookbook_finds_its_answer(entries: list[Entry]) -> None:
    questions = [entry for entry in entries if entry.kind == QUESTION]
    assert bool(questions) == (ROOT / "docs" / "cookbook").exists()
    for entry in questions:
        best, _, _ = find_answers(entry.head, entries)
        assert entry.action in [each.action for each in best], entry.head


@pytest.mark.parametrize(("forms", "term"), [
    (("retransmit", "retransmits", "retransmitted", "retransmitting"), "retransmit"), (("drop", "dropped"), "drop"),
    (("file", "files"), "file"), (("allocation", "allocate"), "allocat"), (("process", "processes"), "process"),
    (("query", "queries"), "query"), (("cpu", "cpus"), "cpu"),
])
def test_forms_of_a_word_are_one_term(forms: tuple[str, ...], term: str) -> None:
    assert {stem(form) for form in forms} == {term}


def test_phrases_are_one_term_and_small_words_none() -> None:
    assert terms_of("Which system calls do I/O off-CPU?") == ["syscall", "io", "offcpu"]


@pytest.mark.parametrize(("word", "near"), [
    ("latancy", "latency"), ("dsik", "disk"), ("retransmision", "retransmission"), ("xyz", ""), ("quux", ""),
])
def test_misspelt_words(word: str, near: str) -> None:
    assert nearest_term(word, ["latency", "disk", "retransmission", "file"]) == near


def test_at_most_one_of_the_best_is_a_tracepoint(entries: list[Entry]) -> None:
    points = [Entry(TRACEPOINT, f"tracepoint:tcp:tcp_retransmit_{name}", "", "") for name in ("skb", "synack", "other")]
    best, _, _ = find_answers("tcp_retransmit", [*entries, *points])
    assert sum(entry.kind == TRACEPOINT for entry in best) == 1
    best, _, _ = find_answers("tcp_retransmit_skb", [*entries, *points])
    assert best[0].name == "tracepoint:tcp:tcp_retransmit_skb"


def test_what_is_printed(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(answering, "tracepoint_entries", list)
    assert main(["help", "slow", "disk"]) == 0
    shown = capsys.readouterr().out
    assert "\n    sonde biolatency --help\n" in shown
    assert all(len(line) <= 80 for line in shown.splitlines() if not line.startswith(("    ", "also: ")))
    assert main(["help", "flamegraf"]) == 0
    assert capsys.readouterr().out.startswith("(flamegraf is taken for flamegraph)\n")
    assert main(["tools", "histogram"]) == 0
    assert "hist(" not in capsys.readouterr().out
    assert main(["help", "qwertzuiop"]) == 1
    assert capsys.readouterr().err.startswith("ERROR: nothing is about 'qwertzuiop'\n")
    assert main(["help", "tcplife"]) == 0
    assert capsys.readouterr().out.startswith("tcplife: ")


def test_nothing_of_it_is_imported_by_other_commands() -> None:
    import subprocess
    code = ("import sys; from sonde.cli.main import main; main(['--version']); "
            "print([name for name in sys.modules if name.startswith('sonde.cli.search')])")
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True,
                          env={"PYTHONPATH": str(ROOT / "src")})
    assert done.stdout.splitlines()[-1] == "[]"
