"""The verb `parts`: every kind of part with all its names, as Python values and on the command line."""

from __future__ import annotations

import json
from collections.abc import Callable
from importlib.metadata import EntryPoint
from typing import Any

import pytest

import palbert
from palbert.errors import PalbertError
from palbert.registry import REGISTRIES, REQUIRED, SAMPLERS

Cli = Callable[..., Any]


def test_every_kind_is_listed_with_all_its_names() -> None:
    found = palbert.parts()
    assert {kind: [each.name for each in listed] for kind, listed in found.items()} == {
        kind: list(table) for kind, table in REGISTRIES.items()
    }
    assert palbert.parts("samplers") == {"samplers": found["samplers"]}


def test_an_unknown_kind_is_refused_with_the_known_ones() -> None:
    with pytest.raises(PalbertError, match=r"Unknown kind of part 'sampler'\. Known: .*Did you mean 'samplers'\?"):
        palbert.parts("sampler")


def test_a_part_of_a_broken_package_is_listed_with_its_error(monkeypatch: pytest.MonkeyPatch) -> None:
    broken = EntryPoint("broken", "no_such_package:Sampler", "palbert.samplers")
    monkeypatch.setitem(SAMPLERS.__dict__, "plugins", {"broken": broken})
    [found] = [each for each in palbert.parts("samplers")["samplers"] if each.name == "broken"]
    assert "'no_such_package:Sampler' cannot be imported" in found.summary


def test_the_command_prints_names_options_extras_and_summaries(cli: Cli) -> None:
    result = cli("parts")
    assert result.code == 0
    lines = {" ".join(line.split()) for line in result.out.splitlines()}
    assert {"heads", "gradients", "schedules"} <= lines
    assert any(line.startswith('cagrad memory = "keep", c = 0.4 gradients Conflict-averse gradient') for line in lines)
    assert any(line.startswith("pal size = 204, heads = 12, shared_projections = true") for line in lines)
    assert any(line.startswith('lora rank = 8, alpha = 16.0, targets = ["query", "value"]') for line in lines)
    assert any(line.startswith("cosine dropout, scale = none") for line in lines)
    assert "accuracy The share of rows whose class is right." in lines


def test_the_command_prints_one_kind_as_json(cli: Cli) -> None:
    result = cli("parts", "heads", "--json")
    [(kind, listed)] = json.loads(result.out).items()
    assert kind == "heads"
    [cosine] = [each for each in listed if each["name"] == "cosine"]
    assert cosine["options"] == {"dropout": {}, "scale": {"default": None}}
    assert palbert.parts("heads")["heads"][0].options == {"dropout": REQUIRED}
    assert cli("parts", "head").code == 2
