"""Explaining a run: the second model shares what it can, is opened once, and is that of the same checkpoint."""

from __future__ import annotations

import gc
import threading
import weakref
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

import palbert
from palbert.build import checkpoint as checkpoint_module
from palbert.build import open_differentiable
from palbert.errors import CheckpointError
from palbert.explanations.explanation import Explanation
from palbert.model.encoder import Encoder
from palbert.runtime.checksums import record_folder
from palbert.runtime.precision import has_int8

pytestmark = pytest.mark.usefixtures("on_cpu")

TEXT = "A quiet little triumph."
PAIR = ("A man plays a guitar.", "Someone makes music.")


def packed_differently(model: torch.nn.Module) -> bool:
    return any(type(module).__name__ == "PackedLinear" for module in model.modules())


def smooth(model: palbert.Predictor) -> Any:
    return model.explainer._differentiable(lambda outputs: outputs[:, 0]).model


@pytest.fixture
def packing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Replace layers on every machine that can, as on x86 CPUs."""
    if not torch._C._has_mkldnn:
        pytest.skip("needs oneDNN")
    monkeypatch.setattr("palbert.build.machine.can_pack", lambda: True)


@pytest.mark.usefixtures("packing")
def test_the_second_model_shares_all_weights_that_were_not_replaced(trained: Path) -> None:
    model = palbert.load(trained, precision="fp32")
    assert packed_differently(model.inference.model)
    second, first = smooth(model), model.inference.model
    assert not packed_differently(second)
    shared, own = first.state_dict(), second.state_dict()
    assert "encoder.embeddings.word.weight" in shared and shared.keys() < own.keys()
    assert all(own[name].data_ptr() == value.data_ptr() for name, value in shared.items())
    saved = load_file(trained / "checkpoints" / "best" / "model.safetensors")
    assert own.keys() == saved.keys() and all(torch.equal(own[name], value) for name, value in saved.items())
    assert not second.training and not any(each.requires_grad for each in second.parameters())


@pytest.mark.usefixtures("packing")
def test_both_models_answer_alike_and_the_second_is_opened_once_when_needed(
    trained: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened = []

    def counted(*arguments: Any, **options: Any) -> Any:
        opened.append(1)
        return open_differentiable(*arguments, **options)

    monkeypatch.setattr("palbert.verbs.explaining.open_differentiable", counted)
    model = palbert.load(trained, precision="fp32")
    [masked] = model.explain("sts", [PAIR], method="occlusion")
    assert opened == []
    for _ in range(2):
        [found] = model.explain("sts", [PAIR])
        assert found.output == pytest.approx(masked.output, abs=1e-4)
    assert opened == [1]


def test_a_model_without_replaced_layers_explains_itself(trained: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("palbert.build.machine.can_pack", lambda: False)
    model = palbert.load(trained, precision="fp32")
    assert smooth(model) is model.inference.model
    assert not any(weight.requires_grad for weight in model.inference.model.parameters())
    assert model.explain("sst", [TEXT])[0].completeness_error is not None


@pytest.mark.skipif(not has_int8(), reason="needs a CPU with VNNI")
def test_an_int8_model_is_explained_in_float32(trained: Path) -> None:
    exact, rounded = (palbert.load(trained, precision=each).explain("sst", [TEXT]) for each in ("fp32", "int8"))
    target = exact[0].target
    assert rounded[0].target == target
    assert [word.score for word in rounded[0].words] == pytest.approx([word.score for word in exact[0].words], abs=1e-4)


@pytest.mark.usefixtures("packing")
def test_a_checkpoint_that_was_replaced_is_refused(run_copy: Path) -> None:
    model = palbert.load(run_copy, precision="fp32")
    file = run_copy / "checkpoints" / "best" / "model.safetensors"
    weights = load_file(file)
    name = next(name for name in weights if name.startswith("heads."))
    changed = {**{each: value.clone() for each, value in weights.items()}, name: weights[name] + 1}
    file.unlink()
    save_file(changed, file)
    record_folder(file.parent)
    with pytest.raises(CheckpointError, match="was replaced by another checkpoint after it was loaded"):
        model.explain("sst", [TEXT])
    assert model.explain("sst", [TEXT], method="occlusion")


def test_the_weights_of_the_second_model_never_come_from_random_ones(
    trained: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(checkpoint_module, "replaces_layers", lambda machine: True)
    model = palbert.load(trained, precision="fp32")
    second = smooth(model)
    assert isinstance(second.encoder, Encoder)
    assert not any(tensor.is_meta for tensor in [*second.parameters(), *second.buffers()])


@pytest.mark.usefixtures("packing")
def test_threads_get_the_same_explanations_as_one_after_the_other(
    trained: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PALBERT_PROGRESS", "off")  # bars of several threads would be nested
    model = palbert.load(trained, precision="fp32")
    asked: list[tuple[str, Any]] = [("sst", TEXT), ("sts", PAIR), ("quora", PAIR), ("sst", "dull"), ("sts", PAIR[::-1])]
    found: dict[int, Explanation] = {}

    def explain(number: int) -> None:
        task, text = asked[number % len(asked)]
        [found[number]] = model.explain(task, [text])
        model.predict(task, [text])

    threads = [threading.Thread(target=explain, args=(number,)) for number in range(10)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for number in range(10):
        task, text = asked[number % len(asked)]
        [expected] = model.explain(task, [text])
        np.testing.assert_allclose(
            [word.score for word in found[number].words], [word.score for word in expected.words], atol=1e-5
        )


def test_explaining_changes_no_answer(trained: Path) -> None:
    model = palbert.load(trained)
    before = model.predict("sst", [TEXT]), model.predict("sts", [PAIR])
    for method in ("integrated-gradients", "gradient-input", "occlusion"):
        model.explain("sst", [TEXT], method=method)
        model.explain("sts", [PAIR], method=method, interactions=True)
    assert (model.predict("sst", [TEXT]), model.predict("sts", [PAIR])) == before


def test_a_long_text_is_explained_as_far_as_it_is_read(trained: Path, caplog: pytest.LogCaptureFixture) -> None:
    model = palbert.load(trained)
    [found] = model.explain("sst", ["dull " * 500], method="gradient-input")
    assert len(found.words) == model.tasks["sst"].max_length - 2
    assert "1 of 1 rows were longer" in caplog.text


@pytest.mark.usefixtures("packing")
def test_what_was_prepared_explains_when_the_checkpoint_is_overwritten(run_copy: Path) -> None:
    model = palbert.load(run_copy, precision="fp32")
    model.explainer.prepare()
    [before] = model.explain("sts", [PAIR])
    (run_copy / "checkpoints" / "best" / "model.safetensors").write_bytes(b"")  # ends a process that has it mapped
    [after] = model.explain("sts", [PAIR])
    assert after == before
    (run_copy / "checkpoints" / "best" / "model.safetensors").unlink()
    assert model.explain("sts", [PAIR]) == [before]


def test_a_model_is_freed_when_the_last_reference_to_it_is_gone(trained: Path) -> None:
    model = palbert.load(trained)
    model.explain("sst", [TEXT])
    alive = weakref.ref(model.inference.model)
    gc.collect()
    gc.disable()  # it runs seldom where few objects are made, while a service loads one checkpoint after the other
    try:
        del model
        assert alive() is None
    finally:
        gc.enable()
