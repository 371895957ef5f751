"""Supervised SimCSE: compared with equation 5 in loops, and the laws of triplets: no head, no second pass."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from palbert.build import check_names, make_objectives
from palbert.data.collate import Portion, collate
from palbert.data.tokenizer import TextTokenizer
from palbert.errors import RecipeError
from palbert.model.encoder import Encoder
from palbert.objectives import Pass
from palbert.objectives.objectives import Objectives
from palbert.objectives.simcse import info_nce
from palbert.objectives.supervised_simcse import SupervisedSimCSE
from palbert.recipe.load import make_recipe
from palbert.registry import OBJECTIVES
from palbert.runtime.run_folder import RunFolder
from palbert.verbs import train as verb

MakeScene = Callable[..., Any]
KINDS = ["classes", "binary-joint", "binary-siamese", "number-joint", "number-siamese"]


def equation_5(anchors: Tensor, positives: Tensor, negatives: Tensor, temperature: float, *, hard: bool) -> float:
    """Compute the formula literally, with loops."""

    def similarity(a: Tensor, b: Tensor) -> float:
        return math.exp(float(a @ b) / math.sqrt(float(a @ a) * float(b @ b)) / temperature)

    losses = []
    for i, anchor in enumerate(anchors):
        below = sum(similarity(anchor, positive) for positive in positives)
        below += sum(similarity(anchor, negative) for negative in negatives) if hard else 0.0
        losses.append(-math.log(similarity(anchor, positives[i]) / below))
    return sum(losses) / len(losses)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("hard", [True, False])
def test_the_term_is_equation_5_of_the_vectors_of_a_single_pass(scene: MakeScene, kind: str, hard: bool) -> None:
    stage = scene(kind)
    batch = stage.with_triplets(kind)
    forward_pass = stage.forward_pass(batch)
    term = SupervisedSimCSE({f"{kind}+nli": stage.goals[kind]}, weight=0.3, temperature=0.1, hard_negatives=hard)
    values = term(stage.model, batch, forward_pass)
    assert set(values) == {f"{kind}+nli"}
    anchors, *others = forward_pass.vectors[f"{kind}+nli"].detach().double().chunk(3)
    assert len(anchors) == batch.parts[f"{kind}+nli"].examples == 6
    expected = 0.3 * equation_5(anchors, others[0], others[1], 0.1, hard=hard)
    assert values[f"{kind}+nli"].item() == pytest.approx(expected, rel=1e-3)


def test_without_hard_negatives_it_is_info_nce_of_anchors_and_positives(scene: MakeScene) -> None:
    stage = scene("number-siamese")
    batch = stage.with_triplets("number-siamese")
    forward_pass = stage.forward_pass(batch)
    goals = {"number-siamese+nli": stage.goals["number-siamese"]}
    losses = [
        SupervisedSimCSE(goals, hard_negatives=hard)(stage.model, batch, forward_pass)["number-siamese+nli"]
        for hard in (True, False)
    ]
    anchors, positives, _ = forward_pass.vectors["number-siamese+nli"].chunk(3)
    assert torch.equal(losses[1], info_nce(anchors, positives, temperature=0.05))
    assert losses[0] > losses[1]  # more negatives


def test_triplets_have_only_the_loss_of_the_term_and_do_not_change_other_losses(scene: MakeScene) -> None:
    stage = scene("binary-joint")
    goals = {"binary-joint": stage.goals["binary-joint"]}
    terms = [OBJECTIVES[name](goals, weight=0.5) for name in ("smart", "rdrop", "proximal")]
    terms[-1].prepare(stage.model)
    triplets = SupervisedSimCSE({"binary-joint+nli": goals["binary-joint"]})
    batch = stage.with_triplets("binary-joint")
    torch.manual_seed(0)
    found = Objectives(stage.supervised, [*terms, triplets])(stage.model, batch)
    torch.manual_seed(0)
    alone = Objectives(stage.supervised, terms)(stage.model, batch.only({"binary-joint"}))
    assert set(found) == {"binary-joint", "binary-joint+nli"} and set(alone) == {"binary-joint"}
    torch.testing.assert_close(found["binary-joint"], alone["binary-joint"])
    torch.testing.assert_close(
        found["binary-joint+nli"], triplets(stage.model, batch, stage.forward_pass(batch))["binary-joint+nli"]
    )
    assert batch.by_task(found)["binary-joint"] == found["binary-joint"] + found["binary-joint+nli"]


def test_rows_and_triplets_share_one_pass_and_no_gradient_reaches_the_head(
    scene: MakeScene, monkeypatch: pytest.MonkeyPatch
) -> None:
    stage = scene("number-joint", dropout=0.1)
    batch = stage.with_triplets("number-joint")
    assert (batch.sequences, batch.parts["number-joint+nli"].width) == (6 + 3 * 6, 3)
    term = SupervisedSimCSE({"number-joint+nli": stage.goals["number-joint"]})
    passes = []
    original = Encoder.forward
    monkeypatch.setattr(Encoder, "forward", lambda self, *a, **k: passes.append(1) or original(self, *a, **k))
    losses = Objectives(stage.supervised, [term])(stage.model, batch)
    assert len(passes) == 1
    losses["number-joint+nli"].backward()
    assert all(parameter.grad is None for parameter in stage.model.heads.parameters())
    assert stage.gradient().norm() > 0


def test_the_loss_of_a_piece_is_weighted_by_its_share(scene: MakeScene) -> None:
    stage = scene("classes")
    batch = stage.with_triplets("classes", [1, 4])
    forward_pass = stage.forward_pass(batch)
    term = SupervisedSimCSE({"classes+nli": stage.goals["classes"]})
    sides = forward_pass.vectors["classes+nli"].chunk(3)
    expected = info_nce(sides[0], torch.cat(sides[1:]), temperature=0.05) / 3
    torch.testing.assert_close(term(stage.model, batch, forward_pass)["classes+nli"], expected)


def test_cosines_are_in_full_precision_under_autocast(scene: MakeScene) -> None:
    stage = scene("classes")
    batch = stage.with_triplets("classes")
    vectors = torch.randn(18, 32, generator=torch.Generator().manual_seed(0))
    term = SupervisedSimCSE({"classes+nli": stage.goals["classes"]})
    with torch.autocast("cpu", dtype=torch.bfloat16):
        value = term(stage.model, batch, Pass({"classes+nli": vectors}, {}))["classes+nli"]
    anchors, *others = vectors.double().chunk(3)
    expected = equation_5(anchors, others[0], others[1], 0.05, hard=True)
    assert value.item() == pytest.approx(expected, rel=1e-4)


@pytest.mark.parametrize("pair_input", ["joint", "siamese"])
def test_training_moves_anchors_closer_to_positives_than_to_hard_negatives(
    tiny_recipe: dict[str, Any],
    nli: dict[str, Any],
    tokenizer: TextTokenizer,
    tmp_path: Path,
    pair_input: str,
) -> None:
    head = "cosine" if pair_input == "siamese" else "linear"
    own = {"pair_input": pair_input, "head": head, "pooling": "mean", "extra": nli, "batch_size": 4}
    values = {
        **tiny_recipe,
        "tasks": {"sts": own},
        "objectives": ["supervised-simcse"],
        "training": {"epochs": 1, "steps_per_epoch": 60, "batch_size": 8, "sampler": "mixed"},
        "optimizer": {"learning_rate": 3e-3},
    }
    run = verb.TrainingJob(make_recipe(values), RunFolder(tmp_path / "run")).prepare()

    def nearer() -> float:
        """Return the share of the anchors that are closer to their positive than to their hard negative."""
        run.model.eval()
        tokens = run.sets["sts+nli"].rows.tokens
        portion = Portion("nli", "sts", tokens, np.arange(12), 32, siamese=True, answered=False)
        with torch.no_grad():
            vectors = run.model.vectors(collate([portion], tokenizer.template))["nli"]
        anchors, positives, negatives = vectors.chunk(3)
        near = torch.cosine_similarity(anchors, positives) > torch.cosine_similarity(anchors, negatives)
        return near.double().mean().item()

    assert nearer() < 0.2
    assert run.fit()
    assert nearer() > 0.9


TRIPLETS = [{"name": "supervised-simcse", "tasks": ["sts"]}]


@pytest.mark.parametrize(
    ("own", "extra", "says"),
    [
        ({}, {}, "tasks.sts.extra.nli: no objective takes these triplets."),
        ({"objectives": ["simcse"]}, {}, "tasks.sts.extra.nli: no objective takes these triplets."),
        (
            {"objectives": [{"name": "supervised-simcse", "weight": 0}]},
            {},
            'Put {name = "supervised-simcse", tasks = ["sts"]} among the objectives, with a weight above 0',
        ),
        (
            {"objectives": [*TRIPLETS, {"name": "supervised-simcse", "tasks": ["sst"]}]},
            {},
            "objectives.1: supervised-simcse contrasts triplets, and its tasks have none.",
        ),
        ({"objectives": TRIPLETS}, {"form": "rows"}, "objectives.0: supervised-simcse contrasts triplets"),
        ({"objectives": TRIPLETS, "frozen": True}, {}, "tasks.sts.extra.nli: triplets train the encoder, and"),
        (
            {"objectives": TRIPLETS, "frozen": True, "adapters": {"name": "lora", "tasks": ["sst"]}},
            {},
            "tasks.sts.extra.nli: triplets train the encoder, and it is frozen.",
        ),
        (
            {"objectives": TRIPLETS, "phases": [{}, {"objectives": ["rdrop"]}]},
            {},
            "phases.1.tasks.sts.extra.nli: no objective takes these triplets.",
        ),
        (
            {"objectives": TRIPLETS, "phases": [{}, {"training": {"trains": ["heads"]}}]},
            {},
            "phases.1.tasks.sts.extra.nli: triplets train the encoder, and it is frozen.",
        ),
        (
            {"objectives": [{**TRIPLETS[0], "hard_negatives": 1}]},
            {},
            "objectives.0: hard_negatives: expected true or false, found 1.",
        ),
        (
            {"objectives": [{**TRIPLETS[0], "temperature": 0}]},
            {},
            "objectives.0: temperature: expected a number above 0",
        ),
        ({"objectives": TRIPLETS}, {"text": ["premise"]}, "extra.nli: triplets take three text columns"),
        ({"objectives": TRIPLETS}, {"text": list("abcd")}, "in all files alike; found 4"),
        (
            {"objectives": TRIPLETS},
            {"train": ["a.tsv", {"path": "b.tsv", "text": ["a", "b", "c"]}]},
            "in all files alike; found 2 and 3",
        ),
        ({"objectives": TRIPLETS}, {"form": "pairs"}, "tasks.sts.extra.nli.form: Input should be 'rows', 'triplets'"),
    ],
)
def test_unusable_triplets_are_refused_before_data_is_read(
    tiny_recipe: dict[str, Any], nli: dict[str, Any], own: dict[str, Any], extra: dict[str, Any], says: str
) -> None:
    own = dict(own)
    tiny_recipe["tasks"]["sts"] = {"extra": {"nli": {**nli["nli"], **extra}}}
    tiny_recipe["encoder"]["frozen"] = own.pop("frozen", False)
    with pytest.raises(RecipeError) as caught:
        check_names(make_recipe({**tiny_recipe, **own}))
    assert says in str(caught.value)


def test_triplets_may_train_the_adapters_of_a_frozen_encoder(tiny_recipe: dict[str, Any], nli: dict[str, Any]) -> None:
    tiny_recipe["tasks"]["sts"] = {"extra": nli}
    tiny_recipe["encoder"]["frozen"] = True
    check_names(make_recipe({**tiny_recipe, "objectives": TRIPLETS, "adapters": {"name": "lora", "tasks": ["sts"]}}))


def test_a_term_gets_only_sets_of_its_kind(tiny_recipe: dict[str, Any], nli: dict[str, Any]) -> None:
    rows = {"more": {"train": nli["nli"]["train"]}}
    tiny_recipe["tasks"] = {"sts": {"extra": {**nli, **rows}}, "quora": {"extra": nli}}
    objectives = ["rdrop", "supervised-simcse", {"name": "supervised-simcse", "tasks": ["quora"], "weight": 2.0}]
    terms = make_objectives(make_recipe({**tiny_recipe, "objectives": objectives})).terms
    assert [tuple(term.goals) for term in terms] == [
        ("sts", "sts+more", "quora"),
        ("sts+nli", "quora+nli"),
        ("quora+nli",),
    ]


def test_a_frozen_model_is_refused(scene: MakeScene) -> None:
    stage = scene("classes")
    stage.model.encoder.requires_grad_(False)
    with pytest.raises(RecipeError, match="supervised-simcse trains the encoder, which is frozen"):
        SupervisedSimCSE({"classes+nli": stage.goals["classes"]}).prepare(stage.model)
    SupervisedSimCSE({}, weight=0).prepare(stage.model)
