"""Readers: every file format gives the same columns, and errors name file and line."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from palbert.data.readers import SUFFIXES, count_rows, read_chunks, resolve_files
from palbert.errors import DataError, MissingExtraError

COMMIT = "0123456789abcdef0123456789abcdef01234567"


def read(path: Path | str, **settings: Any) -> dict[str, list[str | None]]:
    """Read a whole file."""
    columns: dict[str, list[str | None]] = {}
    for chunk in read_chunks(str(path), **settings):
        for name in chunk.columns:
            values = chunk.column(name)
            columns.setdefault(name, []).extend(values)
    return columns


def lines(path: Path) -> list[int]:
    return [line for chunk in read_chunks(str(path)) for line in chunk.lines]


def file(folder: Path, name: str, content: str | bytes) -> Path:
    path = folder / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def test_the_format_of_the_course_is_read(tmp_path: Path) -> None:
    path = file(tmp_path, "a.csv", '\tid\tsentence\tsentiment\n0\tx1\t"a ""b"", c"\t3.0\n1\tx2\tplain\t0\n')
    assert read(path) == {
        "": ["0", "1"],
        "id": ["x1", "x2"],
        "sentence": ['a "b", c', "plain"],
        "sentiment": ["3.0", "0"],
    }


def test_the_odd_header_of_the_course_test_files_is_read(tmp_path: Path) -> None:
    path = file(tmp_path, "a.csv", "0\t\tid\tsentence\n0\t8\tx1\tfirst\n1\t9\tx2\tsecond\n")
    assert read(path) == {"0": ["0", "1"], "": ["8", "9"], "id": ["x1", "x2"], "sentence": ["first", "second"]}


def test_repeated_column_names_are_refused_unless_they_are_empty(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"a\.csv, line 1: two columns are named 'a'\."):
        read(file(tmp_path, "a.csv", "a,b,a\n1,2,3\n"))
    assert set(read(file(tmp_path, "b.csv", ",b,\n1,2,3\n"))) == {"", "b"}


def test_a_tsv_has_no_quoting(tmp_path: Path) -> None:
    path = file(tmp_path, "a.tsv", 'a\tb\n"open\t1\n"closed"\t2\nin "the" middle\t3\n')
    assert read(path) == {"a": ['"open', '"closed"', 'in "the" middle'], "b": ["1", "2", "3"]}


@pytest.mark.parametrize(("name", "quoting"), [("a.tsv", "on"), ("a.csv", "auto"), ("a.csv", "on")])
def test_quoting_joins_a_field_over_several_lines(tmp_path: Path, name: str, quoting: str) -> None:
    path = file(tmp_path, name, 'a\tb\n"one\ntwo"\t1\n')
    assert read(path, quoting=quoting) == {"a": ["one\ntwo"], "b": ["1"]}


@pytest.mark.parametrize("separator", [",", "\t"])
def test_quoting_off_keeps_the_quotes_of_a_csv(tmp_path: Path, separator: str) -> None:
    path = file(tmp_path, "a.csv", f'a{separator}b\n"x{separator}1\n')
    assert read(path, quoting="off") == {"a": ['"x'], "b": ["1"]}


@pytest.mark.parametrize(
    ("row", "said"), [('a,"never closed', "a quote that opens here is never closed"), ('a,"b"c', "expected after")]
)
def test_unbalanced_quotes_are_refused_with_the_first_line_of_the_row(tmp_path: Path, row: str, said: str) -> None:
    (tmp_path / "a.csv").write_text(f'label,text\na,"two\nlines"\n{row}\nb,more\nb,and more\n', "utf-8")
    with pytest.raises(DataError, match=rf"a\.csv, line 4: .*{said}"):
        list(read_chunks(str(tmp_path / "a.csv")))


def test_a_csv_may_hold_commas_and_line_breaks_in_quotes(tmp_path: Path) -> None:
    path = file(tmp_path, "a.csv", 'text,label\n"one, two\nthree",1\nfour,0\n')
    assert read(path) == {"text": ["one, two\nthree", "four"], "label": ["1", "0"]}


def test_the_line_number_of_a_row_is_that_of_its_first_line(tmp_path: Path) -> None:
    path = file(tmp_path, "a.csv", 'text,label\n"one\n\ntwo",1\n\nthree,0\n"x\ny",1\nz,1\n')
    assert lines(path) == [2, 6, 7, 9]


@pytest.mark.parametrize("suffix", [".csv", ".tsv"])
@pytest.mark.parametrize("ending", ["\n", "\r\n"])
def test_line_endings_and_blank_lines_make_no_difference(tmp_path: Path, suffix: str, ending: str) -> None:
    path = file(tmp_path, f"a{suffix}", ending.join(["a\tb", "1\t2", "", "3\t4", "", ""]))
    assert read(path) == {"a": ["1", "3"], "b": ["2", "4"]}
    assert lines(path) == [2, 4]


def test_a_carriage_return_inside_a_tsv_field_is_kept(tmp_path: Path) -> None:
    assert read(file(tmp_path, "a.tsv", "a\tb\nx\ry\t1\n")) == {"a": ["x\ry"], "b": ["1"]}


@pytest.mark.parametrize("separator", ["\u2028", "\x85", "\x0b", "\x1c"])
def test_unusual_line_separators_inside_a_field_do_not_end_the_row(tmp_path: Path, separator: str) -> None:
    for name in ("a.tsv", "a.csv"):
        assert read(file(tmp_path, name, f"a\tb\nx{separator}y\t1\n")) == {"a": [f"x{separator}y"], "b": ["1"]}


@pytest.mark.parametrize(
    ("name", "content"),
    [("a.csv", "id,a\n1,x\n"), ("a.tsv", "id\ta\n1\tx\n"), ("a.jsonl", '{"id": 1, "a": "x"}\n')],
)
def test_a_byte_order_mark_is_not_part_of_the_first_column_name(tmp_path: Path, name: str, content: str) -> None:
    assert read(file(tmp_path, name, b"\xef\xbb\xbf" + content.encode())) == {"id": ["1"], "a": ["x"]}


@pytest.mark.parametrize("suffix", [".CSV", ".Tsv"])
def test_the_case_of_a_suffix_makes_no_difference(tmp_path: Path, suffix: str) -> None:
    assert read(file(tmp_path, f"a{suffix}", "a\tb\n1\t2\n")) == {"a": ["1"], "b": ["2"]}


def test_a_file_may_end_without_a_newline(tmp_path: Path) -> None:
    assert read(file(tmp_path, "a.tsv", "a\tb\n1\t2")) == {"a": ["1"], "b": ["2"]}


def test_a_short_row_lacks_its_last_fields(tmp_path: Path) -> None:
    assert read(file(tmp_path, "a.csv", "a,b,c\n1\n1,2\n")) == {"a": ["1", "1"], "b": [None, "2"], "c": [None, None]}


@pytest.mark.parametrize("name", ["a.csv", "a.tsv"])
def test_too_many_fields_are_refused_with_their_line(tmp_path: Path, name: str) -> None:
    path = file(tmp_path, name, "a\tb\n1\t2\n1\t2\t3\n")
    with pytest.raises(DataError, match=r"line 3: expected 2 fields, found 3\..*quoting") as caught:
        read(path)
    assert str(path) in str(caught.value)


@pytest.mark.parametrize(
    ("name", "content"), [("a.csv", ""), ("a.tsv", ""), ("a.csv", "\n1,2\n"), ("a.tsv", "\t\n1\t2\n")]
)
def test_a_file_without_a_header_is_refused(tmp_path: Path, name: str, content: str) -> None:
    with pytest.raises(DataError, match="line 1: expected a header"):
        read(file(tmp_path, name, content))


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.csv", b"a,b\nok,1\nna\xefve,2\n"),
        ("a.tsv", b"a\tb\nok\t1\nna\xefve\t2\n"),
        ("a.jsonl", b'{"a": 1}\n{"a": 2}\n{"a": "na\xefve"}\n'),
    ],
)
def test_text_that_is_not_utf8_is_refused_with_file_and_line(tmp_path: Path, name: str, content: bytes) -> None:
    path = file(tmp_path, name, content)
    with pytest.raises(DataError, match="line 3: expected UTF-8, found byte 0xef") as caught:
        read(path)
    assert str(path) in str(caught.value)


def test_jsonl_fills_missing_keys_and_turns_values_into_text(tmp_path: Path) -> None:
    rows = [{"a": "x", "n": 1}, {"a": None, "n": 2.5}, {"n": True, "extra": "é"}]
    path = file(tmp_path, "a.jsonl", "\n\n".join(json.dumps(row) for row in rows))
    assert read(path) == {"a": ["x", None, None], "n": ["1", "2.5", "1"], "extra": [None, None, "é"]}
    assert lines(path) == [1, 3, 5]


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("{'a': 1}", "line 2: not valid JSON"),
        ('{"a": 1', "line 2: not valid JSON"),
        ("[1]", "line 2: expected an object"),
        ('{"a": "cut \\ud83d"}', "line 2: expected valid Unicode, found half of a surrogate"),
    ],
)
def test_a_bad_json_line_is_refused_with_its_number(tmp_path: Path, line: str, reason: str) -> None:
    with pytest.raises(DataError, match=reason):
        read(file(tmp_path, "a.jsonl", f'{{"a": 1}}\n{line}\n'))


def test_parquet_gives_the_same_columns_as_text(tmp_path: Path) -> None:
    arrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    table = arrow.table({"text": ["a", None, "ü"], "label": [0, 1, 2], "score": [0.5, 1.0, None], "is": [True] * 3})
    parquet.write_table(table, tmp_path / "a.parquet")
    assert read(tmp_path / "a.parquet", size=2) == {
        "text": ["a", None, "ü"],
        "label": ["0", "1", "2"],
        "score": ["0.5", "1.0", None],
        "is": ["1", "1", "1"],
    }
    assert lines(tmp_path / "a.parquet") == [1, 2, 3]
    assert count_rows(str(tmp_path / "a.parquet")) == 3


def test_an_empty_parquet_file_still_has_its_columns(tmp_path: Path) -> None:
    arrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    parquet.write_table(arrow.table({"text": arrow.array([], arrow.string())}), tmp_path / "a.parquet")
    assert read(tmp_path / "a.parquet") == {"text": []}


def test_a_parquet_file_with_other_content_is_refused(tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    with pytest.raises(DataError, match="not a Parquet file"):
        read(file(tmp_path, "a.parquet", "text\n"))


def test_parquet_without_pyarrow_is_refused_with_the_package_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow.parquet", None)
    with pytest.raises(MissingExtraError, match=r"pip install 'palbert\[parquet\]'"):
        read(file(tmp_path, "a.parquet", "text\n"))


@pytest.mark.parametrize("size", [1, 2, 3, 100])
@pytest.mark.parametrize("suffix", [".csv", ".tsv", ".jsonl"])
def test_the_size_of_chunks_does_not_change_the_rows(tmp_path: Path, suffix: str, size: int) -> None:
    if suffix == ".jsonl":
        content = "".join(json.dumps({"a": f"{row}", "b": "x"}) + "\n" for row in range(6))
    else:
        content = "a\tb\n" + "".join(f"{row}\tx\n" for row in range(6))
    path = file(tmp_path, f"a{suffix}", content)
    chunks = list(read_chunks(str(path), size=size))
    assert [len(chunk) for chunk in chunks] == [min(size, 6)] * -(-6 // size)
    assert read(path, size=size) == {"a": [str(row) for row in range(6)], "b": ["x"] * 6}


@pytest.mark.parametrize(("name", "content"), [("a.csv", "a,b\n"), ("a.tsv", "a\tb\n"), ("a.jsonl", "")])
def test_a_file_without_rows_gives_one_empty_chunk(tmp_path: Path, name: str, content: str) -> None:
    (chunk,) = read_chunks(str(file(tmp_path, name, content)))
    assert len(chunk) == 0


def test_an_unknown_file_format_is_refused_with_the_known_ones(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="unknown kind of file") as caught:
        read(file(tmp_path, "a.xlsx", "a\n"))
    assert all(suffix in str(caught.value) for suffix in SUFFIXES)


def test_a_missing_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="No such file"):
        read(tmp_path / "absent.csv")


def test_a_missing_column_is_refused_with_the_nearest_name(tmp_path: Path) -> None:
    (chunk,) = read_chunks(str(file(tmp_path, "a.csv", "id,sentence,\n1,x,2\n")))
    with pytest.raises(DataError, match=r"no column 'sentense'\. Known: id, sentence\. Did you mean 'sentence'\?"):
        chunk.column("sentense")


@pytest.fixture
def hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Make an offline Hub cache with one data set, without a network."""
    constants = pytest.importorskip("huggingface_hub.constants")
    cache = tmp_path / "hub"
    repository = cache / "datasets--owner--name"
    snapshot = repository / "snapshots" / COMMIT
    contents = {
        "data/train-00000-of-00002.csv": "a,b\n1,x\n",
        "data/train-00001-of-00002.csv": "a,b\n2,y\n",
        "data/test-00000-of-00001.csv": "a,b\n3,z\n",
        "small/train.jsonl": '{"a": 4, "b": "w"}\n',
        "small/validation.jsonl": '{"a": 5, "b": "v"}\n',
        "README.md": "train",
    }
    for name, content in contents.items():
        (snapshot / name).parent.mkdir(parents=True, exist_ok=True)
        (snapshot / name).write_text(content)
    (repository / "refs").mkdir()
    (repository / "refs" / "main").write_text(COMMIT)
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(cache))
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    return snapshot


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("hf:owner/name/data:train", {"a": ["1", "2"], "b": ["x", "y"]}),
        ("hf:owner/name/data:test", {"a": ["3"], "b": ["z"]}),
        ("hf:owner/name/small:train", {"a": ["4"], "b": ["w"]}),
        ("hf:owner/name/small:validation", {"a": ["5"], "b": ["v"]}),
        ("hf:owner/name:test", {"a": ["3"], "b": ["z"]}),
        ("hf:owner/name:validation", {"a": ["5"], "b": ["v"]}),
    ],
)
def test_a_split_of_a_hub_data_set_gives_its_files(hub: Path, path: str, expected: dict[str, list[str]]) -> None:
    assert read(path) == expected


