"""The page of metrics: it lists all of them, and its example of one's own is measured."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import numpy as np
import pytest

from palbert.build.check import check_metric
from palbert.metrics import find_metric
from palbert.registry import METRICS, TARGETS
from palbert.registry.trust import allow_recipe

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

PAGE = (Path(__file__).parents[2] / "docs" / "guides" / "metrics.md").read_text("utf-8")


def test_every_metric_is_on_the_page_with_its_direction() -> None:
    rows = re.findall(r"^\| (`[^|]+) \| (.+?) \| [^|]+ \|$", PAGE, re.MULTILINE)
    described = {name: text for names, text in rows for name in re.findall(r"`(\w+)`", names)}
    assert set(described) == set(METRICS)
    lower = {name for name, text in described.items() if "lower is better" in text}
    assert lower == {name for name, metric in METRICS.items() if not metric.higher_is_better}


def test_the_metrics_of_the_example_score_a_task(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    modules = re.findall(r"```python\n# my_scores.py\n(.*?)```", PAGE, re.DOTALL)
    (tmp_path / "my_scores.py").write_text("\n".join(modules), "utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "my_scores", raising=False)
    [example] = re.findall(r"```toml\n(\[tasks.sts\].*?)```", PAGE, re.DOTALL)
    allow_recipe(tomllib.loads(example), "the example")
    _, *own = tomllib.loads(example)["tasks"]["sts"]["metrics"]
    for name in own:
        check_metric(name, TARGETS["number"]())
    gold, predicted = np.array([1.0, 2.0, 3.0, 4.0]), np.array([1.0, 3.0, 5.0, 4.0])
    near, bias = map(find_metric, own)
    assert (near(gold, predicted), bias(gold, predicted)) == (0.75, 0.75)
    assert (near.higher_is_better, bias.higher_is_better) == (True, False)
