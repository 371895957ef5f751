"""The lexicon: ours is well-formed, others are added in front, and mistakes are named."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from palbert.bias.lexicon import read_lexicon
from palbert.errors import DataError

Write = Callable[[str], Path]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    def written(text: str) -> Path:
        path = tmp_path / "own.toml"
        path.write_text(text, "utf-8")
        return path

    return written


def test_our_lexicon_has_the_axes_of_the_guide_and_words_for_every_group() -> None:
    axes = read_lexicon().axes
    assert set(axes) == {
        "gender", "names", "race", "religion", "nationality", "age", "disability", "orientation",
    }  # fmt: skip
    for axis in axes.values():
        named = {group for words in axis.words for group in words.forms}
        assert named == set(axis.groups)


def test_our_names_differ_between_groups_and_are_not_words_of_other_axes() -> None:
    axes = read_lexicon().axes
    names = [form for words in axes["names"].words for form in words.forms.values()]
    assert len(names) == len(set(names)) == 60
    others = {
        form for name, axis in axes.items() if name != "names" for each in axis.words for form in each.forms.values()
    }
    assert not others & set(names)


def test_words_of_ones_own_come_first_and_new_axes_are_added(write: Write) -> None:
    own = read_lexicon(
        write(
            '[axes.gender]\nwords = [{ women = "lass", men = "lad" }]\nkeep = ["lad culture"]\n'
            '[lists]\npet = ["owner"]\n'
            '[axes.pets]\ngroups = ["cats", "dogs"]\nwords = [{ before = "pet", cats = "cat", dogs = "dog" }]\n'
        )
    )
    gender = own.axes["gender"]
    assert gender.words[0].forms == {"women": "lass", "men": "lad"} and len(gender.words) > 20
    assert gender.keep[0] == "lad culture" and gender.groups == ("women", "men") and gender.no_names
    assert own.axes["pets"].words[0].before == {"owner"}


def test_an_axis_can_be_replaced(write: Write) -> None:
    path = write('[axes.age]\nreplace = true\ngroups = ["a", "b"]\nwords = [{ a = "minor", b = "adult" }]\n')
    assert read_lexicon(path).axes["age"].groups == ("a", "b")


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"none\.toml: cannot be read: No such file"):
        read_lexicon(tmp_path / "none.toml")


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("axes = 1", "expected tables [axes.NAME]"),
        ("", "expected tables [axes.NAME], found none"),
        ("[axis.gender]", "unknown key 'axis'"),
        ("[axes.gender", "not a TOML file"),
        ('[axes.x]\ngroups = ["a"]\nwords = [{ a = "b" }]', "axes.x.groups: expected two or more different names"),
        ('[axes.x]\ngroups = ["a", "b"]', "axes.x.words: expected a list of tables"),
        ('[axes.x]\ngroups = ["a", "b"]\nwords = [{ a = "b" }]', "words for two or more groups, found 1"),
        ('[axes.x]\ngroups = ["a", "b"]\nwords = [{ a = "b", c = "d" }]', "unknown group 'c'"),
        ('[axes.x]\ngroups = ["a", "b"]\nwords = [{ a = "b", b = 3 }]', "expected a word, found 3"),
        ('[axes.x]\ngroups = ["a", "b"]\nwords = [{ a = "w", b = "v", as = "verb" }]', "unknown part 'verb'"),
        ('[axes.x]\ngroups = ["a", "b"]\nwords = [{ a = "w", b = "v", before = "z" }]', "no list 'z'"),
        ('[axes.x]\ngroups = ["a", "b"]\nwords = [{ a = "w", b = "v", before = ["z"] }]', "no list '['z']'"),
        pytest.param("a = " + "[" * 100_000, "not a TOML file", id="deep"),
        pytest.param("a = " + "1" * 10_000, "not a TOML file", id="digits"),
        ('[axes.x]\ngroups = ["a", "b"]\nwords = [{ a = "w", b = "w" }]', "'w' is a word of both a and b"),
        ('[axes.gender]\nunles = ["x"]', "axes.gender: unknown key 'unles'."),
        ('[axes.gender]\nkeep = "x"', "axes.gender.keep: expected a list of texts"),
        ('[lists]\nperson = ["x", 1]', "lists.person: expected a list of texts"),
    ],
)
def test_mistakes_are_named(text: str, says: str, write: Write) -> None:
    with pytest.raises(DataError) as caught:
        read_lexicon(write(text))
    assert says in str(caught.value) and "own.toml" in str(caught.value)