def test_only_files_of_the_split_are_taken(hub: Path) -> None:
    found = [file.relative_to(hub).as_posix() for file in resolve_files("hf:owner/name/data:train")]
    assert found == ["data/train-00000-of-00002.csv", "data/train-00001-of-00002.csv"]


def test_a_missing_data_set_is_refused_in_one_line(hub: Path) -> None:
    with pytest.raises(DataError) as caught:
        resolve_files("hf:owner/other:train")
    assert str(caught.value).startswith("hf:owner/other:train: cannot be fetched from the Hub: ")
    assert len(str(caught.value).splitlines()) == 1


def test_a_failure_without_a_message_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*arguments: object, **settings: object) -> str:
        raise ConnectionResetError

    monkeypatch.setattr("huggingface_hub.snapshot_download", fail)
    with pytest.raises(DataError, match="cannot be fetched from the Hub: ConnectionResetError"):
        resolve_files("hf:owner/name:train")


def test_a_missing_split_is_refused_with_the_existing_ones(hub: Path) -> None:
    with pytest.raises(DataError, match=r"split 'dev'; found .*README\.md"):
        resolve_files("hf:owner/name:dev")


@pytest.mark.parametrize("path", ["hf:name:train", "hf:owner/name", "hf:owner/name:", "hf:/name:train", "hf::train"])
def test_an_incomplete_hub_path_is_refused(path: str) -> None:
    with pytest.raises(DataError, match="expected hf:owner/name:split"):
        resolve_files(path)


def test_rows_are_counted_without_loading_them(tmp_path: Path) -> None:
    path = file(tmp_path, "a.tsv", "a\tb\n" + "1\t2\n" * 50)
    assert 50 <= count_rows(str(path)) <= 51


def test_a_folder_is_not_accepted_as_a_data_file(tmp_path: Path) -> None:
    (tmp_path / "a.csv").mkdir()
    with pytest.raises(DataError, match="not a regular file"):
        read(tmp_path / "a.csv")


def test_a_split_in_several_configurations_is_refused_with_their_names(hub: Path) -> None:
    with pytest.raises(DataError, match=r"several configurations: data, small\. Name one: hf:owner/name/data:train"):
        resolve_files("hf:owner/name:train")
