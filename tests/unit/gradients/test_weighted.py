"""Gradient methods on the Gram matrix: equal to torchjd on the whole Jacobian, whatever is kept in memory."""

from __future__ import annotations

import copy
import logging
import sys
from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from palbert.build import check_names
from palbert.errors import MissingExtraError, RecipeError
from palbert.gradients.gram import Gram
from palbert.gradients.kept import KeptGradients
from palbert.gradients.recomputed import RecomputedGradients
from palbert.gradients.sum import Sum
from palbert.gradients.weighted import WeightedGradients
from palbert.recipe.load import make_recipe
from palbert.registry import GRADIENTS
from palbert.runtime.run_folder import RunFolder
from palbert.training.hooks import read_records
from palbert.training.trainer import Trainer
from palbert.verbs import train as verb

aggregation = pytest.importorskip("torchjd.aggregation")

AGGREGATORS: dict[str, Callable[[], Any]] = {
    "aligned-mtl": aggregation.AlignedMTL,
    "cagrad": lambda: aggregation.CAGrad(c=0.4),
    "fairgrad": lambda: aggregation.FairGrad(alpha=1.0),
    "imtl-g": aggregation.IMTLG,
    "mgda": aggregation.MGDA,
    "pcgrad": aggregation.PCGrad,
    "upgrad": aggregation.UPGrad,
}
MEMORIES: dict[str, type[WeightedGradients]] = {"keep": KeptGradients, "recompute": RecomputedGradients}
WEIGHTS = {"a": 1.0, "b": 0.5, "c": 2.0}


class Toy(nn.Module):
    """Two layers that all tasks share, one that b and c share, and a head each."""

    def __init__(self, tasks: Sequence[str] = tuple(WEIGHTS)) -> None:
        super().__init__()
        generator = torch.Generator().manual_seed(3)
        self.shared = nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 5))
        self.relation = nn.Linear(5, 5)
        self.heads = nn.ModuleDict({task: nn.Linear(5, 1) for task in tasks})
        self.unused = nn.Linear(2, 2)
        for parameter in self.parameters():
            nn.init.normal_(parameter, generator=generator)
        self.inputs = torch.randn(12, 6, generator=generator)
        self.labels = {task: 3 * torch.randn(12, generator=generator) for task in tasks}

    def losses(self, rows: slice = slice(None)) -> dict[str, Tensor]:
        hidden = self.shared(self.inputs[rows])
        related = self.relation(hidden)
        share = len(self.inputs[rows]) / len(self.inputs)
        return {
            task: (head(hidden if task == "a" else related).squeeze(1) - self.labels[task][rows]).square().mean()
            * share
            for task, head in self.heads.items()
        }


def made(
    name: str, weights: Mapping[str, float], parameters: list[Any], memory: str = "keep", **options: Any
) -> WeightedGradients:
    """Make the method of a name."""
    return MEMORIES[memory](weights, parameters=parameters, weighting=GRADIENTS[name](**options))


def update(
    model: Toy, name: str, *batches: Mapping[str, Tensor], weights: Mapping[str, float] = WEIGHTS, **options: Any
):
    """Return the gradient that a method leaves, by parameter name."""
    torch.manual_seed(0)
    method = made(name, weights, list(model.parameters()), **options)
    for batch in batches or (model.losses(),):
        method.backward(batch)
    method.combine()
    found = {key: None if value.grad is None else value.grad.clone() for key, value in model.named_parameters()}
    model.zero_grad()
    return found, method


def is_shared(name: str) -> bool:
    return name.startswith(("shared", "relation"))


def flat(gradients: Mapping[str, Tensor | None]) -> Tensor:
    return torch.cat([value.flatten() for name, value in gradients.items() if is_shared(name) and value is not None])


def jacobian(model: Toy, weights: Mapping[str, float] = WEIGHTS) -> Tensor:
    """Return each task's gradient over the shared parameters, (tasks, numbers)."""
    shared = [value for name, value in model.named_parameters() if is_shared(name)]
    rows = []
    for task, loss in model.losses().items():
        found = torch.autograd.grad(weights[task] * loss, shared, retain_graph=True, allow_unused=True)
        rows.append(torch.cat([torch.zeros_like(p).flatten() if g is None else g.flatten()
                               for p, g in zip(shared, found, strict=True)]))  # fmt: skip
    return torch.stack(rows)


