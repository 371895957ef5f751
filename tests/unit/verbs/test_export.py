"""palbert export: the encoder of a run, its adapters merged or refused, never over another folder."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import palbert
from palbert.build import build_model
from palbert.data.tokenizer import TextTokenizer
from palbert.errors import DataError, EncoderError, RunFolderError
from palbert.model.pretrained import load_encoder
from palbert.recipe.load import make_recipe
from palbert.training.checkpoint import TrainerState, save_checkpoint

pytestmark = pytest.mark.usefixtures("on_cpu", "no_plots")

Cli = Callable[..., Any]
TEXTS = ["the plot is dull", "rain and soup", "never " * 200]


@pytest.fixture
def adapted(tiny_encoder: Path, tokenizer: TextTokenizer, tmp_path: Path) -> Callable[..., Path]:
    """Return a function that writes a checkpoint of two tasks with random adapters."""

    def write(**adapters: Any) -> Path:
        tasks = {"sst": {"pooling": "mean", "max_length": 64}, "quora": {"pooling": "mean", "max_length": 32}}
        recipe = make_recipe({"data": "samples", "tasks": tasks, "adapters": adapters})
        assert recipe.adapters is not None
        model = build_model(recipe.tasks, load_encoder(tiny_encoder), adapters=recipe.adapters)
        for parameter in model.adapters.parameters():  # new adapters add nothing
            torch.nn.init.normal_(parameter, std=0.1)
        description = {
            "encoder": asdict(model.encoder.config),
            "adapters": recipe.adapters.model_dump(mode="json"),
            "relation": None,
            "tasks": {name: task.model_dump(mode="json") for name, task in recipe.tasks.items()},
        }
        folder, state = tmp_path / "adapted", TrainerState({}, {}, {}, {})
        save_checkpoint(folder, model, tokenizer, description=description, state=state)
        return folder

    return write


def test_an_exported_run_gives_its_vectors_in_both_libraries(trained: Path, tmp_path: Path, cli: Cli) -> None:
    pytest.importorskip("sentence_transformers")
    result = cli("export", trained, "--out", tmp_path / "st")
    assert result.code == 0, result.err
    lines = result.out.splitlines()
    assert lines[0] == f"Written: {tmp_path / 'st'} (sentence-transformers, pooling mean)"
    assert lines[1].startswith("sentence-transformers gives the same vectors as palbert, up to ")
    names = {str(path.relative_to(tmp_path / "st")) for path in (tmp_path / "st").rglob("*") if path.is_file()}
    assert names == {
        "1_Pooling/config.json", "config.json", "model.safetensors", "modules.json", "palbert-export.json",
        "palbert.sha256", "sentence_bert_config.json", "tokenizer.json", "tokenizer_config.json",
    }  # fmt: skip
    own = palbert.load(trained).embed(TEXTS)
    np.testing.assert_allclose(palbert.load(tmp_path / "st").embed(TEXTS), own, atol=1e-5)
    origin = json.loads((tmp_path / "st" / "palbert-export.json").read_text("utf-8"))
    assert origin["from"] == str((trained / "checkpoints" / "best").resolve())
    last = palbert.export(trained, out=tmp_path / "tr", to="transformers", checkpoint="last")
    assert last.difference is not None and last.difference < 1e-5
    expected = palbert.load(trained, checkpoint="last").embed(TEXTS)
    np.testing.assert_allclose(palbert.load(tmp_path / "tr").embed(TEXTS), expected, atol=1e-5)


@pytest.mark.parametrize("per_task", [True, False])
def test_lora_is_merged_into_the_weights(per_task: bool, adapted: Callable[..., Path], tmp_path: Path) -> None:
    run = adapted(name="lora", rank=2, targets=["query", "value"], per_task=per_task)
    if per_task:
        with pytest.raises(DataError, match="there is no encoder that all of them use"):
            palbert.export(run, out=tmp_path / "none")
    task = "quora" if per_task else None
    palbert.export(run, out=tmp_path / "merged", task=task, check=False)
    merged, own = palbert.load(tmp_path / "merged").embed(TEXTS), palbert.load(run).embed(TEXTS, task=task)
    np.testing.assert_allclose(merged, own, atol=1e-5)
    palbert.export(run, out=tmp_path / "plain", without_adapters=True, check=False)
    assert np.abs(palbert.load(tmp_path / "plain").embed(TEXTS) - own).max() > 1e-3


def test_other_adapters_are_refused_or_left_out_with_a_warning(
    adapted: Callable[..., Path], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    run = adapted(name="pal", size=4, heads=2, per_task=False)
    with pytest.raises(DataError, match=r"PAL, cannot be merged .* or leave the adapters out with --without-adapters"):
        palbert.export(run, out=tmp_path / "out")
    assert not (tmp_path / "out").exists()
    palbert.export(run, out=tmp_path / "out", without_adapters=True, check=False)
    assert "without the adapters that its tasks were trained with" in caplog.text


def test_folders_of_others_are_not_replaced(trained: Path, run_copy: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    (other / "notes.txt").write_text("mine")
    for force in (False, True):
        with pytest.raises(RunFolderError, match=r"notes\.txt: palbert did not export this.*remove this one yourself"):
            palbert.export(trained, out=other, check=False, force=force)
    assert [path.name for path in other.iterdir()] == ["notes.txt"]
    with pytest.raises(RunFolderError, match="holds a run"):
        palbert.export(trained, out=run_copy, force=True)
    with pytest.raises(RunFolderError, match="expected a folder, found a file"):
        palbert.export(trained, out=other / "notes.txt", force=True)


def test_an_export_is_replaced_with_force_unless_somebody_else_has_put_files_into_it(
    trained: Path, tmp_path: Path
) -> None:
    out, encoder = tmp_path / "out", tmp_path / "encoder"
    palbert.export(trained, out=out, check=False)
    with pytest.raises(RunFolderError, match=r"out: holds an export already\. Add --force"):
        palbert.export(trained, out=out, check=False)
    (out / ".DS_Store").write_text("")  # a system's, which no author misses
    palbert.export(trained, out=out, to="transformers", check=False, force=True)
    assert not (out / "modules.json").exists()
    (out / "README.md").write_text("mine")
    with pytest.raises(RunFolderError, match=r"README\.md: palbert did not export this"):
        palbert.export(trained, out=out, check=False, force=True)
    (out / "README.md").unlink()
    (out / "config.json").rename(encoder)
    (out / "config.json").symlink_to(encoder)
    with pytest.raises(RunFolderError, match=r"config\.json: palbert did not export this"):
        palbert.export(trained, out=out, check=False, force=True)


def test_nothing_is_written_if_the_library_gives_other_vectors(
    trained: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("palbert.verbs.exports.encoder_form.vectors_of", lambda *_, **__: np.zeros((6, 32), np.float32))
    with pytest.raises(EncoderError, match=r"gives other vectors than palbert: .* Nothing was written\."):
        palbert.export(trained, out=tmp_path / "out")
    assert list(tmp_path.iterdir()) == []


def test_without_the_library_the_folder_is_written_unchecked(
    trained: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("palbert.verbs.exports.encoder_form.vectors_of", lambda *_, **__: None)
    assert palbert.export(trained, out=tmp_path / "out").difference is None
    assert "Not checked: sentence-transformers is not installed." in caplog.text


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (
            {"to": "tflite"},
            "Cannot export to 'tflite'. Known: cross-encoder, onnx, sentence-transformers, transformers.",
        ),
        ({"precision": "int8"}, "--precision (precision) means nothing for --to sentence-transformers."),
        ({"to": "onnx", "pooling": "mean"}, "--pooling (pooling) means nothing for --to onnx."),
        ({"to": "onnx", "precision": "int4"}, "Cannot export in 'int4'. There are: fp32, int8."),
        ({"task": ["sst", "quora"]}, "An encoder has one adapter at most, found the tasks sst, quora."),
        ({"pooling": "pooler"}, "Cannot export the pooling 'pooler'. There are: mean, cls."),
        ({"task": "ssst"}, "Unknown task 'ssst'."),
    ],
)
def test_what_cannot_be_exported_is_refused(options: dict[str, Any], says: str, trained: Path, tmp_path: Path) -> None:
    with pytest.raises(DataError) as caught:
        palbert.export(trained, out=tmp_path / "out", **options)
    assert says in str(caught.value) and not (tmp_path / "out").exists()
