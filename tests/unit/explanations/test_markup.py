"""Markup: colours by sign and strength, words in their order, nothing of a text unescaped."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from palbert.explanations.explanation import Explanation, Interactions, SimilarRow, WordScore
from palbert.explanations.markup import AGAINST, FOR, explanation_html, explanations_page, headline, shades

WORDS = (
    WordScore("It", 0, 2, 0.5, 0),
    WordScore(".", 2, 3, -1.0, 0),
    WordScore('<script>"', 4, 13, 0.0, 0),
    WordScore("rain", 0, 4, 0.25, 1),
)
EXPLANATION = Explanation("quora", "<i>", "integrated-gradients", WORDS, 0.0, 2.5, -0.5, 0.004, 32)


def test_shades_are_shares_of_the_strongest_score() -> None:
    assert shades([1.0, -4.0, 0.0]) == [0.25, -1.0, 0.0]
    assert shades([0.0, 0.0]) == [0.0, 0.0] and shades([]) == []


def test_words_are_coloured_by_sign_and_strength() -> None:
    colours = re.findall(r"rgba\(([\d,]+),([\d.]+)\)[^>]*>([^<]*)<", explanation_html(EXPLANATION))
    assert colours == [
        (FOR, "0.30", "It"),
        (AGAINST, "0.60", "."),
        (FOR, "0.00", "&lt;script&gt;&quot;"),
        (FOR, "0.15", "rain"),
    ]


def test_words_against_the_answer_can_be_told_apart_without_colour() -> None:
    lines = re.findall(r"<span style=\"([^\"]*)\" title=\"([^\"]*)\"", explanation_html(EXPLANATION))
    assert [("dotted" in style, title) for style, title in lines] == [
        (False, "+0.500"),
        (True, "-1.000"),
        (False, "+0.000"),
        (False, "+0.250"),
    ]


def test_each_text_of_a_pair_has_a_line_and_spaces_stay() -> None:
    texts = re.findall(r'<div dir="auto">(.*?)</div>', explanation_html(EXPLANATION))
    assert [re.sub(r"<[^>]*>", "", text) for text in texts] == ["It. &lt;script&gt;&quot;", "rain"]


def test_interactions_are_a_table_that_says_how_many_words_it_lacks() -> None:
    shown = explanation_html(replace(EXPLANATION, interactions=Interactions((0, 2), (3,), ((0.5,), (-0.25,)), 1)))
    assert "1 words left out" in shown and "<th>&lt;script&gt;&quot;</th>" in shown
    assert re.findall(r"<td[^>]*>([^<]*)</td>", shown) == ["+0.50", "-0.25"]
    whole = explanation_html(replace(EXPLANATION, interactions=Interactions((0,), (3,), ((0.5,),), 0)))
    assert "left out" not in whole


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({}, "quora: log odds of <i> +2.50, without its words -0.50 (integrated gradients, 32 steps, error 0.4%)"),
        (
            {"target": "", "method": "occlusion", "steps": None, "completeness_error": None},
            "quora: output +2.50, without its words -0.50 (occlusion)",
        ),
    ],
)
def test_the_headline_says_what_is_explained(change: dict[str, str | None], expected: str) -> None:
    assert headline(replace(EXPLANATION, **change)) == expected  # type: ignore[arg-type]


def test_similar_rows_stand_below_their_explanation_as_text() -> None:
    rows = [
        SimilarRow(("<b>one", "other"), "<i>", 0.98765, "quora", "7"),
        SimilarRow(("none",), None, 0.5, "quora", "8"),
    ]
    page = explanations_page("runs", [EXPLANATION, EXPLANATION], [rows, []])
    first, second = re.findall(r"<section>.*?</section>", page)
    assert re.findall(r"<td>(.*?)</td>", re.sub(r"</?span[^>]*>", "", first)) == [
        *("0.988", "&lt;i&gt;", "&lt;b&gt;one<br>other"),
        *("0.500", "", "none"),
    ]
    assert "Training rows most like it" in second and "<b>" not in page and "<i>" not in page


def test_a_page_is_whole_and_loads_nothing() -> None:
    page = explanations_page("<runs>", [EXPLANATION, EXPLANATION])
    assert page.startswith("<!doctype html>") and page.count("<section>") == 2
    assert "&lt;runs&gt;" in page and "<runs>" not in page and "<script>" not in page
    assert not re.search(r"(src|href)=", page)
