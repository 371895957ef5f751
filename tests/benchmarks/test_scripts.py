"""The benchmarks run at a tiny size and write the JSON line that the performance page is made from."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

import palbert
from palbert.build.sampling import choose_buckets
from palbert.recipe.load import make_recipe

Script = Callable[[str], Any]


def written(path: Path) -> dict[str, Any]:
    lines = path.read_text("utf-8").splitlines()
    assert len(lines) == 1
    return dict(json.loads(lines[0]))


def test_train_step_measures_palbert_and_transformers_and_records_failures(script: Script, tmp_path: Path) -> None:
    rivals = ["transformers fp32", "transformers bf16"]
    out = tmp_path / "new" / "train_step.json"
    options = ["--shape", "tiny", "--sizes", "2", "3", "--batches", "2", "--rounds", "1", "--out", str(out)]
    script("train_step").main(["--device", "cpu", *options, "--rivals", *rivals])
    facts = written(out)
    assert list(facts["sizes"]) == ["2", "3"]
    for found in facts["sizes"].values():
        assert list(found) == ["palbert, capture auto", *rivals]
        assert "CUDA" in found["transformers bf16"]["error"]
        ours, theirs = found["palbert, capture auto"], found["transformers fp32"]
        assert ours["ratio"] == ours["run_ratio"] == 1
        assert theirs["ratio"] == pytest.approx(theirs["seconds"] / ours["seconds"])
        # The same real tokens and operations went into both rates.
        assert ours["tokens_per_second"] / theirs["tokens_per_second"] == pytest.approx(theirs["run_ratio"])
        assert ours["tflops"] / theirs["tflops"] == pytest.approx(theirs["run_ratio"])


def test_processes_compares_a_process_that_communicates_with_one_that_does_not(script: Script, tmp_path: Path) -> None:
    out = tmp_path / "processes.json"
    options = ["--shape", "tiny", "--sizes", "2", "--batches", "2", "--rounds", "1", "--out", str(out)]
    script("processes").main(["--device", "cpu", *options])
    [found] = written(out)["sizes"].values()
    alone, connected, exchanging = found.values()
    assert alone["seconds_ratio"] == alone["run_seconds_ratio"] == 1
    for each in (connected, exchanging):
        assert each["seconds_ratio"] == pytest.approx(each["seconds"] / alone["seconds"])


def test_rivals_get_the_batches_that_the_feed_makes(script: Script) -> None:
    synthetic, train_step = script("synthetic"), script("train_step")
    values = synthetic.plain_recipe(device="cpu", batch_size=3)
    steps = synthetic.Steps(synthetic.make_trainer(values, shape=synthetic.SHAPES["tiny"], batches=2), 2)
    for [batch], (ids, labels) in zip(steps.batches, train_step.sequences(3, 2), strict=True):
        part = batch.parts["task"]
        assert torch.equal(batch.ids[part.tokens], torch.cat(ids))
        assert torch.equal(part.labels, labels)


def test_filling_does_not_count_as_tokens(script: Script) -> None:
    synthetic = script("synthetic")
    trainer = synthetic.make_trainer(
        synthetic.plain_recipe(device="cpu", batch_size=4), shape=synthetic.SHAPES["tiny"], batches=3
    )
    plain = synthetic.Steps(trainer, 3)
    trainer.feed.buckets = choose_buckets(trainer.feed.sets, trainer.feed.template)
    filled = synthetic.Steps(trainer, 3)
    assert filled.tokens() == plain.tokens() == sum(batch.tokens for [batch] in plain.batches) / 3
    assert sum(batch.tokens for [batch] in filled.batches) > 3 * filled.tokens()


def test_the_operations_of_a_step_match_the_count_of_torch(script: Script) -> None:
    synthetic = script("synthetic")
    shape = synthetic.Shape(layers=3, hidden=256, heads=4)
    values = synthetic.plain_recipe(device="cpu", batch_size=2)
    steps = synthetic.Steps(synthetic.make_trainer(values, shape=shape, batches=1, length=100), 1)
    with FlopCounterMode(display=False) as counter:
        steps.step(0)
    expected = synthetic.flops(shape, synthetic.draw_lengths(2, length=100))
    assert counter.get_total_flops() == pytest.approx(expected, rel=0.02)  # pooler and head are left out, biases not


def test_growth_covers_every_axis_and_continues_after_a_failure(
    script: Script, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    growth = script("growth")
    make_trainer = growth.make_trainer

    def fail_at_32(*given: Any, length: int | None, **named: Any) -> Any:
        if length == 32:
            raise torch.OutOfMemoryError("out of memory\nand so on")
        return make_trainer(*given, length=length, **named)

    monkeypatch.setattr(growth, "make_trainer", fail_at_32)
    ranges = ["--rows", "2", "4", "--lengths", "16", "32", "64", "--tasks", "1", "3", "--batch-size", "2"]
    options = ["--device", "cpu", "--batches", "1", "--rounds", "1", "--out", str(tmp_path / "growth.json")]
    growth.main([*options, *ranges])
    points = {(point["axis"], point["value"]): point for point in written(tmp_path / "growth.json")["points"]}
    assert {axis for axis, _ in points} == set(growth.AXES)
    assert points["length", 32]["error"] == "OutOfMemoryError: out of memory"
    assert points["length", 64]["tokens"] == 4 * points["length", 16]["tokens"] == 128
    assert all(point["run_seconds"] > 0 for place, point in points.items() if place != ("length", 32))


def test_methods_are_measured_on_random_weights_at_one_length(script: Script, tmp_path: Path) -> None:
    options = ["--shape", "tiny", "--length", "16", "--batch-size", "2", "--steps", "1", "--batches", "1"]
    out = tmp_path / "methods.json"
    options += ["--plain-every", "2"]
    script("methods").main(["--device", "cpu", *options, "--only", "PAL", "PCGrad", "--out", str(out)])
    facts = written(out)
    assert (facts["shape"], facts["length"], facts["errors"]) == ("tiny", 16, {})
    assert set(facts["ratios"]) == set(facts["absolute"]) == {"PAL", "PCGrad"}
    assert facts["plain"]["run_seconds"] > 0


def test_a_large_set_is_generated_read_and_drawn(
    script: Script, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PALBERT_CACHE", str(tmp_path / "large" / "cache"))
    large_data = script("large_data")
    large_data.generate(tmp_path / "large", 10, 3)
    assert {path.suffix for path in (tmp_path / "large").glob("part-*")} == {".parquet", ".csv", ".jsonl"}
    found = large_data.build(tmp_path / "large")
    assert found["rows"] == 10 and found["tokens"] > 30 and found["cache_bytes"] > 0
    assert large_data.shuffle(50_001) == {"drawn_once": 50_001}


def test_memory_is_read_while_a_run_trains(script: Script, tmp_path: Path) -> None:
    out = tmp_path / "steady_memory.json"
    script("steady_memory").main(["--steps", "40", "--out", str(out)])
    facts = written(out)
    assert facts["steps"] == 40
    assert 0 < facts["first_bytes"] <= facts["most_bytes"] and facts["last_bytes"] <= facts["most_bytes"]


def test_a_process_over_its_memory_limit_ends(script: Script) -> None:
    memory_limit = script("memory_limit")
    command = [sys.executable, "-c", "bytearray(2**29).replace(b'a', b'b')"]
    assert memory_limit.run_limited([sys.executable, "-c", ""], 2**28)
    with pytest.raises(SystemExit, match="ended with"):
        memory_limit.run_limited(command, 2**28)


def test_explanations_compares_methods_with_chance(
    script: Script, tiny_recipe: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    training = {**tiny_recipe["training"], "epochs": 1, "steps_per_epoch": 1}
    run = palbert.train(make_recipe({**tiny_recipe, "training": training}), out=tmp_path / "run").path
    out = tmp_path / "explanations.json"
    script("explanations").main([str(run), "--rows", "3", "--others", "--out", str(out)])
    facts = written(out)
    assert facts["cost"]["sst"]["ratio"] > 0 and facts["cost"]["sst"]["words"] == 16
    for name in ("sst", "quora"):
        methods = facts["tasks"][name]["methods"]
        assert list(methods)[:3] == ["integrated-gradients", "gradient-input", "occlusion"] and len(methods) > 6
        for values in methods.values():
            for measure in ("comprehensiveness", "sufficiency"):
                assert values[measure]["low"] <= values[measure]["gain"] <= values[measure]["high"]
