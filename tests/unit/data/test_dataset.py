"""Datasets: rows read, checked and tokenized; the cache gives the same rows and is invalidated by every change."""

from __future__ import annotations

import errno
import json
import logging
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tokenizers import Tokenizer, models, normalizers, processors

from palbert.data import dataset as module
from palbert.data.dataset import Dataset, key_settings, load_dataset
from palbert.data.token_cache import build
from palbert.data.tokenizer import TextTokenizer
from palbert.errors import DataError
from palbert.tasks.sets import files_of
from palbert.tasks.spec import Task

SINGLE: dict[str, Any] = {
    "name": "own",
    "kind": "single",
    "target": "classes",
    "classes": ["bad", "good"],
    "text": "text",
}
HEADER = "id\ttext\tlabel\n"


def make(folder: Path, content: str, *, name: str = "a.tsv") -> str:
    (folder / name).write_text(content, "utf-8", newline="")
    return str(folder / name)


def task(**changes: Any) -> Task:
    return Task.model_validate({**SINGLE, **changes})


def same(one: Dataset, other: Dataset) -> bool:
    arrays = [
        np.array_equal(a.values, b.values) and np.array_equal(a.offsets, b.offsets)
        for a, b in zip(one.tokens, other.tokens, strict=True)
    ]
    labels = np.array_equal(np.asarray(one.labels), np.asarray(other.labels))
    lists = [list(a) == list(b) for a, b in zip((one.ids, *one.texts), (other.ids, *other.texts), strict=True)]
    rest = (one.dropped, one.unmapped, one.files) == (other.dropped, other.unmapped, other.files)
    return all([*arrays, labels, *lists, rest])


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    return tmp_path / "cache"


def test_rows_are_read_and_tokenized(tmp_path: Path, cache: Path, tokenizer: TextTokenizer) -> None:
    path = make(tmp_path, HEADER + "x\tthe  phone \tgood\ny\tThe service\t0\n")
    found = load_dataset(files_of(task(train=path), "train"), tokenizer, cache=cache)
    assert (len(found), found.task, found.split, list(found.ids)) == (2, "own", "train", ["x", "y"])
    assert [list(column) for column in found.texts] == [["the  phone", "The service"]]
    assert found.labels is not None
    assert (found.labels.tolist(), found.labels.dtype) == ([1, 0], np.int64)
    for row, text in enumerate(found.texts[0]):
        assert found.tokens[0][row].tolist() == tokenizer.tokenizer.encode(text, add_special_tokens=False).ids


def test_numbers_are_kept_in_single_precision(tmp_path: Path, cache: Path, tokenizer: TextTokenizer) -> None:
    path = make(tmp_path, HEADER + "x\ta\t0.5\n")
    own = Task.model_validate({**SINGLE, "target": "number", "classes": [], "train": path})
    labels = load_dataset(files_of(own, "train"), tokenizer, cache=cache).labels
    assert labels is not None
    assert (labels.tolist(), labels.dtype) == ([0.5], np.float32)


def test_rows_without_an_id_column_are_numbered(tmp_path: Path, cache: Path, tokenizer: TextTokenizer) -> None:
    path = make(tmp_path, "text\tlabel\na\t0\nb\t1\n")
    assert list(load_dataset(files_of(task(train=path), "train"), tokenizer, cache=cache).ids) == ["0", "1"]


def test_ids_may_be_numbers(tmp_path: Path, cache: Path, tokenizer: TextTokenizer) -> None:
    rows = '{"id": 0, "text": "a", "label": 1}\n{"id": 17, "text": "b", "label": 0}\n{"text": "c", "label": 0}\n'
    path = make(tmp_path, rows, name="a.jsonl")
    assert list(load_dataset(files_of(task(train=path), "train"), tokenizer, cache=cache).ids) == ["0", "17", "2"]


def test_a_list_is_not_accepted_as_text(tmp_path: Path, cache: Path, tokenizer: TextTokenizer) -> None:
    path = make(tmp_path, '{"text": "a", "label": 1}\n{"text": ["a", "b"], "label": 0}\n', name="a.jsonl")
    with pytest.raises(DataError, match=r"a\.jsonl, line 2: expected a text or a number in 'text', found \['a', 'b'\]"):
        load_dataset(files_of(task(train=path), "train"), tokenizer, cache=cache)


