"""Further pretraining: the encoder folder it writes, resuming, the phase before a run's tasks, and what is refused."""

from __future__ import annotations

import json
import math
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from safetensors.torch import load_file

import palbert
from palbert.data.tokenizer import TextTokenizer
from palbert.model.pretrained import load_encoder
from palbert.training.hooks import read_records
from palbert.training.loss_scale import START, DynamicScale
from palbert.training.trainer import Trainer
from palbert.verbs import pretrain as verb

pytestmark = pytest.mark.usefixtures("on_cpu", "no_plots")

Cli = Callable[..., Any]
Write = Callable[..., Path]


@pytest.fixture
def values(tiny_recipe: dict[str, Any]) -> dict[str, Any]:
    """Return a recipe that pretrains for ten steps and then trains for six."""
    return {
        **tiny_recipe,
        "tasks": {"sst": {}, "sts": {}},
        "training": {"epochs": 1, "steps_per_epoch": 6, "batch_size": 8, "log_every": 2, "save_every": 3},
        "pretraining": {"epochs": 2, "steps_per_epoch": 5, "batch_size": 8, "max_length": 32, "learning_rate": 1e-3},
    }


def stop_at(step: int, monkeypatch: pytest.MonkeyPatch, *, ending: type[BaseException] | None = None) -> None:
    """Stop the next trainer after that many steps, as by Ctrl-C, or end it immediately with an error."""
    original = Trainer.step

    def stopping(self: Any, batches: Any) -> Any:
        if ending and self.position.step == step:
            raise ending
        self.stopping = ending is None and self.position.step == step - 1
        return original(self, batches)

    monkeypatch.setattr(Trainer, "step", stopping)


def weights(folder: Path) -> bytes:
    return (folder / "model.safetensors").read_bytes()


def losses(folder: Path) -> list[Any]:
    """Return the losses and scores in metrics.jsonl, in order."""
    return [record.get("losses") or record.get("tasks") for record in read_records(folder / "metrics.jsonl")]


def test_the_folder_is_an_encoder_with_its_report(values: dict[str, Any], tiny_encoder: Path, tmp_path: Path) -> None:
    out = palbert.pretrain(palbert.make_recipe(values), out=tmp_path / "new")
    assert {path.name for path in out.iterdir()} == {
        "config.json", "model.safetensors", "tokenizer.json", "recipe.toml", "metrics.jsonl", "report.json",
        "palbert.sha256", ".palbert-run.json",
    }  # fmt: skip
    report = json.loads((out / "report.json").read_text("utf-8"))
    assert list(report) == ["loss", "perplexity", "before", "rows", "tokens", "encoder", "seconds"]
    assert report["perplexity"] == pytest.approx(math.exp(report["loss"]))
    assert report["encoder"] == str(tiny_encoder) and report["tokens"] > report["rows"] > 500
    evaluations = [record for record in read_records(out / "metrics.jsonl") if record["kind"] == "evaluation"]
    assert [record["epoch"] for record in evaluations] == [0, 1, 2]
    assert evaluations[0]["tasks"]["mlm"] == report["before"]
    assert evaluations[-1]["tasks"]["mlm"] == {key: report[key] for key in ("loss", "perplexity")}
    assert report["loss"] < report["before"]["loss"]


def test_the_encoder_loads_in_transformers_and_trains_tasks(values: dict[str, Any], tmp_path: Path) -> None:
    out = palbert.pretrain(palbert.make_recipe(values), out=tmp_path / "new")
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    reference, encoder = transformers.AutoModel.from_pretrained(out), load_encoder(out)
    assert torch.equal(reference.get_input_embeddings().weight, encoder.embeddings.word.weight)
    assert TextTokenizer.from_folder(out).mask_id() == 4
    del values["pretraining"]
    run = palbert.train(palbert.make_recipe({**values, "encoder": str(out)}), out=tmp_path / "run").path
    assert json.loads((run / "report.json").read_text("utf-8"))["encoder"] == str(out)
    assert not (run / "pretrained").exists()


