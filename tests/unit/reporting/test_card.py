"""Model cards: metadata that is checked before anything is sent. What they show is tested with the verb."""

from __future__ import annotations

import pytest

from palbert.errors import DataError
from palbert.reporting.card import Footprint, check_card, check_licence


def test_energy_and_emissions_are_products() -> None:
    made = Footprint(seconds=3600.0, device="cpu", watts=250.0, grid=400.0)
    assert made.kilowatt_hours == pytest.approx(0.25)
    assert made.grams == pytest.approx(100.0)


@pytest.mark.parametrize("licence", ["apache-2.0", "mit", "cc-by-4.0", "other", None])
def test_identifiers_of_licences_are_accepted(licence: str | None) -> None:
    check_licence(licence)


@pytest.mark.parametrize(
    ("card", "problem"),
    [
        ("# Mine", "does not begin with metadata"),
        ("---\n- a\n---\n", "cannot be read"),
        ("---\na: [\n---\n", "cannot be read"),
        ("---\nmodel-index: 3\n---\n", "cannot be read"),
        ("---\nlicense: Apache License\n---\n", "expected the identifier of a licence"),
        ("---\nlicense: 3\n---\n", "expected the identifier of a licence"),
    ],
)
def test_cards_that_the_hub_would_refuse_are_refused(card: str, problem: str) -> None:
    with pytest.raises(DataError, match=problem):
        check_card(card, "card.md")
