"""palbert add-task: new tasks for a trained run, whose encoder and other tasks stay as they are, bit for bit."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import tomli_w
import torch
from safetensors.torch import load_file

import palbert
from palbert.errors import RecipeError, RunFolderError
from palbert.model.encoder import Encoder
from palbert.training.callbacks import Callback
from palbert.training.trainer import Trainer

pytestmark = pytest.mark.usefixtures("on_cpu", "no_plots")

Cli = Callable[..., Any]
Values = dict[str, Any]
SAMPLES = Path(palbert.__file__).parent / "data" / "samples"
TONE: Values = {
    "train": str(SAMPLES / "sst-train.tsv"),
    "dev": str(SAMPLES / "sst-dev.tsv"),
    "kind": "single",
    "text": "sentence",
    "label": "sentiment",
    "target": "number",
    "pooling": "mean",
    "dropout": 0.0,
}
SAME: Values = {
    "train": str(SAMPLES / "quora-train.tsv"),
    "dev": str(SAMPLES / "quora-dev.tsv"),
    "kind": "pair",
    "text": ["sentence1", "sentence2"],
    "label": "is_duplicate",
    "target": "binary",
    "bad_rows": "drop",
}
SHORT: Values = {"epochs": 2, "steps_per_epoch": 6, "batch_size": 8, "log_every": 2}


def weights(run: Any, checkpoint: str = "best") -> dict[str, torch.Tensor]:
    return load_file(Path(run) / "checkpoints" / checkpoint / "model.safetensors")


def assert_kept(run: Path, grown: Any) -> None:
    """All weights and all predictions of the run are in the grown run, bit for bit."""
    former, now = weights(run), weights(grown)
    assert former.keys() < now.keys()
    assert all(torch.equal(value, now[name]) for name, value in former.items())
    for file in (run / "predictions").iterdir():
        assert (Path(grown) / "predictions" / file.name).read_bytes() == file.read_bytes()


@pytest.fixture(scope="module")
def grown(trained: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Add a task with a head alone."""
    out = tmp_path_factory.mktemp("grown") / "run"
    return palbert.add_task(trained, {"tasks": {"tone": TONE}, "training": SHORT}, out=out).path


def test_a_head_is_added_and_all_else_stays_bit_for_bit(trained: Path, grown: Path) -> None:
    assert_kept(trained, grown)
    added = weights(grown).keys() - weights(trained).keys()
    assert added and all(name.startswith("heads.tone.") for name in added)


def test_the_report_says_from_what_the_run_has_grown(trained: Path, grown: Path) -> None:
    report = palbert.Run(grown).report
    [source] = report["origin"]["checkpoints"]
    assert (report["origin"]["verb"], report["origin"]["tasks"]) == ("add-task", ["tone"])
    assert source["checkpoint"] == str((trained / "checkpoints" / "best").resolve())
    assert source["sha256"] == palbert.Run(grown).recipe.provenance.encoder_sha256  # type: ignore[union-attr]
    assert "tone" in report["tasks"] and report["tasks"]["sst"] == palbert.Run(trained).report["tasks"]["sst"]
    assert "sst" not in report["baselines"]["untrained heads"] and "tone" in report["baselines"]["untrained heads"]


def test_a_grown_run_answers_all_tasks(trained: Path, grown: Path) -> None:
    texts = ["the plot is dull", "rain and soup"]
    before, after = palbert.load(trained), palbert.load(grown)
    assert [each.answer for each in after.predict("tone", texts)]
    assert list(after.predict("sst", texts)) == list(before.predict("sst", texts))
    assert palbert.evaluate(grown).summary["tasks"] == palbert.Run(grown).report["tasks"]


