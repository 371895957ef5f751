"""Checkpoints: complete or absent, readable without pickle, and errors that say what is wrong."""

from __future__ import annotations

import errno
import json
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import nn

from palbert.data.tokenizer import TextTokenizer
from palbert.errors import CheckpointError, RunFolderError
from palbert.runtime import checksums
from palbert.runtime.checksums import RECORD
from palbert.runtime.files import sha256
from palbert.runtime.run_folder import RunFolder
from palbert.training import checkpoint
from palbert.training.averaging import EMA
from palbert.training.checkpoint import (
    FORMAT,
    MODEL_FILES,
    TrainerState,
    link_checkpoint,
    load_weights,
    read_description,
    read_last,
    read_state,
    restore_average,
    restore_objective,
    save_checkpoint,
)
from palbert.training.optimizer_state import optimizer_tensors, restore_optimizer


def make_model(fill: float | None = None) -> nn.Module:
    model = nn.Sequential(nn.Linear(3, 4), nn.LayerNorm(4))
    if fill is not None:
        for parameter in model.parameters():
            nn.init.constant_(parameter, fill)
    return model


def take_steps(model: nn.Module, optimizer: torch.optim.Optimizer, number: int) -> None:
    for step in range(number):
        optimizer.zero_grad()
        model(torch.full((2, 3), step + 1.0)).square().mean().backward()
        optimizer.step()


def save(folder: Path, model: nn.Module, tokenizer: TextTokenizer, **changes: Any) -> None:
    state = {"position": {"step": 3}, "best": {"best": 0.5}, "optimizer": {}, "random": {"cpu": torch.get_rng_state()}}
    save_checkpoint(folder, model, tokenizer, description={"palbert": "9"}, state=TrainerState(**{**state, **changes}))


def rewrite(file: Path, kind: torch.dtype) -> None:
    """Write a file's tensors in another number format, and its new hash into the record."""
    save_file({name: value.to(kind) for name, value in load_file(file).items()}, file)
    checksums.record_folder(file.parent)


def flip_bit(file: Path) -> None:
    """Flip a bit in the middle of a file, in place, so that hard links to it are damaged, too."""
    with file.open("r+b") as stream:
        stream.seek(file.stat().st_size // 2)
        byte = stream.read(1)
        stream.seek(-1, 1)
        stream.write(bytes([byte[0] ^ 1]))


def weights(model: nn.Module) -> list[float]:
    return [float(value) for parameter in model.parameters() for value in parameter.detach().flatten()]


@pytest.fixture
def saved(tmp_path: Path, tokenizer: TextTokenizer) -> Path:
    save(tmp_path / "last", make_model(1.0), tokenizer)
    return tmp_path / "last"


def test_a_model_is_restored_bit_by_bit(tmp_path: Path, tokenizer: TextTokenizer) -> None:
    model, other = make_model(), make_model()
    save(tmp_path / "last", model, tokenizer)
    load_weights(tmp_path / "last", other)
    assert weights(model) == weights(other)
    assert read_description(tmp_path / "last") == {"format": FORMAT, "palbert": "9"}
    assert TextTokenizer.from_folder(tmp_path / "last").sha256 == tokenizer.sha256


def test_the_state_of_the_trainer_is_restored(saved: Path) -> None:
    state = read_state(saved)
    assert (state.position, state.best, state.optimizer) == ({"step": 3}, {"best": 0.5}, {})
    assert torch.equal(state.random["cpu"], torch.get_rng_state())


@pytest.mark.parametrize("kept", [0, 1, 3])
def test_an_optimizer_without_the_state_of_all_its_parameters_is_refused(
    tmp_path: Path, tokenizer: TextTokenizer, kept: int
) -> None:
    model, last = make_model(), tmp_path / "last"
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.1)
    model[0].bias.requires_grad_(False)  # so it has no state: the other three have
    take_steps(model, optimizer, 1)
    save(last, model, tokenizer, optimizer=optimizer_tensors(optimizer))
    state = read_state(last).optimizer
    numbers = sorted({key[0] for key in state})
    assert len(numbers) == 3
    save_file({key: value for key, value in state.items() if key[0] in numbers[:kept]}, last / "optimizer.safetensors")
    checksums.record_folder(last)
    if kept == 3:
        assert read_state(last).optimizer.keys() == state.keys()
        return
    with pytest.raises(CheckpointError, match=rf"optimizer.safetensors: expected the state of 3 p.*, found {kept}\."):
        read_state(last)


