"""Mixout: weights that are reset to their pretrained values at random (Lee, Cho & Kang 2020, arXiv:1909.11299)."""

from __future__ import annotations

import torch.nn.functional as F
from torch import Tensor, nn

from palbert.model.dropout import dropout_noise
from palbert.model.encoder import Encoder


class MixoutLinear(nn.Linear):
    """A linear layer that, when training, computes with a mix of its weight W and the pretrained W₀.

    W̃ = (M W₀ + (1 − M) W − p W₀) / (1 − p), where M is 1 with probability p. As in the paper, M is drawn for each
    input of the layer, again in every pass: all weights that lead from an input are replaced, or none. (Drawn for
    each weight, it would be what the paper calls mixconnect.) That is W₀ plus a masked and scaled W − W₀: W on
    average, and W itself as long as it is W₀. Biases are not mixed. The gradient is that of W̃; the authors' code
    leaves out its factor 1 / (1 − p), which hardly matters to AdamW.

    The parameters are those of the layer that it replaces, under the same names; W₀ is not saved in checkpoints.

    Args:
        layer: The layer with its pretrained weight.
        probability: p, the share of inputs whose weights are replaced.
    """

    def __init__(self, layer: nn.Linear, *, probability: float) -> None:
        # On the meta device: nothing is drawn for weights that the next line replaces.
        super().__init__(layer.in_features, layer.out_features, bias=layer.bias is not None, device="meta")
        self.weight, self.bias = layer.weight, layer.bias
        self.probability = probability
        self.register_buffer("pretrained", layer.weight.detach().clone(), persistent=False)
        self.pretrained: Tensor
        self.train(layer.training)

    def forward(self, input: Tensor) -> Tensor:
        """Apply the mixed weight when training, the weight as it is otherwise."""
        if not self.training:
            return super().forward(input)
        noise = dropout_noise(self.weight[0], self.probability)  # (inputs,): 0, or 1 / (1 − p)
        return F.linear(input, self.pretrained + (self.weight - self.pretrained) * noise, self.bias)


def mix_out(encoder: Encoder, probability: float) -> None:
    """Replace every linear layer of an encoder by one with mixout; its present weights are the pretrained ones."""
    for name, layer in encoder.linear_layers().items():
        assert isinstance(layer, nn.Linear)
        encoder.set_submodule(name, MixoutLinear(layer, probability=probability))