def test_several_files_are_one_set(tmp_path: Path, cache: Path, tokenizer: TextTokenizer) -> None:
    first = make(tmp_path, HEADER + "1\ta\tbad\n", name="1.tsv")
    second = {
        "path": make(tmp_path, '"nr","body","stars"\n"2","b, ""c""",5\n"3","d",3\n', name="2.csv"),
        "text": ["body"],
        "label": "stars",
        "labels": {"5": "good", "1": "bad", "3": "drop"},
    }
    third = make(tmp_path, '{"id": "4", "text": "e", "label": 1}\n', name="3.jsonl")
    found = load_dataset(files_of(task(train=[first, second, third]), "train"), tokenizer, cache=cache)
    assert list(found.texts[0]) == ["a", 'b, "c"', "e"]
    assert found.labels is not None
    assert found.labels.tolist() == [0, 1, 1]
    assert (found.unmapped, found.dropped) == (1, 0)
    assert len(set(found.files.values())) == 3


@pytest.mark.parametrize(
    ("row", "column"),
    [("2\t\tgood", "text"), ("2\t \tgood", "text"), ("2\ta\t", "label"), ("2\ta", "label"), ("2", "text")],
)
def test_an_empty_field_is_refused_with_file_line_and_column(
    tmp_path: Path, cache: Path, tokenizer: TextTokenizer, row: str, column: str
) -> None:
    path = make(tmp_path, f"{HEADER}1\ta\tgood\n{row}\n")
    with pytest.raises(DataError) as caught:
        load_dataset(files_of(task(train=path), "train"), tokenizer, cache=cache)
    assert caught.value.message == f"{path}, line 3: the column '{column}' is empty."
    assert "bad_rows" in str(caught.value.hint)


def test_bad_rows_are_dropped_and_counted_if_asked(tmp_path: Path, cache: Path, tokenizer: TextTokenizer) -> None:
    path = make(tmp_path, HEADER + "1\ta\tgood\n2\t\tgood\n3\tb\t\n4\n5\tc\tbad\n")
    found = load_dataset(files_of(task(train=path, bad_rows="drop"), "train"), tokenizer, cache=cache)
    assert (list(found.ids), found.dropped, found.unmapped) == (["1", "5"], 3, 0)


def test_a_wrong_label_is_refused_even_if_bad_rows_are_dropped(
    tmp_path: Path, cache: Path, tokenizer: TextTokenizer
) -> None:
    path = make(tmp_path, HEADER + "1\ta\tgreat\n")
    with pytest.raises(DataError) as caught:
        load_dataset(files_of(task(train=path, bad_rows="drop"), "train"), tokenizer, cache=cache)
    assert caught.value.message == f'{path}, line 2: expected a label from 0 to 1 or one of bad, good, found "great".'


def test_a_missing_column_is_refused_with_the_nearest_one(
    tmp_path: Path, cache: Path, tokenizer: TextTokenizer
) -> None:
    path = make(tmp_path, "id\ttexts\tlabel\n1\ta\t0\n")
    with pytest.raises(DataError, match=r"no column 'text'.*Did you mean 'texts'\?"):
        load_dataset(files_of(task(train=path), "train"), tokenizer, cache=cache)


@pytest.mark.parametrize(
    ("name", "content"), [("a.tsv", HEADER), ("a.csv", "id,text,label\n\n\n"), ("a.jsonl", ""), ("a.jsonl", "\n\n")]
)
def test_a_set_without_rows_is_refused(
    tmp_path: Path, cache: Path, tokenizer: TextTokenizer, name: str, content: str
) -> None:
    path = make(tmp_path, content, name=name)
    with pytest.raises(DataError, match="no rows for own train"):
        load_dataset(files_of(task(train=path), "train"), tokenizer, cache=cache)


def test_a_set_that_loses_all_its_rows_is_refused_with_their_number(
    tmp_path: Path, cache: Path, tokenizer: TextTokenizer
) -> None:
    path = make(tmp_path, HEADER + "1\t\t0\n2\ta\tneutral\n")
    own = task(train=path, bad_rows="drop", labels={"neutral": "drop"})
    with pytest.raises(DataError, match=r"no rows for own train \(2 were dropped\)"):
        load_dataset(files_of(own, "train"), tokenizer, cache=cache)


