"""Notebooks: what the functions of palbert return is shown as tables or pages, and nothing in it becomes HTML."""

from __future__ import annotations

from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

import palbert
from palbert.explanations.explanation import Explanation, Explanations, SimilarRow, SimilarTo, WordScore
from palbert.explanations.markup import SHOWN
from palbert.reporting.display import ROWS
from palbert.reproduction.reproduce import Reproduction
from palbert.verbs.predict import AllPredictions

pytestmark = pytest.mark.usefixtures("on_cpu", "no_plots")

EVIL = '<script>alert("x")</script>'
WITHOUT_END = {"hr", "br"}


class Checker(HTMLParser):
    """Collects the tags and the text of HTML, and checks that tags are closed in order."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: set[str] = set()
        self.text = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        if tag not in WITHOUT_END:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data


def shown(value: Any) -> str:
    """Return the text that a notebook shows for a value, after checking its HTML."""
    checker = Checker()
    checker.feed(value._repr_html_())
    assert not checker.open and "script" not in checker.tags
    return checker.text


def explanation(text: str) -> Explanation:
    words = (WordScore(text, 0, len(text), 0.5, 0), WordScore("dull", 60, 64, -0.25, 0))
    return Explanation("tone", text, "occlusion", words, 0.0, 1.0, 0.0, None, None)


def test_explanations_are_shown_one_below_the_other() -> None:
    found = Explanations([explanation(EVIL), explanation("fine")])
    text = shown(found)
    assert EVIL in text and "fine" in text
    assert shown(found[0]) in text
    assert shown(Explanations()) == ""
    assert "… and 3 more" in shown(Explanations([explanation("fine")] * (SHOWN + 3)))


def test_similar_rows_are_shown_as_tables() -> None:
    row = SimilarRow((EVIL, "other"), EVIL, 0.75, "tone", "1")
    assert shown(SimilarTo([[row], [row, row]])).count("0.750") == 3
    assert EVIL in shown(row)


def test_answers_of_all_tasks_have_a_column_each() -> None:
    rows = [{"tone": palbert.Prediction(EVIL), "grade": palbert.Prediction(2.5)}] * (ROWS + 2)
    text = shown(AllPredictions(rows, texts=[EVIL] * len(rows)))
    assert text.startswith("texttonegrade") and "2.500" in text and "… and 2 more" in text
    assert shown(AllPredictions([{}])) == ""


def test_a_loaded_model_shows_its_tasks(trained: Path, tiny_encoder: Path) -> None:
    model = palbert.load(trained)
    text = shown(model)
    assert "negative, somewhat negative" in text and "a number from 0 to 5" in text and "a pair of texts" in text
    assert repr(model).splitlines()[0].split() == ["task", "takes", "answers", "tokens"]
    assert "An encoder without tasks." in shown(palbert.load(tiny_encoder))
    assert shown(model.predict_all(["Dull.", "Fun!"])).startswith("textsst")
    assert "Dull." in shown(model.explain("sst", ["Dull."]))
    assert "Training rows most like it" in shown(model.similar("sst", ["Dull."], count=2))


def test_what_other_functions_return_is_shown(trained: Path, tmp_path: Path) -> None:
    exported = palbert.export(trained, out=tmp_path / EVIL.replace("/", ""), to="transformers", check=False)
    assert "Not compared" in shown(exported) and "alert" in shown(exported)
    submission = palbert.Submission(Path("run"), {"tone": [Path(EVIL)]}, {"tone": 3})
    assert str(Path(EVIL)) in shown(submission)
    assert EVIL in shown(Reproduction([Path("a.md")], {"row": EVIL}))
    assert "round-robin" in shown(palbert.parts("samplers"))
    assert 'name = "' in shown(palbert.Run(trained).recipe)
    assert "[provenance" in shown(palbert.Run(trained).recipe)


def test_summaries_of_data_are_shown_with_advice(tiny_encoder: Path) -> None:
    rows = [{"text": f"{EVIL} {number}", "label": number % 2} for number in range(40)]
    task = {"kind": "single", "target": "classes", "classes": ["no", EVIL], "text": ["text"]}
    values = {"encoder": str(tiny_encoder), "tasks": {"tone": task}}
    found = palbert.check_data(values, data={"tone": rows})
    assert shown(found).startswith("tasksplitrows") and found[0].rows


def test_a_card_is_shown_as_a_page_without_its_metadata(trained: Path) -> None:
    card = palbert.card(trained)
    assert isinstance(card, str) and card.startswith("---\n")
    assert card._repr_markdown_().startswith("# ")
