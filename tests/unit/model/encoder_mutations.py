"""Damaged encoder folders: made from small sound ones, by changing bytes, JSON values, settings and tensors."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors

from palbert.model.encoder import Encoder
from palbert.model.families import export, read_config

KINDS = ("json", "vocabulary", "shards", "pickle")
"""What the folders have: tokenizer.json, vocab.txt alone, weights with an index, weights of PyTorch."""
SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
WORDS = [*SPECIAL, *"abcdeABCÀé漢", *(f"##{letter}" for letter in "abcdeé"), "Ab", "ca"]
TEXTS = ["abc Ab cab", "ÀB é 漢a", "", "z [MASK] ca"]
CONFIG = {
    "model_type": "bert", "vocab_size": len(WORDS), "hidden_size": 8, "num_hidden_layers": 2, "num_attention_heads": 2,
    "intermediate_size": 12, "max_position_embeddings": 16, "type_vocab_size": 2, "hidden_act": "gelu",
    "layer_norm_eps": 1e-12, "pad_token_id": 0, "is_decoder": False, "position_embedding_type": "absolute",
}  # fmt: skip
SETTINGS = {"tokenizer_class": "BertTokenizer", "do_lower_case": True, "strip_accents": None, "cls_token": "[CLS]",
            "tokenize_chinese_chars": True, "unk_token": "[UNK]", "model_max_length": 16}  # fmt: skip
STRANGE: list[Any] = [
    None, True, False, 0, 1, -1, 2, 3, 7, 512, 10**9, 10**12, 2**31, 2**63, 2**200, 0.5, 1e39, -0.0, float("nan"),
    float("inf"), "", "x", "8", "gelu_new", "relu", "../x", "a\0b", "é" * 300, [], [1], [[]], {}, {"a": 1},
    {"content": "x"}, "[MASK]", "##a",
]  # fmt: skip
KEYS = {
    "config.json": ["is_decoder", "add_cross_attention", "pruned_heads", "hidden_act", "layer_norm_eps", "model_type",
                    "vocab_size", "hidden_size", "num_hidden_layers", "num_attention_heads", "type_vocab_size",
                    "pad_token_id", "position_embedding_type", "max_position_embeddings", "tokenizer_class"],
    "tokenizer_config.json": ["do_lower_case", "strip_accents", "tokenize_chinese_chars", "unk_token", "cls_token",
                              "mask_token", "tokenizer_class", "do_basic_tokenize", "never_split",
                              "word_tokenizer_type",
                              "added_tokens_decoder", "additional_special_tokens", "model_max_length"],
}  # fmt: skip


def make_folder(folder: Path, kind: str) -> Path:
    """Write a sound encoder of one of `KINDS`: a BERT of two layers with a WordPiece vocabulary."""
    folder.mkdir(parents=True)
    (folder / "config.json").write_text(json.dumps(CONFIG))
    (folder / "tokenizer_config.json").write_text(json.dumps(SETTINGS))
    (folder / "vocab.txt").write_text("\n".join(WORDS), "utf-8")
    if kind != "vocabulary":
        tokenizer = Tokenizer(models.WordPiece({word: place for place, word in enumerate(WORDS)}, unk_token="[UNK]"))
        tokenizer.normalizer = normalizers.BertNormalizer()
        tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
        tokenizer.post_processor = processors.TemplateProcessing(
            single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B:1 [SEP]:1", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
        )
        tokenizer.add_special_tokens(SPECIAL)
        tokenizer.save(str(folder / "tokenizer.json"))
    with torch.random.fork_rng():
        torch.manual_seed(0)
        encoder = Encoder(read_config({**CONFIG, "initializer_range": 0.5}, pooler=True, where="config.json"))
    weights = {name.removeprefix("bert."): tensor.detach().clone() for name, tensor in export(encoder).items()}
    write_weights(folder, weights, kind)
    return folder


def write_weights(folder: Path, weights: dict[str, torch.Tensor], kind: str) -> None:
    """Write weights as a kind of folder has them."""
    if kind == "pickle":
        torch.save(weights, folder / "pytorch_model.bin")
    elif kind == "shards":
        names = list(weights)
        places = {name: f"model-0000{1 + number % 2}-of-00002.safetensors" for number, name in enumerate(names)}
        for file in set(places.values()):
            save_file({name: weights[name] for name in names if places[name] == file}, folder / file)
        (folder / "model.safetensors.index.json").write_text(json.dumps({"metadata": {}, "weight_map": places}))
    else:
        save_file(weights, folder / "model.safetensors")


def mutate(folder: Path, seed: int) -> str:
    """Damage a folder of `make_folder` in place, as the seed says; return what was done."""
    generator = random.Random(seed)
    ways: list[Callable[[Path, random.Random], str]] = [_bytes, _json, _json, _setting, _setting, _header, _tensors]
    return generator.choice(ways)(folder, generator)


def _bytes(folder: Path, generator: random.Random) -> str:
    """Change, insert, remove or repeat bytes of a file, or remove the file."""
    file = generator.choice(sorted(folder.iterdir()))
    content = bytearray(file.read_bytes())
    start = generator.randrange(len(content))
    stop = min(len(content), start + generator.choice([1, 2, 8, 64, 1000]))
    way = generator.choice(["flip", "cut", "remove", "repeat", "zero", "random", "unlink"])
    if way == "flip":
        content[start] ^= 1 << generator.randrange(8)
    elif way == "cut":
        del content[start:]
    elif way == "remove":
        del content[start:stop]
    elif way == "repeat":
        content[start:start] = content[start:stop]
    elif way in ("zero", "random"):
        content[start:stop] = bytes(stop - start) if way == "zero" else generator.randbytes(stop - start)
    file.unlink() if way == "unlink" else file.write_bytes(content)
    return f"{file.name}: {way} {start}:{stop}"


def _json(folder: Path, generator: random.Random) -> str:
    """Replace, remove or move a value somewhere inside of a JSON file."""
    file = generator.choice(sorted(folder.glob("*.json")))
    values = json.loads(file.read_text("utf-8"))
    done = _change(values, generator)
    file.write_text(json.dumps(values), "utf-8")
    return f"{file.name}: {done}"


def _change(values: Any, generator: random.Random) -> str:
    """Change one value of nested tables and lists in place."""
    inner, path = values, []
    while True:
        keys = list(inner) if isinstance(inner, dict) else list(range(len(inner)))
        key = generator.choice(keys)
        path.append(str(key))
        if not (isinstance(inner[key], dict | list) and inner[key]) or generator.random() < 0.2:
            break
        inner = inner[key]
    way = generator.choice(["replace", "replace", "remove", "swap"])
    if way == "remove":
        del inner[key]
    elif way == "swap":
        other = generator.choice(keys)
        inner[key], inner[other] = inner[other], inner[key]
    else:
        inner[key] = generator.choice(STRANGE)
    return f"{way} {'.'.join(path)}: {inner[key] if way == 'replace' else ''!r:.60}"


def _setting(folder: Path, generator: random.Random) -> str:
    """Give a setting that means something another value."""
    name = generator.choice(sorted(KEYS))
    key, value = generator.choice(KEYS[name]), generator.choice(STRANGE)
    values = json.loads((folder / name).read_text("utf-8"))
    (folder / name).write_text(json.dumps({**values, key: value}), "utf-8")
    return f"{name}: {key} = {value!r:.60}"


def _header(folder: Path, generator: random.Random) -> str:
    """Change a value in the header of a safetensors file, with the right length before it."""
    files = sorted(folder.glob("*.safetensors"))
    if not files:
        return _bytes(folder, generator)
    file = generator.choice(files)
    content = file.read_bytes()
    end = 8 + int.from_bytes(content[:8], "little")
    values = json.loads(content[8:end])
    done = _change(values, generator)
    header = json.dumps(values).encode()
    file.write_bytes(len(header).to_bytes(8, "little") + header + content[end:])
    return f"{file.name}: header: {done}"


def _tensors(folder: Path, generator: random.Random) -> str:
    """Rename, remove, add, cast, reshape or spoil tensors, with files that are sound."""
    kind = "pickle" if (folder / "pytorch_model.bin").is_file() else "shards"
    if kind == "pickle":
        weights = torch.load(folder / "pytorch_model.bin", weights_only=True)
    else:
        weights = {name: tensor for file in folder.glob("*.safetensors") for name, tensor in load_file(file).items()}
        kind = kind if len(list(folder.glob("*.safetensors"))) > 1 else "single"
    name, other = generator.sample(sorted(weights), 2)
    numbers = weights[name]
    ways: dict[str, Callable[[], dict[str, torch.Tensor]]] = {
        "prefix": lambda: {f"0.auto_model.{each}": tensor for each, tensor in weights.items()},
        "two encoders": lambda: weights | {f"other.{each}": tensor.clone() for each, tensor in weights.items()},
        "head": lambda: weights | {"my_head.weight": torch.ones(3)},
        "more layers": lambda: weights | {"encoder.layer.2.output.dense.bias": torch.ones(8)},
        "rename": lambda: {f"{each}_" if each == name else each: tensor for each, tensor in weights.items()},
        "remove": lambda: {each: tensor for each, tensor in weights.items() if each != name},
        "half": lambda: {each: tensor.half() for each, tensor in weights.items()},
        "double": lambda: weights | {name: numbers.double()},
        "whole": lambda: weights | {name: numbers.long()},
        "nan": lambda: weights | {name: torch.full_like(numbers, generator.choice([float("nan"), float("inf")]))},
        "reshape": lambda: weights | {name: numbers.reshape(-1, 2)},
        "transpose": lambda: weights | {name: numbers.t().contiguous()},
        "swap": lambda: weights | {name: weights[other].clone(), other: numbers.clone()},
        "longer": lambda: weights | {name: torch.cat([numbers, numbers])},
    }
    way = generator.choice(list(ways))
    write_weights(folder, ways[way](), kind)
    return f"weights: {way} {name}"