def test_a_test_set_may_lack_the_label_column(tmp_path: Path, cache: Path, tokenizer: TextTokenizer) -> None:
    path = make(tmp_path, "id\ttext\n1\ta\n2\tb\n")
    own = task(train=path, test=path)
    found = load_dataset(files_of(own, "test"), tokenizer, cache=cache)
    assert (len(found), found.labels) == (2, None)
    assert same(load_dataset(files_of(own, "test"), tokenizer, cache=cache), found)
    with pytest.raises(DataError, match="no column 'label'"):
        load_dataset(files_of(own, "train"), tokenizer, cache=cache)


def test_labels_of_a_test_set_are_read_if_present(tmp_path: Path, cache: Path, tokenizer: TextTokenizer) -> None:
    path = make(tmp_path, HEADER + "1\ta\tgood\n")
    labels = load_dataset(files_of(task(test=path), "test"), tokenizer, cache=cache).labels
    assert labels is not None
    assert labels.tolist() == [1]


def test_partly_labelled_test_sets_are_refused(tmp_path: Path, cache: Path, tokenizer: TextTokenizer) -> None:
    with_labels = make(tmp_path, HEADER + "1\ta\tgood\n", name="1.tsv")
    without = make(tmp_path, "id\ttext\n2\tb\n", name="2.tsv")
    with pytest.raises(DataError, match="some rows have a label in 'label' and some do not"):
        load_dataset(files_of(task(test=[with_labels, without]), "test"), tokenizer, cache=cache)


def test_emoji_and_texts_without_tokens_are_rows_too(tmp_path: Path, cache: Path, tokenizer: TextTokenizer) -> None:
    texts = ["🎉 👩‍👩‍👧", "\u00ad", "中文", "ﷺ"]
    stripper = Tokenizer.from_str(tokenizer.tokenizer.to_str())
    stripper.normalizer = normalizers.Replace("\u00ad", "")
    path = make(tmp_path, HEADER + "".join(f"{row}\t{text}\t0\n" for row, text in enumerate(texts)))
    found = load_dataset(files_of(task(train=path), "train"), TextTokenizer(stripper), cache=cache)
    assert list(found.texts[0]) == texts
    assert found.tokens[0].lengths.tolist() == [2, 0, 1, 1]