def test_every_method_but_the_sum_is_compared() -> None:
    assert set(GRADIENTS) == {*AGGREGATORS, "sum"}


@pytest.mark.parametrize("memory", MEMORIES)
@pytest.mark.parametrize("name", sorted(AGGREGATORS))
def test_the_update_of_shared_parameters_is_that_of_torchjd_on_the_jacobian(name: str, memory: str) -> None:
    model = Toy()
    found, _ = update(model, name, memory=memory)
    matrix = jacobian(model)
    torch.manual_seed(0)
    ours, theirs = flat(found), AGGREGATORS[name]()(matrix)
    if name == "fairgrad":  # equal but for its length
        ours, theirs = ours / ours.norm(), theirs / theirs.norm()
    torch.testing.assert_close(ours, theirs, rtol=2e-4, atol=2e-4)


@pytest.mark.parametrize("memory", MEMORIES)
@pytest.mark.parametrize("name", sorted(AGGREGATORS))
def test_a_tasks_own_parameters_keep_their_own_gradient(name: str, memory: str) -> None:
    model = Toy()
    found, _ = update(model, name, memory=memory)
    Sum(WEIGHTS).backward(model.losses())
    for task in WEIGHTS:
        head = model.heads[task]
        assert isinstance(head, nn.Linear)
        torch.testing.assert_close(found[f"heads.{task}.weight"], head.weight.grad)
    assert found["unused.weight"] is None


