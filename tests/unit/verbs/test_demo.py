"""The demo's questions fit the tasks of the demo's recipe."""

from __future__ import annotations

from palbert.recipe.load import load_recipe
from palbert.verbs.demo import QUESTIONS


def test_the_demo_asks_every_task_one_question_of_its_kind() -> None:
    tasks = load_recipe("demo").tasks
    assert [task for task, _ in QUESTIONS] == list(tasks)
    for task, text in QUESTIONS:
        assert tasks[task].kind == ("single" if isinstance(text, str) else "pair")
