"""Classifiers: the model of one task as a folder that AutoModelForSequenceClassification loads."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import safetensors.torch
import torch
from torch import Tensor, nn

from palbert.build.exporting import encoder_settings, tokenizer_settings, write_json
from palbert.data.tokenizer import TextTokenizer
from palbert.errors import DataError
from palbert.model.adapters import PAL, Adapter, Houlsby, LoRA, LowRank
from palbert.model.blocks import BLOCKS
from palbert.model.encoder import Encoder
from palbert.model.families import export
from palbert.model.heads import MLP, Linear
from palbert.model.multitask import MultiTaskModel
from palbert.model.pooling import Attention, Cls, Mean, Pooler
from palbert.model.relational import LinearRelation, MLPRelation
from palbert.registry import FAMILIES

MODEL_FILE = Path(__file__).with_name("modeling_palbert.py")
"""What is copied into folders whose model transformers does not have."""
OWN = "PalbertForSequenceClassification"
ELSEWHERE = (
    "Export it with --to onnx, or its encoder with --to sentence-transformers, whose folder AutoModel loads too."
)
DENSE = {"pooler": "classifier.dense", "head.output": "classifier.out_proj"}
Renamed = Mapping[str, str]
NATIVE: dict[str, tuple[type, type, str, Renamed]] = {
    "bert": (Pooler, Linear, "BertForSequenceClassification", {"head.output": "classifier"}),
    "camembert": (Pooler, Linear, "CamembertForSequenceClassification", DENSE),
    "distilbert": (
        Cls,
        MLP,
        "DistilBertForSequenceClassification",
        {"head.layers.1": "pre_classifier", "head.layers.3": "classifier"},
    ),
    "mpnet": (Pooler, Linear, "MPNetForSequenceClassification", DENSE),
    "roberta": (Pooler, Linear, "RobertaForSequenceClassification", DENSE),
    "xlm-roberta": (Pooler, Linear, "XLMRobertaForSequenceClassification", DENSE),
}
"""By family: the pooling and head with which transformers has the same model, its class, and our modules in it."""
WITH_POOLER = ("bert", "camembert", "mpnet", "roberta", "xlm-roberta")
"""Families whose classes in transformers have a pooler unless told otherwise."""


@dataclass(frozen=True)
class Classifier:
    """The modules of one task's model, whose LoRA is merged already."""

    encoder: Encoder
    pooling: nn.Module
    relation: nn.Module
    head: nn.Module
    adapter: Adapter | None

    @classmethod
    def of(cls, model: MultiTaskModel, task: str) -> Classifier:
        """Take a task's modules; raise DataError for one that no file for transformers has."""
        owner = model.adapter_of.get(task)
        adapter: Any = model.adapters[owner] if owner else None
        relation = model.relation if task in model.related else nn.Identity()
        found = cls(
            model.encoder,
            model.poolings[task],
            relation,
            model.heads[task],
            None if isinstance(adapter, LoRA) else adapter,
        )
        known: dict[str, tuple[Any, tuple[type, ...]]] = {
            "pooling": (found.pooling, (Cls, Mean, Pooler, Attention)),
            "relational layer": (found.relation, (nn.Identity, LinearRelation, MLPRelation)),
            "head": (found.head, (Linear, MLP)),
            "adapter": (found.adapter, (type(None), PAL, LowRank, Houlsby)),
        }
        for part, (module, classes) in known.items():
            if type(module) not in classes:
                raise DataError(
                    f"tasks.{task}: the {part} {type(module).__name__} has no place in a model of transformers.",
                    hint=ELSEWHERE,
                )
        return found

    @property
    def native(self) -> str | None:
        """The class of transformers that computes the same; None if it has none."""
        known = NATIVE.get(self.encoder.config.family)
        plain = self.adapter is None and isinstance(self.relation, nn.Identity)
        if known is None or not plain or (type(self.pooling), type(self.head)) != known[:2]:
            return None
        return known[2]

    def calibrate(self, scale: Sequence[float], shift: Sequence[float], *, yes_and_no: bool) -> None:
        """Make scale and shift part of the head's last layer; with `yes_and_no`, give the logit of no, 0, as well."""
        layer: Any = self.head.output if isinstance(self.head, Linear) else self.head.layers[-1]  # type: ignore[index]
        with torch.no_grad():
            factor = torch.tensor(scale) if scale else torch.ones(1)
            weight, bias = layer.weight * factor[:, None], layer.bias * factor
            bias = bias + torch.tensor(shift) if shift else bias
            if yes_and_no:
                weight, bias = torch.cat([0 * weight, weight]), torch.cat([0 * bias, bias])
            layer.weight, layer.bias = nn.Parameter(weight), nn.Parameter(bias)


