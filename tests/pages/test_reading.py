"""How the page reads tables: as `palbert predict --input` does, or it says what is wrong with them."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("playwright.sync_api", reason="needs Playwright: pip install playwright")
pytest.importorskip("starlette", reason="needs Starlette: pip install 'palbert[serve]'")

from playwright.sync_api import Page, expect
from tests.pages.fake_service import FakeService, problem
from tests.pages.tables import answer_all, choose, downloaded, rows_of, written

from palbert.errors import DataError
from palbert.readers import Dialect, read_chunks
from palbert.readers.separators import Sample

OpenPage = Callable[..., Page]
READ = """async ([text, name]) => {
  const { readTable, nameColumns } = await import("/page.table.js");
  const table = await readTable({ text, name });
  nameColumns(table, true);
  return table;
}"""
ROWS = """async ([text, separator]) => {
  const { readRows } = await import("/page.csv.js");
  return await readRows(text, separator);
}"""
SEPARATORS = """async (texts) => {
  const { separatorsOf } = await import("/page.separators.js");
  return texts.map(([text, tsv]) => separatorsOf(text, tsv));
}"""


def test_tables_are_read_as_python_reads_them(open_page: OpenPage) -> None:
    page = open_page()
    dice = random.Random(5)
    pieces = ["a", "good", '"', '""', ",", ";", "\t", "\n", "\r\n", " ", "é", "😀", "'", "=", "1.5"]
    for _ in range(60):
        width, separator = dice.randint(2, 4), dice.choice(",;\t")
        rows = [
            ["x", *("".join(dice.choices(pieces, k=dice.randint(0, 5))) for _ in range(width - 1))] for _ in range(8)
        ]
        text = written(rows, separator, dice.choice(["\n", "\r\n", "\r"]))
        assert page.evaluate(ROWS, [text, separator])["rows"] == rows, text


def separators(text: str, tsv: bool) -> list[str]:
    """Return the separators that predict finds; several if it asks which one it is."""
    suffix = ".tsv" if tsv else ".csv"
    sample = Sample(Path(f"a{suffix}"), text, suffix=suffix, quoted=not tsv)
    try:
        return [sample.mark or sample.separator()]
    except DataError as error:
        assert error.hint is not None
        return [sign for sign in ",;|" if f"separator = {sign!r}".replace("'", '"') in error.hint]


def test_the_separator_is_that_of_predict(open_page: OpenPage) -> None:
    dice = random.Random(7)
    texts = []
    for _ in range(3000):
        sign, other = dice.choice([",", ";", "|", "\t", ""]), dice.choice([",", ";", "|", "\t", " "])
        cells = ["film", "a good one", f"well{other} yes", f'"quoted{other} text"', "1"]
        width = dice.randint(1, 3)
        lines = [
            sign.join(dice.choice(cells) for _ in range(width + (dice.random() < 0.1)))
            for _ in range(dice.randint(1, 5))
        ]
        mark = [f"sep={sign}"] * (dice.random() < 0.05)
        texts.append((dice.choice(["\n", "\r\n", "\r"]).join([*mark, *lines, ""]), dice.random() < 0.2))
    texts += [("text\n" + "a, b\n" * 20_000, False), ("text\n" + '"a\nb",c\n' * 10_000, False)]
    found = open_page().evaluate(SEPARATORS, [list(each) for each in texts])
    for (text, tsv), signs in zip(texts, found, strict=True):
        assert signs == separators(text[: 1 << 16], tsv), (text[:200], tsv)
    assert {tuple(signs) for signs in found} >= {(",",), (";",), ("|",), ("\t",), ("",), (",", ";")}


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("one.csv", "sentence\nLovely food\nTerrible food, really\n"),
        ("none.csv", "Lovely food\nTerrible food, really\nIt rained\n"),
        ("two.csv", "id;text,s\n1;a, b\n2;c\n"),
        ("short.csv", 'sentence,n\ngood\n"",2\n\n"bad, bad",3\n'),
        ("empty.csv", 'sentence\ngood\n""\nbad\n'),
        ("mark.csv", "sep=;\r\ntext;label\r\na,b;1\r\n"),
        ("bars.csv", "id|text\n1|a, b\n"),
        ("tabs.tsv", 'id\ttext\n1\t"good, bad\n'),
    ],
)
def test_rows_are_those_of_predict(open_page: OpenPage, tmp_path: Path, name: str, text: str) -> None:
    (tmp_path / name).write_text(text, "utf-8", newline="")
    [chunk] = read_chunks(str(tmp_path / name), dialect=Dialect(), size=100)
    table: dict[str, Any] = open_page().evaluate(READ, [text, name])
    assert table["problem"] is None and table["names"] == list(chunk.columns)
    rows = [[*row, *[None] * (len(table["names"]) - len(row))] for row in table["data"]]
    assert rows == [list(row) for row in zip(*chunk.columns.values(), strict=True)]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("sentence,n\nIt was a bad, bad film; awful,1\n", "line 2: expected 2 cells, found 3"),
        ('a,b\n"x\r\ny",1\n\nc,"d",e\n', "line 5: expected 2 cells, found 3"),
        ("text\nwell,1\nno,0\n", "line 2: expected 1 cell, found 2"),
    ],
)
def test_rows_with_too_many_cells_are_refused(open_page: OpenPage, tmp_path: Path, text: str, said: str) -> None:
    page = open_page()
    choose(page, text, "x.csv")
    expect(page.locator("#file-problem")).to_contain_text(f"x.csv, {said}")
    expect(page.get_by_role("button", name="Answer")).to_be_disabled()
    (tmp_path / "x.csv").write_text(text, "utf-8", newline="")
    with pytest.raises(DataError, match=said.replace("cell", "field")):
        list(read_chunks(str(tmp_path / "x.csv"), dialect=Dialect(), size=100))


def test_texts_with_commas_are_sent_whole(open_page: OpenPage, service: FakeService) -> None:
    page = open_page()
    choose(page, "sentence\nLovely food\nTerrible food, really\n")
    expect(page.locator("#table-facts")).to_have_text("reviews.csv: 2 rows, 1 column")
    answer_all(page)
    assert service.asked[-1]["texts"] == ["Lovely food", "Terrible food, really"]
    assert [row["sentence"] for row in rows_of(downloaded(page)[1])] == service.asked[-1]["texts"]


def test_what_separates_cells_can_be_chosen(open_page: OpenPage, service: FakeService) -> None:
    page = open_page()
    choose(page, "a;b,c\n1;2,3\n4;5,6\n", "x.csv")
    problem, choice = page.locator("#file-problem"), page.get_by_role("combobox", name="Separated by")
    expect(problem).to_contain_text("x.csv: its cells may be separated by commas or semicolons")
    choice.select_option("semicolons")
    expect(page.locator("#table-facts")).to_contain_text("2 columns, separated by semicolons")
    expect(problem).to_be_empty()
    choose(page, "Good, and cheap\nSo, so\nBad, dull, and dear\n", "y.csv")
    expect(problem).to_contain_text("y.csv, line 3: expected 2 cells, found 3")
    page.get_by_label("The first row has the names of columns").uncheck()
    choice.select_option("nothing: one column")
    expect(page.get_by_label("The first row has the names of columns")).not_to_be_checked()
    answer_all(page)
    assert service.asked[-1]["texts"] == ["Good, and cheap", "So, so", "Bad, dull, and dear"]


def test_short_rows_are_filled_up(open_page: OpenPage, service: FakeService) -> None:
    page = open_page()
    choose(page, "good film,1\nbad film\n\na kind film,2\n")
    page.get_by_label("The first row has the names of columns").uncheck()
    answer_all(page)
    rows = rows_of(downloaded(page)[1])
    assert [(row["column 1"], row["column 2"]) for row in rows] == [
        ("good film", "1"),
        ("bad film", ""),
        ("a kind film", "2"),
    ]
    assert [row["prediction"] for row in rows] == ["positive", "negative", "positive"]


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (b"", "There are no rows in it."),
        (b'text\n"good\nfilm\n', "Line 2: a cell begins with a quote that is never closed."),
    ],
)
def test_what_is_no_table_is_said(open_page: OpenPage, content: bytes, expected: str) -> None:
    page = open_page()
    page.locator("#file").set_input_files({"name": "odd.csv", "mimeType": "text/csv", "buffer": content})
    expect(page.locator("#file-problem")).to_contain_text(expected)
    expect(page.locator("#table")).to_be_hidden()


@pytest.mark.parametrize(("encoding", "said"), [("utf-16", ", read as UTF-16"), ("cp1252", ", read as Windows-1252")])
def test_other_encodings_are_read_and_said(open_page: OpenPage, encoding: str, said: str) -> None:
    page = open_page()
    choose(page, "text\nthe café is good\n".encode(encoding))
    expect(page.locator("#table-facts")).to_contain_text(said)
    answer_all(page)
    assert rows_of(downloaded(page)[1])[0]["text"] == "the café is good"


def test_files_of_tabs_have_no_quotes(open_page: OpenPage, tmp_path: Path) -> None:
    page = open_page()
    choose(page, 'id\ttext\n1\t"good film\n2\tbad "film"\n', name="reviews.tsv")
    answer_all(page)
    name, content = downloaded(page)
    assert name == "reviews.answers.tsv"
    (tmp_path / name).write_bytes(content)
    [chunk] = read_chunks(str(tmp_path / name), dialect=Dialect(), size=100)
    assert chunk.columns["text"] == ['"good film', 'bad "film"']
    assert chunk.columns["prediction"] == ["positive", "negative"]


@pytest.mark.parametrize(
    ("name", "back"),
    [("a.b.TSV", "a.b.answers.TSV"), ("notes.txt", "notes.answers.txt"), ("table", "table.answers.csv")],
)
def test_a_table_keeps_its_suffix(open_page: OpenPage, name: str, back: str) -> None:
    page = open_page()
    choose(page, "id\ttext\n1\tgood\n", name)
    answer_all(page)
    assert downloaded(page)[0] == back


def test_cells_of_a_tsv_have_no_line_breaks(open_page: OpenPage, service: FakeService) -> None:
    service.refusals = [problem(422, "Not understood", "One line,\n\tanother.")]
    page = open_page()
    choose(page, "id\ttext\n1\tgood\n", "a.tsv")
    answer_all(page)
    assert downloaded(page)[1].decode("utf-8-sig").split("\r\n")[1].endswith("\tOne line,  another. (request req-7)")
