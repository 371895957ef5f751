"""SMART: outputs that change little when the word embeddings do (Jiang et al. 2020, arXiv:1911.03437)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Literal

import torch
from torch import Tensor, nn

from palbert.batch import PackedBatch
from palbert.errors import PalbertError
from palbert.model.multitask import MultiTaskModel
from palbert.model.split import begin_pass
from palbert.objectives import Goal, Pass, Term
from palbert.options import check_count, check_number


class SMART(Term):
    """λ_s · max ℓ_s(f(x̃), f(x)) over ‖x̃ − x‖ ≤ ε: the smoothness-inducing adversarial term.

    x are the word embeddings of one sequence; for a siamese pair, both sequences are perturbed. The search starts from
    noise N(0, σ²), takes T steps of length η along the gradient, which is scaled to length 1 in the given norm for
    each sequence, and projects onto the ball after each step. Without the scaling, gradients near x̃ = x are so small
    that the noise alone would decide.

    Dropout: f(x) comes from the supervised pass and is not computed again; every pass over perturbed embeddings draws
    new masks, so the term also penalises outputs that depend on dropout. The search treats f(x) as a constant. The
    term's gradient flows through f(x̃) and f(x), as in the formula, and treats x̃ − x as a constant. The search does not
    change the parameters' `.grad`.

    Costs T + 1 additional forward and T + 1 additional backward passes; those of the search do not compute gradients of
    the weights.
    """

    def __init__(
        self,
        goals: Mapping[str, Goal],
        *,
        weight: float = 1.0,
        epsilon: float = 1e-6,
        sigma: float = 1e-5,
        eta: float = 1e-3,
        steps: int = 1,
        norm: Literal["inf", "l2"] = "inf",
    ) -> None:
        super().__init__(goals, weight=weight)
        self.epsilon = check_number("epsilon", epsilon, above=0)
        self.sigma = check_number("sigma", sigma, above=0)
        self.eta = check_number("eta", eta, above=0)
        self.steps = check_count("steps", steps, least=1)
        if norm not in ("inf", "l2"):
            raise PalbertError(f"norm: expected 'inf' or 'l2', found {norm!r}.")
        self.norm = norm

    def values(self, model: MultiTaskModel, batch: PackedBatch, forward_pass: Pass) -> dict[str, Tensor]:
        """Return λ_s ℓ_s of each set."""
        with begin_pass(batch):
            words = model.encoder.word_embeddings(batch.ids)  # (tokens, embedding_size)
        moved = words + self.perturbation(model, batch, words.detach(), forward_pass.outputs)
        outputs = model(batch, embeddings=moved)
        return {
            name: self.weight * self.goals[name].target.divergence(outputs[name], forward_pass.outputs[name])
            for name in batch.parts
        }

    def perturbation(
        self, model: MultiTaskModel, batch: PackedBatch, words: Tensor, outputs: Mapping[str, Tensor]
    ) -> Tensor:
        """Search for the x̃ − x that moves the outputs most, (tokens, embedding_size)."""
        delta = self.noise(words)
        for _ in range(self.steps):
            delta.requires_grad_()
            with held_fixed(model):  # no gradients of the weights
                found = model(batch, embeddings=words + delta)
                distances = [
                    self.goals[name].target.divergence(found[name], outputs[name].detach()) for name in batch.parts
                ]
                with torch.autocast(words.device.type, enabled=False):  # backward uses the formats of forward
                    [gradient] = torch.autograd.grad(torch.stack(distances).sum(), delta)
            length = self.length(gradient, batch).clamp(min=torch.finfo(gradient.dtype).tiny)
            delta = self.project(delta.detach() + self.eta * gradient / length, batch)
        return delta

    def noise(self, words: Tensor) -> Tensor:
        """Draw the start of the search."""
        return torch.randn_like(words) * self.sigma

    def project(self, delta: Tensor, batch: PackedBatch) -> Tensor:
        """Project onto the ball of radius ε, for each sequence."""
        if self.norm == "inf":
            return delta.clamp(-self.epsilon, self.epsilon)
        length = self.length(delta, batch).clamp(min=self.epsilon)
        return delta * (self.epsilon / length)

    def length(self, values: Tensor, batch: PackedBatch) -> Tensor:
        """Return the norm over each sequence, repeated for its tokens, (tokens, 1)."""
        lengths = batch.starts.diff()
        if self.norm == "inf":
            of_sequence = torch.segment_reduce(values.abs().amax(1), "max", lengths=lengths, unsafe=True)
        else:
            squares = values.square().sum(1)
            of_sequence = torch.segment_reduce(squares, "sum", lengths=lengths, unsafe=True).sqrt()
        return of_sequence.repeat_interleave(lengths, output_size=batch.tokens)[:, None]


@contextmanager
def held_fixed(model: nn.Module) -> Iterator[None]:
    """Treat the weights of a model as constants in the passes within."""
    trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
    try:
        for parameter in trained:
            parameter.requires_grad_(False)
        yield
    finally:
        for parameter in trained:
            parameter.requires_grad_(True)