def test_the_encoder_changes_and_its_pooler_does_not(
    values: dict[str, Any], tiny_encoder: Path, tmp_path: Path
) -> None:
    new = load_encoder(palbert.pretrain(palbert.make_recipe(values), out=tmp_path / "new")).state_dict()
    for name, old in load_encoder(tiny_encoder).state_dict().items():
        assert torch.equal(old, new[name]) == name.startswith("pooler."), name


def test_pretraining_can_continue_with_its_own_head(values: dict[str, Any], tmp_path: Path) -> None:
    first = palbert.pretrain(palbert.make_recipe(values), out=tmp_path / "first")
    second = palbert.pretrain(palbert.make_recipe({**values, "encoder": str(first)}), out=tmp_path / "second")
    reports = [json.loads((folder / "report.json").read_text("utf-8")) for folder in (first, second)]
    assert reports[1]["before"]["loss"] == pytest.approx(reports[0]["loss"], rel=1e-6)
    assert reports[1]["loss"] < reports[0]["loss"]


def test_the_loss_falls_on_a_few_repeated_texts(values: dict[str, Any], tiny_encoder: Path, tmp_path: Path) -> None:
    (tmp_path / "few.csv").write_text("text,label\n" + "the film is a quiet triumph,1\nthe plot is a mess,0\n" * 8)
    own = {"kind": "single", "target": "binary", "text": "text", "train": "few.csv", "dev": "few.csv"}
    (tmp_path / "few.txt").write_text("the film is a mess\n\nthe plot is a quiet triumph\n  the film is a mess \n")
    section = {"text": "few.txt", "steps_per_epoch": 60, "epochs": 1, "learning_rate": 3e-3, "batch_size": 4}
    encoder = {"name": str(tiny_encoder), "dropout": 0.0, "attention_dropout": 0.0}
    recipe = {**values, "data": None, "tasks": {"own": own}, "pretraining": section, "encoder": encoder}
    out = palbert.pretrain(palbert.make_recipe(recipe, folder=tmp_path), out=tmp_path / "new")
    assert json.loads((out / "report.json").read_text("utf-8"))["rows"] == 3  # of four different texts
    found = [record["losses"]["mlm"] for record in read_records(out / "metrics.jsonl") if record["kind"] == "train"]
    assert found[-1] < 0.5 * found[0]


