"""Provenance: what a run is made from, warnings about changes, and what may not be resumed or replaced."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from palbert import __version__
from palbert.errors import RecipeError, RunFolderError
from palbert.recipe.load import dump_recipe, make_recipe
from palbert.recipe.schema import Recipe
from palbert.recipe.sections import Provenance
from palbert.runtime.run_folder import RunFolder
from palbert.verbs.provenance import (
    compare_provenance,
    provenance_of,
    refuse_another_recipe,
    refuse_own_encoder,
    warn_of_other_threads,
)


def test_provenance_holds_versions_and_hashes(tiny_encoder: Path) -> None:
    found = provenance_of(tiny_encoder, {"a.tsv": "1"}, {"runs/t": "2"}, device=torch.device("cpu"))
    assert found.threads == torch.get_num_threads()
    assert provenance_of(tiny_encoder, {}, device=torch.device("cuda")).threads is None
    assert found.versions["palbert"] == __version__ and {"torch", "numpy", "python"} <= found.versions.keys()
    assert found.data_sha256 == {"a.tsv": "1"} and found.teachers_sha256 == {"runs/t": "2"}
    assert len(found.encoder_sha256 or "") == 64


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"encoder_sha256": "x"}, ["encoder"]),
        ({"data_sha256": {"a.tsv": "x"}}, ["a.tsv has changed"]),
        ({"teachers_sha256": {"t": "x"}}, ["teacher t"]),
        ({"data_sha256": {"b.tsv": "x"}}, []),
        ({}, []),
    ],
)
def test_changed_content_of_a_data_file_raises_a_warning(
    changed: dict[str, Any], said: list[str], caplog: pytest.LogCaptureFixture
) -> None:
    former = Provenance(encoder_sha256="e", data_sha256={"a.tsv": "1"}, teachers_sha256={"t": "2"})
    compare_provenance(former, former.model_copy(update=changed))
    assert len(caplog.messages) == len(said)
    assert all(part in message for part, message in zip(said, caplog.messages, strict=True))


def test_a_recipe_that_was_never_run_gives_no_warning(caplog: pytest.LogCaptureFixture) -> None:
    compare_provenance(None, Provenance(encoder_sha256="e"))
    assert not caplog.messages


@pytest.mark.parametrize(
    ("former", "present", "warns"), [(2, 4, True), (4, 4, False), (None, 4, False), (2, None, False)]
)
def test_resuming_with_another_number_of_threads_gives_a_warning(
    former: int | None, present: int | None, warns: bool, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    first, second = (
        make_recipe({"data": "samples", "tasks": ["sst"]}).model_copy(
            update={"provenance": Provenance(threads=threads)}
        )
        for threads in (former, present)
    )
    (tmp_path / "recipe.toml").write_text(dump_recipe(first), "utf-8")
    warn_of_other_threads(tmp_path / "recipe.toml", second)
    refuse_another_recipe(tmp_path / "recipe.toml", second)
    said = "the run began with 2 threads and continues with 4"
    assert (said in caplog.text and "set OMP_NUM_THREADS=2" in caplog.text) if warns else not caplog.text


@pytest.mark.parametrize("place", [".", "inside", "inside/deeper"])
def test_a_folder_that_holds_its_own_encoder_is_refused(tmp_path: Path, place: str) -> None:
    with pytest.raises(RunFolderError, match="holds the encoder that is to be trained"):
        refuse_own_encoder(RunFolder(tmp_path), tmp_path / place)


def test_an_encoder_elsewhere_is_allowed(tmp_path: Path) -> None:
    refuse_own_encoder(RunFolder(tmp_path / "run"), tmp_path / "encoder")
    refuse_own_encoder(RunFolder(tmp_path / "encoder" / "run"), tmp_path / "encoder")


def test_only_settings_that_do_not_affect_the_result_may_change(tiny_recipe: dict[str, Any], tmp_path: Path) -> None:
    path = tmp_path / "recipe.toml"
    path.write_text(dump_recipe(make_recipe(tiny_recipe)), "utf-8")
    refuse_another_recipe(path, make_recipe({**tiny_recipe, "run": {"device": "auto", "tensorboard": True}}))
    changed = {**tiny_recipe, "seed": 2, "optimizer": {"learning_rate": 2e-3}}
    with pytest.raises(RecipeError, match=r"began with: optimizer\.learning_rate, seed\."):
        refuse_another_recipe(path, make_recipe(changed))


def test_a_run_is_not_resumed_with_other_content_behind_a_url(tiny_recipe: dict[str, Any], tmp_path: Path) -> None:
    path, recipe = tmp_path / "recipe.toml", make_recipe(tiny_recipe)

    def made_of(file: str, sha256: str) -> Recipe:
        return recipe.model_copy(update={"provenance": Provenance(data_sha256={file: sha256})})

    path.write_text(dump_recipe(made_of("/cache/files/a.csv", "1")), "utf-8")
    refuse_another_recipe(path, made_of("/other/cache/files/a.csv", "1"))
    with pytest.raises(RecipeError, match="began with: the content of remote files"):
        refuse_another_recipe(path, made_of("/cache/files/a.csv", "2"))
