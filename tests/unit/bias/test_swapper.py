"""Swaps: correct sentences about another group, or none; words that only look like one stay."""

from __future__ import annotations

import pytest

from palbert.bias.lexicon import read_lexicon
from palbert.bias.swapper import Swapper


@pytest.fixture(scope="module")
def swapper() -> Swapper:
    return Swapper(read_lexicon())


def swapped(swapper: Swapper, axis: str, *texts: str) -> dict[str, tuple[str, ...]]:
    return {swap.target: swap.texts for swap in swapper.swaps(texts) if swap.axis == axis}


@pytest.mark.parametrize(
    ("text", "other"),
    [
        ("He says that he hurt himself.", "She says that she hurt herself."),
        ("I saw her.", "I saw him."),
        ("I saw him yesterday.", "I saw her yesterday."),
        ("A man and his dog", "A woman and her dog"),
        ("The book on the table is his.", "The book on the table is hers."),
        ("hers was better", "his was better"),
        ("HE IS A MAN", "SHE IS A WOMAN"),
        ("'He 's a waiter'", "'She 's a waitress'"),
        ("two women, three girls' bags", "two men, three boys' bags"),
        ("In her words, it failed.", "In his words, it failed."),
        ("her mother's house", "his father's house"),
        ("her father's house", None),  # names both
        ("She gave her books away.", None),
        ("He loves her.", None),
        ("The Invisible Man returns.", None),
        ("Steven Spielberg and his film", None),
        ("We met Emily at his house.", None),
        ("With Sandler in it, he dominates.", None),
        ("She is pregnant.", None),
        ("this guy and his car", None),
        ("a no man's land", None),
        ("Major problems of mankind", None),
        ("the he-man", None),
    ],
)
def test_gender(text: str, other: str | None, swapper: Swapper) -> None:
    [found] = swapped(swapper, "gender", text).values() or [None]
    assert found == (None if other is None else (other,))


@pytest.mark.parametrize(
    ("axis", "text", "target", "other"),
    [
        ("age", "An old man walks.", "young", "A young man walks."),
        ("age", "an elderly woman", "middle-aged", "a middle-aged woman"),
        ("age", "Young people dance.", "old", "Old people dance."),
        ("race", "Asian men run.", "Black", "Black men run."),
        ("race", "a black man", "Asian", "an Asian man"),
        ("race", "African American students", "Asian", "Asian American students"),
        ("race", "the black woman", "white", "the white woman"),
        ("religion", "He is a Christian.", "Jews", "He is a Jew."),
        ("religion", "He is Christian.", "Jews", "He is Jewish."),
        ("religion", "a Muslim family", "Jews", "a Jewish family"),
        ("religion", "many Jews agree", "Hindus", "many Hindus agree"),
        ("religion", "what do muslims think", "Christians", "what do christians think"),
        ("nationality", "an American woman", "Mexicans", "a Mexican woman"),
        ("nationality", "a German", "Iranians", "an Iranian"),
        ("disability", "A blind man sings.", "autistic", "An autistic man sings."),
        ("orientation", "two gay men", "straight", "two straight men"),
        ("names", "I met Emily there.", "Arabic names", "I met Fatima there."),
        ("names", "Darnell's idea", "European names", "Jake's idea"),
    ],
)
def test_other_axes(axis: str, text: str, target: str, other: str, swapper: Swapper) -> None:
    assert swapped(swapper, axis, text)[target] == (other,)


@pytest.mark.parametrize(
    "text",
    [
        "Major white wine with turkey in Turkey",
        "Christian Bale and Paris Hilton draw a straight line.",
        "an old joke on a blind date",
        "They turned a blind eye, and it fell on deaf ears.",
        "American Pie is no old movie.",
        "the Christian Right",
        "the Great American Comedy",
        "a German shepherd plays Russian roulette",
        "Emily Watson and Jake Gyllenhaal shine.",
        "Native Americans",
        "a 20 year old student",
        "jake and todd in small letters",
        "black coffee, white bread, a gay party and young wine",
        "I learn German.",
        "mother nature and father time",
        "Chinese-American cooking",
        "",
        "…",
    ],
)
def test_what_only_looks_like_a_group_is_not_swapped(text: str, swapper: Swapper) -> None:
    assert swapper.swaps((text,)) == []


def test_both_texts_of_a_pair_are_swapped_and_must_name_the_same_group(swapper: Swapper) -> None:
    found = swapped(swapper, "gender", "A man plays.", "The man with his guitar")
    assert found == {"women": ("A woman plays.", "The woman with her guitar")}
    assert swapped(swapper, "gender", "A man plays.", "Someone plays.") == {
        "women": ("A woman plays.", "Someone plays.")
    }
    assert swapped(swapper, "gender", "A man plays.", "A woman plays.") == {}


def test_a_swap_back_gives_the_row_again(swapper: Swapper) -> None:
    for text in ("A man finds himself.", "An old woman.", "An American student"):
        for swap in swapper.swaps((text,)):
            back = swapped(swapper, swap.axis, *swap.texts)
            assert back[swap.source] == (text,)


def test_rows_left_out_are_counted_with_the_reason() -> None:
    swapper = Swapper(read_lexicon(), axes=["gender"])
    for text in ("He loves her.", "She is pregnant.", "the Invisible Man", "We gave her books."):
        swapper.swaps((text,))
    assert dict(swapper.left_out) == {
        ("gender", "names several groups"): 1,
        ("gender", "a word that belongs to one group"): 1,
        ("gender", "in capitals, as in a title"): 1,
        ("gender", "no safe word for the other group"): 1,
    }


def test_groups_are_found_whether_or_not_they_can_be_swapped(swapper: Swapper) -> None:
    assert swapper.groups(("He loves her.", "a deaf man")) == {"gender": {"men", "women"}, "disability": {"deaf"}}
    assert swapper.groups(("white wine",)) == {}
