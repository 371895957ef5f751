"""Explanation: plain values for JSON, and a view for notebooks."""

from __future__ import annotations

import json
from dataclasses import replace

from palbert.explanations.explanation import Explanation, Interactions, WordScore

WORDS = (WordScore("<b>", 0, 3, 0.5, 0), WordScore("dull", 4, 8, -1.0, 0), WordScore("rain", 0, 4, 0.25, 1))
EXPLANATION = Explanation("sts", "", "integrated-gradients", WORDS, 0.0, 2.5, 2.75, 0.004, 32)
INTERACTIONS = Interactions((0, 1), (2,), ((0.5,), (-0.25,)), 3)


def test_values_are_plain_and_can_be_written_as_json() -> None:
    values = EXPLANATION.as_dict()
    assert json.loads(json.dumps(values))["words"][1] == {
        "text": "dull",
        "start": 4,
        "end": 8,
        "score": -1.0,
        "column": 0,
    }
    assert {name: values[name] for name in ("task", "target", "output", "baseline", "completeness_error", "steps")} == {
        "task": "sts",
        "target": "",
        "output": 2.5,
        "baseline": 2.75,
        "completeness_error": 0.004,
        "steps": 32,
    }
    assert "interactions" not in values


def test_interactions_are_among_the_values_where_there_are_any() -> None:
    values = json.loads(json.dumps(replace(EXPLANATION, interactions=INTERACTIONS).as_dict()))
    assert values["interactions"] == {"first": [0, 1], "second": [2], "values": [[0.5], [-0.25]], "left_out": 3}


def test_a_notebook_shows_it_escaped() -> None:
    shown = EXPLANATION._repr_html_()
    assert "&lt;b&gt;" in shown and "<b>" not in shown
