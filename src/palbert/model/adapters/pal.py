"""PALs: projected attention layers in parallel to the encoder's own (Stickland & Murray 2019, arXiv:1902.02671)."""

from __future__ import annotations

from collections.abc import Hashable, Sequence

from torch import Tensor, nn

from palbert.errors import PalbertError
from palbert.model.adapters.branches import Adapter, Additions
from palbert.model.adapters.groups import Groups, for_layers, stack
from palbert.model.attention import Sequences, attend
from palbert.options import check_count, check_number, check_switch


class PAL(Adapter):
    """h' = LN(h + SA(h) + TS(h)) with TS(h) = V_D · MH(V_E · h), section 3.2 of the paper.

    MH is multi-head attention in `size` dimensions with its own Q, K and V in every layer and no output matrix.
    V_E and V_D are shared by all layers, or separate in each. V_D starts at zero.

    Args:
        hidden_size: Width of the encoder.
        layers: Layers of the encoder.
        size: Width inside the branch.
        heads: Attention heads of the branch.
        shared_projections: One V_E and one V_D for all layers.
        dropout: Share of the branch's attention probabilities dropped, in training.
    """

    def __init__(
        self,
        hidden_size: int,
        *,
        layers: int,
        size: int = 204,
        heads: int = 12,
        shared_projections: bool = True,
        dropout: float = 0.1,
    ) -> None:
        super().__init__()
        self.hidden_size, self.size, self.layers = hidden_size, check_count("size", size, least=1), layers
        self.heads = check_count("heads", heads, least=1)
        if size % heads:
            raise PalbertError(f"{heads} heads cannot share a PAL of size {size} evenly.")
        self.dropout = check_number("dropout", dropout, least=0, below=1)
        projections = 1 if check_switch("shared_projections", shared_projections) else layers
        self.down = nn.ModuleList(nn.Linear(hidden_size, size, bias=False) for _ in range(projections))
        self.up = nn.ModuleList(nn.Linear(size, hidden_size, bias=False) for _ in range(projections))
        self.query_key_values = nn.ModuleList(nn.Linear(size, 3 * size, bias=False) for _ in range(layers))
        for weight in self.up.parameters():
            nn.init.zeros_(weight)

    @property
    def rate(self) -> float:
        """The share of probabilities that is dropped: 0 outside training."""
        return self.dropout if self.training else 0.0

    @property
    def shape(self) -> Hashable:
        """Widths, heads, layers and dropout."""
        projections = len(self.down)
        return type(self), self.hidden_size, self.size, self.layers, projections, self.heads, self.rate

    def together(self, adapters: Sequence[Adapter], groups: Groups) -> GroupedPAL:
        """Return the additions of several adapters."""
        return GroupedPAL([adapter for adapter in adapters if isinstance(adapter, PAL)], groups)


class GroupedPAL(Additions):
    """The PALs of one pass, one per group of tokens.

    Weights are padded with zeros to widths with fast products, so that tokens need no padding. The zeros add nothing to
    a score, and scores keep the scale of a head's own width.
    """

    def __init__(self, pals: Sequence[PAL], groups: Groups) -> None:
        first = pals[0]
        hidden, size, heads, layers = first.hidden_size, first.size, first.heads, first.layers
        width = size // heads
        even_size, even_width = groups.aligned(size), groups.aligned(width)
        self.groups, self.heads, self.scale, self.dropout = groups, heads, width**-0.5, first.rate
        # One per layer, (groups, rows, columns).
        down = stack([pal.down.parameters() for pal in pals], (size, hidden), (even_size, hidden))
        up = stack([pal.up.parameters() for pal in pals], (hidden, heads, width), (hidden, heads, even_width))
        own = stack(
            [pal.query_key_values.parameters() for pal in pals],
            (3 * heads, width, size),
            (3 * heads, even_width, even_size),
        )
        self.down, self.up = for_layers(down, layers), for_layers(up.flatten(3), layers)
        self.query_key_values = own.flatten(2, 3).unbind()

    def parallel(self, layer: int, hidden: Tensor, sequences: Sequences) -> Tensor:
        """Return TS(h), (tokens, hidden)."""
        narrow = self.groups.product(hidden, self.down[layer])  # V_E · h
        fused = self.groups.product(narrow, self.query_key_values[layer])
        fused = fused.view(hidden.shape[0], 3, self.heads, -1)
        mixed = attend(fused, sequences, dropout=self.dropout, scale=self.scale)  # (tokens, heads, width)
        return self.groups.product(mixed.flatten(1), self.up[layer])  # V_D · MH
