"""Split gradients: one backward pass over a batch of all tasks, equal to one per task over its own batch."""

from __future__ import annotations

import copy
import json
import logging
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save_file
from torch import Tensor

from palbert.batch import PackedBatch
from palbert.build import trainer as build
from palbert.build.sampling import choose_buckets
from palbert.model import factors
from palbert.model.encoder import Encoder
from palbert.model.families import export, read_config
from palbert.model.multitask import MultiTaskModel
from palbert.model.split import TaskTokens
from palbert.objectives import Pass, Term, smart
from palbert.recipe.load import make_recipe
from palbert.registry import GRADIENTS
from palbert.runtime.run_folder import RunFolder
from palbert.training.feed import Feed
from palbert.training.trainer import Trainer
from palbert.verbs import train as verb

pytest.importorskip("torchjd")

STILL = {"dropout": 0.0, "attention_dropout": 0.0}


class Own(Term):
    """Pull the encoder's weights towards 0."""

    def __init__(self, goals: Any) -> None:
        super().__init__(goals, weight=1.0)

    def values(self, model: MultiTaskModel, batch: PackedBatch, clean: Pass) -> Step:
        return {}


TASKS = ("sst", "quora", "sts")
Step = dict[str, Tensor]


@pytest.fixture(params=["rows", "factors", "some factors"], autouse=True)
def kept(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Choose how gradients of large weights are kept; the cost model would not choose at these small sizes."""
    monkeypatch.setattr(factors, "LARGE", 0)
    # Some: those of steps of two tasks, and of the first piece of a step in pieces before the second arrives.
    worth = {"rows": 0, "factors": 10**6, "some factors": 10**6}[request.param]
    monkeypatch.setattr(factors, "MULTIPLICATIONS_PER_NUMBER", {"cpu": worth, "cuda": worth})
    if request.param == "some factors":
        monkeypatch.setattr(factors, "MOST_TOKENS", 300)
    return str(request.param)


@pytest.fixture
def values(tiny_recipe: dict[str, Any]) -> dict[str, Any]:
    """Return a recipe with every task in every step and no dropout, whose draws would differ between the two ways."""
    changed = copy.deepcopy(tiny_recipe)
    changed["training"] |= {"sampler": "mixed", "gradients": "pcgrad", "clip": float("inf")}
    changed["encoder"] |= STILL
    changed["optimizer"]["learning_rate"] = 1e-9  # AdamW takes steps of full size for gradients of rounding errors
    changed["tasks"] = {task: {"dropout": 0.0} for task in TASKS}
    return changed


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., tuple[list[Step], Trainer]]:
    """Return a function that takes steps, split or not, and returns the gradients that the optimizer received."""

    def steps(values: dict[str, Any], *, split: bool, plan: Sequence[Sequence[str]] = (), same: bool = False) -> Any:
        with monkeypatch.context() as patch:
            if not split:
                patch.setattr(build, "find_trunk", lambda *_, **__: None)
            made = verb.TrainingJob(make_recipe(values), RunFolder(tmp_path / "run")).prepare()
        trainer, seen = made.trainer, []
        named = [*made.model.named_parameters(), *trainer.objective.named_parameters()]
        trainer.optimizer.register_step_pre_hook(
            lambda *_: seen.append({name: value.grad.clone() for name, value in named if value.grad is not None})
        )
        torch.manual_seed(0)
        made.model.train()
        sets = list(trainer.feed.sets)
        draws = dict.fromkeys(sets, 0)
        for names in plan or [sets, sets]:
            trainer.step(trainer.feed(names, draws))
            if not same:
                trainer.feed.count(sets, draws)
        assert trainer.gradients.separate is not split
        return seen, trainer

    return steps


def assert_same(one: list[Step], other: list[Step]) -> None:
    assert len(one) == len(other)
    for mine, theirs in zip(one, other, strict=True):
        assert mine.keys() == theirs.keys()
        for name, value in mine.items():
            # Some gradients, like that of a key's bias, are 0 except for rounding.
            longest = float(theirs[name].abs().max())
            close = torch.allclose(value, theirs[name], rtol=1e-5, atol=1e-6 + 1e-5 * longest)
            assert close, f"{name} differs by up to {float((value - theirs[name]).abs().max())}"


@pytest.mark.parametrize("name", sorted(set(GRADIENTS) - {"sum"}))
def test_every_method_has_the_update_of_separate_passes(values: dict[str, Any], run: Any, name: str) -> None:
    values["training"]["gradients"] = name
    (split, trainer), (separate, other) = run(values, split=True), run(values, split=False)
    assert_same(split, separate)
    mine, theirs = trainer.gradients.observations(), other.gradients.observations()
    assert {pair: float(value) for pair, value in mine.items()} == pytest.approx(
        {pair: float(value) for pair, value in theirs.items()}, abs=1e-5
    )
    assert set(mine) == {"sst/quora", "sst/sts", "quora/sts"}


SMART = {"name": "smart", "sigma": 0.1, "eta": 0.1, "epsilon": 1.0}  # so far away that rounding does not matter
CASES: dict[str, dict[str, Any]] = {
    "accumulation": {"training": {"accumulation": 2}},
    "siamese": {
        "tasks": {"quora": {"pair_input": "siamese", "head": "concat-difference"}, "sts": {"pair_input": "joint"}}
    },
    "poolings": {"tasks": {"sst": {"pooling": "cls"}, "quora": {"pooling": "pooler"}, "sts": {"pooling": "mean"}}},
    "attention": {"tasks": {"sst": {"pooling": "attention"}, "sts": {"pooling": "attention"}}},
    "two poolers": {"tasks": {"sst": {"pooling": "pooler"}, "sts": {"pooling": "pooler"}}},
    "recomputed layers": {"encoder": {"recompute": True}},
    "smart in recomputed layers": {"encoder": {"recompute": True}, "objectives": [SMART]},
    "relation": {"relation": {"name": "linear", "tasks": ["quora", "sts"]}},
    "adapters": {"adapters": {"name": "pal", "size": 8, "heads": 2, "dropout": 0.0}},
    "lora": {"adapters": {"name": "lora", "tasks": ["sst", "sts"]}},
    "uncertainty": {"training": {"balance": "uncertainty"}},
    "smart": {"objectives": [{**SMART, "steps": 2}]},
    "smart for some": {"objectives": [{**SMART, "tasks": ["sts", "sst"]}]},
    "proximal": {"objectives": [{"name": "proximal"}]},
    "weights": {"tasks": {"quora": {"weight": 3.0}}},
    "frozen": {"encoder": {"frozen": True}, "relation": {"name": "mlp", "tasks": ["quora", "sts"]}},
    "adapters alone": {"training": {"trains": ["adapters"]}, "adapters": {"name": "houlsby", "size": 4}},
    "encoder alone": {"training": {"trains": ["encoder"]}},
    "frozen with adapters": {"encoder": {"frozen": True}, "adapters": {"name": "houlsby", "size": 4}},
}


@pytest.mark.parametrize("case", sorted(CASES))
def test_every_recipe_has_the_update_of_separate_passes(
    values: dict[str, Any], run: Any, case: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(smart.SMART, "noise", lambda self, words: self.sigma * torch.sin(1000 * words))
    for key, section in CASES[case].items():
        if key == "tasks":
            for task, settings in section.items():
                values["tasks"][task] |= settings
        elif isinstance(section, list):
            values[key] = section
        else:
            values[key] = {**values.get(key, {}), **section}
    assert_same(run(values, split=True)[0], run(values, split=False)[0])


def test_terms_of_several_passes_have_the_update_of_separate_passes(
    values: dict[str, Any], run: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """R-Drop and SimCSE require dropout; with a noise of 1 it gives the same result each time."""
    monkeypatch.setattr("palbert.model.dropout.dropout_noise", lambda like, probability: torch.ones_like(like))
    monkeypatch.setattr("palbert.model.attention.padded.dropout_noise", lambda like, probability: torch.ones_like(like))
    values["encoder"] |= {"dropout": 0.1, "attention_dropout": 0.1}
    values["objectives"] = [{"name": "rdrop"}, {"name": "simcse", "dropout": 0.2, "tasks": ["sst", "quora"]}]
    assert_same(run(values, split=True)[0], run(values, split=False)[0])


def test_steps_of_some_tasks_have_the_update_of_separate_passes(values: dict[str, Any], run: Any) -> None:
    plan = [("sts", "sst"), ("quora",), ("sst", "quora", "sts"), ("quora", "sts")]
    assert_same(run(values, split=True, plan=plan)[0], run(values, split=False, plan=plan)[0])


def test_an_extra_set_belongs_to_its_task(values: dict[str, Any], run: Any, tmp_path: Path) -> None:
    more = tmp_path / "more.tsv"
    more.write_text("id\tsentence\tsentiment\n" + "".join(f"{n}\tgood film {n}\t{n % 2}\n" for n in range(10)))
    values["tasks"]["sst"]["extra"] = {"cfimdb": {"train": str(more), "batch_size": 2, "max_length": 16}}
    values["training"]["accumulation"] = 2
    split, trainer = run(values, split=True)
    assert_same(split, run(values, split=False)[0])
    assert set(trainer.feed.sets) == {"sst", "sst+cfimdb", "quora", "sts"}


def test_filled_batches_have_the_same_update(values: dict[str, Any], run: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    plain, _ = run(values, split=True)
    original = Feed

    def filled(sets: Any, *, template: Any, buckets: Any, **settings: Any) -> Any:
        return original(sets, template=template, buckets=choose_buckets(sets, template), **settings)

    monkeypatch.setattr(build, "Feed", filled)
    found, trainer = run(values, split=True)
    [batch] = trainer.feed(TASKS, dict.fromkeys(TASKS, 0))
    assert any(part.filling for part in batch.parts.values())
    assert_same(found, plain)


@pytest.fixture
def mpnet(tiny_encoder: Path, tmp_path: Path) -> Path:
    """Make a small MPNet, whose layers share a trained bias of relative positions."""
    folder = tmp_path / "mpnet"
    folder.mkdir()
    shutil.copy(tiny_encoder / "tokenizer.json", folder)
    config = json.loads((tiny_encoder / "config.json").read_text("utf-8"))
    config |= {"model_type": "mpnet", "max_position_embeddings": 130}  # two of them are not used
    (folder / "config.json").write_text(json.dumps(config), "utf-8")
    torch.manual_seed(0)
    encoder = Encoder(read_config(config, pooler=False, where="mpnet"))
    assert encoder.relative is not None
    torch.nn.init.normal_(encoder.relative.weight)
    save_file(export(encoder), folder / "model.safetensors")
    return folder


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"training": {"accumulation": 2}},
        {"encoder": {"recompute": True}},
        {"objectives": [SMART], "tasks": {"quora": {"pair_input": "siamese", "head": "concat-difference"}}},
    ],
    ids=["plain", "accumulation", "recomputed layers", "smart and siamese pairs"],
)
def test_a_bias_shared_by_all_layers_has_the_update_of_separate_passes(
    values: dict[str, Any], run: Any, mpnet: Path, monkeypatch: pytest.MonkeyPatch, changes: dict[str, Any]
) -> None:
    monkeypatch.setattr(smart.SMART, "noise", lambda self, words: self.sigma * torch.sin(1000 * words))
    values["encoder"]["name"] = str(mpnet)
    for key, section in changes.items():
        if key == "tasks":
            values["tasks"]["quora"] |= section["quora"]
        else:
            values[key] = {**values.get(key, {}), **section} if isinstance(section, dict) else section
    split, trainer = run(values, split=True)
    assert_same(split, run(values, split=False)[0])
    assert float(split[0]["encoder.relative.weight"].abs().max()) > 1e-4
    assert trainer.model.encoder.relative.weight in trainer.gradients.kept


@pytest.mark.parametrize("adapter", [None, "pal", "lora"])
def test_pre_norm_blocks_without_biases_have_the_update_of_separate_passes(
    values: dict[str, Any], run: Any, tiny_modernbert: Path, adapter: str | None
) -> None:
    values["encoder"]["name"] = str(tiny_modernbert)
    if adapter:
        values["adapters"] = {"name": adapter, **({"dropout": 0.0, "size": 12} if adapter == "pal" else {})}
    split, _ = run(values, split=True)
    assert_same(split, run(values, split=False)[0])
    assert float(split[0]["encoder.final_norm.weight"].abs().max()) > 0


@pytest.mark.parametrize("accumulation", [1, 2])
def test_spans_of_one_length_have_the_update_of_separate_passes(
    values: dict[str, Any], run: Any, monkeypatch: pytest.MonkeyPatch, accumulation: int, kept: str
) -> None:
    for task in TASKS:
        values["tasks"][task]["max_length"] = 8
    values["training"]["accumulation"] = accumulation
    even: list[bool] = []
    original = TaskTokens.are_even

    def are_even(self: TaskTokens) -> bool:
        even.append(original(self))
        return even[-1]

    monkeypatch.setattr(TaskTokens, "are_even", are_even)
    split, _ = run(values, split=True)
    assert any(even) or kept != "rows"
    assert_same(split, run(values, split=False)[0])


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"encoder": {"mixout": 0.5}}, "MixoutLinear"),
        ({"objectives": [{"name": "tests.unit.gradients.test_split:Own"}]}, "a custom objective"),
    ],
)
def test_models_that_cannot_be_split_get_separate_batches_and_a_log_line(
    values: dict[str, Any], tmp_path: Path, caplog: pytest.LogCaptureFixture, changes: Any, reason: str
) -> None:
    for key, section in changes.items():
        values[key] = {**values.get(key, {}), **section} if isinstance(section, dict) else section
    with caplog.at_level(logging.INFO, logger="palbert"):
        trainer = verb.TrainingJob(make_recipe(values), RunFolder(tmp_path / "run")).prepare().trainer
    assert trainer.feed.separate
    assert "each task has its own backward pass" in caplog.text and reason in caplog.text


def test_large_weights_have_rows_only_where_some_step_has_too_many_tokens(
    values: dict[str, Any], run: Any, kept: str
) -> None:
    _, trainer = run(values, split=True, plan=[("sst", "sts")])
    split = trainer.gradients.splitter
    assert bool(split.large.parameters) == (kept != "rows")
    assert not split.factors and len(split.large.numbers) == 0  # nothing of the step is left
    trainer.step(trainer.feed(TASKS, dict.fromkeys(TASKS, 0)))
    assert (len(split.large.numbers) > 0) == (kept == "some factors")


@pytest.mark.parametrize(("tokens", "words", "others"), [(10, True, True), (400, True, False), (10**5, False, False)])
def test_factors_are_kept_where_they_are_cheaper(
    values: dict[str, Any], run: Any, monkeypatch: pytest.MonkeyPatch, tokens: int, words: bool, others: bool
) -> None:
    monkeypatch.setattr(factors, "MULTIPLICATIONS_PER_NUMBER", {"cpu": 25})
    monkeypatch.setattr(build, "tokens_per_step", lambda *_: tokens)
    _, trainer = run(values, split=True)
    embeddings = trainer.model.encoder.embeddings
    large = trainer.gradients.splitter.large
    assert (embeddings.word.weight in large) == words
    assert (trainer.model.encoder.layers[0].output.weight in large) == others


def test_all_steps_share_the_same_memory(values: dict[str, Any], run: Any) -> None:
    _, trainer = run(values, split=True, plan=[("sst", "quora"), TASKS])
    numbers = trainer.gradients.kept.numbers
    trainer.step(trainer.feed(("sst", "sts"), dict.fromkeys(TASKS, 0)))
    assert trainer.gradients.kept.numbers is numbers and len(numbers) == 3


def fail(*_: Any) -> None:
    raise RuntimeError("broke off")


@pytest.mark.parametrize("gradients", ["sum", "pcgrad"])
def test_a_failed_step_does_not_affect_the_next_one(
    values: dict[str, Any], tmp_path: Path, gradients: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    values["training"]["gradients"] = gradients
    made = verb.TrainingJob(make_recipe(values), RunFolder(tmp_path / "run")).prepare()
    trainer, seen = made.trainer, []
    trainer.optimizer.register_step_pre_hook(
        lambda *_: seen.append({n: p.grad.clone() for n, p in made.model.named_parameters() if p.grad is not None})
    )
    made.model.train()
    batches = trainer.feed(TASKS, dict.fromkeys(TASKS, 0))
    for breaks_off in (False, True):
        if breaks_off:
            with monkeypatch.context() as patch, pytest.raises(RuntimeError, match="broke off"):
                patch.setattr("palbert.training.trainer.clip_gradients", fail)
                trainer.step(batches)
        torch.manual_seed(0)
        trainer.step(batches)
    assert_same(seen[:1], seen[1:])


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
@pytest.mark.parametrize("precision", ["bf16", "fp32"])
@pytest.mark.parametrize("family", ["bert", "mpnet"])
def test_captured_steps_on_cuda_have_the_update_of_separate_passes(
    values: dict[str, Any], run: Any, mpnet: Path, family: str, precision: str
) -> None:
    if family == "mpnet":
        values["encoder"]["name"] = str(mpnet)
    values["run"] |= {"device": "cuda", "precision": precision}
    settings: dict[str, Any] = {"plan": [TASKS] * 4, "same": True}  # computed, captured, and replayed twice
    (split, trainer), (separate, _) = run(values, split=True, **settings), run(values, split=False, **settings)
    assert trainer.execution.obstacle == "" and trainer.execution.replay.replayed == 3
    for mine, theirs in zip(split, separate, strict=True):
        for name, value in mine.items():
            assert (value - theirs[name]).norm() <= (2e-2 if precision == "bf16" else 1e-4) * theirs[name].norm() + 1e-4