def test_the_cache_gives_the_same_set_without_reading_the_files(
    tmp_path: Path, cache: Path, tokenizer: TextTokenizer, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = make(tmp_path, HEADER + "1\ta 🎉\tgood\n2\t\tbad\n3\tc d\tbad\n")
    own = task(train=path, bad_rows="drop")
    first = load_dataset(files_of(own, "train"), tokenizer, cache=cache)

    def refuse(*arguments: Any) -> None:
        raise AssertionError("read again")

    monkeypatch.setattr(module, "build", refuse)
    assert same(load_dataset(files_of(own, "train"), tokenizer, cache=cache), first)
    moved = tmp_path / "moved.tsv"
    moved.write_bytes(Path(path).read_bytes())
    assert list(
        load_dataset(files_of(task(train=str(moved), bad_rows="drop"), "train"), tokenizer, cache=cache).ids
    ) == [
        "1",
        "3",
    ]


@pytest.mark.parametrize("lost", ["tokens0*", "text0*", "ids*", "labels.npy"])
def test_an_incomplete_cache_is_written_again(
    tmp_path: Path, cache: Path, tokenizer: TextTokenizer, caplog: pytest.LogCaptureFixture, lost: str
) -> None:
    own = task(train=make(tmp_path, HEADER + "x\tthe phone\tgood\n"))
    first = load_dataset(files_of(own, "train"), tokenizer, cache=cache)
    for path in cache.glob(f"*/{lost}"):
        path.unlink()
    assert same(load_dataset(files_of(own, "train"), tokenizer, cache=cache), first)
    assert "written again" in caplog.text
    assert same(load_dataset(files_of(own, "train"), tokenizer, cache=cache), first)


@pytest.mark.parametrize("place", ["text0.values.npy", "tokens0.offsets.npy", "labels.npy", "dataset.json"])
def test_a_flipped_bit_in_the_cache_is_noticed(
    tmp_path: Path, cache: Path, tokenizer: TextTokenizer, caplog: pytest.LogCaptureFixture, place: str
) -> None:
    own = task(train=make(tmp_path, HEADER + "x\tthe phone\tgood\ny\tthe service\tbad\n"))
    first = load_dataset(files_of(own, "train"), tokenizer, cache=cache)
    wanted = list(first.texts[0])
    [damaged] = cache.glob(f"*/{place}")
    content = bytearray(damaged.read_bytes())
    content[-5] ^= 1
    damaged.write_bytes(content)
    again = load_dataset(files_of(own, "train"), tokenizer, cache=cache)
    assert list(again.texts[0]) == wanted and np.array_equal(np.asarray(again.labels), [1, 0])
    assert "written again" in caplog.text


def test_a_changed_file_invalidates_the_cache(tmp_path: Path, cache: Path, tokenizer: TextTokenizer) -> None:
    path = make(tmp_path, HEADER + "1\tabc\tgood\n")
    first = load_dataset(files_of(task(train=path), "train"), tokenizer, cache=cache)
    make(tmp_path, HEADER + "1\tabd\tgood\n")  # of the same size, in the same second
    second = load_dataset(files_of(task(train=path), "train"), tokenizer, cache=cache)
    assert (list(first.texts[0]), list(second.texts[0])) == (["abc"], ["abd"])
    assert first.files != second.files


@pytest.mark.parametrize(
    "change",
    [
        {"labels": {"good": 0, "bad": 1}},
        {"classes": ["good", "bad"]},
        {"text": "id"},
        {"id": "text"},
        {"quoting": "on"},
        {"separator": "\t"},
        {"encoding": "utf-8"},
        {"header": True},
        {"sheet": "first"},
        {"target": "binary"},
    ],
    ids=lambda change: next(iter(change)),
)
def test_a_changed_setting_invalidates_the_cache(
    tmp_path: Path, cache: Path, tokenizer: TextTokenizer, change: dict[str, Any]
) -> None:
    path = make(tmp_path, HEADER + '1\t"a"\tgood\n2\tb\tbad\n')
    load_dataset(files_of(task(train=path), "train"), tokenizer, cache=cache)
    changed = task(train=path, **change)
    fresh = load_dataset(files_of(changed, "train"), tokenizer, cache=tmp_path / "fresh")
    assert same(load_dataset(files_of(changed, "train"), tokenizer, cache=cache), fresh)
    assert len(list(cache.iterdir())) == 2


def test_a_changed_label_mapping_invalidates_the_cache(tmp_path: Path, cache: Path, tokenizer: TextTokenizer) -> None:
    path = make(tmp_path, HEADER + "1\ta\tgood\n")
    found = [
        load_dataset(files_of(task(train={"path": path, "labels": labels}), "train"), tokenizer, cache=cache).labels
        for labels in (None, {"good": 0})
    ]
    assert [None if labels is None else labels.tolist() for labels in found] == [[1], [0]]


def test_settings_of_files_that_are_not_given_are_not_part_of_the_cache_key(tokenizer: TextTokenizer) -> None:
    plain = files_of(task(train="a.csv"), "train")
    assert "separator" not in json.dumps(key_settings(plain, ["hash"], tokenizer))
    given = files_of(task(train={"path": "a.csv", "separator": ";"}), "train")
    assert [source["separator"] for source in key_settings(given, ["hash"], tokenizer)["sources"]] == [";"]


def test_the_kind_of_a_compressed_file_is_part_of_the_cache_key(tokenizer: TextTokenizer) -> None:
    keys = [
        key_settings(files_of(task(train=name), "train"), ["hash"], tokenizer)["sources"]
        for name in ("a.csv.gz", "a.tsv.gz", "b.c.csv.gz")
    ]
    assert keys[0] != keys[1] and keys[0] == keys[2]


NUMBERS: dict[str, Any] = {"target": "number", "classes": [], "range": [0, 2000]}


def test_decimal_commas_are_read_where_they_are_certain(tmp_path: Path, cache: Path, tokenizer: TextTokenizer) -> None:
    path = make(tmp_path, "text;label\na, b;3,5\nc;1,125\nd;2\n", name="a.csv")
    found = load_dataset(files_of(task(train=path, **NUMBERS), "train"), tokenizer, cache=cache)
    assert found.labels is not None and found.labels.tolist() == [3.5, 1.125, 2]


def test_decimal_commas_that_are_not_certain_are_refused_with_the_line_to_write(
    tmp_path: Path, cache: Path, tokenizer: TextTokenizer
) -> None:
    path = make(tmp_path, "text;label\na;1,125\nb;2\n", name="a.csv")
    with pytest.raises(DataError, match=r"a\.csv: the label .1,125. may be 1\.125 or 1125\. Write decimal"):
        load_dataset(files_of(task(train=path, **NUMBERS), "train"), tokenizer, cache=cache)
    for decimal, expected in ((",", [1.125, 2]), (".", [1125, 2])):
        given = task(train={"path": path, "decimal": decimal}, **NUMBERS)
        labels = load_dataset(files_of(given, "train"), tokenizer, cache=cache).labels
        assert labels is not None and labels.tolist() == expected


def test_another_tokenizer_invalidates_the_cache(tmp_path: Path, cache: Path, tokenizer: TextTokenizer) -> None:
    path = make(tmp_path, HEADER + "1\ta\tgood\n")
    raw = Tokenizer(models.WordLevel({"[UNK]": 0, "a": 77, "[CLS]": 1, "[SEP]": 2}, unk_token="[UNK]"))
    raw.post_processor = processors.BertProcessing(("[SEP]", 2), ("[CLS]", 1))
    other = TextTokenizer(raw)
    load_dataset(files_of(task(train=path), "train"), tokenizer, cache=cache)
    assert load_dataset(files_of(task(train=path), "train"), other, cache=cache).tokens[0].values.tolist() == [77]


@pytest.mark.parametrize("name", ["taken", "x" * 300], ids=["a file in its place", "no such name possible"])
def test_without_a_cache_the_rows_are_the_same(
    tmp_path: Path, cache: Path, tokenizer: TextTokenizer, name: str, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "taken").touch()
    path = make(tmp_path, HEADER + "1\ta 🎉\tgood\n2\tc d\tbad\n")
    cached = load_dataset(files_of(task(train=path), "train"), tokenizer, cache=cache)
    with caplog.at_level(logging.WARNING):
        assert same(load_dataset(files_of(task(train=path), "train"), tokenizer, cache=tmp_path / name), cached)
    assert "cache cannot be written" in caplog.text


def test_a_full_disk_of_the_cache_is_reported_with_how_to_move_it(
    tmp_path: Path,
    cache: Path,
    tokenizer: TextTokenizer,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    path = make(tmp_path, HEADER + "1\ta\tgood\n")
    monkeypatch.setattr("palbert.data.token_cache.write_facts", full)
    load_dataset(files_of(task(train=path), "train"), tokenizer, cache=cache)
    assert "the disk is full" in caplog.text and "PALBERT_CACHE" in caplog.text and "--out" not in caplog.text


def test_a_file_that_is_named_twice_counts_twice_in_the_cache_too(
    tmp_path: Path, cache: Path, tokenizer: TextTokenizer
) -> None:
    one = make(tmp_path, HEADER + "a\tgood phone\t1\n", name="one.tsv")
    two = make(tmp_path, HEADER + "b\tbad phone\t0\n", name="two.tsv")
    ids = [
        list(load_dataset(files_of(task(train=paths), "train"), tokenizer, cache=cache).ids)
        for paths in ([one, one, two], [one, two, two], [one, two])
    ]
    assert ids == [["a", "a", "b"], ["a", "b", "b"], ["a", "b"]]


def test_rows_that_may_not_fit_into_memory_are_not_read_into_it(
    tmp_path: Path, tokenizer: TextTokenizer, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "taken").touch()
    path = make(tmp_path, HEADER + "1\ta\tgood\n")
    monkeypatch.setattr(module, "IN_MEMORY", 10)
    with pytest.raises(DataError, match=r"the token cache cannot be written.*PALBERT_CACHE"):
        load_dataset(files_of(task(train=path), "train"), tokenizer, cache=tmp_path / "taken" / "cache")


def test_what_another_process_left_damaged_is_written_again(
    tmp_path: Path, cache: Path, tokenizer: TextTokenizer, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = task(train=make(tmp_path, HEADER + "x\tthe phone\tgood\ny\tthe service\tbad\n"))
    first = load_dataset(files_of(own, "train"), tokenizer, cache=tmp_path / "other")
    built: list[Path] = []

    def build_damaged(folder: Path, *rest: Any) -> bool:
        build(folder, *rest)
        if not built:  # as if pages of an unfinished entry were lost with the power
            place = folder / "text0.values.npy"
            place.write_bytes(place.read_bytes()[:-1] + b"?")
        built.append(folder)
        return True

    monkeypatch.setattr(module, "build", build_damaged)
    assert same(load_dataset(files_of(own, "train"), tokenizer, cache=cache), first)
    assert len(built) == 2
