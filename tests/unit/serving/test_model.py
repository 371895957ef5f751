"""ServedModel: lanes of tasks, rows of many requests in one pass, and answers equal to the predictor's."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("starlette", reason="needs Starlette: pip install 'palbert[serve]'")

import palbert
from palbert.errors import CheckpointError, DataError
from palbert.inference.evaluator import Inference
from palbert.serving.jobs import Call
from palbert.serving.model import ServedModel, fingerprint_of, open_model

OpenServed = Callable[..., ServedModel]
TEXTS = ["good", "a quiet little triumph .", "the film is dull and long"]
PAIRS = [("a man plays .", "a man sings ."), ("how do I cook rice ?", "what is love ?")]


def call_of(model: ServedModel, asked: dict[str, Sequence[Any]], **settings: Any) -> Call:
    """Return a call that asks each task for its texts."""
    loop = asyncio.new_event_loop()
    call = Call(model, "client", time.monotonic(), loop.create_future(), loop, **settings)
    loop.close()
    for name, texts in asked.items():
        [(lane, tasks)] = model.lanes([model.tasks[name]]).items()
        columns = [list(texts)] if lane.columns == 1 else list(zip(*texts, strict=True))
        call.add(lane, columns, range(len(texts)), tasks)
    return call


def computed(model: ServedModel, *calls: Call, budget: int = 10_000) -> None:
    """Compute calls in batches of a few tokens."""
    jobs = [job for call in calls for job in call.jobs]
    model.tokenize(jobs)
    while any(job.left for job in jobs):
        model.compute([job.take(budget) or job.take_one() for job in jobs if job.left])
    model.decide(jobs)


def test_tasks_that_see_the_same_states_are_in_one_lane(model: ServedModel) -> None:
    lanes = model.lanes(model.tasks.values())
    assert [[task.name for task in tasks] for tasks in lanes.values()] == [["sst", "topics"], ["quora"], ["sts"]]
    assert [(lane.columns, lane.packing.siamese) for lane in lanes] == [(1, False), (2, False), (2, True)]
    assert list(model.lanes([model.tasks["topics"]])) == [next(iter(lanes))]


@pytest.mark.parametrize("budget", [1, 12, 10_000])
def test_requests_that_share_batches_get_the_answers_of_the_predictor(model: ServedModel, budget: int) -> None:
    first = call_of(model, {"sst": TEXTS, "sts": PAIRS})
    second = call_of(model, {"quora": PAIRS, "topics": TEXTS[:1], "sst": TEXTS[:1]})
    computed(model, first, second, budget=budget)
    for call, task, texts in ((first, "sst", TEXTS), (first, "sts", PAIRS), (second, "quora", PAIRS)):
        for row, wanted in enumerate(model.predictor.predict(task, texts)):
            found = call.answers[row, task]
            assert found["cut"] is False and found.keys() == wanted.as_dict().keys() | {"cut"}
            if wanted.probabilities is None:
                assert found["prediction"] == pytest.approx(wanted.answer, abs=1e-4)
            else:
                assert found["probabilities"] == pytest.approx(wanted.probabilities, abs=1e-5)
    assert set(second.answers) == {(0, "quora"), (1, "quora"), (0, "topics"), (0, "sst")}


def test_each_request_has_its_own_confidence(model: ServedModel) -> None:
    sure, unsure = call_of(model, {"sst": TEXTS}, min_confidence=1.0), call_of(model, {"sst": TEXTS})
    computed(model, sure, unsure)
    assert all(answer["abstained"] for answer in sure.answers.values())
    assert not any("abstained" in answer for answer in unsure.answers.values())


def test_vectors_are_those_of_the_predictor(model: ServedModel) -> None:
    for pooling, normalise, task in (("mean", False, "sst"), ("cls", True, "sst"), ("mean", True, "quora")):
        call = call_of(model, {}, normalise=normalise)
        call.add(model.vector_lane(pooling, task), [TEXTS], range(3), ())
        computed(model, call, budget=5)
        wanted = model.predictor.embed(TEXTS, pooling=pooling, normalise=normalise, task=task)
        np.testing.assert_allclose(np.stack([call.vectors[row] for row in range(3)]), wanted, atol=1e-5)
        assert call.tokens == sum(len(text.split()) + 2 for text in TEXTS)


def test_a_lane_of_vectors_is_made_once_and_unknown_ones_never(model: ServedModel) -> None:
    assert model.vector_lane("mean", "sst") is model.vector_lane("mean", "sst")
    for pooling, task, says in (("men", "sst", "'mean'"), ("mean", "stt", "'sts'"), ("mean", None, "Name the task")):
        with pytest.raises(DataError, match=says):
            model.vector_lane(pooling, task)


def test_a_pass_that_fails_in_the_middle_leaves_nothing_behind(
    model: ServedModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    call, original = call_of(model, {"sst": TEXTS, "sts": PAIRS}), Inference.run_together

    def too_narrow(self: Inference, asked: Any) -> Any:  # as a head of one's own may do
        found = original(self, asked)
        return found if len(asked) == 1 else [found[0], found[1][:, :0]]

    monkeypatch.setattr(Inference, "run_together", too_narrow)
    model.tokenize(call.jobs)
    pieces = [job.take_one() for job in call.jobs] + [piece for job in call.jobs if (piece := job.take(10_000))]
    with pytest.raises(RuntimeError, match="split"):
        model.compute(pieces)
    for piece in pieces:  # as the engine does, each alone
        model.compute([piece])
    model.decide(call.jobs)
    assert len(call.answers) == 5
    wanted = model.predictor.predict("sst", TEXTS)
    assert [call.answers[row, "sst"]["prediction"] for row in range(3)] == [each.answer for each in wanted]


def test_the_fingerprint_is_that_of_the_files(served_run: Path, served_copy: Path, open_served: OpenServed) -> None:
    model = open_served(served_run)
    assert len(model.fingerprint) == 16 and model.about == {"name": "demo", "fingerprint": model.fingerprint}
    assert fingerprint_of(served_copy / "checkpoints" / "best") == model.fingerprint
    record = served_copy / "checkpoints" / "best" / "palbert.sha256"
    record.write_text(record.read_text("utf-8").replace("0", "1"), "utf-8")
    assert fingerprint_of(record.parent) != model.fingerprint
    record.unlink()  # as in folders of earlier versions
    assert len(fingerprint_of(record.parent)) == 16


def test_what_has_no_tasks_or_is_no_run_is_not_served(
    served_run: Path, tmp_path: Path, tiny_encoder: Path, open_served: OpenServed
) -> None:
    for folder in (tmp_path / "absent", tmp_path, tiny_encoder):
        with pytest.raises(CheckpointError):
            open_served(folder)
    with pytest.raises(CheckpointError, match="no checkpoint 'bset'"):
        open_served(served_run, checkpoint="bset")


def test_a_checkpoint_that_is_replaced_while_it_is_loaded_is_loaded_again(
    served_copy: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    best, original = served_copy / "checkpoints" / "best", palbert.load
    loads: list[Path] = []

    def replaced(folder: Path, **settings: Any) -> Any:
        loads.append(folder)
        found = original(folder, **settings)
        if len(loads) <= times:
            record = best / "palbert.sha256"
            first, *others = record.read_text("utf-8").splitlines()
            record.write_text("\n".join([*others, first]) + "\n", "utf-8")
        return found

    monkeypatch.setattr("palbert.serving.model.load", replaced)
    asked: dict[str, Any] = {"checkpoint": None, "device": "cpu", "precision": "fp32", "trust": False}
    times = 1
    model = open_model("demo", served_copy, **asked)
    assert len(loads) == 2 and model.fingerprint == fingerprint_of(best)
    times = 100
    with pytest.raises(CheckpointError, match="changed while it was loaded"):
        open_model("demo", served_copy, **asked)
