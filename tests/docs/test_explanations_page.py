"""The page of explanations: its table is that of the measurement, and its limits are those of the code."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from palbert.explanations.explained import TOKENS
from palbert.explanations.explainer import METHODS
from palbert.explanations.gradients import FIRST_STEPS, MOST_STEPS, TOLERANCE
from palbert.explanations.occlusion import MOST_WORDS
from palbert.verbs.error_words import SHOWN
from palbert.verbs.similar import MOST_ROWS

ROOT = Path(__file__).parents[2]
CONCEPT, GUIDE = (
    " ".join((ROOT / "docs" / page).read_text("utf-8").split())
    for page in ("concepts/explanations.md", "guides/explain.md")
)
FACTS = json.loads((ROOT / "benchmarks" / "results" / "explanations-2-cores.json").read_text("utf-8"))


@pytest.fixture
def benchmarks(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.syspath_prepend(ROOT / "benchmarks")
    yield
    sys.modules.pop("explanations", None)


@pytest.mark.usefixtures("benchmarks")
def test_the_table_is_that_of_the_measurement() -> None:
    from explanations import table

    lines = [line for line in (ROOT / "docs/concepts/explanations.md").read_text("utf-8").splitlines() if "…" in line]
    assert [line for line in lines if line.startswith(("| sst", "| quora", "| sts"))] == table(FACTS)
    [rows] = {task["rows"] for task in FACTS["tasks"].values()}
    assert f"{rows} dev rows of each task" in CONCEPT


def test_the_costs_are_those_of_the_measurement() -> None:
    told = [float(number) for number in re.findall(r"([\d.]+) ×", CONCEPT.partition("## Cost")[2])]
    assert told[: len(FACTS["cost"])] == [round(cost["ratio"], 1) for cost in FACTS["cost"].values()]


def test_the_pairs_that_were_measured_are_siamese() -> None:
    pieces = {"quora": 17, "sts": 16}  # 16 words each, of which the tokenizer cuts quora's "elden" in two
    marks = {task: FACTS["cost"][task]["tokens"] - count for task, count in pieces.items()}
    assert marks == {"quora": 4, "sts": 4}  # two around each text; a joint pair has three in all
    assert "quora, a siamese pair" in CONCEPT


def test_limits_are_those_of_the_code() -> None:
    assert (
        f"doubled from {FIRST_STEPS} up to {MOST_STEPS} until it is at most {TOLERANCE:.0%}".replace("1%", "1 %")
        in CONCEPT
    )
    assert f"more than {TOKENS['cpu']:,} tokens on a CPU" in CONCEPT
    assert f"unless {MOST_STEPS} steps were not enough" in GUIDE
    assert f"at most {MOST_WORDS} words of each text" in GUIDE and f"at most {MOST_ROWS:,} rows per set" in GUIDE
    assert SHOWN == 5 and "the five worst errors of each task" in GUIDE


def test_the_guide_has_every_method() -> None:
    assert [method for method in METHODS if f"| `{method}` |" not in GUIDE] == []
