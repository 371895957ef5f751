"""Visible texts: nothing a terminal would obey is left, and everything else stays."""

from __future__ import annotations

import json
import sys
import unicodedata

import pytest

from palbert.runtime.visible import visible, visible_line

OBEYED = [chr(code) for code in (*range(0x202A, 0x202F), *range(0x2066, 0x206A), 0x2028, 0x2029, 0xD800, 0xDCFF)]


def test_no_control_character_is_left_but_tabs_and_line_feeds() -> None:
    controls = [chr(code) for code in range(sys.maxunicode + 1) if unicodedata.category(chr(code)) == "Cc"]
    shown = visible("".join([*controls, *OBEYED]))
    assert [sign for sign in shown if not sign.isprintable()] == ["\t", "\n"]
    assert visible_line("".join([*controls, *OBEYED])).isprintable()


@pytest.mark.parametrize("text", ["Grün 🎸 👩‍🚀", "می‌خواهم", "שלום", "日本語", r"[red]x[/] \u001b", "a\tb\nc"])
def test_words_of_any_language_stay(text: str) -> None:
    assert visible(text) == text


def test_json_that_was_made_visible_has_the_same_value() -> None:
    value = {"text": "".join([*map(chr, range(0x7F, 0xA0)), *OBEYED[:-2]])}
    shown = visible(json.dumps(value, ensure_ascii=False))
    assert shown.isprintable() and json.loads(shown) == value
