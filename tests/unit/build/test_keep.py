"""encoder = "runs/mine": what a new run takes over from a former one, and what is refused."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

import palbert
from palbert.build.keep import keep_parts
from palbert.build.model import build_encoder, build_model
from palbert.errors import RecipeError, RunFolderError
from palbert.model.multitask import MultiTaskModel
from palbert.model.pretrained import resolve_encoder
from palbert.recipe.load import load_recipe, make_recipe
from palbert.runtime.files import sha256

pytestmark = pytest.mark.usefixtures("on_cpu", "no_plots")

Values = dict[str, Any]
TASKS: Values = {
    "sst": {"pooling": "mean", "head": "mlp"},
    "quora": {"pooling": "mean"},
    "sts": {"pair_input": "siamese", "pooling": "mean", "head": "concat-difference"},
}


def start(
    run: Path | str, *, keep: list[str] | None = None, tasks: Values | None = None, **more: Any
) -> MultiTaskModel:
    """Build the model of a recipe that starts from a run, as training does."""
    encoder: Values = {"name": str(run), **({"keep": keep} if keep is not None else {})}
    recipe = make_recipe({"data": "samples", "encoder": encoder, "tasks": tasks or TASKS, **more})
    folder = resolve_encoder(recipe.encoder.name)
    torch.manual_seed(0)
    model = build_model(recipe.tasks, build_encoder(recipe, folder), adapters=recipe.adapters, relation=recipe.relation)
    keep_parts(model, recipe, folder)
    return model


def same(model: MultiTaskModel, run: Path, prefix: str) -> bool:
    """Whether the weights with a prefix are those of the run's best checkpoint."""
    former = load_file(run / "checkpoints" / "best" / "model.safetensors")
    own = {name: value for name, value in model.state_dict().items() if name.startswith(prefix)}
    return bool(own) and all(name in former and torch.equal(value, former[name]) for name, value in own.items())


def test_only_the_encoder_is_taken_over_unless_heads_are_kept(trained: Path) -> None:
    plain, kept = start(trained), start(trained, keep=["heads"])
    assert same(plain, trained, "encoder.") and same(kept, trained, "encoder.")
    for task in TASKS:
        assert same(kept, trained, f"heads.{task}.") and not same(plain, trained, f"heads.{task}.")


def test_tasks_with_other_names_have_new_heads(trained: Path, caplog: pytest.LogCaptureFixture) -> None:
    files = {"train": "sst-train.tsv", "dev": "sst-dev.tsv"}
    tone = {"kind": "single", "text": "sentence", "label": "sentiment", "target": "number", **files}
    with caplog.at_level("INFO", logger="palbert"):
        model = start(trained, keep=["heads"], tasks={"sst": TASKS["sst"], "tone": tone})
    assert same(model, trained, "heads.sst.") and "tone" in model.heads
    assert "kept heads of sst" in caplog.text and "new in this run: tone" in caplog.text


@pytest.mark.parametrize(
    ("keep", "tasks", "more", "says"),
    [
        (
            ["heads"],
            {"sst": {"pooling": "mean", "head_start": "probe"}},
            {},
            "tasks.sst.head_start: encoder.keep names",
        ),
        (["heads"], {"sst": {**TASKS["sst"], "head": "linear"}}, {}, "head was 'mlp' and is now 'linear'"),
        (["heads"], {"sst": {**TASKS["sst"], "classes": ["a", "b"]}}, {}, "and is now [a, b]"),
        (["heads"], {"sts": {**TASKS["sts"], "range": [0, 1]}}, {}, "range was [0.0, 5.0] and is now [0.0, 1.0]"),
        (["heads"], {"sts": {"pooling": "mean"}}, {}, "pair_input was siamese and is now joint"),
        (
            ["heads"],
            {"cfimdb": {"train": "sst-train.tsv", "dev": "sst-dev.tsv", "max_length": 64}},
            {},
            "Its tasks are: sst, quora, sts.",
        ),
        (["adapters"], None, {"adapters": {"name": "lora", "rank": 2}}, "expected the adapters of"),
        (["adapters"], None, {}, "do not keep adapters"),
        (["heads"], None, {"relation": {"name": "linear", "tasks": ["quora", "sst"]}}, "follows a relational layer"),
    ],
)
def test_parts_that_do_not_fit_are_refused(
    keep: list[str], tasks: Values | None, more: Values, says: str, trained: Path
) -> None:
    with pytest.raises(RecipeError) as caught:
        start(trained, keep=keep, tasks=tasks, **more)
    assert says in str(caught.value)


