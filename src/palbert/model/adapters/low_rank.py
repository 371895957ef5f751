"""Low-rank layers: a linear bottleneck in parallel to each layer (arXiv:1902.02671, section 3.1)."""

from __future__ import annotations

from collections.abc import Hashable, Sequence

from torch import Tensor, nn

from palbert.model.adapters.branches import Adapter, Additions
from palbert.model.adapters.groups import Groups, for_layers, stack
from palbert.model.attention import Sequences
from palbert.options import check_count, check_switch


class LowRank(Adapter):
    """h' = LN(h + SA(h) + V_D · V_E · h): a PAL whose attention is the identity. V_D starts at zero.

    Args:
        hidden_size: Width of the encoder.
        layers: Layers of the encoder.
        size: Rank of the branch.
        shared_projections: One V_E and one V_D for all layers.
    """

    def __init__(self, hidden_size: int, *, layers: int, size: int = 100, shared_projections: bool = False) -> None:
        super().__init__()
        self.hidden_size, self.size, self.layers = hidden_size, check_count("size", size, least=1), layers
        projections = 1 if check_switch("shared_projections", shared_projections) else layers
        self.down = nn.ModuleList(nn.Linear(hidden_size, size, bias=False) for _ in range(projections))
        self.up = nn.ModuleList(nn.Linear(size, hidden_size, bias=False) for _ in range(projections))
        for weight in self.up.parameters():
            nn.init.zeros_(weight)

    @property
    def shape(self) -> Hashable:
        """Widths and layers."""
        return type(self), self.hidden_size, self.size, self.layers, len(self.down)

    def together(self, adapters: Sequence[Adapter], groups: Groups) -> GroupedLowRank:
        """Return the additions of several adapters."""
        return GroupedLowRank([adapter for adapter in adapters if isinstance(adapter, LowRank)], groups)


class GroupedLowRank(Additions):
    """The low-rank layers of one pass, one per group of tokens; their rank is padded with zeros to an aligned one."""

    def __init__(self, adapters: Sequence[LowRank], groups: Groups) -> None:
        hidden, size, layers = adapters[0].hidden_size, adapters[0].size, adapters[0].layers
        even = groups.aligned(size)
        self.groups = groups
        self.down = for_layers(
            stack([each.down.parameters() for each in adapters], (size, hidden), (even, hidden)), layers
        )
        self.up = for_layers(stack([each.up.parameters() for each in adapters], (hidden, size), (hidden, even)), layers)

    def parallel(self, layer: int, hidden: Tensor, sequences: Sequences) -> Tensor:
        """Return V_D · V_E · h, (tokens, hidden)."""
        return self.groups.product(self.groups.product(hidden, self.down[layer]), self.up[layer])
