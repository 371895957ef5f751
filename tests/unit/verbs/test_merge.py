"""palbert merge: the mean of the weights of runs, uniform or greedy, and what cannot be averaged."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from tests.unit.conftest import trained_values

import palbert
from palbert.errors import DataError
from palbert.verbs.merge import average

pytestmark = pytest.mark.usefixtures("on_cpu", "no_plots")

Cli = Callable[..., Any]


def weights(run: Any) -> dict[str, torch.Tensor]:
    return load_file(Path(run) / "checkpoints" / "best" / "model.safetensors")


@pytest.fixture(scope="module")
def second(tiny_encoder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Train the recipe of `trained` with another seed, for a few steps."""
    values = trained_values(tiny_encoder)
    values = {**values, "seed": 2, "training": {**values["training"], "epochs": 1, "steps_per_epoch": 8}}
    return palbert.train(values, out=tmp_path_factory.mktemp("second") / "run").path


def test_a_uniform_soup_is_the_mean_of_all_runs(trained: Path, second: Path, tmp_path: Path) -> None:
    merged = palbert.merge([trained, second], out=tmp_path / "soup", greedy=False)
    one, two, soup = weights(trained), weights(second), weights(merged.run)
    assert one.keys() == soup.keys()
    for name, value in soup.items():
        torch.testing.assert_close(value, ((one[name].double() + two[name].double()) / 2).float(), rtol=0, atol=0)
    scores = {each.name: each.evaluation for each in merged.scores}
    assert scores["uniform soup"].tasks == merged.run.scores
    assert "greedy soup was chosen" not in merged.note and "checkpoint of each run was chosen" in merged.note
    assert len(merged.run.report["origin"]["checkpoints"]) == 2


def test_a_greedy_soup_is_never_worse_on_dev_than_the_best_run(trained: Path, second: Path, tmp_path: Path) -> None:
    merged = palbert.merge([second, trained], out=tmp_path / "soup")
    scores = {each.name: each.evaluation.overall for each in merged.scores}
    assert merged.scores[0].evaluation.overall == max(scores[str(trained)], scores[str(second)])
    assert scores["greedy soup"] >= merged.scores[0].evaluation.overall
    kept = [each.name for each in merged.scores if each.kept and each.name in (str(trained), str(second))]
    assert [Path(each["checkpoint"]).parents[1] for each in merged.run.report["origin"]["checkpoints"]] == [
        Path(name).resolve() for name in kept
    ]
    assert merged.run.report["overall"] == pytest.approx(scores["greedy soup"])


def test_a_run_that_lowers_the_score_is_left_out(trained: Path, run_copy: Path, tmp_path: Path) -> None:
    spoil(run_copy, lambda value: torch.zeros_like(value))
    merged = palbert.merge([trained, run_copy], out=tmp_path / "soup")
    marks = {each.name: each.kept for each in merged.scores}
    assert marks[str(trained)] and not marks[str(run_copy)]
    assert all(torch.equal(value, weights(trained)[name]) for name, value in weights(merged.run).items())
    assert "left out" in repr(merged) and "too good by an unknown amount" in repr(merged)


def spoil(run: Path, change: Callable[[torch.Tensor], torch.Tensor]) -> None:
    """Change all weights of a run's best checkpoint, with its record."""
    from safetensors.torch import save_file

    from palbert.runtime.checksums import record_folder

    best = run / "checkpoints" / "best"
    shutil.copytree(best, best.with_name("own"))
    shutil.rmtree(best)  # its files may be links
    best.with_name("own").rename(best)
    tensors = {name: change(value) for name, value in load_file(best / "model.safetensors").items()}
    (best / "model.safetensors").unlink()
    save_file(tensors, best / "model.safetensors")
    (best / "palbert.sha256").unlink()
    record_folder(best)


def test_the_mean_of_equal_weights_is_these_weights(trained: Path) -> None:
    best = trained / "checkpoints" / "best"
    assert all(torch.equal(value, weights(trained)[name]) for name, value in average([best] * 3).items())


def test_the_command_shows_all_scores(trained: Path, second: Path, tmp_path: Path, cli: Cli) -> None:
    result = cli("merge", trained, second, "--out", tmp_path / "soup", "--uniform", "--json")
    assert result.code == 0, result.err
    shown = json.loads(result.out)
    assert shown["method"] == "uniform soup"
    assert [each["name"] for each in shown["scores"]][-2:] == ["uniform soup", "greedy soup"]
    table = cli("merge", trained, second, "--out", tmp_path / "soup", "--force")
    assert table.code == 0 and "overall" in table.out and "--split test" in table.out
    assert palbert.load(tmp_path / "soup").predict("sst", ["rain and soup"])


def test_runs_that_do_not_fit_are_refused(
    trained: Path, second: Path, run_copy: Path, tiny_encoder: Path, tmp_path: Path
) -> None:
    def refused(*runs: Path) -> str:
        with pytest.raises(DataError) as caught:
            palbert.merge(runs, out=tmp_path / "soup")
        assert not (tmp_path / "soup").exists()
        return str(caught.value)

    assert "two or more different runs" in refused(trained)
    assert "two or more different runs" in refused(trained, trained)
    recipe = run_copy / "recipe.toml"
    text = recipe.read_text("utf-8")
    former = palbert.Run(run_copy).recipe.provenance
    assert former is not None
    recipe.write_text(text.replace(former.encoder_sha256, "0" * 64), "utf-8")
    assert "started from different weights" in refused(trained, run_copy)
    recipe.write_text(text, "utf-8")
    palbert.remove_task(trained, "quora", out=tmp_path / "less")
    assert "have different tasks: sst, quora, sts and sst, sts" in refused(trained, tmp_path / "less")
    description = json.loads((second / "checkpoints" / "best" / "palbert.json").read_text("utf-8"))
    for path, change, says in (
        (("encoder", "layers"), 3, "different encoders"),
        (("tasks", "sst", "pooling"), "cls", "a different pooling of 'sst'"),
        (("adapters",), {"name": "lora"}, "different adapters"),
    ):
        assert says in refused(trained, described(second, description, path, change, tmp_path))


def described(run: Path, description: dict[str, Any], path: tuple[str, ...], change: Any, tmp_path: Path) -> Path:
    """Return a copy of a run with another entry in its description."""
    from palbert.runtime.checksums import record_folder

    copy = tmp_path / "-".join(path)
    shutil.copytree(run, copy)
    changed = json.loads(json.dumps(description))
    inner = changed
    for key in path[:-1]:
        inner = inner[key]
    inner[path[-1]] = change
    best = copy / "checkpoints" / "best"
    (best / "palbert.json").unlink()
    (best / "palbert.json").write_text(json.dumps(changed), "utf-8")
    (best / "palbert.sha256").unlink()
    record_folder(best)
    return copy
