"""The cookbook's entries have their form: a question, a command, what it printed, how to read that, what next."""

from __future__ import annotations

from cookbook import FOLDER, all_entries


def test_each_question_is_asked_once() -> None:
    questions = [entry.question for entry in all_entries()]
    assert len(set(questions)) == len(questions) and all(question.endswith("?") for question in questions)


def test_each_answer_is_shown() -> None:
    for entry in all_entries():
        assert entry.command.startswith("sonde "), entry.question
        assert entry.output.strip(), entry.question
        assert "`" in entry.next or "](" in entry.next, entry.question  # something to run or to read


def test_each_page_is_listed() -> None:
    start = (FOLDER / "README.md").read_text()
    for page in FOLDER.glob("[a-z]*.md"):
        assert f"({page.name})" in start
