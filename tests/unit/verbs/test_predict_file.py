"""palbert predict --input --output: every file format, in order, complete or not at all."""

from __future__ import annotations

import csv
import json
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import palbert
from palbert.readers import Chunk, read_chunks
from palbert.verbs import predict_file

pytestmark = pytest.mark.usefixtures("on_cpu")

Cli = Callable[..., Any]
Rows = list[dict[str, Any]]

KINDS = ["csv", "tsv", "jsonl", "parquet"]
TEXTS = [
    "A quiet little triumph.",
    'He said "no", then left; she said "why?"',
    "Comma, semicolon; and an apostrophe's mark",
    "🎸 the guitar was great 🔥",
    "नमस्ते, 你好",
    "  spaces around  ",
    "The plot is dull and the phone never rings.",
    "'quoted'",
    '"starts with a quote',
] + [f"sentence number {number} of many, with {'rain ' * (number % 9)}" for number in range(15)]
ROWS: Rows = [
    {"key": f"r{number}", "sentence": text, "note": "" if number % 5 == 0 else f"n,{number}"}
    for number, text in enumerate(TEXTS)
]


def write(path: Path, rows: Rows) -> Path:
    if path.suffix == ".jsonl":
        path.write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")
    elif path.suffix == ".parquet":
        import pyarrow
        import pyarrow.parquet

        pyarrow.parquet.write_table(pyarrow.Table.from_pylist(rows), path)
    elif path.suffix == ".tsv":
        lines = [list(rows[0]), *(list(row.values()) for row in rows)]
        path.write_text("".join("\t".join(line) + "\n" for line in lines), "utf-8")
    else:
        with path.open("w", encoding="utf-8", newline="") as stream:
            writer = csv.DictWriter(stream, list(rows[0]))
            writer.writeheader()
            writer.writerows(rows)
    return path


def read(path: Path) -> Rows:
    if path.suffix == ".jsonl":
        return [json.loads(line) for line in path.read_text("utf-8").splitlines()]
    if path.suffix == ".parquet":
        import pyarrow.parquet

        return pyarrow.parquet.read_table(path).to_pylist()
    if path.suffix == ".tsv":
        lines = [line.split("\t") for line in path.read_text("utf-8").removesuffix("\n").split("\n")]
        return [dict(zip(lines[0], line, strict=True)) for line in lines[1:]]
    with path.open(encoding="utf-8", newline="") as stream:
        return list(csv.DictReader(stream))


@pytest.fixture(scope="module")
def expected(on_cpu: None, trained: Path) -> list[palbert.Prediction]:
    answers = palbert.load(trained).predict("sst", TEXTS)
    assert len({answer.answer for answer in answers}) > 1, "the shared run answers all the same"
    return answers


@pytest.mark.parametrize("target", KINDS)
@pytest.mark.parametrize("source", KINDS)
def test_every_file_format_gives_the_same_answers_and_keeps_the_columns(
    source: str, target: str, trained: Path, tmp_path: Path, cli: Cli, expected: list[palbert.Prediction]
) -> None:
    given, out = write(tmp_path / f"in.{source}", ROWS), tmp_path / f"out.{target}"
    result = cli("predict", trained, "--task", "sst", "--input", given, "--output", out)
    assert (result.code, result.out) == (0, "")
    assert f"{len(ROWS)} rows written to {out}" in result.err
    rows = read(out)
    classes = list(expected[0].probabilities or {})
    assert list(rows[0]) == ["key", "sentence", "note", "prediction", *(f"p({name})" for name in classes)]
    assert [{name: row[name] for name in ROWS[0]} for row in rows] == ROWS
    assert [row["prediction"] for row in rows] == [answer.answer for answer in expected]
    for row, answer in zip(rows, expected, strict=True):
        shares = {name: float(row[f"p({name})"]) for name in classes}
        assert shares == pytest.approx(answer.probabilities, abs=1e-6)


