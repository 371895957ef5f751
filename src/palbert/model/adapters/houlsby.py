"""Houlsby adapters: a bottleneck after attention and one after the feed-forward network (arXiv:1902.00751)."""

from __future__ import annotations

from collections.abc import Hashable, Sequence

import torch.nn.functional as F
from torch import Tensor, nn

from palbert.model.adapters.branches import Adapter, Additions
from palbert.model.adapters.groups import Groups, stack
from palbert.options import check_count


class Houlsby(Adapter):
    """x + U · gelu(D · x) on both outputs of each layer, before the residual; U starts at zero.

    The encoder's norms are shared by all tasks here; the paper gives each task its own.

    Args:
        hidden_size: Width of the encoder.
        layers: Layers of the encoder.
        size: Width of the bottleneck.
    """

    def __init__(self, hidden_size: int, *, layers: int, size: int = 64) -> None:
        super().__init__()
        self.hidden_size, self.size = hidden_size, check_count("size", size, least=1)
        self.attention = nn.ModuleList(_Bottleneck(hidden_size, size) for _ in range(layers))
        self.feed_forward = nn.ModuleList(_Bottleneck(hidden_size, size) for _ in range(layers))

    @property
    def shape(self) -> Hashable:
        """Widths and layers."""
        return type(self), self.hidden_size, self.size, len(self.attention)

    def together(self, adapters: Sequence[Adapter], groups: Groups) -> GroupedHoulsby:
        """Return the additions of several adapters."""
        return GroupedHoulsby([adapter for adapter in adapters if isinstance(adapter, Houlsby)], groups)


class _Bottleneck(nn.Module):
    def __init__(self, hidden_size: int, size: int) -> None:
        super().__init__()
        self.down = nn.Linear(hidden_size, size)
        self.up = nn.Linear(size, hidden_size)
        nn.init.zeros_(self.up.weight)
        nn.init.zeros_(self.up.bias)


class GroupedHoulsby(Additions):
    """The adapters of one pass, one per group of tokens; their widths are padded with zeros to an aligned one."""

    def __init__(self, adapters: Sequence[Houlsby], groups: Groups) -> None:
        hidden, size = adapters[0].hidden_size, adapters[0].size
        self.attention = _Bottlenecks([each.attention for each in adapters], hidden, size, groups)
        self.feed_forward = _Bottlenecks([each.feed_forward for each in adapters], hidden, size, groups)

    def after_attention(self, layer: int, output: Tensor) -> Tensor:
        """Return the output of the first bottleneck, (tokens, hidden)."""
        return self.attention(layer, output)

    def after_feed_forward(self, layer: int, output: Tensor) -> Tensor:
        """Return the output of the second bottleneck, (tokens, hidden)."""
        return self.feed_forward(layer, output)


class _Bottlenecks:
    """The bottlenecks of one place, in all layers."""

    def __init__(self, blocks: Sequence[nn.ModuleList], hidden: int, size: int, groups: Groups) -> None:
        def stacked(name: str, shape: Sequence[int], filled: Sequence[int]) -> Sequence[Tensor]:
            weights = [[block.get_parameter(name) for block in each] for each in blocks]
            return stack(weights, shape, filled).unbind()

        even = groups.aligned(size)
        self.groups = groups
        self.down = stacked("down.weight", (size, hidden), (even, hidden))
        self.down_bias = stacked("down.bias", (size,), (even,))
        self.up = stacked("up.weight", (hidden, size), (hidden, even))
        self.up_bias = stacked("up.bias", (hidden,), (hidden,))

    def __call__(self, layer: int, values: Tensor) -> Tensor:
        narrow = self.groups.product(values, self.down[layer], self.down_bias[layer])
        return self.groups.product(F.gelu(narrow), self.up[layer], self.up_bias[layer])