def write_classifier(
    folder: Path, classifier: Classifier, tokenizer: TextTokenizer, *, settings: Mapping[str, Any], max_length: int
) -> None:
    """Write config.json, the weights and the tokenizer, and a model file if transformers has no such model.

    Args:
        folder: An empty folder.
        classifier: The model.
        tokenizer: Its tokenizer.
        settings: Labels and what else config.json says about the task.
        max_length: Tokens that a text or a pair may have, special ones included.
    """
    config = classifier.encoder.config
    encoder = encoder_settings(config, tokenizer)
    if classifier.native is not None:
        weights, content = _native_weights(classifier), {**encoder, "architectures": [classifier.native], **settings}
    else:
        weights, content = _own_weights(classifier), {**_own_settings(classifier, encoder), **settings}
        (folder / MODEL_FILE.name).write_bytes(MODEL_FILE.read_bytes())
    plain = {name: value.detach().contiguous() for name, value in weights.items()}
    safetensors.torch.save_file(plain, folder / "model.safetensors", metadata={"format": "pt"})
    (folder / "model.safetensors").chmod(0o644)  # safetensors hides its files from others
    tokenizer.save(folder / "tokenizer.json")
    write_json(folder / "config.json", content)
    write_json(folder / "tokenizer_config.json", tokenizer_settings(config, tokenizer, max_length))


def _native_weights(classifier: Classifier) -> dict[str, Tensor]:
    """Return the weights by the names of the class of transformers."""
    family = classifier.encoder.config.family
    names, own = NATIVE[family][3], export(classifier.encoder)
    modules = {"head": classifier.head}
    if "pooler" in names:  # a layer of the head there, and not of the encoder
        own = {name: value for name, value in own.items() if "pooler." not in name}
        modules["pooler"] = classifier.encoder.pooler  # type: ignore[assignment]
    for ours, theirs in names.items():
        part, _, inside = ours.partition(".")
        module = modules[part].get_submodule(inside)
        own |= {f"{theirs}.{name}": value for name, value in module.state_dict().items()}
    return own


def _own_weights(classifier: Classifier) -> dict[str, Tensor]:
    """Return the weights by the names of our own model file."""
    prefix = FAMILIES[classifier.encoder.config.family].prefix
    encoder = {name.removeprefix(prefix): value for name, value in export(classifier.encoder).items()}
    weights = {f"encoder.{name}": value for name, value in encoder.items() if not name.startswith("pooler.")}
    parts = {"pooling": classifier.pooling, "relation": classifier.relation, "head": classifier.head}
    if isinstance(classifier.pooling, Pooler):
        parts["pooler"] = classifier.encoder.pooler  # type: ignore[assignment]
    if classifier.adapter is not None:
        parts["adapter"] = classifier.adapter
    for part, module in parts.items():
        weights |= {f"{part}.{name}": value for name, value in module.state_dict().items()}
    return weights


def _own_settings(classifier: Classifier, encoder: Mapping[str, Any]) -> dict[str, Any]:
    """Return what our own model file reads from config.json."""
    config = classifier.encoder.config
    family = FAMILIES[config.family]
    roles = ("attention_output", "output", "norm", "attention_norm")
    places = {"layer": family.layer.format("{}").removesuffix(".")}
    places |= {role: family.layer_modules[role][0] for role in roles}
    module = MODEL_FILE.stem
    return {
        "model_type": "palbert",
        "architectures": [OWN],
        "auto_map": {
            "AutoConfig": f"{module}.PalbertConfig",
            "AutoModelForSequenceClassification": f"{module}.{OWN}",
        },
        "encoder": dict(encoder),
        "encoder_options": {"add_pooling_layer": False} if config.family in WITH_POOLER else {},
        "places": places,
        "pre_norm": BLOCKS[config.block].has_final_norm,
        "pooling": type(classifier.pooling).__name__.lower(),
        "relation": _relation_settings(classifier.relation),
        "head": type(classifier.head).__name__.lower(),
        "adapter": _adapter_settings(classifier.adapter),
        "dtype": "float32",
    }


def _relation_settings(relation: nn.Module) -> dict[str, Any]:
    if isinstance(relation, MLPRelation):
        return {"kind": "mlp", "inner": relation.layers[0].out_features}
    return {"kind": "linear" if isinstance(relation, LinearRelation) else "none"}


def _adapter_settings(adapter: Adapter | None) -> dict[str, Any]:
    if isinstance(adapter, PAL):
        shared = len(adapter.down) < adapter.layers
        return {"kind": "pal", "size": adapter.size, "heads": adapter.heads, "shared": shared}
    if isinstance(adapter, LowRank):
        return {"kind": "low-rank", "size": adapter.size, "shared": len(adapter.down) < adapter.layers}
    return {"kind": "houlsby", "size": adapter.size} if isinstance(adapter, Houlsby) else {"kind": "none"}