def test_the_state_of_an_earlier_version_has_no_number_of_parameters(saved: Path) -> None:
    facts = json.loads((saved / "trainer.json").read_text())
    assert facts.pop("optimized") == 0
    (saved / "trainer.json").write_text(json.dumps(facts))
    checksums.record_folder(saved)
    assert read_state(saved).position == {"step": 3}


def test_each_file_of_the_state_is_hashed_once(
    tmp_path: Path, tokenizer: TextTokenizer, monkeypatch: pytest.MonkeyPatch
) -> None:
    parts = {name: {"x": torch.ones(2)} for name in ("optimizer", "objective", "average")}
    save(tmp_path / "last", make_model(1.0), tokenizer, **parts)
    hashed: list[str] = []

    def count(path: Path, own: Any = sha256) -> str:
        hashed.append(path.name)
        return str(own(path))

    monkeypatch.setattr(checksums, "sha256", count)
    state = read_state(tmp_path / "last")
    assert all(torch.equal(getattr(state, name)["x"], torch.ones(2)) for name in parts)
    names = ["objective", "optimizer", "random", "weights"]
    assert sorted(hashed) == sorted([*(f"{name}.safetensors" for name in names), "trainer.json"])


def test_a_restored_optimizer_continues_like_the_original(tmp_path: Path, tokenizer: TextTokenizer) -> None:
    first = make_model()
    optimizer = torch.optim.AdamW(first.parameters(), lr=0.1)
    take_steps(first, optimizer, 3)
    save(tmp_path / "last", first, tokenizer, optimizer=optimizer_tensors(optimizer))
    second = make_model()
    load_weights(tmp_path / "last", second)
    restored = torch.optim.AdamW(second.parameters(), lr=0.1)
    restore_optimizer(restored, read_state(tmp_path / "last").optimizer)
    take_steps(first, optimizer, 3)
    take_steps(second, restored, 3)
    assert weights(first) == weights(second)


def test_nothing_needs_pickle(saved: Path) -> None:
    files = sorted(path for path in saved.iterdir() if path.name != RECORD)
    assert {file.suffix for file in files} == {".json", ".safetensors"}
    for file in files:
        start = file.read_bytes()[:9]
        assert start.startswith(b"{") if file.suffix == ".json" else start[8:9] == b"{", file


def test_other_users_may_read_a_checkpoint(saved: Path) -> None:
    assert all(file.stat().st_mode & 0o444 == 0o444 for file in [saved, *saved.iterdir()])


@pytest.mark.parametrize(
    "error",
    [
        OSError(errno.ENOSPC, "No space left on device"),
        SafetensorError("Error while serializing: I/O error: No space left on device (os error 28)"),
    ],
    ids=["system", "safetensors"],
)
@pytest.mark.parametrize("place", ["model.safetensors", "random.safetensors"])
def test_a_full_disk_does_not_damage_the_old_checkpoint(
    saved: Path, tokenizer: TextTokenizer, monkeypatch: pytest.MonkeyPatch, error: Exception, place: str
) -> None:
    before = {file.name: file.read_bytes() for file in saved.iterdir()}
    original = save_file

    def fill_up(tensors: Any, path: Path) -> None:
        if path.name == place:
            path.write_bytes(b"half")
            raise error
        original(tensors, path)

    monkeypatch.setattr(checkpoint, "save_file", fill_up)
    with pytest.raises(RunFolderError, match="the disk is full; what was there before is untouched"):
        save(saved, make_model(2.0), tokenizer)
    assert {file.name: file.read_bytes() for file in saved.iterdir()} == before
    assert [folder.name for folder in saved.parent.iterdir()] == ["last"]


