"""The report of a run, as a reader gets it."""

from __future__ import annotations

import re
import sys
from collections import Counter
from dataclasses import replace
from html.parser import HTMLParser
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest

from palbert.inference.results import TaskResult
from palbert.metrics import formula_text, overall
from palbert.registry import METRICS, TARGETS
from palbert.reporting.bootstrap import bounds
from palbert.reporting.report import RunReport, _learning_summary, render_report
from palbert.reporting.report_task import resample_scores, task_summary
from palbert.reporting.wording import Score, duration, number, percent, size

Attributes = list[tuple[str, str | None]]

VOID = {"meta", "link", "br", "hr", "img", "input", "col"}


class Page(HTMLParser):
    """Collect ids, links and what is loaded; check that tags close in order."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.ids: list[str] = []
        self.links: list[str] = []
        self.loads: list[str] = []
        self.tags: Counter[str] = Counter()
        self.open: list[str] = []
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: Attributes) -> None:
        self.tags[tag] += 1
        values = {key: value or "" for key, value in attrs}
        self.ids += [values["id"]] if "id" in values else []
        self.links += [values["href"]] if tag == "a" else []
        self.loads += [values[key] for key in ("src", "href") if key in values and tag not in {"a", "use"}]
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: Attributes) -> None:
        self.handle_starttag(tag, attrs)
        if tag not in VOID:
            self.open.pop()

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def result(
    task: str = "sst",
    target: str = "classes",
    *,
    rows: int = 60,
    right: float = 0.6,
    seed: int = 0,
    text: str = "A fine film.",
) -> TaskResult:
    generator = np.random.default_rng(seed)
    classes: tuple[str, ...]
    gold: Any
    probabilities = None
    if target == "number":
        classes, gold = (), np.round(generator.uniform(0, 5, rows), 1)
        predicted = gold + generator.normal(0, 1 - right, rows) * (right < 1)
    else:
        classes = ("no", "yes") if target == "binary" else ("bad", "so-so", "good")
        gold = generator.integers(len(classes), size=rows)
        wrong = generator.random(rows) >= right
        predicted = np.where(wrong, (gold + 1) % len(classes), gold)
        probabilities = np.full((rows, len(classes)), 0.1)
        probabilities[np.arange(rows), predicted] = generator.uniform(0.5, 1.0, rows)
    return TaskResult(
        task=task,
        split="dev",
        target=TARGETS[target](classes=classes),
        metric=TARGETS[target].metrics[0],
        scores={name: METRICS[name](gold, predicted) for name in TARGETS[target].metrics},
        ids=[f"{task}-{row}" for row in range(rows)],
        texts=[(text,) if target == "classes" else (text, f"{text} {row}") for row in range(rows)],
        gold=gold,
        predicted=predicted,
        probabilities=probabilities,
    )


def records(tasks: list[str]) -> list[dict[str, Any]]:
    lines: list[dict[str, Any]] = [
        {"kind": "train", "step": step, "epoch": 1, "losses": {tasks[step % len(tasks)]: 1.0 / step},
         "learning_rate": {"encoder": 1e-5}, "tokens_per_second": 900.0, "seconds": step / 10}
        for step in range(1, 30)
    ]  # fmt: skip
    for epoch in (0, 1, 2):
        scores = {task: {"accuracy": 0.2 * epoch + 0.1, "pearson": 0.3 * epoch} for task in tasks}
        score = {"kind": "evaluation", "epoch": epoch, "step": epoch * 15, "overall": 0.1 + 0.3 * epoch}
        lines.append({**score, "tasks": scores})
        if epoch:
            counts = dict.fromkeys(tasks, 5)
            lines.append({"kind": "epoch", "epoch": epoch, "planned": counts, "drawn": counts})
    return lines


def run_report(results: list[TaskResult], **changes: Any) -> RunReport:
    main = {one.task: (one.metric, one.scores[one.metric]) for one in results}
    lengths = np.arange(3, 90)
    report = RunReport(
        title="A run",
        summary={
            "overall": overall(main) if main else None,
            "formula": formula_text({task: metric for task, (metric, _) in main.items()}) if main else None,
            "encoder": "minilm",
            "seed": 11,
            "seconds": 75.0,
            "parameters": {"encoder": 22_700_000, "per_task": dict.fromkeys(main, 1500)},
            "device": "cpu",
        },
        results=results,
        resampled={one.task: resample_scores(one) for one in results},
        formula="scaled-mean",
        baselines={
            "majority / mean": {one.task: 0.1 for one in results},
            "untrained heads": {one.task: 0.05 for one in results},
        },
        records=records(list(main)) if main else [],
        train_labels={one.task: one.gold for one in results},
        recipe_text='[encoder]\nname = "minilm"\n',
        notes=["The encoder has seen these pairs."],
        lengths={one.task: lengths for one in results},
        max_lengths={one.task: 64 for one in results},
    )
    return replace(report, **changes)


@pytest.fixture(scope="module")
def three_tasks() -> list[TaskResult]:
    return [result("sst"), result("quora", "binary", seed=1), result("sts", "number", seed=2)]


@pytest.fixture(scope="module")
def page(three_tasks: list[TaskResult]) -> str:
    return render_report(run_report(three_tasks))


def test_the_page_is_well_formed_and_its_ids_are_unique(page: str) -> None:
    found = Page(page)
    assert [name for name, times in Counter(found.ids).items() if times > 1] == []
    assert {link for link in found.links if link.startswith("#")} <= {f"#{name}" for name in found.ids}


def test_the_page_loads_nothing_from_outside(page: str) -> None:
    assert Page(page).loads == ["data:,"]
    assert "http://" not in page
    assert "https://" not in page
    assert not re.search(r"@import|url\((?!#)", page)


def test_every_drawing_is_xml(page: str) -> None:
    drawings = re.findall(r"<svg.*?</svg>", page, flags=re.S)
    assert len(drawings) == 2 + 3 + 2 + 2 + 3 + 3  # learning, losses, two class tasks, numbers, lengths
    for drawing in drawings:
        ElementTree.fromstring(drawing)


def test_the_page_shows_every_part(page: str) -> None:
    for part in (
        "overall = ",
        "minilm",
        "seed",
        "1\u202fmin 15\u202fs",
        "22.7\u202fM",
        "The encoder has seen these pairs.",
    ):
        assert part in page
    for name in ("scores", "learning", "task-0", "task-1", "task-2", "data", "recipe"):
        assert f'id="{name}"' in page
    assert "[encoder]" in page


def test_the_page_gives_the_interval_of_the_main_metric(three_tasks: list[TaskResult], page: str) -> None:
    for one in three_tasks:
        low, high = bounds(resample_scores(one)[one.metric], one.scores[one.metric])
        assert f"{number(low)} – {number(high)}" in page


def test_train_rows_include_sets_without_labels(three_tasks: list[TaskResult]) -> None:
    report = run_report(three_tasks)
    triplets = {"rows": {"sts+nli": {"train": 1000}}}
    report = replace(
        report,
        summary={**report.summary, **triplets},
        lengths={**report.lengths, "sts+nli": np.arange(3, 9)},
        max_lengths={**report.max_lengths, "sts+nli": 64},
    )
    assert "<dt>train rows</dt><dd>1,180</dd>" in render_report(report)
    assert "<dt>scored rows</dt><dd>180 (dev)</dd>" in render_report(report)


def test_texts_and_names_are_escaped() -> None:
    evil = '<script>alert(1)</script> & "quotes"'
    results = [replace(result(text=evil), task="<i>sst</i>", target=TARGETS["classes"](classes=("<b>", "&", "c")))]
    report = run_report(results, title=evil, notes=[evil], recipe_text=evil)
    text = render_report(report)
    assert evil not in text
    assert Page(text).tags["script"] == 1
    assert Page(text).tags["i"] + Page(text).tags["b"] == 0
    assert "&lt;script&gt;alert(1)" in text


def test_the_twenty_worst_errors_come_most_certain_first() -> None:
    one = result(rows=200, right=0.5)
    text = render_report(run_report([one]))
    shown = re.findall(r'class="identifier">sst-(\d+)<', text)
    wrong = np.flatnonzero(one.gold != one.predicted)
    assert one.probabilities is not None
    order = wrong[np.argsort(-one.probabilities[wrong].max(axis=1))]
    assert [int(row) for row in shown] == order[:20].tolist()


def test_the_worst_numbers_have_the_largest_errors(three_tasks: list[TaskResult]) -> None:
    one = three_tasks[2]
    text = render_report(run_report([one]))
    shown = [int(row) for row in re.findall(r'class="identifier">sts-(\d+)<', text)]
    assert shown == np.argsort(-np.abs(one.predicted - one.gold), kind="stable")[:20].tolist()


def test_long_texts_are_folded_without_loss() -> None:
    words = " ".join(f"word{n}" for n in range(300))
    text = render_report(run_report([result(text=words)]))
    unfolded = text.replace("<details><summary>… more</summary>", "").replace("</details>", "")
    assert words in unfolded
    assert "… more" in text


@pytest.mark.parametrize("target", ["classes", "binary", "number"])
def test_a_task_without_errors_says_so(target: str) -> None:
    text = render_report(run_report([result("one", target, right=1.0)]))
    assert "every row is right" in text
    Page(text)


def test_twelve_tasks_fit_on_one_page() -> None:
    targets: tuple[str, ...] = ("classes", "binary", "number")
    results = [result(f"task {n}", targets[n % 3], rows=30, seed=n) for n in range(12)]
    found = Page(render_report(run_report(results)))
    assert max(Counter(found.ids).values()) == 1
    assert all(f"task-{n}" in found.ids for n in range(12))


def test_a_report_needs_no_records_baselines_or_lengths(three_tasks: list[TaskResult]) -> None:
    bare = RunReport(title="Bare", summary={}, results=three_tasks)
    text = render_report(bare)
    assert 'id="learning"' not in text
    assert "majority" not in text
    Page(text)


def test_a_report_without_resamples_shows_scores_without_intervals(three_tasks: list[TaskResult]) -> None:
    text = render_report(run_report(three_tasks, resampled={}))
    assert number(three_tasks[0].scores[three_tasks[0].metric]) in text
    for one in three_tasks:
        low, high = bounds(resample_scores(one)[one.metric], one.scores[one.metric])
        assert f"{number(low)} – {number(high)}" not in text


def test_a_report_without_results_still_renders() -> None:
    for report in (run_report([]), RunReport(title="Nothing", summary={}, results=[])):
        text = render_report(report)
        Page(text)  # refuses a page that is not well-formed
        assert report.title in text


def test_records_of_unknown_tasks_and_losses_of_nan_are_tolerated(three_tasks: list[TaskResult]) -> None:
    lines = [
        {"kind": "train", "step": 1, "epoch": 1, "losses": {"extra": float("nan")}},
        {"kind": "evaluation", "epoch": 1, "step": 1, "overall": None, "tasks": {"extra": {"accuracy": 0.5}}},
        {"kind": "something new", "step": 2},
    ]
    text = render_report(run_report(three_tasks[:1], records=lines))
    Page(text)  # refuses a page that is not well-formed
    assert three_tasks[0].task in text
    assert ">nan<" not in text


def test_a_metric_where_lower_is_better_counts_as_a_gain_when_it_is_lower(three_tasks: list[TaskResult]) -> None:
    one = replace(three_tasks[2], metric="mse")
    report = run_report([one], baselines={"majority / mean": {"sts": one.scores["mse"] + 1.0}})
    text = render_report(report)
    assert "+1.000" in text
    assert "no better than" not in text


def test_without_matplotlib_the_page_says_how_to_get_the_plots(
    three_tasks: list[TaskResult], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    text = render_report(run_report(three_tasks))
    assert "<svg" not in text
    assert "pip install &#39;palbert[plots]&#39;" in text
    assert 'id="task-2"' in text
    Page(text)


def test_the_page_is_the_same_each_time(three_tasks: list[TaskResult], page: str) -> None:
    assert render_report(run_report(three_tasks)) == page


def test_an_overall_score_of_another_formula_is_shown_without_interval(three_tasks: list[TaskResult]) -> None:
    report = run_report(three_tasks[:1])
    strange = replace(
        report, formula=None, summary={**report.summary, "formula": "max(sst, quora)", "overall": 0.87654}
    )
    text = render_report(strange)
    assert "0.877" in text
    assert re.search(r'class="name">overall</div>', text)


def test_a_summary_says_which_scores_are_not_clearly_better() -> None:
    one = result(right=0.6)
    main = Score("accuracy", 0.6, 0.5, 0.7)
    assert "not clearly better than answering the most frequent" in task_summary(one, main, {"majority / mean": 0.55})
    assert "no better than the same encoder" in task_summary(one, main, {"untrained heads": 0.6})
    assert "The best baseline" in task_summary(one, main, {"majority / mean": 0.3})


def test_a_summary_of_numbers_says_whether_they_are_too_high() -> None:
    one = result("sts", "number", right=1.0)
    high = replace(one, predicted=np.asarray(one.gold + 0.5, dtype=np.float64))
    main = Score("pearson", 0.95, 0.93, 0.97)
    assert "0.50 too high" in task_summary(high, main, {})
    assert "neither too high nor too low" in task_summary(one, main, {})


def test_numbers_are_formatted_for_readers() -> None:
    assert (percent(0.5), percent(0.00001), percent(0.0)) == ("50.0\u202f%", "<\u202f0.1\u202f%", "0.0\u202f%")
    assert (duration(3.21), duration(3725)) == ("3.2\u202fs", "1\u202fh 02\u202fmin")
    assert (size(900), size(1500), size(22_713_216)) == ("900", "1.5\u202fk", "22.7\u202fM")
    assert (number(-0.25, 2), number(None)) == ("−0.25", "–")


def test_of_equal_scores_the_first_is_the_best_as_in_the_plot() -> None:
    records = [{"kind": "evaluation", "epoch": epoch, "overall": 0.5} for epoch in (0, 1, 2)]
    assert _learning_summary(records) == "The best overall score, 0.500, came before training."
