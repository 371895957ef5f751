"""A task's model in transformers: an encoder of transformers with palbert's adapter, pooling and head.

palbert wrote this file; it needs torch and transformers alone. Load the folder that it is in with

    AutoModelForSequenceClassification.from_pretrained(folder, trust_remote_code=True)

In evaluation mode, logits are those of palbert, calibrated where the run was.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from transformers import AutoModel, PretrainedConfig, PreTrainedModel
from transformers.modeling_outputs import SequenceClassifierOutput
from transformers.models.auto.configuration_auto import CONFIG_MAPPING


class PalbertConfig(PretrainedConfig):  # type: ignore[misc]
    """What the model is built from, besides what all configurations of transformers have.

    Args:
        encoder: The encoder's own config.json.
        encoder_options: Arguments of its class.
        places: Where modules are in the encoder: "layer", "attention_output", "output", "norm", "attention_norm".
        pre_norm: Whether norms come before attention and the feed-forward network.
        pooling: "cls", "pooler", "mean" or "attention".
        relation: "none", "linear" or "mlp", with the inner width of the latter.
        head: "linear" or "mlp".
        adapter: The "kind" of the adapter, "none", "pal", "low-rank" or "houlsby", and its sizes.
        **others: All other settings.
    """

    model_type = "palbert"

    def __init__(
        self,
        encoder: dict[str, Any] | None = None,
        encoder_options: dict[str, Any] | None = None,
        places: dict[str, str] | None = None,
        pre_norm: bool = False,
        pooling: str = "cls",
        relation: dict[str, Any] | None = None,
        head: str = "linear",
        adapter: dict[str, Any] | None = None,
        **others: Any,
    ) -> None:
        self.encoder = encoder or {"model_type": "bert"}
        self.encoder_options = encoder_options or {}
        self.places = places or {}
        self.pre_norm = pre_norm
        self.pooling = pooling
        self.relation = relation or {"kind": "none"}
        self.head = head
        self.adapter = adapter or {"kind": "none"}
        super().__init__(**others)


class PAL(nn.Module):
    """V_D · MH(V_E · h) in parallel to each layer (arXiv:1902.02671)."""

    def __init__(self, hidden: int, layers: int, settings: dict[str, Any]) -> None:
        super().__init__()
        size, projections = settings["size"], 1 if settings["shared"] else layers
        self.heads = settings["heads"]
        self.down = nn.ModuleList(nn.Linear(hidden, size, bias=False) for _ in range(projections))
        self.up = nn.ModuleList(nn.Linear(size, hidden, bias=False) for _ in range(projections))
        self.query_key_values = nn.ModuleList(nn.Linear(size, 3 * size, bias=False) for _ in range(layers))

    def parallel(self, layer: int, hidden: Tensor, mask: Tensor) -> Tensor:
        """Return the branch's output, (texts, length, hidden), for a mask, (texts, length)."""
        shared = layer % len(self.down)
        fused = self.query_key_values[layer](self.down[shared](hidden))
        query, key, value = fused.unflatten(2, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        mixed = F.scaled_dot_product_attention(query, key, value, attn_mask=mask[:, None, None].bool())
        output: Tensor = self.up[shared](mixed.transpose(1, 2).flatten(2))
        return output


class LowRank(nn.Module):
    """V_D · V_E · h in parallel to each layer (arXiv:1902.02671, section 3.1)."""

    def __init__(self, hidden: int, layers: int, settings: dict[str, Any]) -> None:
        super().__init__()
        size, projections = settings["size"], 1 if settings["shared"] else layers
        self.down = nn.ModuleList(nn.Linear(hidden, size, bias=False) for _ in range(projections))
        self.up = nn.ModuleList(nn.Linear(size, hidden, bias=False) for _ in range(projections))

    def parallel(self, layer: int, hidden: Tensor, mask: Tensor) -> Tensor:
        """Return the branch's output, (texts, length, hidden)."""
        shared = layer % len(self.down)
        output: Tensor = self.up[shared](self.down[shared](hidden))
        return output


class Bottleneck(nn.Module):
    """x + U · gelu(D · x)."""

    def __init__(self, hidden: int, size: int) -> None:
        super().__init__()
        self.down = nn.Linear(hidden, size)
        self.up = nn.Linear(size, hidden)

    def forward(self, values: Tensor) -> Tensor:
        """Return as many values."""
        output: Tensor = values + self.up(F.gelu(self.down(values)))
        return output


class Houlsby(nn.Module):
    """A bottleneck after attention and one after the feed-forward network of each layer (arXiv:1902.00751)."""

    def __init__(self, hidden: int, layers: int, settings: dict[str, Any]) -> None:
        super().__init__()
        self.attention = nn.ModuleList(Bottleneck(hidden, settings["size"]) for _ in range(layers))
        self.feed_forward = nn.ModuleList(Bottleneck(hidden, settings["size"]) for _ in range(layers))


ADAPTERS: dict[str, Any] = {"pal": PAL, "low-rank": LowRank, "houlsby": Houlsby}


class Relation(nn.Module):
    """The layer that related tasks share in front of their heads."""

    def __init__(self, hidden: int, settings: dict[str, Any]) -> None:
        super().__init__()
        self.kind = settings["kind"]
        if self.kind == "linear":
            self.layer = nn.Linear(hidden, hidden)
        if self.kind == "mlp":
            inner = settings["inner"]
            self.layers = nn.Sequential(nn.Linear(hidden, inner), nn.GELU(), nn.Linear(inner, hidden))

    def forward(self, vectors: Tensor) -> Tensor:
        """Map (texts, hidden) to (texts, hidden)."""
        if self.kind == "none":
            return vectors
        mapped: Tensor = self.layer(vectors) if self.kind == "linear" else vectors + self.layers(vectors)
        return mapped


class Head(nn.Module):
    """From a vector to logits."""

    def __init__(self, hidden: int, outputs: int, kind: str) -> None:
        super().__init__()
        if kind == "linear":
            self.output = nn.Linear(hidden, outputs)
        else:
            inner, last = nn.Linear(hidden, hidden), nn.Linear(hidden, outputs)
            self.layers = nn.Sequential(nn.Identity(), inner, nn.ReLU(), last)
        self.kind = kind

    def forward(self, vectors: Tensor) -> Tensor:
        """Map (texts, hidden) to (texts, outputs)."""
        logits: Tensor = self.output(vectors) if self.kind == "linear" else self.layers(vectors)
        return logits


class PalbertForSequenceClassification(PreTrainedModel):  # type: ignore[misc]
    """An encoder with a task's adapter, pooling and head."""

    config_class = PalbertConfig

    def __init__(self, config: PalbertConfig) -> None:
        super().__init__(config)
        settings = dict(config.encoder)
        own = CONFIG_MAPPING[settings.pop("model_type")](**settings)
        self.encoder = AutoModel.from_config(own, **config.encoder_options)
        hidden = own.hidden_size
        if config.pooling == "pooler":
            self.pooler = nn.Linear(hidden, hidden)
        if config.pooling == "attention":
            self.pooling = nn.ParameterDict({"weight": nn.Parameter(torch.zeros(hidden))})
        self.relation = Relation(hidden, config.relation)
        self.head = Head(hidden, config.num_labels, config.head)
        self.adapter = None
        if config.adapter["kind"] != "none":
            self.adapter = ADAPTERS[config.adapter["kind"]](hidden, own.num_hidden_layers, config.adapter)
            for number in range(own.num_hidden_layers):
                self._adapt(number)
        self.mask: Tensor | None = None
        self.post_init()

    def _adapt(self, number: int) -> None:
        """Let hooks add the adapter to a layer of the encoder."""
        adapter, places = self.adapter, self.config.places
        layer = self.encoder.get_submodule(places["layer"].format(number))
        if isinstance(adapter, Houlsby):
            for place, bottleneck in (("attention_output", adapter.attention), ("output", adapter.feed_forward)):
                module = layer.get_submodule(places[place])
                module.register_forward_hook(lambda _, __, output, added=bottleneck[number]: added(output))
            return
        branch: dict[str, Tensor] = {}

        def read(hidden: Tensor) -> None:
            assert adapter is not None and self.mask is not None
            branch["output"] = adapter.parallel(number, hidden, self.mask)

        if self.config.pre_norm:  # the branch reads what attention reads, and is added to the layer's output
            normed = layer.get_submodule(places["attention_norm"])
            normed.register_forward_hook(lambda _, __, output: read(output))
            layer.register_forward_hook(lambda _, __, output: output + branch.pop("output"))
            return
        layer.register_forward_pre_hook(lambda _, inputs: read(inputs[0]))  # the layer's input
        norm = layer.get_submodule(places["norm"])
        norm.register_forward_pre_hook(lambda _, inputs: (inputs[0] + branch.pop("output"),))

    def forward(
        self,
        input_ids: Tensor,
        attention_mask: Tensor | None = None,
        token_type_ids: Tensor | None = None,
        labels: Tensor | None = None,
        **_: Any,
    ) -> SequenceClassifierOutput:
        """Return the logits of texts, and the loss if labels are given."""
        self.mask = torch.ones_like(input_ids) if attention_mask is None else attention_mask
        types = {} if token_type_ids is None else {"token_type_ids": token_type_ids}
        states = self.encoder(input_ids=input_ids, attention_mask=self.mask, **types).last_hidden_state
        logits = self.head(self.relation(self._pool(states, self.mask)))
        loss = None
        if labels is not None:
            loss = self.loss_function(labels=labels, pooled_logits=logits, config=self.config)
        return SequenceClassifierOutput(loss=loss, logits=logits)

    def _pool(self, states: Tensor, mask: Tensor) -> Tensor:
        """Return one vector per text, (texts, hidden)."""
        if self.config.pooling == "mean":
            weights = mask[:, :, None].to(states.dtype)
            mean: Tensor = (states * weights).sum(1) / weights.sum(1)
            return mean
        if self.config.pooling == "attention":
            scores = (states * self.pooling["weight"]).sum(2).masked_fill(mask == 0, float("-inf"))
            weighted: Tensor = (scores.softmax(1)[:, :, None] * states).sum(1)
            return weighted
        first = states[:, 0]
        vectors: Tensor = torch.tanh(self.pooler(first)) if self.config.pooling == "pooler" else first
        return vectors
