"""Mean vectors of texts: those of a model with mean pooling, each text on its own."""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path

import pytest
import torch

from palbert.data.collate import Portion, collate
from palbert.data.tokenizer import TextTokenizer
from palbert.inference.vectors import MeanVectors
from palbert.model.pretrained import load_encoder

TEXTS = ["a film", "the plot is thin but the acting is very good", "good"]


def test_a_vector_is_the_mean_over_the_tokens_of_its_text(tiny_encoder: Path, tokenizer: TextTokenizer) -> None:
    encoder = load_encoder(tiny_encoder)
    vectors = MeanVectors(encoder, template=tokenizer.template, device=torch.device("cpu"), arithmetic=nullcontext)
    columns = tokenizer(TEXTS), tokenizer(TEXTS[::-1])
    first, second = vectors(columns, max_length=16, title="test")
    assert first == pytest.approx(second[::-1], abs=1e-5)
    assert encoder.training  # as before
    encoder.eval()
    for row, vector in enumerate(first):
        batch = collate([Portion("one", "one", columns[:1], torch.tensor([row]).numpy(), 16)], tokenizer.template)
        assert vector == pytest.approx(encoder(batch).mean(0).detach().numpy(), abs=1e-5)