def test_no_failure_damages_the_old_checkpoint(
    saved: Path, tokenizer: TextTokenizer, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(self: TextTokenizer, path: Path) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(TextTokenizer, "save", fail)
    with pytest.raises(KeyboardInterrupt):
        save(saved, make_model(2.0), tokenizer)
    model = make_model()
    load_weights(saved, model)
    assert set(weights(model)) == {1.0}
    assert [folder.name for folder in saved.parent.iterdir()] == ["last"]


def test_a_new_checkpoint_replaces_the_old_one(saved: Path, tokenizer: TextTokenizer) -> None:
    save(saved, make_model(2.0), tokenizer)
    model = make_model()
    load_weights(saved, model)
    assert set(weights(model)) == {2.0}
    load_weights(saved.with_name("previous"), model)
    assert set(weights(model)) == {1.0}
    assert sorted(folder.name for folder in saved.parent.iterdir()) == ["last", "previous"]


def test_a_crash_between_the_two_renames_is_repaired(saved: Path) -> None:
    saved.rename(saved.with_name(".last.old"))
    assert read_description(saved)["format"] == FORMAT
    assert saved.is_dir()


def test_a_link_has_the_same_files_without_the_state_of_the_trainer(saved: Path, tokenizer: TextTokenizer) -> None:
    best = saved.with_name("best")
    link_checkpoint(saved, best)
    assert sorted(file.name for file in best.iterdir()) == sorted([*MODEL_FILES, RECORD])
    assert all((best / name).samefile(saved / name) for name in MODEL_FILES)
    save(saved, make_model(2.0), tokenizer)
    model = make_model()
    load_weights(best, model)
    assert set(weights(model)) == {1.0}
    with pytest.raises(CheckpointError, match="no trainer state"):
        read_state(best)


def test_without_hard_links_a_copy_is_made(saved: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(source: Path, target: Path) -> None:
        raise PermissionError(errno.EPERM, "Operation not permitted")

    monkeypatch.setattr("os.link", refuse)
    best = saved.with_name("best")
    link_checkpoint(saved, best)
    assert all((best / name).read_bytes() == (saved / name).read_bytes() for name in MODEL_FILES)


def test_a_folder_without_a_checkpoint_is_refused(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match=r"palbert\.json is missing"):
        read_description(tmp_path)


@pytest.mark.parametrize("number", [FORMAT + 1, 0, None])
def test_another_format_is_refused_with_the_version_that_wrote_it(saved: Path, number: int | None) -> None:
    (saved / RECORD).unlink()
    (saved / "palbert.json").write_text(json.dumps({"format": number, "palbert": "7.1"}))
    with pytest.raises(CheckpointError, match=rf"format {number} by palbert 7\.1; this palbert reads format {FORMAT}"):
        read_description(saved)


@pytest.mark.parametrize("content", [b"", b'{"format": 1', b"[]", b"\xff\xfe"], ids=["empty", "cut", "list", "bytes"])
def test_damaged_json_is_refused_with_its_name(saved: Path, content: bytes) -> None:
    (saved / RECORD).unlink()  # as in earlier versions
    (saved / "palbert.json").write_bytes(content)
    (saved / "trainer.json").write_bytes(content)
    with pytest.raises(CheckpointError, match=r"palbert\.json: (not valid JSON|expected a JSON object)"):
        read_description(saved)
    with pytest.raises(CheckpointError, match=r"trainer\.json: (not valid JSON|expected a JSON object)"):
        read_state(saved)


@pytest.mark.parametrize("length", [0, 4, 100, -3])
def test_damaged_weights_are_refused_with_their_name(saved: Path, length: int) -> None:
    (saved / RECORD).unlink()
    for name in ("model.safetensors", "optimizer.safetensors"):
        (saved / name).write_bytes((saved / "model.safetensors").read_bytes()[:length])
    with pytest.raises(CheckpointError, match=r"model\.safetensors: cannot be read"):
        load_weights(saved, make_model())
    with pytest.raises(CheckpointError, match=r"optimizer\.safetensors: cannot be read"):
        read_state(saved)


def test_missing_weights_are_refused_with_their_name(saved: Path) -> None:
    (saved / "model.safetensors").unlink()
    with pytest.raises(CheckpointError, match=r"model\.safetensors: missing, although palbert.sha256 lists it"):
        load_weights(saved, make_model())
    (saved / RECORD).unlink()
    with pytest.raises(CheckpointError, match=r"model\.safetensors: cannot be read"):
        load_weights(saved, make_model())


@pytest.mark.parametrize(
    ("model", "names"),
    [
        (nn.Sequential(nn.Linear(3, 4), nn.LayerNorm(4), nn.Linear(4, 1)), "2.bias, 2.weight"),
        (nn.Sequential(nn.Linear(3, 4)), "1.bias, 1.weight"),
        (nn.Sequential(nn.Linear(5, 4), nn.LayerNorm(4)), "0.weight"),
    ],
    ids=["missing", "too many", "shape"],
)
def test_weights_that_do_not_fit_are_refused_with_their_names(saved: Path, model: nn.Module, names: str) -> None:
    before = weights(model)
    with pytest.raises(CheckpointError, match=f"do not fit palbert.json: {names}"):
        load_weights(saved, model)
    assert weights(model) == before


@pytest.mark.parametrize("kind", [torch.int8, torch.bool, torch.complex64, torch.float8_e4m3fn])
def test_weights_in_other_formats_than_floats_are_refused_with_their_names(saved: Path, kind: torch.dtype) -> None:
    rewrite(saved / "model.safetensors", kind)
    with pytest.raises(CheckpointError, match=rf"model\.safetensors: expected .*float32: 0\.\w+ is {kind}, "):
        load_weights(saved, make_model())


@pytest.mark.parametrize("kind", [torch.float16, torch.bfloat16, torch.float64])
def test_weights_in_other_formats_of_floats_are_read(saved: Path, kind: torch.dtype) -> None:
    rewrite(saved / "model.safetensors", kind)
    model = make_model(3.0)
    load_weights(saved, model)
    assert set(weights(model)) == {1.0} and model[0].weight.dtype == torch.float32


@pytest.mark.parametrize(
    ("change", "says"),
    [({"value": torch.ones(3)}, "fit"), ({"value": torch.ones(2, dtype=torch.float64)}, "fit"), ({}, "fit")],
    ids=["shape", "format", "missing"],
)
def test_the_state_of_an_objective_has_the_shape_and_format_of_the_recipe(
    tmp_path: Path, change: dict[str, torch.Tensor], says: str
) -> None:
    objective = nn.Module()
    objective.register_buffer("value", torch.ones(2))
    restore_objective(tmp_path, objective, {"value": torch.zeros(2)})
    with pytest.raises(CheckpointError, match=rf"the objectives' state does not {says}.*: value"):
        restore_objective(tmp_path, objective, change)


@pytest.mark.parametrize("fill", ["nan", "inf"])
def test_averaged_weights_that_are_not_numbers_are_refused(tmp_path: Path, fill: str) -> None:
    average = EMA(make_model(1.0))
    state = {name: value.clone() for name, value in average.state().items()}
    restore_average(tmp_path, average, state)
    with pytest.raises(CheckpointError, match=r"weights.safetensors: holds weights that are not numbers: 0.weight"):
        restore_average(tmp_path, average, {**state, "0.weight": state["0.weight"] * float(fill)})
    with pytest.raises(CheckpointError, match=r"averaged weights do not fit the recipe: 0.weight"):
        restore_average(tmp_path, average, {**state, "0.weight": state["0.weight"].double()})


def test_weights_that_are_not_numbers_are_refused(tmp_path: Path, tokenizer: TextTokenizer) -> None:
    save(tmp_path / "last", make_model(float("nan")), tokenizer)
    with pytest.raises(CheckpointError, match=r"not numbers: 0.bias.*--checkpoint"):
        load_weights(tmp_path / "last", make_model())


def accept(path: Path, state: TrainerState) -> None:
    """Accept every state."""


STATE_FILES = ("optimizer", "random", "weights", "objective")


@pytest.fixture
def run(tmp_path: Path, tokenizer: TextTokenizer) -> RunFolder:
    """Make a run that has saved two checkpoints, with every file that a checkpoint may have."""
    run = RunFolder(tmp_path / "run")
    for step in (1, 2):
        state = {name: {"value": torch.ones(3)} for name in ("optimizer", "objective", "average")}
        save(run.last, make_model(step), tokenizer, position={"step": step}, **state)
    return run


@pytest.mark.parametrize(
    "name", [*(f"{name}.safetensors" for name in STATE_FILES), *MODEL_FILES, "trainer.json", RECORD]
)
def test_a_flipped_bit_in_any_file_is_noticed(run: RunFolder, name: str, caplog: pytest.LogCaptureFixture) -> None:
    assert read_last(run, accept).position == {"step": 2}
    flip_bit(run.last / name)
    assert read_last(run, accept).position == {"step": 1}
    assert name in caplog.text and "continues from the checkpoint before it" in caplog.text
    run.sweep()
    assert [folder.name for folder in run.checkpoints.iterdir()] == ["last"]
    assert read_last(run, accept).position == {"step": 1}


def test_a_missing_file_is_noticed(run: RunFolder) -> None:
    (run.last / "objective.safetensors").unlink()
    with pytest.raises(CheckpointError, match=r"objective.safetensors: missing, although palbert.sha256 lists it"):
        read_state(run.last)


def test_a_state_that_does_not_fit_is_treated_as_damage(run: RunFolder, caplog: pytest.LogCaptureFixture) -> None:
    def refuse_the_second(path: Path, state: TrainerState) -> None:
        if state.position["step"] == 2:
            raise CheckpointError(f"{path}: position.step: wrong.")

    assert read_last(run, refuse_the_second).position == {"step": 1}
    assert "last/trainer.json: position.step: wrong. The run continues from" in caplog.text


@pytest.mark.parametrize("name", ["position", "best"])
def test_a_state_without_a_part_is_refused(saved: Path, name: str) -> None:
    (saved / RECORD).unlink()
    facts = json.loads((saved / "trainer.json").read_text())
    del facts[name]
    (saved / "trainer.json").write_text(json.dumps(facts))
    with pytest.raises(CheckpointError, match=rf"trainer.json: damaged: no '{name}'"):
        read_state(saved)


def test_without_an_intact_checkpoint_a_run_cannot_continue(run: RunFolder) -> None:
    flip_bit(run.previous / "trainer.json")
    flip_bit(run.last / "optimizer.safetensors")
    with pytest.raises(CheckpointError, match=r"last/optimizer.*damaged.*previous/trainer.json: damaged.*--force"):
        read_last(run, accept)
    run.restore_previous()
    run.sweep()
    with pytest.raises(CheckpointError, match=r"last/trainer.*no checkpoint before it.*--force"):
        read_last(run, accept)


def test_a_damaged_best_names_the_checkpoints_that_do_not_share_its_file(run: RunFolder) -> None:
    link_checkpoint(run.last, run.checkpoints / "best")
    link_checkpoint(run.previous, run.checkpoints / "best-sst")
    flip_bit(run.checkpoint() / "model.safetensors")
    with pytest.raises(CheckpointError, match=r"best/model.safetensors: damaged.*--checkpoint: best-sst, previous\."):
        load_weights(run.checkpoint(), make_model())


def test_a_checkpoint_of_an_earlier_version_is_loaded_with_a_warning(
    saved: Path, caplog: pytest.LogCaptureFixture
) -> None:
    load_weights(saved, make_model())
    assert not caplog.text
    (saved / RECORD).unlink()
    link_checkpoint(saved, saved.with_name("best"))
    for folder in (saved, saved.with_name("best")):
        load_weights(folder, make_model())
        assert f"{folder}: has no palbert.sha256, as in earlier versions" in caplog.text
    assert read_state(saved).position == {"step": 3}
