"""The performance page: it matches the current results and claims nothing else."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Script = Callable[[str], Any]
ROOT = Path(__file__).parents[2]
H200 = {"device": "NVIDIA H200", "cuda": True, "threads": 8, "versions": {"torch": "2.11"}}
OURS, EAGER, COMPILED = "palbert, capture auto", "transformers bf16", "transformers bf16 compiled"


def measured(seconds: float, ratio: float, tflops: float = 100.0) -> dict[str, float]:
    times = {"seconds": seconds, "run_seconds": seconds, "tokens_per_second": 1e5, "tflops": tflops}
    return {**times, "ratio": ratio, "run_ratio": ratio, "bytes": 2.0**31, "first_step_seconds": 0.5}


def step_result(**changed: Any) -> dict[str, Any]:
    ours = {**measured(0.002, 1), "execution": "9 of 9 steps replayed"}
    small = {OURS: ours, "transformers fp32": measured(0.008, 4), EAGER: measured(0.024, 12)}
    large = {OURS: measured(0.02, 1, 310), COMPILED: {"error": "OutOfMemoryError: a | b"}}
    result = {"benchmark": "train_step", "shape": "base", "capture": True, "sizes": {"16": small, "256": large}}
    return {**result, **H200, **changed}


def growth_result() -> dict[str, Any]:
    points: list[dict[str, Any]] = [
        {"axis": axis, "value": value, "seconds": 0.01, "run_seconds": 0.0098, "tokens": 864.0, "reserved_bytes": 2e9}
        for axis, value in (("rows", 8), ("rows", 16), ("tasks in a step", 2), ("encoder", "base"))
    ]
    points.append({"axis": "rows", "value": 1024, "error": "OutOfMemoryError: so much"})
    return {"benchmark": "growth", "shape": "base", "batch_size": 32, **H200, "points": points}


def methods_result(**changed: Any) -> dict[str, Any]:
    result = {
        "benchmark": "methods",
        "encoder": "random base",
        "shape": "base",
        "length": 128,
        "batch_size": 8,
        "ratios": {"PAL": {"seconds": 1.2}, "PCGrad": {"seconds": 1.5, "bytes": 1.1}},
        "absolute": {"PCGrad": {"reserved_bytes": 9.5e9}},
        "execution": {"PAL": "9 of 9 steps replayed", "PCGrad": "9 steps computed without CUDA graphs: file.py:1"},
        "errors": {"SMART": "OutOfMemoryError"},
    }
    return {**result, **H200, **changed}


def verdicts(goals: Any, *results: dict[str, Any]) -> dict[str, tuple[str, str]]:
    return {each.what: (each.measured, each.verdict) for each in goals.judge(results)}


def test_the_page_matches_the_results(script: Script) -> None:
    report = script("report")
    page = (ROOT / "docs" / "performance.md").read_text("utf-8")
    assert page == report.render(report.read_results(ROOT / "benchmarks" / "results")), "run benchmarks/report.py"
    for image in re.findall(r"\]\((images/.*?)\)", page):
        assert (ROOT / "docs" / image).is_file()


def test_measurements_decide_whether_goals_are_met(script: Script) -> None:
    found = verdicts(script("goals"), step_result(), methods_result())
    step = "training step, 16 rows, BERT-base shape"
    assert found[f"{step}, against transformers bf16 eager"] == ("12.0×", "met")
    assert found[f"{step}, against its best eager mode"] == ("4.0×", "missed")
    assert found[step] == ("2.0 ms", "met")
    assert found["training throughput, 256 rows, BERT-base shape"] == ("310 TFLOP/s", "met")
    assert found["time of a step with PALs, 3 tasks, against the plain step"] == ("1.20×", "met")
    assert found["time of a step with PCGrad, 3 tasks, against the plain step"] == ("1.50×", "missed")
    fits = "memory of a step with PCGrad, 3 tasks × 8 rows × 128 tokens, BERT-base shape"
    assert found[fits] == ("9.5 GB", "met")


def test_the_cost_of_explanations_has_a_goal_for_each_kind_of_text(script: Script) -> None:
    result = {"benchmark": "explanations", **H200, "cost": {"sst": {"ratio": 3.0}, "quora": {"ratio": 12.1}}}
    found = {what: value for what, value in verdicts(script("goals"), result).items() if "16 words" in what}
    assert list(found.values()) == [("3.0×", "met"), ("12.1×", "missed"), ("not measured", "not measured")]


def test_failures_and_results_of_other_machines_do_not_count_as_measured(script: Script) -> None:
    goals = script("goals")
    found = verdicts(goals, step_result())
    compiled = "training throughput, 256 rows, BERT-base shape, against transformers bf16 with torch.compile"
    assert found[compiled] == ("not measured", "not measured")
    assert {verdict for _, verdict in verdicts(goals).values()} == {"not measured"}
    for elsewhere in ({"shape": "tiny"}, {"cuda": False, "device": "x86_64"}):
        assert {verdict for _, verdict in verdicts(goals, step_result(**elsewhere)).values()} == {"not measured"}


def test_a_page_without_results_says_so(script: Script) -> None:
    page = script("report").render([])
    assert page.count("Not measured.") == 4
    assert "images/" not in page
    assert "0 met, 0 missed" in page


def test_the_page_shows_every_number_and_every_failure(script: Script, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    results = tmp_path / "results"
    results.mkdir()
    for result in (step_result(), growth_result(), methods_result()):
        (results / f"{result['benchmark']}.json").write_text(json.dumps(result), "utf-8")
    script("report").main(["--results", str(results), "--docs", str(tmp_path / "docs")])
    page = (tmp_path / "docs" / "performance.md").read_text("utf-8")
    assert "| 16 | transformers fp32 | 8.0 | 8.0 | 4.00 | 4.00 | 100,000 | 100.0 | 2.0 | 0.5 |" in page
    assert f"| 256 | {COMPILED} | OutOfMemoryError: a / b | – |" in page
    assert "| step in a run, ms | 9.8 | 9.8 | OutOfMemoryError |" in page
    assert f"- {OURS}, 16 rows: 9 of 9 steps replayed\n" in page
    setting = "H200, random base, 8 rows per task × 128 tokens"
    assert f"- PCGrad ({setting}): 9 steps computed without CUDA graphs: file.py:1\n" in page
    assert f"- SMART ({setting}): OutOfMemoryError\n" in page
    assert "- PAL (" not in page
    assert "against its best eager mode: why is not known yet." in page
    for name in ("step", "growth", "methods"):
        assert f"(images/performance-{name}.svg)" in page
        drawn = (tmp_path / "docs" / "images" / f"performance-{name}.svg").read_text("utf-8")
        assert "</svg>" in drawn and len(drawn) < 100_000