def test_an_encoder_without_tasks_has_nothing_to_keep(tiny_encoder: Path) -> None:
    with pytest.raises(RecipeError, match="is an encoder without tasks, so there is nothing to keep"):
        start(tiny_encoder, keep=["heads"])


@pytest.mark.parametrize("per_task", [True, False])
def test_adapters_are_kept_with_the_same_section_or_left_out_with_a_warning(
    per_task: bool, tiny_recipe: Values, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    adapters = {"name": "lora", "rank": 2, "per_task": per_task}
    training = {**tiny_recipe["training"], "epochs": 1, "steps_per_epoch": 2}
    run = palbert.train({**tiny_recipe, "adapters": adapters, "training": training}, out=tmp_path / "run")
    folder = Path(run)
    tasks: Values = {"sts": {}, "sst": {}}  # in another order
    kept = start(folder, keep=["adapters"], tasks=tasks, adapters=adapters)
    former = load_file(folder / "checkpoints" / "best" / "model.safetensors")
    for task in tasks:
        owner = task if per_task else "sst"
        for name, value in kept.adapters[kept.adapter_of[task]].state_dict().items():
            assert torch.equal(value, former[f"adapters.{owner}.{name}"])
    assert "with adapters" not in caplog.text
    start(folder, tasks=tasks)
    assert "was trained with adapters; its encoder is used without them." in caplog.text


def test_training_goes_on_from_a_run_and_never_into_its_folder(
    trained: Path, tiny_recipe: Values, tmp_path: Path, cli: Callable[..., Any], write_recipe: Callable[..., Path]
) -> None:
    values = {**tiny_recipe, "tasks": TASKS, "encoder": {"name": str(trained), "keep": ["heads"]}}
    values["training"] = {**values["training"], "epochs": 1, "steps_per_epoch": 2}
    result = cli("train", write_recipe(values), "--out", tmp_path / "next")
    assert result.code == 0, result.err
    recipe = load_recipe(tmp_path / "next" / "recipe.toml")
    assert recipe.encoder.name == str(trained) and recipe.encoder.keep == ("heads",)
    assert recipe.provenance is not None
    assert recipe.provenance.encoder_sha256 == sha256(trained / "checkpoints" / "best" / "model.safetensors")
    lines = map(json.loads, (tmp_path / "next" / "metrics.jsonl").read_text("utf-8").splitlines())
    before = next(line for line in lines if line["kind"] == "evaluation")
    report = json.loads((trained / "report.json").read_text("utf-8"))
    assert before["epoch"] == 0 and before["overall"] == pytest.approx(report["overall"], abs=1e-5)
    assert cli("train", write_recipe(values), "--dry-run").code == 0
    with pytest.raises(RunFolderError, match="holds the encoder that is to be trained"):
        palbert.train(values, out=trained, force=True)


def test_an_encoder_of_a_run_is_pretrained_further_into_a_usual_folder(
    trained: Path, tiny_recipe: Values, tmp_path: Path
) -> None:
    (tmp_path / "texts.txt").write_text("\n".join(f"rain and soup number {row}" for row in range(40)))
    section = {"text": [str(tmp_path / "texts.txt")], "epochs": 1}
    values = {**tiny_recipe, "encoder": str(trained), "pretraining": section}
    folder = Path(palbert.pretrain(make_recipe(values), out=tmp_path / "pretrained"))
    assert (folder / "config.json").is_file() and (folder / "tokenizer.json").is_file()
    assert palbert.load(folder, device="cpu").embed(["rain"]).shape == (1, 32)
