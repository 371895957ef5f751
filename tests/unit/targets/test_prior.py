"""Priors: shares in the order of the classes."""

from __future__ import annotations

import pytest

from palbert.targets.prior import check_sum, shares_in_order


def test_a_table_is_put_in_the_order_of_the_classes() -> None:
    assert shares_in_order({"b": 0.75, "a": 0.25}, ("a", "b")) == shares_in_order([0.25, 0.75], ("a", "b"))


@pytest.mark.parametrize("prior", [{"a": 0.5}, {"a": 0.5, "c": 0.5}, "a", True, [True, 0.5], None])
def test_anything_but_numbers_for_all_classes_is_refused(prior: object) -> None:
    with pytest.raises(ValueError, match="prior takes numbers"):
        shares_in_order(prior, ("a", "b"))


def test_shares_rounded_by_hand_add_up_to_1() -> None:
    check_sum([0.333, 0.333, 0.333])
    with pytest.raises(ValueError, match="add up to 1"):
        check_sum([0.33, 0.33, 0.33])
