"""MultiTaskModel: one encoder pass over all tokens, then each task's pooling and head on its own slice."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from torch import Tensor, nn

from palbert.batch import PackedBatch
from palbert.model.encoder import Encoder
from palbert.model.pooling import Pooling


class Heads(nn.ModuleDict):
    """Heads by task name; any name will do, even one that torch's own classes use, such as "type"."""

    def add_module(self, name: str, module: nn.Module | None) -> None:
        """Take in a head without torch's check that no attribute has this name."""
        self._modules[name] = module  # type: ignore[assignment]

    def train(self, mode: bool = True) -> Heads:
        """Switch all heads; `training` is torch's own flag, even beside a head of that name."""
        object.__setattr__(self, "training", mode)
        for head in self.values():
            head.train(mode)
        return self


class MultiTaskModel(nn.Module):
    """A shared encoder with one head a task, addressed by the task's name."""

    def __init__(self, encoder: Encoder, *, heads: Mapping[str, nn.Module], poolings: Mapping[str, Pooling]) -> None:
        super().__init__()
        self.encoder = encoder
        self.heads = Heads(heads)
        self.poolings = dict(poolings)

    def forward(self, batch: PackedBatch, *, embeddings: Tensor | None = None) -> dict[str, Tensor]:
        """Return each task's outputs, (examples, outputs), in float32."""
        return self.answers(batch, self.vectors(batch, embeddings=embeddings))

    def vectors(self, batch: PackedBatch, *, embeddings: Tensor | None = None) -> dict[str, Tensor]:
        """Return each task's pooled vectors, (sequences, hidden); `embeddings` takes the place of the words."""
        hidden = self.encoder(batch, embeddings=embeddings)  # (tokens, hidden)
        return {task: self.poolings[task](self.encoder, hidden, batch, part) for task, part in batch.parts.items()}

    def answers(self, batch: PackedBatch, vectors: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Return each task's outputs, (examples, outputs), in float32, given its vectors."""
        outputs = {}
        for task, part in batch.parts.items():
            sides = vectors[task].chunk(part.width)
            outputs[task] = self.heads[task](*sides).float()
        return outputs

    def roles(self) -> Iterator[tuple[str, nn.Module]]:
        """Name the parts that may have learning rates of their own."""
        yield "encoder", self.encoder
        yield "heads", self.heads
