"""Pairs: from rows, from templates, and from files of others."""

from __future__ import annotations

from collections import Counter
from itertools import groupby
from pathlib import Path

import pytest

from palbert.bias.lexicon import read_lexicon
from palbert.bias.pairs import count_left_out, pairs_of_file, pairs_of_rows, pairs_of_templates
from palbert.bias.swapper import Swapper
from palbert.errors import DataError


def test_a_row_gives_a_pair_for_every_other_group() -> None:
    swapper = Swapper(read_lexicon())
    pairs = list(pairs_of_rows([("7", ("a Muslim family",)), ("8", ("He loves her.",))], swapper))
    assert [pair.second for pair in pairs] == ["Christians", "Jews", "Hindus", "Buddhists", "Sikhs"]
    assert {(pair.first, pair.base, pair.origin) for pair in pairs} == {("Muslims", "dev 7", "dev")}
    assert count_left_out(swapper) == {"gender": {"names several groups": 1}}


@pytest.mark.parametrize("width", [1, 2])
def test_templates_have_all_groups_in_the_same_sentences(width: int) -> None:
    lexicon = read_lexicon()
    pairs = list(pairs_of_templates(lexicon, width=width))
    assert {pair.axis for pair in pairs} == set(lexicon.axes)
    assert all(len(pair.texts) == len(pair.other) == width and pair.texts != pair.other for pair in pairs)
    assert not any("{" in text for pair in pairs for text in (*pair.texts, *pair.other))
    for axis, own in groupby(pairs, key=lambda pair: pair.axis):
        counts = Counter((pair.first, pair.second) for pair in own)
        groups = len(lexicon.axes[axis].groups)
        assert len(counts) == groups * (groups - 1) // 2 and len(set(counts.values())) == 1
    begins = {pair.texts[0][0] for pair in pairs}
    assert all(letter.isupper() for letter in begins)


def test_sentences_of_the_eec_are_matched_within_their_template(tmp_path: Path) -> None:
    path = tmp_path / "eec.tsv"
    path.write_text(
        "ID\tSentence\tTemplate\tPerson\tGender\tRace\tEmotion\tEmotion word\n"
        "1\tMoe is sad.\t<p> is <e>.\tMoe\tmale\tEuropean\tsadness\tsad\n"
        "2\tZoe is sad.\t<p> is <e>.\tZoe\tfemale\tEuropean\tsadness\tsad\n"
        "3\tJay is sad.\t<p> is <e>.\tJay\tmale\tAfrican-American\tsadness\tsad\n"
        "4\tZoe is glad.\t<p> is <e>.\tZoe\tfemale\tEuropean\tjoy\tglad\n"
        "5\tMy aunt is sad.\t<p> is <e>.\tmy aunt\tfemale\t\tsadness\tsad\n",
        "utf-8",
    )
    found = {(pair.axis, pair.first, pair.texts[0], pair.second, pair.other[0]) for pair in pairs_of_file(path)}
    assert found == {
        ("gender", "female", "Zoe is sad.", "male", "Moe is sad."),
        ("race", "African-American", "Jay is sad.", "European", "Moe is sad."),
    }


def test_crows_pairs_put_the_disadvantaged_group_first(tmp_path: Path) -> None:
    path = tmp_path / "crows.csv"
    path.write_text(
        "sent_more,sent_less,stereo_antistereo,bias_type\nThe old nap.,The young nap.,stereo,age\n"
        "The young dance.,The old dance.,antistereo,age\n",
        "utf-8",
    )
    first, second = pairs_of_file(path)
    assert (first.axis, first.first, first.texts, first.other) == (
        "age", "disadvantaged", ("The old nap.",), ("The young nap.",),
    )  # fmt: skip
    assert second.texts == ("The old dance.",) and second.base != first.base and second.origin == "crows.csv"


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("a,b\n1,2\n", r"columns of the Equity Evaluation Corpus .* found a, b"),
        ("sent_more,sent_less,stereo_antistereo,bias_type\nx,y,maybe,age\n", "row 1: expected stereo or antistereo"),
        ("Sentence,Template,Gender,Race\nHe naps.,x naps,male,\n", "no two sentences differ in Gender or Race alone"),
    ],
)
def test_other_files_are_refused(text: str, says: str, tmp_path: Path) -> None:
    path = tmp_path / "other.csv"
    path.write_text(text, "utf-8")
    with pytest.raises(DataError, match=says):
        pairs_of_file(path)
