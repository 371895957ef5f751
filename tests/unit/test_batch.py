"""PackedBatch: parts keep their texts, labels and tasks, however a batch is cut, repeated and copied."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from palbert.batch import PackedBatch, repeat_of
from palbert.data.collate import Filling, Portion, collate
from palbert.data.ragged import Ragged
from palbert.data.tokenizer import Template

TEMPLATE = Template(
    before=np.array([1], np.int32),
    between=np.array([2], np.int32),
    after=np.array([2], np.int32),
    types=(0, 0, 0, 1, 1),
)
TEXTS = Ragged.from_rows([[10, 11], [12], [13, 14, 15], [16]])


def portion(name: str, task: str, rows: list[int], **own: object) -> Portion:
    labels = 100 * len(name) + np.arange(4)
    made = Portion(name, task, (TEXTS, TEXTS), np.array(rows), 8, siamese=True, labels=labels)
    return replace(made, **own)  # type: ignore[arg-type]


@pytest.fixture
def batch() -> PackedBatch:
    filled = Filling(tokens=32, slots=2, longest=8)
    return collate(
        [portion("a", "x", [0, 1]), portion("a+b", "x", [2, 3, 0], filling=filled), portion("more", "y", [3])], TEMPLATE
    )


def sequences(batch: PackedBatch, name: str) -> list[list[int]]:
    """Return the ids of a part's sequences; the positions and bounds have to agree with them."""
    part, found = batch.parts[name], []
    starts = batch.starts.tolist()
    for number in range(part.sequences.start, part.sequences.stop):
        own = slice(starts[number], starts[number + 1])
        assert part.tokens.start <= own.start and own.stop <= part.tokens.stop
        assert batch.positions[own].tolist() == list(range(own.stop - own.start))
        found.append(batch.ids[own].tolist())
    return found


def check_part(found: PackedBatch, name: str, batch: PackedBatch, source: str) -> None:
    assert sequences(found, name) == sequences(batch, source)
    mine, theirs = found.parts[name], batch.parts[source]
    assert mine.labels is not None and theirs.labels is not None and torch.equal(mine.labels, theirs.labels)
    assert (mine.task, mine.width, mine.filling) == (theirs.task, theirs.width, theirs.filling)


@pytest.mark.parametrize("names", [["a"], ["a+b"], ["more"], ["a", "more"], ["a+b", "more"]])
def test_a_batch_of_some_parts_holds_them_unchanged(batch: PackedBatch, names: list[str]) -> None:
    found = batch.only([*names, "unknown"])
    assert list(found.parts) == names
    assert found.tokens == int(found.starts[-1]) == sum(p.tokens.stop - p.tokens.start for p in found.parts.values())
    for name in names:
        check_part(found, name, batch, name)


def test_all_parts_are_the_batch_itself(batch: PackedBatch) -> None:
    assert batch.only(batch.parts) is batch and batch.with_repeats(["unknown"]) is batch


def test_a_repeated_part_comes_right_after_itself_with_the_same_task(batch: PackedBatch) -> None:
    found = batch.with_repeats(["a+b"])
    assert list(found.parts) == ["a", "a+b", repeat_of("a+b"), "more"]
    for name, source in {"a": "a", "a+b": "a+b", repeat_of("a+b"): "a+b", "more": "more"}.items():
        check_part(found, name, batch, source)


def test_losses_are_added_up_by_the_parts_tasks_and_not_by_their_names(batch: PackedBatch) -> None:
    losses = {name: torch.tensor(value) for name, value in {"a": 1.0, "a+b": 2.0, "more": 4.0}.items()}
    assert batch.by_task(losses) == {"x": torch.tensor(3.0), "y": torch.tensor(4.0)}
    assert batch.by_task({"more": losses["more"]}) == {"y": torch.tensor(4.0)}


def test_batches_of_one_kind_can_copy_values_from_each_other(batch: PackedBatch) -> None:
    other = collate([portion("a", "x", [1, 0])], TEMPLATE)
    mine = collate([portion("a", "x", [0, 1])], TEMPLATE)
    assert mine.kind == other.kind
    mine.copy_(other)
    assert sequences(mine, "a") == sequences(other, "a")
    assert torch.equal(mine.starts, other.starts)


def test_weights_are_copied_and_moved_as_labels_are() -> None:
    weights = np.array([0.5, 1.5, 1.0], dtype=np.float32)
    mine, other = (collate([portion("a", "x", rows, weights=weights)], TEMPLATE) for rows in ([0, 1], [1, 0]))
    mine.copy_(other)
    found = mine.to("cpu").with_repeats(["a"]).parts
    for part in found.values():
        assert part.weights is not None and part.weights.tolist() == [1.5, 0.5]


@pytest.mark.parametrize(
    "other",
    [
        portion("b", "x", [0, 1]),
        portion("a", "y", [0, 1]),
        portion("a", "x", [0, 2]),
        portion("a", "x", [0, 1], share=0.5),
        portion("a", "x", [0, 1], answered=False),
        portion("a", "x", [0, 1], labels=None),
        portion("a", "x", [0, 1], weights=np.ones(3, dtype=np.float32)),
    ],
    ids=["name", "task", "lengths", "share", "answered", "labels", "weights"],
)
def test_whatever_a_graph_depends_on_is_part_of_the_kind(other: Portion) -> None:
    assert collate([portion("a", "x", [0, 1])], TEMPLATE).kind != collate([other], TEMPLATE).kind