def test_the_encoder_reads_each_row_once_however_many_epochs_there_are(
    trained: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    forward, passes = Encoder.forward, []

    def counted(self: Encoder, *args: Any, **kwargs: Any) -> Any:
        passes.append(1)
        return forward(self, *args, **kwargs)

    monkeypatch.setattr(Encoder, "forward", counted)
    found = []
    for epochs in (1, 4):
        passes.clear()
        tasks = {"tasks": {"tone": TONE}, "training": {**SHORT, "epochs": epochs}}
        palbert.add_task(trained, tasks, out=tmp_path / str(epochs))
        found.append(len(passes))
    assert found[0] == found[1]


@pytest.mark.parametrize("pooling", ["mean", "attention"])
def test_training_on_stored_states_equals_training_through_the_frozen_encoder(
    pooling: str, trained: Path, tmp_path: Path
) -> None:
    tasks = {"tasks": {"tone": {**TONE, "pooling": pooling}}, "training": SHORT}
    stored = palbert.add_task(trained, tasks, out=tmp_path / "stored")
    through = palbert.train(stored / "recipe.toml", out=tmp_path / "through")
    one, two = weights(stored, "last"), weights(through, "last")
    assert one.keys() == two.keys()
    for name, value in one.items():
        torch.testing.assert_close(value, two[name], atol=1e-5, rtol=1e-4)
    assert not torch.equal(one["heads.tone.output.weight"], torch.zeros_like(one["heads.tone.output.weight"]))


def test_several_tasks_are_added_at_once(trained: Path, tmp_path: Path) -> None:
    tasks = {"tasks": {"tone": TONE, "joint": {**SAME, "pooling": "cls"}, "same": SAME}, "training": SHORT}
    run = palbert.add_task(trained, tasks, out=tmp_path / "run")
    assert_kept(trained, run)
    assert run.scores.keys() == {"sst", "quora", "sts", "tone", "joint", "same"}
    shapes = {name: (task.pair_input, task.head.name) for name, task in run.recipe.tasks.items()}
    assert shapes["joint"] == ("joint", "linear") and shapes["same"] == ("siamese", "compare")


@pytest.mark.parametrize("name", ["pal", "lora", "houlsby"])
def test_an_adapter_of_its_own_is_trained_and_all_else_stays(name: str, trained: Path, tmp_path: Path) -> None:
    options = {"pal": {"size": 8, "heads": 2}, "lora": {"rank": 2}, "houlsby": {"size": 4}}[name]
    adapters = {"name": name, **options}
    run = palbert.add_task(trained, {"adapters": adapters, "tasks": {"tone": TONE}, "training": SHORT},
                           out=tmp_path / "run")  # fmt: skip
    assert_kept(trained, run)
    added = weights(run, "last").keys() - weights(trained).keys()
    assert {name.split(".")[0] for name in added} == {"heads", "adapters"}
    zeros = [name for name in added if name.startswith("adapters") and not weights(run, "last")[name].any()]
    assert zeros == []  # those that start at zero have moved


def test_a_second_task_joins_a_run_with_adapters(trained: Path, tmp_path: Path) -> None:
    adapters = {"name": "lora", "rank": 2}
    values: Values = {"adapters": adapters, "tasks": {"tone": TONE}, "training": SHORT}
    first = palbert.add_task(trained, values, out=tmp_path / "first")
    head = palbert.add_task(first, {"tasks": {"same": SAME}, "training": SHORT}, out=tmp_path / "head")
    assert_kept(first.path, head)
    assert not any(name.startswith("adapters.same.") for name in weights(head))
    own = palbert.add_task(first, {**values, "tasks": {"mood": TONE}, "adapters": "lora"}, out=tmp_path / "own")
    assert_kept(first.path, own)
    assert any(name.startswith("adapters.mood.") for name in weights(own))


class Stop(Callback):
    """Press Ctrl-C after some steps."""

    def on_step(self, trainer: Trainer, losses: dict[str, Any], tokens: int) -> None:
        if trainer.position.step == 8:
            os.kill(os.getpid(), signal.SIGINT)


def test_a_stopped_growth_is_resumed_to_the_same_weights(grown: Path, trained: Path, tmp_path: Path) -> None:
    tasks = {"tasks": {"tone": TONE}, "training": SHORT}
    with pytest.raises(palbert.StoppedError) as stopped:
        palbert.add_task(trained, tasks, out=tmp_path / "run", callbacks=[Stop()])
    assert stopped.value.verb == "add-task"
    resumed = palbert.add_task(trained, tasks, out=tmp_path / "run", resume=True)
    one, two = weights(grown, "last"), weights(resumed, "last")
    assert all(torch.equal(value, two[name]) for name, value in one.items())
    assert resumed.scores == palbert.Run(grown).scores


def test_rows_in_memory_and_open_shapes_are_taken(trained: Path, tmp_path: Path) -> None:
    rows = [{"text": f"{word} {noun}", "label": word} for word in ("good", "bad") for noun in "abcdefghijkl"]
    run = palbert.add_task(trained, {"tasks": {"mood": {}}}, data={"mood": rows}, out=tmp_path / "run",
                           overrides=["training.epochs=1"])  # fmt: skip
    task = run.recipe.tasks["mood"]
    assert (task.pooling.name, task.head_start, task.target.classes) == ("mean", "probe", ("bad", "good"))
    assert (run / "data" / "mood-train.jsonl").is_file() and "linear probe" in run.report["baselines"]


REFUSED: list[tuple[Values, str]] = [
    ({"tasks": {"sst": TONE}}, "the run already has a task 'sst'"),
    ({"tasks": {}}, "expected the new tasks"),
    ({"tasks": {"tone": TONE}, "encoder": "minilm"}, "has no 'encoder': the encoder, its tokenizer"),
    ({"tasks": {"tone": TONE}, "relation": "linear"}, "has no 'relation': a relational layer is shared"),
    ({"tasks": {"tone": TONE}, "objectives": ["smart"]}, "has no 'objectives'"),
    ({"tasks": {"tone": {**TONE, "max_length": 999}}}, "999 is more than the encoder's 128"),
    ({"tasks": {"tone": TONE}, "adapters": {"name": "lora", "tasks": ["sst"]}}, "names 'sst', which is not a new"),
    ({"tasks": {"tone": TONE}, "training": {"trains": ["encoder"]}}, "new tasks train their heads"),
    ({"tasks": {"tone": {**TONE, "target": "nothing"}}}, "nothing"),
    ({"tasks": {"tone": TONE}, "adapters": "no-such"}, "no-such"),
]


@pytest.mark.parametrize(("values", "says"), REFUSED)
def test_what_would_change_something_shared_is_refused(
    values: Values, says: str, trained: Path, tmp_path: Path
) -> None:
    with pytest.raises(RecipeError) as caught:
        palbert.add_task(trained, values, out=tmp_path / "run")
    assert says in f"{caught.value} {caught.value.hint}"
    assert not (tmp_path / "run").exists()


def test_the_run_itself_is_never_written_to(trained: Path) -> None:
    for out in (trained, trained / "grown", trained.parent):
        with pytest.raises(RunFolderError, match="which it would be made from"):
            palbert.add_task(trained, {"tasks": {"tone": TONE}}, out=out, force=True)


def test_the_command_prints_all_tasks(trained: Path, tmp_path: Path, cli: Cli) -> None:
    file = tmp_path / "tone.toml"
    file.write_text(tomli_w.dumps({"tasks": {"tone": TONE}, "training": SHORT}), "utf-8")
    result = cli("add-task", trained, file, "--out", tmp_path / "run")
    assert result.code == 0, result.err
    assert "tone" in result.out and "quora" in result.out and "times as long" in result.err
    again = cli("add-task", trained, file, "--out", tmp_path / "run")
    assert again.code == 2 and "already holds a run" in again.err
    assert cli("add-task", trained, tmp_path / "none.csv", "--out", tmp_path / "x").code == 2
