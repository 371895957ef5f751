"""Families: each names parts and weights that exist."""

from __future__ import annotations

import pytest

from palbert.model.blocks.block import LINEAR_ROLES
from palbert.model.config import EncoderConfig
from palbert.model.masked import MaskedHead
from palbert.registry import FAMILIES


@pytest.mark.parametrize("name", FAMILIES)
def test_a_family_names_fields_of_the_configuration(name: str) -> None:
    family, fields = FAMILIES[name], set(EncoderConfig.__dataclass_fields__)
    assert set(family.settings) | set(family.fixed) | set(family.defaults) <= fields
    assert not set(family.settings) & set(family.fixed)
    assert set(family.defaults) <= set(family.settings)


@pytest.mark.parametrize("name", FAMILIES)
def test_a_family_names_the_weights_of_every_linear_layer_and_norm(name: str) -> None:
    family = FAMILIES[name]
    assert set(family.layer_modules) == {*LINEAR_ROLES, "attention_norm", "norm"}
    named = [each for names in (*family.modules.values(), *family.layer_modules.values()) for each in names]
    assert len(set(named)) == len(named)


@pytest.mark.parametrize("name", FAMILIES)
def test_a_family_names_the_weights_of_the_masked_word_head(name: str) -> None:
    family = FAMILIES[name]
    assert set(family.masked_head) == {"dense", "norm", "bias"}
    assert set(family.masked_options) | set(family.masked_settings) <= set(MaskedHead.__init__.__annotations__)