@pytest.mark.parametrize("step", [3, 5, 8])
def test_a_pretraining_stopped_and_resumed_equals_an_uninterrupted_one(
    step: int, values: dict[str, Any], tmp_path: Path, write_recipe: Write, cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    recipe = write_recipe(values)
    whole, stopped = palbert.pretrain(recipe, out=tmp_path / "whole"), tmp_path / "stopped"
    with monkeypatch.context() as patch:
        stop_at(step, patch)
        result = cli("pretrain", recipe, "--out", stopped)
    assert result.code == 130 and not (stopped / "model.safetensors").exists()
    said = f"Continue with: palbert pretrain {stopped}/recipe.toml --out {stopped} --resume"
    assert said in result.err
    result = cli(*said.removeprefix("Continue with: palbert ").split())
    assert result.code == 0 and f"resuming at step {step} of 10" in result.err
    assert weights(stopped) == weights(whole)
    assert losses(stopped) == losses(whole)


def test_a_resumed_pretraining_restores_the_loss_scale(
    values: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scales: list[float] = []

    def make_scale(objective: Any, machine: Any) -> DynamicScale:
        objective.add_module("scale", scale := DynamicScale())
        return scale

    def watched(self: Any, batches: Any) -> Any:
        if self.position.step == 1:
            self.scale.scale.fill_(1024.0)  # an earlier overflow
        self.stopping = self.position.step == 3 and len(scales) == 3
        scales.append(float(self.scale.scale))
        return original(self, batches)

    original = Trainer.step
    monkeypatch.setattr("palbert.build.pretraining.make_scale", make_scale)
    monkeypatch.setattr(Trainer, "step", watched)
    with pytest.raises(KeyboardInterrupt):
        palbert.pretrain(palbert.make_recipe(values), out=tmp_path / "run")
    palbert.pretrain(palbert.make_recipe(values), out=tmp_path / "run", resume=True)
    assert scales == [START, *[1024.0] * 9]


def test_ctrl_c_during_the_last_scoring_of_the_pretraining_stops_the_run(
    values: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    original = verb.PretrainingJob.fit

    def interrupted(self: Any) -> bool:
        done = original(self)
        self.trainer.stopping = True
        return done

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(verb.PretrainingJob, "fit", interrupted)
        palbert.train(palbert.make_recipe(values), out=tmp_path / "run")
    assert (tmp_path / "run/pretrained/report.json").is_file() and not (tmp_path / "run/metrics.jsonl").exists()
    palbert.train(palbert.make_recipe(values), out=tmp_path / "run", resume=True)
    whole = palbert.train(palbert.make_recipe(values), out=tmp_path / "whole").path
    last = Path("checkpoints") / "last"
    assert weights(tmp_path / "run" / last) == weights(whole / last)


def test_the_same_seed_gives_the_same_encoder(values: dict[str, Any], tmp_path: Path) -> None:
    runs = [
        weights(palbert.pretrain(palbert.make_recipe({**values, "seed": seed}), out=tmp_path / name))
        for name, seed in (("one", 1), ("two", 1), ("three", 2))
    ]
    assert runs[0] == runs[1] != runs[2]


def test_train_pretrains_first_and_starts_from_the_result(values: dict[str, Any], tmp_path: Path) -> None:
    alone = palbert.pretrain(palbert.make_recipe(values), out=tmp_path / "alone")
    run = palbert.train(palbert.make_recipe(values), out=tmp_path / "run").path
    assert weights(run / "pretrained") == weights(alone)
    again = palbert.train(run / "recipe.toml", out=tmp_path / "again").path
    del values["pretraining"]
    two_steps = palbert.train(palbert.make_recipe({**values, "encoder": str(alone)}), out=tmp_path / "two-steps").path
    last = Path("checkpoints") / "last"
    assert weights(run / last) == weights(again / last) == weights(two_steps / last)


@pytest.mark.parametrize("mixout", [0.0, 0.5])
@pytest.mark.parametrize("step", [4, 14], ids=["in the pretraining", "in the tasks"])
def test_a_run_stopped_in_either_phase_and_resumed_equals_an_uninterrupted_one(
    step: int,
    mixout: float,
    values: dict[str, Any],
    tmp_path: Path,
    write_recipe: Write,
    cli: Cli,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    recipe = write_recipe({**values, "encoder": {**values["encoder"], "mixout": mixout}})
    whole, stopped = palbert.train(recipe, out=tmp_path / "whole").path, tmp_path / "stopped"
    with monkeypatch.context() as patch:
        if step > 10:
            original = verb.PretrainingJob.fit

            def then_stop(self: Any) -> bool:
                done = original(self)
                stop_at(step - 10, patch)
                return done

            patch.setattr(verb.PretrainingJob, "fit", then_stop)
        else:
            stop_at(step, patch)
        result = cli("train", recipe, "--out", stopped)
    assert result.code == 130
    assert (stopped / "pretrained" / "report.json").exists() == (step > 10)
    said = f"Continue with: palbert train {stopped}/recipe.toml --out {stopped} --resume"
    assert said in result.err
    result = cli(*said.removeprefix("Continue with: palbert ").split())
    assert result.code == 0
    for folder in (Path("checkpoints") / "last", Path("pretrained")):
        assert weights(stopped / folder) == weights(whole / folder)
    for folder in (Path(), Path("pretrained")):
        assert losses(stopped / folder) == losses(whole / folder)


def test_a_complete_pretraining_is_reused_when_the_tasks_start_again(
    values: dict[str, Any], tmp_path: Path, cli: Cli, write_recipe: Write
) -> None:
    recipe = write_recipe(values)
    whole = palbert.train(recipe, out=tmp_path / "run").path
    expected = weights(whole / "checkpoints" / "last"), losses(whole)
    shutil.rmtree(whole / "checkpoints")  # as if killed before the first checkpoint
    (whole / "pretrained" / "checkpoints" / "last").mkdir(parents=True)  # and while those of pretraining were removed
    written = (whole / "pretrained" / "model.safetensors").stat().st_mtime_ns
    result = cli("train", recipe, "--out", whole, "--resume")
    assert result.code == 0 and "pretrained already" in result.err
    assert not (whole / "pretrained" / "checkpoints").exists()
    assert (whole / "pretrained" / "model.safetensors").stat().st_mtime_ns == written
    assert (weights(whole / "checkpoints" / "last"), losses(whole)) == expected
    shutil.rmtree(whole / "checkpoints")
    result = cli("train", recipe, "--out", whole, "--resume", "--set", "pretraining.mask=0.3")
    assert result.code == 2 and "cannot resume with other settings" in result.err and "pretraining.mask" in result.err
    assert cli("train", recipe, "--out", whole, "--force").code == 0
    assert (whole / "pretrained" / "model.safetensors").stat().st_mtime_ns != written


def test_a_pretraining_killed_before_its_first_checkpoint_starts_again(
    values: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    recipe = palbert.make_recipe(values)
    whole, killed = palbert.train(recipe, out=tmp_path / "whole").path, tmp_path / "killed"
    with monkeypatch.context() as patch:
        stop_at(2, patch, ending=SystemExit)
        with pytest.raises(SystemExit):
            palbert.train(recipe, out=killed)
    palbert.train(recipe, out=killed, resume=True)
    assert weights(killed / "checkpoints" / "last") == weights(whole / "checkpoints" / "last")


def test_problems_of_the_tasks_are_reported_before_the_pretraining(
    values: dict[str, Any], tmp_path: Path, cli: Cli, write_recipe: Write
) -> None:
    values["tasks"]["sst"] = {"max_length": 129}  # more than the tiny encoder's
    result = cli("train", write_recipe(values), "--out", tmp_path / "run")
    assert result.code == 2 and "tasks.sst.max_length" in result.err
    assert not (tmp_path / "run").exists()


def test_a_frozen_encoder_is_pretrained_and_frozen_for_the_tasks(values: dict[str, Any], tmp_path: Path) -> None:
    values["encoder"]["frozen"] = True
    run = palbert.train(palbert.make_recipe(values), out=tmp_path / "run").path
    pretrained = load_encoder(run / "pretrained").state_dict()
    trained = load_file(run / "checkpoints" / "last" / "model.safetensors")
    assert all(torch.equal(trained[f"encoder.{name}"], tensor) for name, tensor in pretrained.items())
    given = load_encoder(values["encoder"]["name"]).state_dict()
    assert not torch.equal(pretrained["layers.0.output.weight"], given["layers.0.output.weight"])


def test_the_command_takes_text_files_and_shows_the_loss(
    values: dict[str, Any], tmp_path: Path, cli: Cli, write_recipe: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    Path("mine.txt").write_text("a text of my own\nand another one\n")
    del values["pretraining"]  # everything has a default
    result = cli(
        "pretrain", write_recipe(values), "--text", "mine.txt", "--out", "new",
        "--set", "pretraining.steps_per_epoch=2",
    )  # fmt: skip
    assert result.code == 0, result.err
    assert "held-out texts  before" in result.out and "Encoder: new" in result.out
    rows = [line.split() for line in result.err.splitlines() if re.match(r" +[01] ", line)]
    assert [row[:2] for row in rows] == [["0", "0"], ["1", "2"]]
    recipe = palbert.load_recipe("new/recipe.toml")
    assert recipe.pretraining and recipe.pretraining.text == (str(tmp_path / "here" / "mine.txt"),)
    assert recipe.provenance and str(tmp_path / "here" / "mine.txt") in recipe.provenance.data_sha256


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--text", "none.txt"], ["pretraining.text: no such file: ", "none.txt"]),
        (["--text", "rows.csv"], ["pretraining.text: expected .txt files with one text per line, found ", "rows.csv"]),
        (["--text", "latin.txt"], ["latin.txt, line 2: expected UTF-8, found byte 0xe9."]),
        (["--set", "pretraining.mask=0"], ["pretraining.mask:", "greater than 0", "found 0"]),
        (["--set", "pretraining.held_out=1"], ["pretraining.held_out:", "less than 1"]),
        (["--set", "pretraining.epoch=1"], ["pretraining.epoch: unknown key.", "Did you mean pretraining.epochs?"]),
        (["--set", "pretraining.schedule=stl"], ["pretraining.schedule:", "'stl'", "Did you mean 'stlr'?"]),
        (["--set", "pretraining.schedule={name='stlr',warm=1}"], ["pretraining.schedule:", "Did you mean 'warmup'?"]),
        (["--set", "pretraining.max_length=500"], ["pretraining.max_length: expected 3 to 128 tokens", "found 500"]),
        (["--set", "pretraining.max_length=2"], ["pretraining.max_length:", "found 2"]),
        (["--set", "pretraining.text=5"], ["pretraining.text.0:", "valid string", "found 5"]),
        (["--resume"], ["nothing to resume: there is no checkpoints/last."]),
    ],
)
def test_impossible_settings_are_refused_before_anything_is_written(
    arguments: list[str], says: list[str], values: dict[str, Any], tmp_path: Path, cli: Cli, write_recipe: Write,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.chdir(tmp_path)
    Path("rows.csv").write_text("text\na\n")
    Path("latin.txt").write_bytes("fine\ncafé\n".encode("latin1"))
    result = cli("pretrain", write_recipe(values), "--out", tmp_path / "new", *arguments)
    assert result.code == 2 and result.out == "" and "Traceback" not in result.err
    assert all(part in result.err for part in says), result.err
    assert not (tmp_path / "new").exists()


def test_a_loss_of_nan_exits_with_code_1_and_names_the_rate(
    values: dict[str, Any], tmp_path: Path, cli: Cli, write_recipe: Write
) -> None:
    values["pretraining"]["learning_rate"] = 1e30
    result = cli("pretrain", write_recipe(values), "--out", tmp_path / "new")
    assert result.code == 1 and "became nan" in result.err and "Lower pretraining.learning_rate" in result.err
    assert not (tmp_path / "new" / "report.json").exists()


def test_an_encoder_without_a_mask_token_is_refused(
    values: dict[str, Any], tiny_encoder: Path, tmp_path: Path, cli: Cli, write_recipe: Write
) -> None:
    folder = Path(shutil.copytree(tiny_encoder, tmp_path / "maskless"))
    settings = (folder / "tokenizer.json").read_text("utf-8").replace('"[MASK]"', '"[OTHER]"')
    (folder / "tokenizer.json").write_text(settings, "utf-8")
    result = cli("pretrain", write_recipe({**values, "encoder": str(folder)}), "--out", tmp_path / "new")
    assert result.code == 2 and "no mask token: found neither [MASK] nor <mask>." in result.err


def test_an_existing_folder_and_that_of_the_encoder_are_not_overwritten(
    values: dict[str, Any], tmp_path: Path, cli: Cli, write_recipe: Write
) -> None:
    recipe, out = write_recipe(values), tmp_path / "new"
    palbert.pretrain(recipe, out=out)
    before = weights(out)
    for arguments, said in [
        ([], "already holds a run"),
        (["--resume"], "nothing to resume: this encoder is complete."),
        (["--force", "--set", f"encoder={out}"], f"{out}: holds the encoder that is to be trained"),
    ]:
        result = cli("pretrain", recipe, "--out", out, *arguments)
        assert result.code == 2 and said in result.err
    assert weights(out) == before
    assert cli("pretrain", recipe, "--out", out, "--force", "--set", "seed=7").code == 0
    assert weights(out) != before
