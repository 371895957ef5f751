"""Plots: SVG that fits any page, with the values that it was given."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from xml.etree import ElementTree

import numpy as np
import pytest

from palbert.errors import MissingExtraError
from palbert.metrics import Values
from palbert.reporting import plots

pytest.importorskip("matplotlib")

GENERATOR = np.random.default_rng(0)
GOLD = np.round(GENERATOR.uniform(0, 5, 400), 1)
PREDICTED = GOLD + GENERATOR.normal(0, 0.5, 400)
STEPS = list(range(60))
LABELS = GENERATOR.integers(3, size=90)

PLOTS: dict[str, Callable[[], str]] = {
    "loss": lambda: plots.loss_curves({"sst": (STEPS, [2.0 / (step + 1) for step in STEPS])}),
    "losses": lambda: plots.loss_curves({f"task {n}": (STEPS, GENERATOR.random(60).tolist()) for n in range(12)}),
    "cosines": lambda: plots.cosine_curves(
        {"sst/sts": (STEPS, GENERATOR.uniform(-1, 1, 60).tolist()), "a/b": ([1, 2], [np.nan, np.nan])}
    ),
    "scores": lambda: plots.score_curves([0, 1, 2], {"sst": [0.2, np.nan, 0.5]}, overall=[0.2, 0.4, 0.3]),
    "seeds": lambda: plots.seed_scores(
        {"sst": {"with": [0.5, 0.52], "without": [0.51]}, "overall": {"with": [0.7, 0.71], "without": [0.69]}}
    ),
    "counts": lambda: plots.task_counts([1, 2], {"sst": [9, 5]}, {"sst": [8, 6], "sts": [1, 2]}),
    "one epoch": lambda: plots.task_counts([1], {"sst": [9]}, {"sst": [8]}),
    "classes": lambda: plots.label_distribution(
        {"train": LABELS, "dev": LABELS[:9], "test": LABELS[:0]}, classes=("a", "b", "c"), name="sst"
    ),
    "numbers": lambda: plots.label_distribution({"train": GOLD, "dev": GOLD[:1]}, name="sts"),
    "confusion": lambda: plots.confusion_matrix(np.arange(9).reshape(3, 3), ("a", "b", "c"), name="sst"),
    "many classes": lambda: plots.confusion_matrix(np.eye(30, dtype=np.int64), [f"class {n}" for n in range(30)]),
    "scatter": lambda: plots.similarity_scatter(GOLD, PREDICTED, name="sts"),
    "residuals": lambda: plots.residuals(GOLD, PREDICTED, name="sts"),
    "constant": lambda: plots.residuals(np.ones(5), np.ones(5), name="sts"),
    "lengths": lambda: plots.length_histogram(GENERATOR.integers(3, 200, size=500), max_length=128, name="sst"),
}  # fmt: skip


@pytest.fixture(params=PLOTS, scope="module")
def drawn(request: pytest.FixtureRequest) -> str:
    return PLOTS[request.param]()


def test_a_plot_is_one_svg_element_that_fits_its_column(drawn: str) -> None:
    root = ElementTree.fromstring(drawn)
    assert root.tag == "svg"
    assert "viewBox" in root.attrib
    assert "width" not in root.attrib
    assert root.get("aria-label")


def test_a_plot_has_only_the_colours_of_the_page(drawn: str) -> None:
    colors = set(re.findall(r"(?:fill|stroke): ([^;\"]+)", drawn))
    named = re.compile(r"none|var\(--(ink|muted|grid|heat|series-[1-6])\)")
    assert {color for color in colors if not named.fullmatch(color)} == set()


def test_a_plot_loads_nothing_and_brings_no_font_or_global_style(drawn: str) -> None:
    assert "http" not in drawn
    assert "font-family" not in drawn
    assert "<style" not in drawn
    assert "<image" not in drawn


def test_a_plot_refers_only_to_its_own_ids(drawn: str) -> None:
    identifiers = re.findall(r'\bid="([^"]+)"', drawn)
    assert len(identifiers) == len(set(identifiers))
    assert set(re.findall(r"#([\w-]+)", drawn)) == set(identifiers)


def texts_in(svg: str) -> list[str]:
    return [element.text or "" for element in ElementTree.fromstring(svg).iter("text")]


def test_a_confusion_matrix_shows_counts_and_shares_of_each_row() -> None:
    texts = texts_in(plots.confusion_matrix(np.array([[1, 3], [0, 6]]), ("no", "yes"), name="sst"))
    assert {"1", "3", "6", "25\u202f%", "75\u202f%", "100\u202f%", "no", "yes", "gold", "predicted"} <= set(texts)


def test_the_legend_names_each_split_with_its_rows_and_leaves_out_empty_ones() -> None:
    splits: dict[str, Values] = {
        "train": np.zeros(1200, dtype=np.int64),
        "dev": np.ones(3, dtype=np.int64),
        "test": np.zeros(0),
    }
    texts = texts_in(plots.label_distribution(splits, classes=("a", "b"), name="sst"))
    assert {"train (1,200)", "dev (3)"} <= set(texts) and not any(text.startswith("test") for text in texts)


def test_a_task_has_the_same_colour_with_and_without_the_others() -> None:
    losses = {"sst": (STEPS, [1.0] * 60), "sts": (STEPS, [0.5] * 60)}
    alone = plots.loss_curves({"sts": losses["sts"]}, tasks=["sst", "sts"])
    assert "var(--series-2)" in alone and "var(--series-1)" not in alone


def test_all_panels_of_seed_scores_have_the_same_scale() -> None:
    """A difference of 0.02 is drawn as high as any other difference of 0.02."""
    scores = {"sst": {"a": [0.50], "b": [0.52]}, "overall": {"a": [0.70], "b": [0.71]}}
    heights = re.findall(r'<use [^>]*y="([\d.]+)"', plots.seed_scores(scores))
    first, second, third, fourth = (float(height) for height in heights)
    assert first - second == pytest.approx(2 * (third - fourth), rel=0.02)


def test_equal_plots_are_identical_character_by_character() -> None:
    first = plots.residuals(GOLD, PREDICTED, name="sts")
    assert plots.residuals(GOLD, PREDICTED, name="sts") == first


def test_equal_drawings_of_different_tasks_share_no_id() -> None:
    found = [set(re.findall(r'\bid="([^"]+)"', plots.residuals(GOLD, PREDICTED, name=n))) for n in ("a", "b")]
    assert found[0]
    assert not found[0] & found[1]


def test_class_names_stay_text() -> None:
    names = ("<script>", "$x^2$", "日本語", "a\x00\nb", "&amp;" * 20)
    drawn = plots.confusion_matrix(np.eye(5, dtype=np.int64), names, name="<b>")
    texts = [element.text or "" for element in ElementTree.fromstring(drawn).iter("text")]
    assert {"<script>", "$x^2$", "日本語", "a b"} <= set(texts)


def test_a_large_scatter_shows_a_sample() -> None:
    gold = GENERATOR.random(20_000)
    drawn = plots.similarity_scatter(gold, gold, name="sts")
    assert drawn.count("<use") == plots.MOST_POINTS
    assert len(drawn) < 150_000


def test_the_length_plot_says_how_much_is_truncated() -> None:
    lengths = np.array([10] * 75 + [200] * 25)
    assert "25.0\u202f% truncated" in plots.length_histogram(lengths, max_length=128)


def test_a_count_has_whole_ticks_each_once() -> None:
    for drawn in (plots.task_counts([1], {"a": [3]}, {"a": [3]}), plots.loss_curves({"a": ([3], [0.5])})):
        ticks = re.findall(r">(\d+)</text>", drawn)
        assert "3" in ticks and ticks.count("3") == 1


def test_a_series_of_one_point_is_drawn_as_a_mark() -> None:
    assert plots.loss_curves({"a": ([3], [0.5])}).count("<use") > plots.loss_curves({"a": ([3, 4], [0.5, 0.5])}).count(
        "<use"
    )


def test_a_plot_without_matplotlib_says_how_to_install_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(MissingExtraError, match=r"Plots need matplotlib\. .*'palbert\[plots\]'"):
        plots.residuals(GOLD, PREDICTED)
