"""Shifts: signs, intervals and corrected p-values on pairs whose truth is known."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from palbert.bias.pairs import Pair
from palbert.bias.shifts import Answers, group_figures, holm

GROUPS = ("a", "b", "c")


def pairs_of(bases: int, groups: tuple[str, ...] = GROUPS) -> list[Pair]:
    return [
        Pair("axis", first, second, ("x",), ("y",), str(base), "templates")
        for base in range(bases)
        for first, second in itertools.combinations(groups, 2)
    ]


def answers_of(
    pairs: list[Pair], effect: dict[str, float], *, noise: float, quantities: tuple[str, ...] = ("",)
) -> Answers:
    generator = np.random.default_rng(1)
    shape = (len(pairs), len(quantities))
    first = np.array([[effect[pair.first]] for pair in pairs]) + generator.normal(0, noise, shape)
    second = np.array([[effect[pair.second]] for pair in pairs]) + generator.normal(0, noise, shape)
    return Answers(first, second, np.abs(first - second)[:, 0] > 0.5, quantities)


def test_a_group_that_gets_more_has_a_positive_shift_and_the_others_a_negative_one() -> None:
    pairs = pairs_of(40)
    found = {
        each["group"]: each
        for each in group_figures(pairs, answers_of(pairs, {"a": 1, "b": 0, "c": 0}, noise=0.1), order={})
    }
    assert found["a"]["mean_shift"] == pytest.approx(1, abs=0.05)
    assert found["b"]["mean_shift"] == pytest.approx(-0.5, abs=0.05)
    low, high = found["a"]["interval"]
    assert low < found["a"]["mean_shift"] < high and high - low < 0.2
    assert found["a"]["significant"] and found["a"]["pairs"] == 80 and found["a"]["bases"] == 40
    assert found["a"]["flip_rate"] == 1 and found["a"]["against"] == ["b", "c"]
    assert found["a"]["by_origin"]["templates"]["mean_shift"] == found["a"]["mean_shift"]


def test_without_an_effect_nothing_is_significant_and_the_interval_holds_zero() -> None:
    pairs = pairs_of(40)
    found = group_figures(pairs, answers_of(pairs, dict.fromkeys(GROUPS, 0.0), noise=1), order={})
    assert not any(each["significant"] for each in found)
    assert all(each["interval"][0] < 0 < each["interval"][1] for each in found)


def test_answers_that_are_equal_have_no_shift_and_p_one() -> None:
    pairs = pairs_of(5)
    for each in group_figures(pairs, answers_of(pairs, dict.fromkeys(GROUPS, 0.0), noise=0), order={}):
        assert (each["mean_shift"], each["p_adjusted"], each["flip_rate"]) == (0, 1, 0)


def test_of_two_groups_only_the_first_in_order_is_reported() -> None:
    pairs = pairs_of(20, ("men", "women"))
    answers = answers_of(pairs, {"men": 0, "women": 2}, noise=0.1)
    [figure] = group_figures(pairs, answers, order={"axis": ("women", "men")})
    assert figure["group"] == "women" and figure["against"] == ["men"]
    assert figure["mean_shift"] == pytest.approx(2, abs=0.1)


def test_pairs_of_one_base_do_not_count_as_independent() -> None:
    pairs = [Pair("axis", "a", "b", ("x",), ("y",), str(number % 3), "dev") for number in range(300)]
    first = np.array([[float(number % 3) + 1] for number in range(300)])
    [figure] = group_figures(pairs, Answers(first, first * 0, first[:, 0] > 9, ("",)), order={})
    assert figure["p"] > 0.2  # three bases can be exchanged in eight ways
    low, high = figure["interval"]
    assert (low, high) == (1, 3)


def test_of_several_classes_the_clearest_is_reported_and_all_are_corrected_for() -> None:
    pairs = pairs_of(30, ("a", "b"))
    one = answers_of(pairs, {"a": 1.0, "b": 0.0}, noise=0.1)
    noise = np.random.default_rng(2).normal(0, 1, (len(pairs), 2))
    answers = Answers(
        np.concatenate([noise, one.first], axis=1),
        np.concatenate([noise[::-1], one.second], axis=1),
        one.flips,
        ("low", "middle", "high"),
    )
    [figure] = group_figures(pairs, answers, order={})
    assert figure["class"] == "high" and figure["p_adjusted"] == pytest.approx(3 * figure["p"])


def test_the_seed_decides_and_the_same_one_repeats() -> None:
    pairs = pairs_of(10)
    answers = answers_of(pairs, {"a": 0.2, "b": 0, "c": 0}, noise=1)
    first = group_figures(pairs, answers, order={}, seed=3)
    assert first == group_figures(pairs, answers, order={}, seed=3)
    assert first != group_figures(pairs, answers, order={}, seed=4)


def test_holm_multiplies_stepwise_and_stays_in_order() -> None:
    np.testing.assert_allclose(holm(np.array([0.04, 0.01, 0.03])), [0.06, 0.03, 0.06])
    np.testing.assert_allclose(holm(np.array([0.9, 0.8])), [1, 1])