@pytest.mark.parametrize("name", sorted(AGGREGATORS))
def test_keeping_and_recomputing_give_the_same_update(name: str) -> None:
    model = Toy()
    kept, _ = update(model, name, memory="keep")
    recomputed, _ = update(model, name, memory="recompute")
    for key, value in kept.items():
        torch.testing.assert_close(value, recomputed[key], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("pieces", [2, 3, 5])
@pytest.mark.parametrize("name", sorted(AGGREGATORS))
def test_a_step_in_pieces_equals_the_step_in_one_batch(name: str, pieces: int) -> None:
    model = Toy()
    whole, _ = update(model, name)
    edges = [round(12 * number / pieces) for number in range(pieces + 1)]
    cut, _ = update(model, name, *(model.losses(slice(*pair)) for pair in pairwise(edges)))
    for key, value in whole.items():
        torch.testing.assert_close(value, cut[key], rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("name", sorted(AGGREGATORS))
def test_a_batch_a_task_in_any_order_equals_one_batch_of_all(name: str) -> None:
    model = Toy()
    together, _ = update(model, name)
    apart, _ = update(model, name, *({task: model.losses()[task]} for task in "cab"))
    for key, value in together.items():
        torch.testing.assert_close(value, apart[key], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("memory", MEMORIES)
@pytest.mark.parametrize("name", sorted(AGGREGATORS))
def test_a_step_of_one_task_is_that_of_the_sum(name: str, memory: str) -> None:
    model = Toy()
    found, method = update(model, name, {"b": model.losses()["b"]}, memory=memory)
    Sum(WEIGHTS).backward({"b": model.losses()["b"]})
    for key, parameter in model.named_parameters():
        torch.testing.assert_close(found[key], parameter.grad)
    assert method.observations() == {}


def line(
    *gradients: Sequence[float], name: str = "pcgrad", weights: Sequence[float] = (), **options: Any
) -> tuple[Tensor, WeightedGradients]:
    """Return the update of one vector whose tasks have these gradients."""
    torch.manual_seed(0)
    vector = torch.zeros(len(gradients[0]), requires_grad=True)
    tasks = "abcdef"[: len(gradients)]
    given = dict(zip(tasks, weights, strict=True)) if weights else dict.fromkeys(tasks, 1.0)
    method = made(name, given, [vector], **options)
    method.backward({task: torch.tensor(gradient) @ vector for task, gradient in zip(tasks, gradients, strict=True)})
    method.combine()
    assert vector.grad is not None
    return vector.grad, method


@pytest.mark.parametrize("memory", MEMORIES)
@pytest.mark.parametrize("name", sorted(AGGREGATORS))
def test_a_task_of_weight_0_has_no_say(name: str, memory: str) -> None:
    first, second, third = (1.0, 0.5, 0.0), (-0.5, 2.0, 1.0), (3.0, -7.0, 1.0)
    found, method = line(first, third, second, name=name, memory=memory, weights=[1.0, 0.0, 1.0])
    expected, _ = line(first, second, name=name, memory=memory)
    torch.testing.assert_close(found, expected)
    assert set(method.observations()) == {"a/c"}
    alone, _ = line(first, third, name=name, memory=memory, weights=[1.0, 0.0])
    torch.testing.assert_close(alone, torch.tensor(first))


@pytest.mark.parametrize("memory", MEMORIES)
@pytest.mark.parametrize(
    "gradients",
    [((1.0, 0.0), (0.0, 2.0)), ((1.0, 1.0), (2.0, 0.5)), ((1.0, 0.0, 0.0), (0.0, 2.0, 0.0), (1.0, 1.0, 3.0))],
)
def test_pcgrad_equals_the_sum_when_gradients_agree(gradients: Any, memory: str) -> None:
    torch.testing.assert_close(line(*gradients, memory=memory)[0], torch.tensor(gradients).sum(0))


@pytest.mark.parametrize("memory", MEMORIES)
def test_pcgrad_of_two_tasks_conflicts_with_neither(memory: str) -> None:
    generator = torch.Generator().manual_seed(0)
    for _ in range(50):
        one, other = torch.randn(2, 4, generator=generator)
        found, _ = line(one.tolist(), other.tolist(), memory=memory)
        assert found @ one >= -1e-5
        assert found @ other >= -1e-5


def test_pcgrad_takes_off_what_conflicts() -> None:
    # arXiv:2001.06782, algorithm 1, by hand: (1, 0) − (−1)/2 (−1, 1) = (0.5, 0.5), and (−1, 1) + (1, 0) = (0, 1).
    torch.testing.assert_close(line((1.0, 0.0), (-1.0, 1.0))[0], torch.tensor([0.5, 1.5]))


def test_upgrad_of_many_tasks_conflicts_with_none() -> None:
    generator = torch.Generator().manual_seed(0)
    for _ in range(20):
        matrix = torch.randn(4, 6, generator=generator)
        found, _ = line(*matrix.tolist(), name="upgrad")
        assert (matrix @ found >= -1e-2).all()


@pytest.mark.parametrize("scale", [1e-6, 1e-2, 1e4])
@pytest.mark.parametrize("name", sorted(AGGREGATORS))
def test_the_update_grows_and_shrinks_with_the_gradients(name: str, scale: float) -> None:
    gradients = torch.tensor([[1.0, 0.5, 0.2], [-0.5, 1.0, 0.1], [0.3, -0.9, 1.0]])
    found, _ = line(*gradients.tolist(), name=name)
    scaled, _ = line(*(scale * gradients).tolist(), name=name)
    torch.testing.assert_close(scaled / scale, found, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize(
    "gradients",
    [[(1.0, 0.0), (0.0, 0.0)], [(0.0, 0.0), (0.0, 0.0)], [(1.0, 2.0), (1.0, 2.0)], [(1.0, 2.0), (-1.0, -2.0)]],
    ids=["one of 0", "all of 0", "equal", "opposite"],
)
@pytest.mark.parametrize("name", sorted(AGGREGATORS))
def test_degenerate_gradients_give_numbers(name: str, gradients: Any) -> None:
    assert line(*gradients, name=name)[0].isfinite().all()


def test_cagrad_with_radius_0_is_the_mean() -> None:
    torch.testing.assert_close(line((1.0, 0.0), (-0.5, 1.0), name="cagrad", c=0.0)[0], torch.tensor([0.25, 0.5]))


@pytest.mark.parametrize("memory", MEMORIES)
def test_cosines_are_those_of_the_shared_gradients(memory: str) -> None:
    model = Toy()
    _, method = update(model, "pcgrad", memory=memory)
    rows = dict(zip("abc", jacobian(model), strict=True))
    expected = {
        f"{one}/{other}": float(nn.functional.cosine_similarity(rows[one], rows[other], dim=0))
        for one, other in ("ab", "ac", "bc")
    }
    assert {pair: float(value) for pair, value in method.observations().items()} == pytest.approx(expected, abs=1e-5)


def test_the_cosine_with_a_gradient_of_0_is_no_number() -> None:
    _, method = line((1.0, 0.0), (0.0, 0.0), (1.0, 1.0))
    assert {pair: bool(cosine.isnan()) for pair, cosine in method.observations().items()} == {
        "a/b": True, "a/c": False, "b/c": True,
    }  # fmt: skip


@pytest.mark.parametrize("name", sorted(AGGREGATORS))
def test_a_loss_that_is_no_number_reaches_the_gradient_not_the_solver(name: str) -> None:
    assert line((1.0, 0.0), (float("nan"), 0.0), name=name)[0].isnan().any()


@pytest.mark.parametrize("memory", MEMORIES)
def test_tasks_that_share_nothing_are_summed_with_a_warning(memory: str, caplog: pytest.LogCaptureFixture) -> None:
    model = Toy()
    model.shared.requires_grad_(False)
    model.relation.requires_grad_(False)
    parameters = [parameter for parameter in model.parameters() if parameter.requires_grad]
    method = made("pcgrad", WEIGHTS, parameters, memory)
    with caplog.at_level(logging.WARNING):
        for _ in range(2):
            model.zero_grad()
            method.backward(model.losses())
            method.combine()
    assert [record.message for record in caplog.records] == [
        "PCGrad has no effect: no trained parameter is shared by two tasks."
    ]
    assert method.observations() == {}
    found = [parameter.grad for parameter in parameters]
    model.zero_grad()
    Sum(WEIGHTS).backward(model.losses())
    torch.testing.assert_close(found, [parameter.grad for parameter in parameters])


def test_recomputing_holds_one_gradient_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """While the matrix is made, `.grad` holds one parameter's gradient at most."""
    model, most = Toy(), 0
    original = Gram.add_product

    def counted(self: Gram, *arguments: Any) -> None:
        nonlocal most
        most = max(most, sum(parameter.grad is not None for parameter in model.parameters()))
        original(self, *arguments)

    monkeypatch.setattr(Gram, "add_product", counted)
    update(model, "pcgrad", memory="recompute")
    assert most == 0


def test_pcgrad_draws_from_torchs_generator() -> None:
    generator = torch.Generator().manual_seed(5)
    rows = torch.randn(5, 6, generator=generator).tolist()
    vector = torch.zeros(6, requires_grad=True)

    def step(seed: int) -> Tensor:
        torch.manual_seed(seed)
        method = made("pcgrad", dict.fromkeys("abcde", 1.0), [vector])
        method.backward({task: torch.tensor(row) @ vector for task, row in zip("abcde", rows, strict=True)})
        method.combine()
        assert vector.grad is not None
        return vector.grad.clone()

    assert torch.equal(step(1), step(1))
    assert any(not torch.equal(step(1), step(seed)) for seed in range(2, 8))


# The recipe


@pytest.fixture
def values(tiny_recipe: dict[str, Any]) -> dict[str, Any]:
    """Return the tiny recipe with every task in every step."""
    changed = copy.deepcopy(tiny_recipe)
    changed["training"] |= {"sampler": "mixed", "gradients": "pcgrad"}
    return changed


@pytest.mark.parametrize("name", sorted(AGGREGATORS))
def test_a_recipe_with_one_task_is_refused(values: dict[str, Any], name: str) -> None:
    values["tasks"] = {"sst": {}}
    values["training"]["gradients"] = name
    with pytest.raises(RecipeError, match=rf"{GRADIENTS[name].__name__} with one task: .* Take 'sum', or add a task\."):
        check_names(make_recipe(values))


def test_recomputing_with_accumulation_is_refused_with_the_reason(values: dict[str, Any]) -> None:
    values["training"] |= {"gradients": {"name": "pcgrad", "memory": "recompute"}, "accumulation": 2}
    with pytest.raises(RecipeError, match=r"'recompute' with accumulation 2: .*cannot be computed from its pieces"):
        check_names(make_recipe(values))


@pytest.mark.parametrize(
    ("component", "message"),
    [
        ({"name": "pcgrad", "memory": "forget"}, "memory: expected 'keep' or 'recompute', found 'forget'"),
        ({"name": "pcgrad", "c": 0.5}, "training.gradients: unknown option 'c'. Known: memory."),
        ({"name": "cagrad", "c": -1.0}, "training.gradients: c: expected a number from 0"),
        ({"name": "cagrad", "c": "much"}, "training.gradients: "),
        ({"name": "aligned-mtl", "scale_mode": "max"}, "scale_mode: expected"),
        ({"name": "fairgrad", "alpha": -0.5}, "alpha: expected a number from 0"),
    ],
)
def test_wrong_options_are_refused_before_anything_is_loaded(
    values: dict[str, Any], component: dict[str, Any], message: str
) -> None:
    values["training"]["gradients"] = component
    with pytest.raises(RecipeError, match=message):
        check_names(make_recipe(values))


def test_without_torchjd_the_error_says_how_to_get_it(values: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torchjd", None)
    with pytest.raises(MissingExtraError, match=r"Gradient methods need torchjd\. .*'palbert\[gradients\]'"):
        check_names(make_recipe(values))


def train(values: dict[str, Any], folder: Path, **settings: Any) -> Path:
    return verb.train(make_recipe(values), out=folder, **settings)


@pytest.fixture
def _no_report(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(verb, "evaluate", lambda run: None)


@pytest.mark.usefixtures("_no_report")
def test_a_sampler_of_one_task_a_step_gets_a_warning(
    values: dict[str, Any], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    message = "PCGrad has no effect: the sampler never gives two tasks in a step"
    with caplog.at_level(logging.WARNING, logger="palbert"):
        verb.TrainingRun(make_recipe(values), RunFolder(tmp_path / "together")).prepare()
        assert message not in caplog.text
        values["training"]["sampler"] = "annealed"
        train(values, tmp_path / "run")
    assert message in caplog.text


@pytest.mark.usefixtures("_no_report")
@pytest.mark.parametrize("memory", MEMORIES)
def test_a_run_stopped_and_resumed_is_the_same_run_with_pcgrad(
    values: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, memory: str
) -> None:
    values["training"] |= {"gradients": {"name": "pcgrad", "memory": memory}, "log_every": 4}
    whole, stopped = train(values, tmp_path / "whole"), tmp_path / "stopped"
    original = Trainer.step

    def step(self: Any, batches: Any) -> Any:
        self.stopping = self.position.step == 6
        return original(self, batches)

    with monkeypatch.context() as patch:
        patch.setattr(Trainer, "step", step)
        with pytest.raises(KeyboardInterrupt):
            train(values, stopped)
    train(values, stopped, resume=True)
    weights = [(run / "checkpoints" / "last" / "model.safetensors").read_bytes() for run in (whole, stopped)]
    assert weights[0] == weights[1]
    lines = [
        [(record.get("losses"), record.get("cosines")) for record in read_records(run / "metrics.jsonl")]
        for run in (whole, stopped)
    ]
    assert lines[0] == lines[1]


@pytest.mark.parametrize("frozen", [False, True])
def test_a_run_logs_cosines_and_shows_them(values: dict[str, Any], tmp_path: Path, frozen: bool) -> None:
    pytest.importorskip("matplotlib")
    values["encoder"]["frozen"] = frozen
    run = train(values, tmp_path / "run")
    lines = [record for record in read_records(run / "metrics.jsonl") if record["kind"] == "train"]
    report = (run / "report.html").read_text("utf-8")
    if frozen:
        assert all("cosines" not in line for line in lines)
        assert "below 0 the tasks conflict" not in report
    else:
        assert [set(line["cosines"]) for line in lines] == [{"sst/quora", "sst/sts", "quora/sts"}] * len(lines)
        assert all(-1 <= cosine <= 1 for line in lines for cosine in line["cosines"].values())
        assert "below 0 the tasks conflict" in report


@pytest.mark.usefixtures("_no_report")
def test_a_line_has_the_mean_cosine_of_the_steps_since_the_last(values: dict[str, Any], tmp_path: Path) -> None:
    logged = {}
    for every in (1, 3):
        values["training"]["log_every"] = every
        records = read_records(train(values, tmp_path / f"{every}") / "metrics.jsonl")
        logged[every] = [record["cosines"]["sst/sts"] for record in records if record["kind"] == "train"]
    means = [sum(logged[1][start : start + 3]) / 3 for start in range(0, 12, 3)]
    assert logged[3] == pytest.approx(means)


@pytest.mark.parametrize("frozen", [False, True])
def test_adapters_and_heads_keep_their_gradient_and_the_rest_is_combined(
    values: dict[str, Any], tmp_path: Path, frozen: bool
) -> None:
    values["adapters"] = {"name": "pal", "size": 8, "heads": 2, "dropout": 0.0}
    values["relation"] = {"name": "linear", "tasks": ["quora", "sts"]}
    values["encoder"] |= {"dropout": 0.0, "attention_dropout": 0.0, "frozen": frozen}
    values["tasks"] = {task: {"dropout": 0.0} for task in values["tasks"]}
    values["training"]["clip"] = float("inf")

    def gradients(name: Any) -> dict[str, Tensor]:
        values["training"]["gradients"] = name
        run = verb.TrainingRun(make_recipe(values), RunFolder(tmp_path / "run")).prepare()
        seen: dict[str, Tensor] = {}
        run.trainer.optimizer.register_step_pre_hook(
            lambda *_: seen.update({n: p.grad.clone() for n, p in run.model.named_parameters() if p.grad is not None})
        )
        torch.manual_seed(0)
        run.trainer.step(run.trainer.feed(("sst", "quora", "sts"), {"sst": 0, "quora": 0, "sts": 0}))
        return seen

    kept, total = gradients("pcgrad"), gradients("sum")
    recomputed = gradients({"name": "pcgrad", "memory": "recompute"})
    assert kept.keys() == recomputed.keys() == total.keys()
    same = set()
    for key, value in kept.items():
        torch.testing.assert_close(value, recomputed[key], rtol=1e-3, atol=1e-5)
        if torch.allclose(value, total[key], rtol=1e-4, atol=1e-6):
            same.add(key)
    own = {key for key in kept if key.startswith(("adapters", "heads"))}
    assert own <= same
    assert any(key.startswith("encoder") for key in kept) is not frozen
    assert frozen or {key for key in kept if key.startswith("encoder")} - same


def test_each_task_has_a_batch_of_its_own_where_gradients_are_kept_and_cannot_be_split(
    values: dict[str, Any], tmp_path: Path
) -> None:
    def tasks_of_batches(name: str, **changes: Any) -> list[list[str]]:
        values["training"] |= changes
        trainer = verb.TrainingRun(make_recipe(values), RunFolder(tmp_path / name)).prepare().trainer
        return [list(batch.parts) for batch in trainer.feed(("sst", "sts"), {"sst": 0, "sts": 0})]

    assert tasks_of_batches("split") == [["sst", "sts"]]
    values["encoder"]["mixout"] = 0.5
    assert tasks_of_batches("keep") == [["sst"], ["sts"]]
    assert tasks_of_batches("pieces", accumulation=2) == [["sst"], ["sst"], ["sts"], ["sts"]]
    assert tasks_of_batches("sum", gradients="sum") == [["sst", "sts"]] * 2
    recompute = {"name": "pcgrad", "memory": "recompute"}
    assert tasks_of_batches("recompute", gradients=recompute, accumulation=1) == [["sst", "sts"]]
