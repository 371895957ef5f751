"""Similar rows: nearest by the vectors that the head sees, from the files of the training only."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tomli_w

import palbert
from palbert.build import load_split
from palbert.errors import DataError, TrustError
from palbert.explanations.explained import AbandonedError, while_wanted
from palbert.recipe.load import load_run_recipe, read_toml

pytestmark = pytest.mark.usefixtures("on_cpu")


@pytest.fixture(scope="module")
def model(on_cpu: None, trained: Path) -> palbert.Predictor:
    return palbert.load(trained)


def training_rows(model: palbert.Predictor, run: Path, task: str) -> Any:
    return load_split(load_run_recipe(run / "recipe.toml"), "train", model.tokenizer)[task]


@pytest.mark.parametrize("task", ["sst", "quora", "sts"])
def test_a_training_row_is_most_like_itself(model: palbert.Predictor, trained: Path, task: str) -> None:
    data = training_rows(model, trained, task)
    row: Any = tuple(column[7] for column in data.texts)
    [found] = model.similar(task, [row if len(row) == 2 else row[0]], count=3)
    assert found[0].similarity == pytest.approx(1, abs=1e-5) and found[0].texts == row
    assert found[0].id == data.ids[7] and found[0].set == task
    assert found[0].answer == model.tasks[task].target.answer(data.labels[7])
    assert [each.similarity for each in found] == sorted((each.similarity for each in found), reverse=True)


def test_vectors_are_those_that_the_head_sees(model: palbert.Predictor, trained: Path) -> None:
    """Of siamese pairs, the vectors of both texts one after the other."""
    data, pair = training_rows(model, trained, "sts"), ("A man plays a guitar.", "Someone makes music.")

    def vectors(texts: Any) -> Any:
        return model.embed(list(texts), pooling="mean", task="sts")

    theirs = np.concatenate([vectors(column) for column in data.texts], axis=1)
    mine = np.concatenate([vectors([text]) for text in pair], axis=1)[0]
    cosines = theirs @ mine / np.linalg.norm(theirs, axis=1) / np.linalg.norm(mine)
    [found] = model.similar("sts", [pair], count=4)
    assert [row.id for row in found] == [data.ids[place] for place in np.argsort(-cosines)[:4]]
    assert [row.similarity for row in found] == pytest.approx(np.sort(cosines)[::-1][:4], abs=1e-5)


def test_vectors_are_computed_once(model: palbert.Predictor, monkeypatch: pytest.MonkeyPatch) -> None:
    first = model.similar("sst", ["dull"])

    def refuse(*arguments: Any) -> Any:
        raise AssertionError("read twice")

    monkeypatch.setattr("palbert.verbs.similar.load_training_set", refuse)
    assert model.similar("sst", ["dull"]) == first and model.similar("sst", []) == []
    assert first[0][0].as_dict()["texts"] == list(first[0][0].texts)


def test_rows_that_nobody_waits_for_are_not_embedded_to_the_end(trained: Path) -> None:
    """The next question starts again and finds all rows."""
    model, asked = palbert.load(trained), []

    def is_wanted() -> bool:
        asked.append(True)
        return len(asked) < 3

    with while_wanted(is_wanted), pytest.raises(AbandonedError):
        model.similar("sst", ["dull"])
    assert len(asked) == 3
    every = len(training_rows(model, trained, "sst"))
    assert len(model.similar("sst", ["dull"], count=every)[0]) == every


def test_of_many_rows_the_same_random_ones_are_compared(
    trained: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("palbert.verbs.similar.MOST_ROWS", 10)
    found = [palbert.load(trained).similar("sst", ["dull"], count=50) for _ in range(2)]
    assert found[0] == found[1] and len(found[0][0]) == 10
    assert "sst: 10 of its" in caplog.text


def test_a_changed_training_file_is_refused(run_copy: Path) -> None:
    values = read_toml(run_copy / "recipe.toml")
    hashes = values["provenance"]["data_sha256"]
    for file in hashes:
        if "sst-train" in file:
            hashes[file] = "0" * 64
    (run_copy / "recipe.toml").write_text(tomli_w.dumps(values), "utf-8")
    model = palbert.load(run_copy)
    with pytest.raises(DataError, match=r"sst-train\.tsv: is not the file that the run was trained on"):
        model.similar("sst", ["dull"])
    assert model.similar("quora", [("a", "b")])


def test_a_run_is_trusted_as_it_was_when_it_was_loaded(run_copy: Path) -> None:
    """Its recipe is read with the first question, which may come from another thread."""
    values = read_toml(run_copy / "recipe.toml")
    values["training"]["sampler"] = "sampler_of_a_stranger:Own"
    (run_copy / "recipe.toml").write_text(tomli_w.dumps(values), "utf-8")
    with pytest.raises(TrustError, match="sampler_of_a_stranger:Own"):
        palbert.load(run_copy).similar("sst", ["dull"])
    with ThreadPoolExecutor(1) as pool:
        assert pool.submit(palbert.load(run_copy, trust=True).similar, "sst", ["dull"]).result()


def test_an_encoder_has_no_training_rows(tiny_encoder: Path) -> None:
    with pytest.raises(DataError, match="Unknown task"):
        palbert.load(tiny_encoder).similar("sst", ["dull"])
