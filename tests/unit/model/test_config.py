"""EncoderConfig: plain values that survive JSON, and combinations that are refused."""

from __future__ import annotations

import json
from dataclasses import asdict, replace
from typing import Any

import pytest

from palbert.errors import EncoderError
from palbert.model.config import EncoderConfig

CONFIG = EncoderConfig(
    family="bert",
    vocabulary_size=50,
    hidden_size=24,
    embedding_size=24,
    layers=2,
    heads=3,
    intermediate_size=40,
    max_length=40,
)
ROTARY = replace(CONFIG, positions="rotary", rotary_bases=(1e4, 1e5), windows=(0, 64), block="pre-norm")


@pytest.mark.parametrize("config", [CONFIG, ROTARY])
def test_a_configuration_is_unchanged_by_json(config: EncoderConfig) -> None:
    assert EncoderConfig(**json.loads(json.dumps(asdict(config)))) == config


def test_a_configuration_of_an_older_run_is_read_as_bert() -> None:
    names = ("family", "vocabulary_size", "hidden_size", "embedding_size", "layers", "heads", "intermediate_size")
    older = {name: getattr(CONFIG, name) for name in (*names, "max_length", "relative_buckets", "position_offset")}
    assert EncoderConfig(**older) == CONFIG
    assert (CONFIG.block, CONFIG.positions, CONFIG.feed_forward, CONFIG.norm) == (
        "post-norm",
        "table",
        "plain",
        "layer",
    )


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"positions": "rotary"}, "Expected rotary_bases to have one value per layer, or none; found 0 for 2 layers"),
        ({"rotary_bases": (1e4, 1e4)}, "found 2 for 2 layers with table positions"),
        ({"windows": (64,)}, "Expected windows to have one value per layer, or none; found 1"),
        ({"positions": "rotary", "rotary_bases": (9.0, 9.0), "heads": 8}, "heads of an even width, found 3"),
    ],
)
def test_contradictory_settings_of_layers_are_refused(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(EncoderError, match=message):
        replace(CONFIG, **changes)


def test_an_unknown_activation_is_named() -> None:
    with pytest.raises(EncoderError, match=r"activation 'gelo'.*Did you mean 'gelu'"):
        replace(CONFIG, activation="gelo")


@pytest.mark.parametrize("family", [None, 3, ["bert"]])
def test_a_family_is_a_name(family: Any) -> None:
    with pytest.raises(EncoderError, match="family: expected a name"):
        replace(CONFIG, family=family)


def test_heads_must_divide_the_hidden_size() -> None:
    with pytest.raises(EncoderError, match="5 heads cannot share a hidden size of 24"):
        replace(CONFIG, heads=5)


@pytest.mark.parametrize("name", ["dropout", "attention_dropout"])
@pytest.mark.parametrize("value", [-0.1, 1.0])
def test_dropout_outside_its_range_is_refused(name: str, value: float) -> None:
    with pytest.raises(EncoderError, match=f"{name}: expected a number from 0 and below 1, found {value}"):
        replace(CONFIG, **{name: value})  # type: ignore[arg-type]
