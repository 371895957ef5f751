"""Explanations compared with captum, which computes on another implementation of the encoder: transformers."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest
import torch
import transformers
from torch import Tensor

from palbert.data.tokenizer import TextTokenizer
from palbert.explanations.explained import Explained
from palbert.explanations.gradients import embeddings_of, gradient_input, integrated_gradients, replaced_words
from palbert.explanations.occlusion import occlusion
from palbert.explanations.row import SPECIAL, Row
from palbert.model.heads import MLP
from palbert.model.multitask import MultiTaskModel
from palbert.model.pooling import Mean
from palbert.model.pretrained import load_encoder
from palbert.targets.classes import Classes
from palbert.tasks.spec import Task

os.environ.setdefault("MPLBACKEND", "Agg")
attr = pytest.importorskip("captum.attr", reason="needs captum")

TARGET = Classes(classes=("bad", "so so", "good"))
TEXTS = {"single": ("the plot is dull , but never quiet",), "pair": ("a man plays the guitar", "rain and soup")}
WHICH = 2


class Reference(torch.nn.Module):
    """The same number with transformers' BERT, on the embeddings of equally long sequences, (copies, tokens, width)."""

    def __init__(self, bert: transformers.BertModel, head: torch.nn.Module, types: Tensor) -> None:
        super().__init__()
        self.bert, self.head, self.types = bert, head, types

    def forward(self, embeddings: Tensor) -> Tensor:
        types = self.types.expand(len(embeddings), -1)
        states = self.bert(inputs_embeds=embeddings, token_type_ids=types).last_hidden_state
        return TARGET.log_odds(self.head(states.mean(dim=1)))[:, WHICH]


@pytest.fixture(params=TEXTS)
def both(
    request: pytest.FixtureRequest, tiny_encoder: Path, tokenizer: TextTokenizer
) -> tuple[Explained, Row, Reference]:
    """Return palbert's number and the reference, with the same weights, for a text or a joint pair."""
    texts = TEXTS[request.param]
    values = {"name": "task", "kind": request.param, "target": "classes", "classes": TARGET.classes, "label": "label"}
    task = Task.model_validate({**values, "text": ["a", "b"][: len(texts)], "max_length": 64})
    torch.manual_seed(0)
    head = MLP(32, outputs=3, dropout=0.0)
    model = MultiTaskModel(load_encoder(tiny_encoder), heads={"task": head}, poolings={"task": Mean(32)})
    model.eval().requires_grad_(False)
    row = Row.of(task, texts, tokenizer)
    bert = transformers.BertModel.from_pretrained(tiny_encoder, add_pooling_layer=False).eval()
    reference = Reference(bert, head, row.copies(1).types.long()[None])
    number = Explained(model, lambda outputs: TARGET.log_odds(outputs)[:, WHICH], torch.device("cpu"))
    return number, row, reference


def points(number: Explained, row: Row) -> tuple[Tensor, Tensor]:
    return embeddings_of(number, row)[None], replaced_words(number, row, 4)[None]


@pytest.mark.parametrize("steps", [8, 32])
def test_integrated_gradients_equal_captums(both: tuple[Explained, Row, Reference], steps: int) -> None:
    number, row, reference = both
    inputs, baseline = points(number, row)
    theirs, delta = attr.IntegratedGradients(reference).attribute(
        inputs, baseline, n_steps=steps, method="gausslegendre", return_convergence_delta=True
    )
    ours = integrated_gradients(number, row, baseline[0], first_steps=steps, most_steps=steps)
    np.testing.assert_allclose(ours.scores, theirs[0].sum(1).detach(), atol=1e-4)
    assert ours.scores.sum() - (ours.output - ours.baseline) == pytest.approx(delta.item(), abs=1e-4)
    assert np.abs(ours.scores).max() > 0.01


def test_gradient_times_input_equals_captums(both: tuple[Explained, Row, Reference]) -> None:
    number, row, reference = both
    inputs, baseline = points(number, row)
    gradient = attr.Saliency(reference).attribute(inputs.clone().requires_grad_(), abs=False)
    expected = (gradient * (inputs - baseline))[0].sum(1).detach()
    np.testing.assert_allclose(gradient_input(number, row, baseline[0]).scores, expected, atol=1e-4)
    zero = torch.zeros_like(baseline[0])
    theirs = attr.InputXGradient(reference).attribute(inputs.clone().requires_grad_())[0].sum(1).detach()
    np.testing.assert_allclose(gradient_input(number, row, zero).scores, theirs, atol=1e-4)


def test_occlusion_equals_captums_feature_ablation(both: tuple[Explained, Row, Reference]) -> None:
    number, row, reference = both
    inputs, baseline = points(number, row)
    groups = torch.from_numpy(np.where(row.word_of == SPECIAL, len(row.words), row.word_of))
    mask = groups[None, :, None].expand_as(inputs)
    theirs = attr.FeatureAblation(reference).attribute(inputs, baseline, feature_mask=mask)[0, :, 0].detach()
    ours, *_ = occlusion(number, row, 4)
    expected = [theirs[np.flatnonzero(row.word_of == word)[0]].item() for word in range(len(row.words))]
    np.testing.assert_allclose(ours, expected, atol=1e-4)
