"""Automatic training: when it applies, what it chooses, and that it survives writing."""

from __future__ import annotations

from typing import Any

import pytest

from palbert.errors import RecipeError
from palbert.recipe.auto import described, settings_for, shape_of, with_chosen_settings, with_slow_heads
from palbert.recipe.load import dump_recipe, make_recipe, read_toml
from palbert.recipe.schema import Recipe

OPEN: dict[str, Any] = {"data": "samples", "tasks": {"sst": {}, "quora": {}}}


def test_a_recipe_that_says_nothing_about_training_is_automatic() -> None:
    assert make_recipe(OPEN).training.auto
    assert make_recipe({**OPEN, "training": {"sampler": "mixed"}, "optimizer": {"weight_decay": 0.0}}).training.auto


@pytest.mark.parametrize(
    "settings",
    [
        {"training": {"epochs": 3}},
        {"training": {"batch_size": 32}},
        {"training": {"steps_per_epoch": 5}},
        {"optimizer": {"learning_rate": 3e-5}},
        {"optimizer": {"schedule": "stlr"}},
        {"training": {"auto": False}},
        {"phases": [{"training": {"epochs": 1}}]},
    ],
)
def test_one_setting_of_length_or_rate_ends_it(settings: dict[str, Any]) -> None:
    assert not make_recipe({**OPEN, **settings}).training.auto


def test_sections_that_are_none_say_nothing() -> None:
    values = make_recipe(OPEN).model_dump(exclude={"training", "optimizer"})
    assert Recipe.model_validate({**values, "training": None}).training.auto


def test_the_word_auto_asks_for_it_next_to_settings_of_the_optimizer() -> None:
    recipe = make_recipe({**OPEN, "training": "auto", "optimizer": {"learning_rate": 1e-4}})
    chosen = with_chosen_settings(recipe, 64)
    assert not chosen.training.auto
    assert chosen.optimizer.learning_rate == 1e-4 and chosen.optimizer.schedule.name == "stlr"


def test_phases_and_auto_contradict_each_other() -> None:
    with pytest.raises(RecipeError, match=r"training\.auto: a recipe with phases"):
        make_recipe({**OPEN, "training": {"auto": True}, "phases": [{"training": {"epochs": 1}}]})


def test_small_sets_get_more_passes_and_large_ones_end() -> None:
    sizes = [16, 96, 500, 2_000, 20_000, 100_000, 1_000_000]
    passes = []
    for rows in sizes:
        training = settings_for(rows)["training"]
        steps = training["epochs"] * training["steps_per_epoch"]
        assert steps >= 80
        passes.append(steps * training["batch_size"] / rows)
    assert passes == sorted(passes, reverse=True)
    assert passes[0] >= 20 and passes[-1] == pytest.approx(1, abs=0.01)


def test_an_automatic_recipe_is_still_automatic_when_it_is_read_again(tmp_path: Any) -> None:
    recipe = make_recipe({**OPEN, "training": {"auto": True, "epochs": 4}})
    (tmp_path / "recipe.toml").write_text(dump_recipe(recipe), "utf-8")
    again = make_recipe(read_toml(tmp_path / "recipe.toml"))
    for one in (recipe, again):
        chosen = with_chosen_settings(one, 300)
        assert chosen.training.epochs == 4 and chosen.training.batch_size == 16
        assert shape_of(one.tasks["sst"], rows=300, similarity=None)
    assert again == recipe


def test_a_chosen_recipe_is_written_with_its_numbers(tmp_path: Any) -> None:
    chosen = with_chosen_settings(make_recipe(OPEN), 96)
    (tmp_path / "recipe.toml").write_text(dump_recipe(chosen), "utf-8")
    assert make_recipe(read_toml(tmp_path / "recipe.toml")) == chosen


def test_the_log_says_what_was_chosen_and_for_what() -> None:
    line = described(with_chosen_settings(make_recipe(OPEN), 96), 96)
    assert line.startswith("training: 10 epochs of 24 steps, batch 8, rate 3e-05") and line.endswith("for 96 rows")


def task(recipe: Recipe, name: str) -> Any:
    return recipe.tasks[name]


def test_single_texts_get_mean_vectors_and_a_probe() -> None:
    shape = shape_of(task(make_recipe(OPEN), "sst"), rows=50, similarity=None)
    assert shape["pooling"].name == "mean" and shape["head_start"] == "probe" and "pair_input" not in shape


def test_few_pairs_are_compared_and_many_are_read_jointly() -> None:
    quora = task(make_recipe(OPEN), "quora")
    few = shape_of(quora, rows=50, similarity=None)
    assert (few["pair_input"], few["head"].name) == ("siamese", "compare")
    assert shape_of(quora, rows=50_000, similarity=None) == {}


def test_similarities_get_a_cosine_of_their_own_scale() -> None:
    ranged = make_recipe({"data": "samples", "tasks": {"sts": {}}})
    assert shape_of(task(ranged, "sts"), rows=50, similarity=5.0)["head"].options == {}
    values = {"kind": "pair", "target": "number", "text": ["a", "b"], "train": "x.csv", "dev": "y.csv"}
    unranged = make_recipe({"tasks": {"mine": values}}, check_files=False)
    assert shape_of(task(unranged, "mine"), rows=50, similarity=1.0)["head"].options == {"scale": 1.0}


def test_a_task_with_a_head_of_its_own_keeps_everything() -> None:
    recipe = make_recipe({"data": "samples", "tasks": {"sst": {"head": "mlp"}}})
    assert shape_of(task(recipe, "sst"), rows=50, similarity=None) == {}


def test_many_pairs_with_numbers_start_at_the_mean_label() -> None:
    recipe = make_recipe({"data": "samples", "tasks": {"sts": {}}})
    assert shape_of(task(recipe, "sts"), rows=50_000, similarity=None) == {"head_start": "mean"}


def test_a_given_number_of_epochs_is_one_of_passes_over_the_rows() -> None:
    recipe = make_recipe({**OPEN, "training": {"auto": True, "epochs": 3}})
    chosen = with_chosen_settings(recipe, 100).training
    assert (chosen.epochs, chosen.steps_per_epoch, chosen.batch_size) == (3, None, 8)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"pretraining": {}}, r"tasks\.sst\.head_start: a probe of the encoder before \[pretraining\]"),
    ],
)
def test_a_probe_does_not_start_a_head_that_something_else_starts(changes: dict[str, Any], message: str) -> None:
    own = {"pooling": "mean", "head_start": "probe"}
    with pytest.raises(RecipeError, match=message):
        make_recipe({"data": "samples", "tasks": {"sst": own}, **changes})


@pytest.mark.parametrize(("rows", "start", "rate"), [(100, "probe", None), (300, "probe", 1e-3), (100, "random", 1e-3)])
def test_heads_that_start_as_probes_of_few_rows_move_slowly(rows: int, start: str, rate: float | None) -> None:
    own = {"pooling": "mean", "head_start": start}
    recipe = make_recipe({"data": "samples", "tasks": {"sst": own}, "training": "auto"})
    assert with_slow_heads(with_chosen_settings(recipe, rows), rows).optimizer.head_learning_rate == rate
