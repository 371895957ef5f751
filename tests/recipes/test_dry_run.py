"""Dry runs of the smoke recipes: the memory that is predicted from small steps is the memory of the step itself."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

import palbert
from palbert.recipe.load import load_recipe

SMOKE = Path(__file__).parents[2] / "recipes" / "smoke"
RECIPES = sorted(SMOKE.glob("*.toml"))
LARGE = ["lora-smart", "mixed", "pal-pcgrad", "pcgrad-recompute", "plain", "pretraining", "rdrop-ema", "recompute"]


def settings(recipe: Path, encoder: Path | str, teacher: Path, *more: str) -> list[str]:
    taught = [name for name, task in load_recipe(recipe).tasks.items() if task.teachers]
    return [f"encoder.name={encoder}", *(f'tasks.{name}.teachers=["{teacher}"]' for name in taught), *more]


@pytest.mark.parametrize("recipe", RECIPES, ids=lambda path: path.stem)
def test_the_prediction_matches_the_measurement(
    recipe: Path, plain: Path, tiny_encoder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    found = palbert.dry_run(recipe, overrides=settings(recipe, tiny_encoder, plain, "run.device=cpu"))
    for phase in found.phases:
        assert phase.predicted.total == pytest.approx(phase.measured, rel=0.1)
    assert not list(tmp_path.iterdir()), "a dry run writes nothing"


@pytest.mark.parametrize("name", LARGE)
def test_the_prediction_holds_where_activations_dominate(name: str, plain: Path, tiny_encoder: Path) -> None:
    recipe = SMOKE / f"{name}.toml"
    sizes = ["training.batch_size=64"] + (["pretraining.batch_size=64"] if name == "pretraining" else [])
    for phase in palbert.dry_run(
        recipe, overrides=settings(recipe, tiny_encoder, plain, "run.device=cpu", *sizes)
    ).phases:
        assert phase.predicted.activations > 0.4 * phase.predicted.total
        assert phase.predicted.total == pytest.approx(phase.measured, rel=0.1)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
@pytest.mark.parametrize("size", [4, 256])
@pytest.mark.parametrize("precision", ["bf16", "fp32"])
@pytest.mark.parametrize("name", ["plain", "mixed", "smart", "pal-pcgrad", "pcgrad-recompute", "ema", "recompute"])
def test_the_prediction_matches_the_measurement_of_cuda(name: str, precision: str, size: int, plain: Path) -> None:
    more = ["run.device=cuda", f"run.precision={precision}", f"training.batch_size={size}"]
    recipe = SMOKE / f"{name}.toml"
    for phase in palbert.dry_run(recipe, overrides=settings(recipe, "minilm", plain, *more)).phases:
        # The allocator's blocks are up to 1 MiB larger than what is asked of it.
        assert phase.predicted.total == pytest.approx(phase.measured, rel=0.15)