@pytest.mark.parametrize("target", KINDS)
def test_numeric_answers_for_pairs_are_written_to_every_file_format(
    target: str, trained: Path, tmp_path: Path, cli: Cli
) -> None:
    rows = [{"sentence1": text, "sentence2": other} for text, other in zip(TEXTS, reversed(TEXTS), strict=True)]
    given, out = write(tmp_path / "in.jsonl", rows), tmp_path / f"out.{target}"
    assert cli("predict", trained, "--task", "sts", "--input", given, "--output", out).code == 0
    pairs = [(row["sentence1"], row["sentence2"]) for row in rows]
    answers = [answer.answer for answer in palbert.load(trained).predict("sts", pairs)]
    assert [float(row["prediction"]) for row in read(out)] == pytest.approx(answers, abs=1e-6)
    assert len(set(answers)) > 1


def test_rows_keep_their_order_across_chunks(
    trained: Path, tmp_path: Path, cli: Cli, expected: list[palbert.Prediction], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("palbert.verbs.predict_file.CHUNK", 7)
    for kind in KINDS:
        given, out = write(tmp_path / f"in.{kind}", ROWS), tmp_path / f"out.{kind}"
        assert cli("predict", trained, "-t", "sst", "--input", given, "--output", out).code == 0
        rows = read(out)
        assert [row["key"] for row in rows] == [row["key"] for row in ROWS]
        assert [row["prediction"] for row in rows] == [answer.answer for answer in expected]


@pytest.mark.parametrize("kind", KINDS)
def test_at_most_two_chunks_are_in_memory_at_a_time(
    kind: str, trained: Path, tmp_path: Path, cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("palbert.verbs.predict_file.CHUNK", 5)
    chunks: list[weakref.ref[Chunk]] = []
    answers: weakref.WeakValueDictionary[int, palbert.Prediction] = weakref.WeakValueDictionary()
    alive, predict, make = [], palbert.Predictor.predict, Chunk.__init__

    def counting(self: palbert.Predictor, *arguments: Any, **settings: Any) -> list[palbert.Prediction]:
        alive.append((sum(chunk() is not None for chunk in chunks), len(answers)))
        given = predict(self, *arguments, **settings)
        answers.update({id(answer): answer for answer in given})
        return given

    def make_counted(self: Chunk, *arguments: Any) -> None:
        make(self, *arguments)
        chunks.append(weakref.ref(self))

    monkeypatch.setattr(Chunk, "__init__", make_counted)
    monkeypatch.setattr(palbert.Predictor, "predict", counting)
    given, out = write(tmp_path / f"in.{kind}", 3 * ROWS), tmp_path / f"out.{kind}"
    assert cli("predict", trained, "-t", "sst", "--input", given, "--output", out).code == 0
    assert len(alive) == 15
    chunks_alive, answers_alive = zip(*alive, strict=True)
    assert set(chunks_alive) <= {1, 2} and set(answers_alive) <= {0, 5}


def test_an_option_names_the_columns(trained: Path, tmp_path: Path, cli: Cli) -> None:
    given = write(tmp_path / "in.csv", [{"left": "a b", "right": "a guitar"}, {"left": "rain", "right": "the rain"}])
    both = ("--column", "left", "--column", "right")
    assert cli("predict", trained, "-t", "sts", "--input", given, "--output", tmp_path / "1.csv", *both).code == 0
    swapped = ("--column", "right", "--column", "left")
    assert cli("predict", trained, "-t", "sts", "--input", given, "--output", tmp_path / "2.csv", *swapped).code == 0
    model = palbert.load(trained)
    for name, pairs in (
        ("1.csv", [("a b", "a guitar"), ("rain", "the rain")]),
        ("2.csv", [("a guitar", "a b"), ("the rain", "rain")]),
    ):
        answers = [answer.answer for answer in model.predict("sts", pairs)]
        assert [float(row["prediction"]) for row in read(tmp_path / name)] == pytest.approx(answers, abs=1e-6)


@pytest.mark.parametrize(
    ("task", "options", "says"),
    [
        ("sts", ["--column", "key"], "Task 'sts' takes 2 text columns, found 1."),
        (
            "sst",
            ["--column", "sentense"],
            "no column 'sentense'.\n  Known: key, note, sentence. Did you mean 'sentence'?",
        ),
        ("sts", [], "no column 'sentence1'.\n  Known: key, note, sentence. Did you mean 'sentence'?"),
        ("ssst", [], "Unknown task 'ssst'.\n  Known: quora, sst, sts. Did you mean 'sst'?"),
    ],
)
def test_wrong_columns_and_tasks_are_refused(
    task: str, options: list[str], says: str, trained: Path, tmp_path: Path, cli: Cli
) -> None:
    given, out = write(tmp_path / "in.csv", ROWS), tmp_path / "out.csv"
    result = cli("predict", trained, "--task", task, "--input", given, "--output", out, *options)
    assert (result.code, result.out) == (2, "")
    assert says in result.err and "Traceback" not in result.err
    assert not out.exists()


def test_an_existing_output_is_replaced_only_with_force(trained: Path, tmp_path: Path, cli: Cli) -> None:
    given, out = write(tmp_path / "in.csv", ROWS), tmp_path / "out.csv"
    out.write_text("precious")
    command = ("predict", trained, "--task", "sst", "--input", given, "--output", out)
    result = cli(*command)
    assert result.code == 2
    assert result.err == f"error: {out}: already exists.\n  Add --force to replace it.\n"
    assert out.read_text() == "precious"
    assert cli(*command, "--force").code == 0
    assert len(read(out)) == len(ROWS)


def test_of_two_at_the_same_time_only_one_writes_the_output(
    trained: Path, tmp_path: Path, cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    given, out = write(tmp_path / "in.csv", ROWS), tmp_path / "out.csv"
    command = ("predict", trained, "--task", "sst", "--input", given, "--output", out)
    monkeypatch.setattr(predict_file, "count_rows", lambda *_, **__: out.write_text("of the other one") and len(ROWS))
    result = cli(*command)
    assert result.code == 2 and f"error: {out}: already exists.\n" in result.err
    assert out.read_text() == "of the other one" and sorted(tmp_path.iterdir()) == [given, out]
    assert cli(*command, "--force").code == 0
    assert len(read(out)) == len(ROWS)


def test_a_file_may_be_its_own_output(trained: Path, tmp_path: Path, cli: Cli) -> None:
    given = write(tmp_path / "in.csv", ROWS)
    assert cli("predict", trained, "-t", "sst", "--input", given, "--output", given, "--force").code == 0
    assert [row["sentence"] for row in read(given)] == TEXTS


@pytest.mark.parametrize("kind", KINDS)
def test_empty_texts_are_answered_with_a_warning(kind: str, trained: Path, tmp_path: Path, cli: Cli) -> None:
    rows = [{"key": "1", "sentence": "fine"}, {"key": "2", "sentence": ""}, {"key": "3", "sentence": "  "}]
    given, out = write(tmp_path / f"in.{kind}", rows), tmp_path / "out.jsonl"
    result = cli("predict", trained, "-t", "sst", "--input", given, "--output", out)
    assert result.code == 0
    assert "2 of 3 rows had an empty text" in result.err
    written = read(out)
    assert [row["key"] for row in written] == ["1", "2", "3"]
    [alone] = palbert.load(trained).predict("sst", [""])
    assert written[1]["prediction"] == alone.answer


def test_a_list_is_not_accepted_as_text(trained: Path, tmp_path: Path, cli: Cli) -> None:
    (tmp_path / "in.jsonl").write_text('{"sentence": "fine", "tags": ["a"]}\n{"sentence": ["fine"]}\n', "utf-8")
    result = cli(
        "predict", trained, "--task", "sst", "--input", tmp_path / "in.jsonl", "--output", tmp_path / "out.csv"
    )
    assert result.code == 2 and "line 2: expected a text or a number in 'sentence'" in result.err
    assert not (tmp_path / "out.csv").exists()


def test_a_pair_with_two_empty_texts_counts_as_one_row(trained: Path, tmp_path: Path, cli: Cli) -> None:
    given = write(tmp_path / "in.csv", [{"sentence1": "", "sentence2": ""}, {"sentence1": "a", "sentence2": "b"}])
    result = cli("predict", trained, "-t", "sts", "--input", given, "--output", tmp_path / "out.csv")
    assert "1 of 2 rows had an empty text" in result.err


def test_empty_rows_of_a_file_with_one_column_are_not_lost(trained: Path, tmp_path: Path, cli: Cli) -> None:
    given = write(tmp_path / "in.csv", [{"sentence": "a"}, {"sentence": ""}, {"sentence": "b"}])
    out = tmp_path / "out.csv"
    assert cli("predict", trained, "-t", "sst", "--input", given, "--output", out).code == 0
    assert [row["sentence"] for row in read(out)] == ["a", "", "b"]


def test_keys_that_only_some_json_rows_have_are_kept(
    trained: Path, tmp_path: Path, cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("palbert.verbs.predict_file.CHUNK", 2)
    rows = [{"sentence": "a", "early": "x"}, {"sentence": "b"}, {"late": "y"}, {"sentence": "d", "late": "z"}]
    given = write(tmp_path / "in.jsonl", rows)
    for kind in KINDS:
        out = tmp_path / f"out.{kind}"
        assert cli("predict", trained, "-t", "sst", "--input", given, "--output", out).code == 0
        for name in ("sentence", "early", "late"):
            assert [row[name] or "" for row in read(out)] == [row.get(name, "") for row in rows]


@pytest.mark.parametrize("source", ["jsonl", "parquet"])
@pytest.mark.parametrize("target", ["jsonl", "parquet"])
def test_numbers_booleans_and_lists_keep_their_types(
    source: str, target: str, trained: Path, tmp_path: Path, cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    pyarrow = pytest.importorskip("pyarrow")
    monkeypatch.setattr("palbert.verbs.predict_file.CHUNK", 2)
    rows = [{"sentence": f"film {n}", "n": n, "x": n / 2, "ok": n % 2 == 0, "tags": [n, n + 1]} for n in range(5)]
    given, out = tmp_path / f"in.{source}", tmp_path / f"out.{target}"
    if source == "jsonl":
        write(given, rows)
    else:
        pyarrow.parquet.write_table(pyarrow.Table.from_pylist(rows), given)
    assert cli("predict", trained, "-t", "sst", "--input", given, "--output", out).code == 0
    assert [{name: row[name] for name in rows[0]} for row in read(out)] == rows


def test_mixed_json_values_become_text_in_parquet_or_are_refused(
    trained: Path, tmp_path: Path, cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("pyarrow")
    given = write(tmp_path / "in.jsonl", [{"sentence": "a", "n": 1}, {"sentence": "b", "n": "two"}])
    out = tmp_path / "out.parquet"
    assert cli("predict", trained, "-t", "sst", "--input", given, "--output", out).code == 0
    assert [row["n"] for row in read(out)] == ["1", "two"]
    monkeypatch.setattr("palbert.verbs.predict_file.CHUNK", 1)
    result = cli("predict", trained, "-t", "sst", "--input", given, "--output", out, "--force")
    assert result.code != 0 and "one type of value per column" in result.err and "Write .jsonl" in result.err


def test_line_breaks_and_tabs_in_texts_are_kept_where_the_format_allows(
    trained: Path, tmp_path: Path, cli: Cli
) -> None:
    rows = [{"sentence": "one\ntwo"}, {"sentence": "one\ttwo"}, {"sentence": "one\r\ntwo"}]
    for source in ("csv", "jsonl", "parquet"):
        given = write(tmp_path / f"in.{source}", rows)
        for target in ("csv", "jsonl", "parquet"):
            out = tmp_path / f"{source}-out.{target}"
            assert cli("predict", trained, "-t", "sst", "--input", given, "--output", out).code == 0
            assert [row["sentence"] for row in read(out)] == [row["sentence"] for row in rows]
    out = tmp_path / "out.tsv"
    result = cli("predict", trained, "-t", "sst", "--input", tmp_path / "in.csv", "--output", out)
    assert result.code == 2
    assert "cannot hold a tab or a line break" in result.err and "Write .csv" in result.err
    assert not out.exists()


def test_the_test_files_of_the_course_are_predicted_unchanged(trained: Path, tmp_path: Path, cli: Cli) -> None:
    given, out = tmp_path / "ids-sst-test-student.csv", tmp_path / "out.csv"
    given.write_text('\tid\tsentence\n0\tx1\t"A ""quiet"" triumph, really"\n1\tx2\tDull .\n', "utf-8")
    assert cli("predict", trained, "-t", "sst", "--input", given, "--output", out).code == 0
    rows = read(out)
    texts = ['A "quiet" triumph, really', "Dull ."]
    assert [(row[""], row["id"], row["sentence"]) for row in rows] == [("0", "x1", texts[0]), ("1", "x2", texts[1])]
    answers = palbert.load(trained).predict("sst", texts)
    assert [row["prediction"] for row in rows] == [answer.answer for answer in answers]


def test_a_column_that_the_answers_would_replace_is_refused(trained: Path, tmp_path: Path, cli: Cli) -> None:
    for name in ("prediction", "p(neutral)"):
        given, out = write(tmp_path / "in.csv", [{"sentence": "a", name: "mine"}]), tmp_path / "out.csv"
        result = cli("predict", trained, "-t", "sst", "--input", given, "--output", out)
        assert result.code == 2
        assert f"{given}: its column '{name}' would clash" in result.err and "Rename it" in result.err
        assert not out.exists()


def test_a_file_with_only_a_header_gives_only_a_header(trained: Path, tmp_path: Path, cli: Cli) -> None:
    (tmp_path / "in.csv").write_text("key,sentence\n")
    out = tmp_path / "new" / "folder" / "out.csv"
    result = cli("predict", trained, "-t", "sts", "--column", "key", "--column", "sentence",
                 "--input", tmp_path / "in.csv", "--output", out)  # fmt: skip
    assert result.code == 0
    assert out.read_text() == "key,sentence,prediction\n"


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("old", [True, False])
def test_a_crash_midway_leaves_no_partial_output(
    kind: str, old: bool, trained: Path, tmp_path: Path, cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    given, out = write(tmp_path / "in.csv", ROWS), tmp_path / "out" / f"out.{kind}"
    out.parent.mkdir()
    if old:
        out.write_bytes(b"precious")
    monkeypatch.setattr("palbert.verbs.predict_file.CHUNK", 7)
    predict, calls = palbert.Predictor.predict, []

    def failing(self: palbert.Predictor, *arguments: Any, **settings: Any) -> list[palbert.Prediction]:
        calls.append(arguments)
        if len(calls) == 3:
            raise RuntimeError("power cut")
        return predict(self, *arguments, **settings)

    monkeypatch.setattr(palbert.Predictor, "predict", failing)
    result = cli("predict", trained, "-t", "sst", "--input", given, "--output", out, "--force")
    assert result.code == 1 and "power cut" in result.err
    assert len(calls) == 3
    assert [path.name for path in out.parent.iterdir()] == ([out.name] if old else [])
    if old:
        assert out.read_bytes() == b"precious"


@pytest.mark.parametrize(
    ("name", "content", "says"),
    [
        ("in.csv", b"sentence,x\nfine,1\na,2,3,4\n", "in.csv, line 3: expected 2 fields, found 4."),
        ("in.csv", b"sentence\nfine\ncaf\xe9\n", "in.csv, line 3: expected UTF-8, found byte 0xe9."),
        ("in.tsv", b"sentence\tx\nfine\t1\ncaf\xe9\t2\n", "in.tsv, line 3: expected UTF-8, found byte 0xe9."),
        ("in.jsonl", b'{"sentence": "a"}\n{"sentence": \n', "in.jsonl, line 2: not valid JSON"),
        ("in.jsonl", b'{"sentence": "a"}\n["a"]\n', "in.jsonl, line 2: expected an object"),
        (
            "in.jsonl",
            b'{"sentence": "a"}\n{"sentence": "\\ud83d"}\n',
            "in.jsonl, line 2: expected valid Unicode",
        ),
        ("in.jsonl", b'{"sentence": "a"}\n{"sentence": "caf\xe9"}\n', "in.jsonl, line 2: expected UTF-8"),
        ("in.parquet", b"not parquet at all", "in.parquet: not a Parquet file"),
        ("in.csv", b"", "in.csv, line 1: expected a header with column names, found none."),
        ("in.txt", b"sentence\na\n", "in.txt: unknown kind of file.\n  Name it .csv or .tsv"),
    ],
)
def test_a_damaged_input_is_refused_with_its_line_and_leaves_no_output(
    name: str, content: bytes, says: str, trained: Path, tmp_path: Path, cli: Cli
) -> None:
    (tmp_path / name).write_bytes(content)
    out = tmp_path / "out.csv"
    result = cli("predict", trained, "-t", "sst", "--input", tmp_path / name, "--output", out)
    assert (result.code, result.out) == (2, "")
    assert says in result.err and "Traceback" not in result.err
    assert sorted(path.name for path in tmp_path.iterdir()) == [name]


def test_missing_inputs_and_unknown_outputs_are_refused(trained: Path, tmp_path: Path, cli: Cli) -> None:
    given = write(tmp_path / "in.csv", ROWS)
    result = cli("predict", trained, "-t", "sst", "--input", tmp_path / "no.csv", "--output", tmp_path / "out.csv")
    assert (result.code, result.err) == (2, f"error: No such file: {tmp_path / 'no.csv'}\n")
    result = cli("predict", trained, "-t", "sst", "--input", given, "--output", tmp_path / "out.json")
    assert result.code == 2
    assert "out.json: unknown kind of file to write.\n  Known: .csv, .tsv, .jsonl, " in result.err
    assert sorted(path.name for path in tmp_path.iterdir()) == ["in.csv"]


def test_an_option_says_how_the_input_is_written(
    trained: Path, tmp_path: Path, cli: Cli, expected: list[palbert.Prediction]
) -> None:
    given, out = tmp_path / "in.csv", tmp_path / "out.csv.gz"
    given.write_text("café;A quiet little triumph.\n", "latin1")
    command = ["predict", trained, "-t", "sst", "--input", given, "--output", out]
    assert 'encoding = "windows-1252"' in cli(*command).err
    options = ["--read", "encoding=windows-1252", "--read", 'header=["note", "sentence"]', "--read", "separator=;"]
    assert cli(*command, *options).code == 0
    [chunk] = read_chunks(str(out))
    assert chunk.column("note") == ["café"] and chunk.column("prediction") == [expected[0].answer]
    refused = cli(*command, "--read", "encoding=utf-9", "--read", "colour=red")
    assert refused.code == 2
    assert (
        "--read encoding: expected an encoding such as" in refused.err and "--read colour: unknown key" in refused.err
    )


def test_formulas_in_texts_are_escaped_on_request(trained: Path, cli: Cli, tmp_path: Path) -> None:
    rows = [{"sentence": "=cmd()", "note": "-1"}, {"sentence": "plain", "note": "+x"}]
    source = write(tmp_path / "in.csv", rows)
    given = ("predict", trained, "--task", "sst", "--input", source, "--output")
    assert cli(*given, tmp_path / "plain.csv").code == 0
    assert cli(*given, tmp_path / "safe.csv", "--spreadsheet-safe").code == 0
    plain, safe = read(tmp_path / "plain.csv"), read(tmp_path / "safe.csv")
    assert [(row["sentence"], row["note"]) for row in plain] == [("=cmd()", "-1"), ("plain", "+x")]
    assert [(row["sentence"], row["note"]) for row in safe] == [("'=cmd()", "-1"), ("plain", "'+x")]
    assert [row["prediction"] for row in safe] == [row["prediction"] for row in plain]
    refused = cli("predict", trained, "--text", "a", "--spreadsheet-safe")
    assert refused.code == 2 and "--spreadsheet-safe is about the file to write" in refused.err
