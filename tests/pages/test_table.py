"""Tables on the page, in Chromium: read, answered a few rows at a time, and given back."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest

pytest.importorskip("playwright.sync_api", reason="needs Playwright: pip install playwright")
pytest.importorskip("starlette", reason="needs Starlette: pip install 'palbert[serve]'")

from playwright.sync_api import Page, expect
from tests.pages.fake_service import FakeService, problem
from tests.pages.tables import answer_all, choose, downloaded, rows_of, written

from palbert.runtime.spreadsheet import safe_cell

OpenPage = Callable[..., Page]
HOSTILE = "<img src=x onerror=\"document.title='hacked'\">"


def test_a_table_comes_back_with_answers(open_page: OpenPage, service: FakeService) -> None:
    texts = [f"a {'good' if row % 3 else 'bad'} film, number {row}" for row in range(150)]
    texts[7] = 'She said "good",\r\nand left; twice'
    table = [["id", "review"], *([str(row), text] for row, text in enumerate(texts))]
    page = open_page()
    choose(page, "\ufeff" + written(table))
    expect(page.locator("#table-facts")).to_have_text("reviews.csv: 150 rows, 2 columns, separated by commas")
    expect(page.get_by_role("combobox", name="Text column", exact=True)).to_have_value("1")
    answer_all(page)
    expect(page.locator("#progress-text")).to_have_text("Done: 150 of 150 rows.")
    expect(page.locator("#preview tbody tr").first).to_contain_text("negative (82 %)")
    expect(page.get_by_role("button", name="Download")).to_be_focused()
    name, content = downloaded(page)
    assert name == "reviews.answers.csv"
    rows = rows_of(content)
    assert list(rows[0]) == ["id", "review", "prediction", "p(negative)", "p(positive)", "error"]
    assert [row["review"] for row in rows] == texts
    assert [row["prediction"] for row in rows] == ["positive" if "good" in text else "negative" for text in texts]
    assert float(rows[1]["p(positive)"]) == pytest.approx(0.8176, abs=1e-4)
    assert {row["error"] for row in rows} == {""}
    sent = [body["texts"] for body in service.asked]
    assert max(map(len, sent)) <= 64 and sorted(text for piece in sent for text in piece) == sorted(texts)
    assert service.most_at_once <= 2
    assert all(body["tasks"] == ["mood"] and "explain" not in body for body in service.asked)


def test_progress_is_shown_and_can_be_cancelled(open_page: OpenPage, service: FakeService) -> None:
    service.delay = lambda body: 1.0
    page = open_page()
    choose(page, written([["text"], *([f"good {row}"] for row in range(1000))]))
    page.get_by_role("button", name="Answer all 1,000 rows").click()
    progress = page.get_by_role("progressbar", name="Rows answered")
    expect(progress).to_have_attribute("max", "1000")
    expect(page.locator("#progress-text")).to_have_text(
        re.compile(r"^[1-9]\d\d of 1,000 rows \(\d+ %\), about \d+ s left")
    )
    page.get_by_role("button", name="Cancel").click()
    expect(page.locator("#progress-text")).to_have_text(re.compile(r"^Cancelled: \d+ of 1,000 rows"))
    asked = len(service.asked)
    rows = rows_of(downloaded(page)[1])
    done = sum(row["prediction"] == "positive" for row in rows)
    assert len(rows) == 1000 and 128 <= done < 1000 and done % 64 == 0
    page.wait_for_timeout(1200)
    assert len(service.asked) == asked  # nothing is sent any more
    service.delay = lambda body: 0.0
    answer_all(page)
    assert {row["prediction"] for row in rows_of(downloaded(page)[1])} == {"positive"}


def test_a_busy_server_gets_the_rows_again_when_it_says(open_page: OpenPage, service: FakeService) -> None:
    service.refusals = [
        problem(429, "Too fast", "At most 64 texts per second.", Retry_After="1"),
        problem(503, "Busy", "The queue is full.", Retry_After="1"),
    ]
    page = open_page()
    choose(page, written([["text"], *([f"good {row}"] for row in range(100))]))
    page.get_by_role("button", name="Answer all").click()
    expect(page.locator("#progress-text")).to_contain_text("The server is busy; it is asked again in 1 s.")
    expect(page.locator("#progress-text")).to_have_text("Done: 100 of 100 rows.")
    assert len(service.asked) == 4


def test_every_row_has_its_own_error(open_page: OpenPage, service: FakeService) -> None:
    page = open_page()
    choose(page, written([["text"], ["good"], ["x" * 6000], ["bad"]]))
    answer_all(page)
    expect(page.locator("#progress-text")).to_have_text("Done: 3 of 3 rows, 1 error.")
    rows = rows_of(downloaded(page)[1])
    assert [row["prediction"] for row in rows] == ["positive", "", "negative"]
    assert [row["error"] for row in rows] == ["", "Expected at most 5000 characters.", ""]


def test_rows_that_a_server_fails_on_are_tried_again_and_then_said(open_page: OpenPage, service: FakeService) -> None:
    service.refusals = [problem(500, "Broken", "Once.")]
    page = open_page()
    choose(page, written([["text"], ["good"]]))
    answer_all(page)
    assert len(service.asked) == 2 and rows_of(downloaded(page)[1])[0]["error"] == ""
    service.refusals = [problem(422, "Not understood", "No such task.")]
    answer_all(page)
    assert rows_of(downloaded(page)[1])[0]["error"] == "No such task. (request req-7)"


def test_a_server_that_goes_away_stops_the_rest(open_page: OpenPage, service: FakeService) -> None:
    page = open_page()
    choose(page, written([["text"], *([f"good {row}"] for row in range(300))]))
    page.route("**/v1/predict", lambda route: route.abort())
    page.get_by_role("button", name="Answer all").click()
    expect(page.locator("#progress-text")).to_have_text("Stopped: 0 of 300 rows.")
    expect(page.locator("#file-problem")).to_contain_text("The server does not answer")
    page.unroute("**/v1/predict")


def test_requests_that_are_too_large_are_halved(open_page: OpenPage, service: FakeService) -> None:
    service.refusals = [problem(413, "Too large", "At most 4 MB.")]
    page = open_page()
    choose(page, written([["text"], *([f"good {row}"] for row in range(64))]))
    answer_all(page)
    assert [len(body["texts"]) for body in service.asked] == [64, 32, 32]


def test_requests_with_more_rows_than_a_server_takes_are_halved(open_page: OpenPage, service: FakeService) -> None:
    service.most_texts = 20
    page = open_page()
    choose(page, written([["text"], *([f"good {row}"] for row in range(100)), ["x" * 6000]]))
    answer_all(page)
    rows = rows_of(downloaded(page)[1])
    assert [row["prediction"] for row in rows] == [*["positive"] * 100, ""]
    assert [row["error"] for row in rows] == [*[""] * 100, "Expected at most 5000 characters."]
    assert sorted(len(body["texts"]) for body in service.asked) == [*[16] * 4, 18, 19, 32, 32, 37, 64]


def test_long_texts_are_sent_in_smaller_pieces(open_page: OpenPage, service: FakeService) -> None:
    page = open_page()
    choose(page, written([["text"], *(["good " * 950] for _ in range(100))]))
    answer_all(page)
    assert max(sum(map(len, body["texts"])) for body in service.asked) <= 200_000 and len(service.asked) == 3


def test_a_key_is_asked_for_in_the_middle(open_page: OpenPage, service: FakeService) -> None:
    page = open_page()
    choose(page, written([["text"], *([f"good {row}"] for row in range(200))]))
    service.key = "pal_right"
    page.get_by_role("button", name="Answer all").click()
    page.get_by_label("API key").fill("pal_right")
    page.keyboard.press("Enter")
    expect(page.locator("#progress-text")).to_have_text("Done: 200 of 200 rows.")


def test_pairs_and_all_tasks_of_a_kind_are_answered(open_page: OpenPage) -> None:
    page = open_page()
    choose(
        page, written([["one", "n", "other"], ["red green", "1", "red green"], ["red blue", "2", "white black"]], ";")
    )
    page.get_by_role("combobox", name="Task", exact=True).select_option(label="all for pairs: same, likeness")
    expect(page.get_by_role("combobox", name="First text column", exact=True)).to_have_value("0")
    expect(page.get_by_role("combobox", name="Second text column", exact=True)).to_have_value("2")
    answer_all(page)
    rows = rows_of(downloaded(page)[1], ";")
    assert [(row["same"], row["likeness"]) for row in rows] == [("duplicate", "5"), ("different", "0")]
    page.get_by_role("combobox", name="Task", exact=True).select_option(label="all for single texts: mood, themes")
    page.get_by_label("Answer only if at least").fill("90")
    answer_all(page)
    assert (
        rows_of(downloaded(page)[1], ";")[0] | {"mood": "", "mood abstained": "true"}
        == rows_of(downloaded(page)[1], ";")[0]
    )


def test_columns_keep_their_names_beside_answers(open_page: OpenPage) -> None:
    page = open_page()
    choose(page, written([["prediction", "text"], ["mine", "a good film"]]))
    answer_all(page)
    [row] = rows_of(downloaded(page)[1])
    assert (row["prediction"], row["prediction 2"]) == ("mine", "positive")


def test_cells_that_start_a_formula_can_be_escaped(open_page: OpenPage) -> None:
    cells = ["=1+2", "+good", "-3.5", "@x", " =2", "＝3", "a good film", "1e5", "'-x"]
    page = open_page()
    choose(page, written([["text"], *([cell] for cell in cells)]))
    answer_all(page)
    assert [row["text"] for row in rows_of(downloaded(page)[1])] == cells
    page.get_by_label("Escape cells").check()
    assert [row["text"] for row in rows_of(downloaded(page)[1])] == [safe_cell(cell) for cell in cells]


def test_cells_are_never_markup(open_page: OpenPage) -> None:
    page = open_page()
    choose(page, written([[HOSTILE, "text"], [HOSTILE, f"good {HOSTILE}"]]), name=f"{HOSTILE.replace('/', '')}.csv")
    answer_all(page)
    expect(page.locator("#preview")).to_contain_text(HOSTILE)
    expect(page.locator("img")).to_have_count(0)
    assert [rows[HOSTILE] for rows in rows_of(downloaded(page)[1])] == [HOSTILE]
    expect(page).to_have_title("demo – palbert")


def test_tables_are_pasted_and_dropped(open_page: OpenPage) -> None:
    page = open_page()
    give = """(place, [kind, text]) => {
      const data = new DataTransfer();
      if (kind === "paste") data.setData("text/plain", text);
      else data.items.add(new File([text], "dropped.csv"));
      const settings = { bubbles: true, cancelable: true, dataTransfer: data, clipboardData: data };
      place.dispatchEvent(kind === "paste" ? new ClipboardEvent(kind, settings) : new DragEvent(kind, settings));
    }"""
    page.locator("#paste").evaluate(give, ["paste", "id\ttext\n1\ta good film\n"])
    expect(page.locator("#table-facts")).to_have_text("pasted.csv: 1 row, 2 columns, separated by tabs")
    page.locator("h1").evaluate(give, ["drop", "text\na good film\na bad film\n"])  # anywhere on the page
    expect(page.locator("#table-facts")).to_have_text("dropped.csv: 2 rows, 1 column")
    page.locator("#paste").press_sequentially("text")
    page.locator("#paste").press("Enter")
    page.locator("#paste").press_sequentially("typed")
    expect(page.locator("#table-facts")).to_have_text("pasted.csv: 1 row, 1 column")


def test_a_large_table_does_not_freeze_the_page(open_page: OpenPage) -> None:
    page = open_page()
    turns = page.evaluate(
        """async () => {
          const { readRows, writeRows } = await import("/page.csv.js");
          const text = '12,"a film, ""good"" and long",7\\n'.repeat(400_000);
          let turns = 0, over = false;
          const turn = () => { turns += 1; if (!over) setTimeout(turn); };
          turn();
          const { rows } = await readRows(text, ",");
          await writeRows(rows, ",");
          over = true;
          return [rows.length, turns];
        }"""
    )
    assert turns[0] == 400_000 and turns[1] > 20
