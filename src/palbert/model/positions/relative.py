"""RelativeBias: learned biases of the attention scores by the distance from query to key."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import torch
import torch.nn.functional as F
from torch import Tensor

from palbert.batch import PackedBatch
from palbert.model.attention import Sequences
from palbert.model.config import FAR
from palbert.model.lookup import Table, look_up_each
from palbert.model.split import current_task_tokens


class RelativeBias(Table):
    """A bias per bucket of distances and attention head, shared by all layers (arXiv:1910.10683, section 2.1).

    Args:
        buckets: Number of buckets, half for each direction.
        heads: Attention heads of a layer.
    """

    def add_to(self, sequences: Sequences, batch: PackedBatch) -> Sequences:
        """Return the sequences of a batch with the bias of each distance."""
        length, table, task_tokens = batch.max_length, self.weight, current_task_tokens()
        distances = torch.arange(1 - length, length, device=table.device)
        buckets = bucket_of(distances, self.num_embeddings)
        if task_tokens is None or not table.requires_grad:
            return replace(sequences, bias=_by_head(F.embedding(buckets, table)))
        return replace(sequences, by_part=self._by_part(sequences, batch, look_up_each(table, buckets, task_tokens)))

    def between(self, places: Tensor) -> Tensor:
        """Return the bias of each pair of places, query and key, (heads, places, places)."""
        distances = places - places[:, None]
        found: Tensor = F.embedding(bucket_of(distances, self.num_embeddings), self.weight)
        return found.permute(2, 0, 1)

    @staticmethod
    def _by_part(whole: Sequences, batch: PackedBatch, found: Sequence[Tensor]) -> list[Sequences]:
        """Give each part of a batch a bias of its own, so that its gradient is that of the part's task."""
        return [
            replace(Sequences.of(batch, parts=[part]), bias=_by_head(bias), seeds=whole.seeds)
            for part, bias in zip(batch.parts.values(), found, strict=True)
        ]


def bucket_of(distances: Tensor, buckets: int) -> Tensor:
    """Map distances from query to key to buckets: half for each direction; far ones share a bucket, by logarithm.

    As in MPNet (arXiv:2004.09297).
    """
    half = buckets // 2
    near = half // 2
    distance = distances.abs()
    far = (distance.clamp(min=1).float() / near).log() / math.log(FAR / near) * (half - near)
    bucket = torch.where(distance < near, distance, (near + far.long()).clamp(max=half - 1))
    return bucket + half * (distances > 0)


def _by_head(found: Tensor) -> Tensor:
    """Turn the rows of all distances, (distances, heads), into a bias, (heads, distances)."""
    return found.t().contiguous()
