"""The page in Chromium: texts that are typed, their answers and explanations, and what may go wrong."""

from __future__ import annotations

import re
import time
from collections.abc import Callable

import pytest

pytest.importorskip("playwright.sync_api", reason="needs Playwright: pip install playwright")
pytest.importorskip("starlette", reason="needs Starlette: pip install 'palbert[serve]'")

from playwright.sync_api import Locator, Page, expect
from tests.pages.fake_service import TASKS, FakeService, problem

OpenPage = Callable[..., Page]
HOSTILE = "<img src=x onerror=\"document.title='hacked'\">"


def first(page: Page) -> Locator:
    """Return the field of the first text."""
    return page.locator("textarea.first").first


def second(page: Page) -> Locator:
    """Return the field of the second text of the pair."""
    return page.locator("textarea.second").first


def card(page: Page, task: str, side: int = 0) -> Locator:
    """Return the answer of a task."""
    return page.locator(".side").nth(side).get_by_role("article", name=f"Answer of {task}")


def choose_pairs(page: Page) -> None:
    page.get_by_text("Two texts", exact=True).click()


def bar(found: Locator, name: str) -> Locator:
    return found.get_by_role("meter", name=name)


def test_answers_appear_as_somebody_types(open_page: OpenPage, service: FakeService) -> None:
    page = open_page()
    first(page).press_sequentially("a good film", delay=15)
    mood = card(page, "mood")
    expect(mood.get_by_role("heading")).to_have_text("positive")
    expect(bar(mood, "positive")).to_have_attribute("aria-valuetext", "82 %")
    expect(bar(mood, "negative")).to_have_attribute("aria-valuenow", "18.2")
    expect(mood.locator(".bar-row.chosen")).to_contain_text("82 %")
    expect(mood).to_contain_text("accuracy 0.910")
    expect(card(page, "themes").get_by_role("heading")).to_have_text("film")
    expect(page.locator("#said")).to_have_text("mood: positive; themes: film")
    assert len(service.asked) < len("a good film")  # a pause is waited for
    assert service.asked[-1]["texts"] == ["a good film"] and service.asked[-1]["tasks"] == ["mood", "themes"]
    first(page).fill("  ")
    expect(page.get_by_role("article")).to_have_count(0)
    expect(page.get_by_text("Answers appear here as you type.")).to_be_visible()


def test_only_the_chosen_tasks_are_asked(open_page: OpenPage, service: FakeService) -> None:
    page = open_page()
    first(page).fill("a good film")
    expect(card(page, "themes")).to_be_visible()
    page.get_by_role("checkbox", name="themes").uncheck()
    expect(card(page, "themes")).to_have_count(0)
    assert service.asked[-1]["tasks"] == ["mood"]
    page.get_by_role("checkbox", name="mood").uncheck()
    expect(page.get_by_text("Choose a task above.")).to_be_visible()


def test_an_example_is_asked_with_one_click(open_page: OpenPage) -> None:
    page = open_page()
    page.get_by_role("button", name="A dull film.").click()
    expect(first(page)).to_have_value("A dull film.")
    expect(card(page, "mood").get_by_role("heading")).to_have_text("negative")


def test_pairs_are_answered_and_numbers_stand_on_their_range(open_page: OpenPage, service: FakeService) -> None:
    page = open_page()
    choose_pairs(page)
    expect(page.get_by_role("checkbox", name="mood")).to_have_count(0)
    first(page).fill("red green blue")
    second(page).fill("red green blue white")
    likeness = card(page, "likeness")
    expect(likeness.get_by_role("heading")).to_have_text("3.75 of 5")
    scale = likeness.get_by_role("meter", name="likeness")
    for name, value in {"aria-valuemin": "0", "aria-valuemax": "5", "aria-valuenow": "3.750"}.items():
        expect(scale).to_have_attribute(name, value)
    page.wait_for_timeout(400)  # the marker moves
    line, marker = scale.bounding_box(), likeness.locator(".marker").bounding_box()
    assert line and marker
    assert marker["x"] + marker["width"] / 2 == pytest.approx(line["x"] + 0.75 * line["width"], abs=1.5)
    assert service.asked[-1]["texts"] == [["red green blue", "red green blue white"]]
    expect(card(page, "same").get_by_role("heading")).to_have_text("duplicate")


def test_abstentions_and_cut_texts_are_said(open_page: OpenPage, service: FakeService) -> None:
    page = open_page()
    first(page).fill("a good film")
    page.get_by_label("Answer only if at least").fill("90")
    mood = card(page, "mood")
    expect(mood.get_by_role("heading")).to_have_text("No answer")
    expect(mood).to_contain_text("Not sure enough of any answer.")
    assert service.asked[-1]["min_confidence"] == 0.9
    page.get_by_label("Answer only if at least").fill("")
    expect(mood.get_by_role("heading")).to_have_text("positive")
    page.get_by_label("Answer only if at least").fill("99.5")
    expect(mood.get_by_role("heading")).to_have_text("No answer")
    assert service.asked[-1]["min_confidence"] == 0.995
    first(page).fill("good " * 200)
    expect(mood).to_contain_text("its end was cut off")
    expect(mood.locator(".unread")).to_contain_text("good good")


@pytest.mark.parametrize("typed", ["150", "-5", "1e"])
def test_a_threshold_that_cannot_be_is_said(open_page: OpenPage, service: FakeService, typed: str) -> None:
    page = open_page()
    field, alert = page.get_by_label("Answer only if at least"), page.get_by_role("alert").filter(has_text="Expected")
    field.press_sequentially(typed)
    expect(alert).to_have_text("Expected a number from 0 to 100; until then, all answers are given.")
    expect(field).to_have_attribute("aria-invalid", "true")
    expect(field).to_have_accessible_description(re.compile("^Expected"))
    first(page).fill("a good film")
    expect(card(page, "mood").get_by_role("heading")).to_have_text("positive")
    assert "min_confidence" not in service.asked[-1]
    field.fill("60")
    expect(alert).to_have_count(0)
    expect(field).to_have_attribute("aria-invalid", "false")


def test_two_texts_are_compared(open_page: OpenPage) -> None:
    page = open_page()
    first(page).fill("a good film")
    expect(card(page, "mood")).to_be_visible()
    page.get_by_role("button", name="Compare with another text").click()
    other = page.get_by_role("textbox", name="Second text")
    expect(other).to_be_focused()
    other.fill("a bad film")
    changes = card(page, "mood", 1).locator(".change")
    expect(changes).to_have_text(["▲ +64", "▼ −64"])
    expect(card(page, "mood", 0).locator(".change")).to_have_text(["", ""])
    first(page).fill("a bad film indeed")  # the differences follow the first text too
    expect(changes).to_have_text(["=", "="])
    page.get_by_role("button", name="Stop comparing").click()
    expect(other).to_have_count(0)


def test_words_are_marked_by_what_they_did(open_page: OpenPage, service: FakeService) -> None:
    page = open_page()
    first(page).fill("😀  good, not bad")  # two spaces, and a letter that is two units of UTF-16
    mood = card(page, "mood")
    line = mood.locator(".words")
    expect(line).to_have_text("😀  good, not bad", use_inner_text=True)
    good, bad, comma = (line.locator(".word", has_text=re.compile(f"^{word}$")) for word in ("good", "bad", ","))
    expect(good).to_have_class("word for")
    expect(good).to_have_attribute("title", "good: +1.00")
    expect(good).to_have_css("text-decoration-style", "solid")  # said without colours too
    expect(bad).to_have_class("word against")
    expect(bad).to_have_css("text-decoration-style", "dotted")
    expect(comma).to_have_css("text-decoration-line", "none")
    expect(mood).to_contain_text("Most for it: “good” +1.00")
    expect(mood).to_contain_text("a quick look")
    mood.get_by_text("All scores").click()
    expect(mood.get_by_role("row", name="bad −0.500")).to_be_visible()
    assert service.asked[-1]["explain"] == "gradient-input"
    page.get_by_role("checkbox", name="Show the words").uncheck()
    expect(line).to_have_count(0)
    assert "explain" not in service.asked[-1]


def test_the_exact_explanation_is_a_click_away(open_page: OpenPage, service: FakeService) -> None:
    page = open_page()
    first(page).fill("a good film")
    mood = card(page, "mood")
    button = mood.get_by_role("button", name="Explain exactly")
    button.click()
    expect(mood).to_contain_text("integrated gradients, 32 steps, scores add up within 0.4 %")
    asked = {"run": "demo", "task": "mood", "texts": ["a good film"], "method": "integrated-gradients"}
    assert service.asked[-1] == {**asked, "interactions": False}
    expect(mood.get_by_role("button", name="Explained exactly")).to_be_focused()
    first(page).fill("a good film!")  # another text, another explanation
    expect(mood).to_contain_text("a quick look")
    expect(button).to_be_visible()


def test_words_of_a_pair_show_their_partners(open_page: OpenPage) -> None:
    page = open_page()
    choose_pairs(page)
    first(page).fill("red green")
    second(page).fill("blue red")
    likeness = card(page, "likeness")
    likeness.get_by_role("button", name="Explain exactly").click()
    said = likeness.locator(".partners")
    red, green = (likeness.get_by_role("button", name=name, exact=True).first for name in ("red", "green"))
    other_red = likeness.get_by_role("button", name="red", exact=True).last
    red.hover()
    expect(said).to_have_text("“red” together with: “red” +2.00, “blue” −0.30.")
    expect(other_red).to_have_class(re.compile("partner joins"))
    page.mouse.move(0, 0)
    expect(said).to_contain_text("Point at a word")
    red.focus()  # and the same without a mouse: one stop per text, then arrow keys
    expect(red).to_have_class(re.compile("chosen"))
    page.keyboard.press("ArrowRight")
    expect(green).to_be_focused()
    expect(said).to_have_text("“green” together with: “blue” −0.30, “red” −0.30.")
    page.keyboard.press("Enter")
    expect(green).to_have_attribute("aria-pressed", "true")
    page.keyboard.press("Tab")
    expect(likeness.get_by_role("button", name="blue")).to_be_focused()
    page.keyboard.press("Escape")
    expect(said).to_contain_text("Point at a word")


def test_only_the_latest_answer_is_shown(open_page: OpenPage, service: FakeService) -> None:
    page = open_page()
    service.delay = lambda body: 1.0 if "bad" in body["texts"][0] else 0.0
    first(page).fill("a bad film")
    while not service.asked:
        page.wait_for_timeout(20)
    first(page).fill("a good film")
    heading = card(page, "mood").get_by_role("heading")
    expect(heading).to_have_text("positive")
    end = time.monotonic() + 1.4  # the slow answer would have come by then
    while time.monotonic() < end:
        assert heading.inner_text() == "positive"
        page.wait_for_timeout(50)


def test_texts_and_names_are_never_markup(open_page: OpenPage, service: FakeService) -> None:
    hostile = {**TASKS["mood"], "classes": ["fine", HOSTILE], "examples": [HOSTILE], "metric": HOSTILE}
    service.tasks = {HOSTILE: hostile, "same": TASKS["same"]}
    service.names = [HOSTILE, "other"]
    page = open_page()
    first(page).fill(f"good {HOSTILE}")
    expect(page.get_by_role("meter", name="onerror")).to_be_visible()
    expect(page.locator(".words")).to_contain_text(HOSTILE)
    page.get_by_role("button", name="Explain exactly").click()
    expect(page.get_by_text("integrated gradients")).to_be_visible()
    page.get_by_text("All scores").click()
    service.refusals = [problem(500, HOSTILE, HOSTILE)]
    first(page).fill(f"bad {HOSTILE}")
    expect(page.get_by_role("alert").filter(has_text="onerror")).to_be_visible()
    expect(page.locator("img")).to_have_count(0)
    expect(page).to_have_title(f"{HOSTILE} – palbert")


def test_an_error_of_the_server_is_shown_with_its_request(open_page: OpenPage, service: FakeService) -> None:
    page = open_page()
    service.refusals = [problem(500, "Something broke", "The model fell over.")]
    first(page).fill("a good film")
    alert = page.get_by_role("alert").filter(has_text="Something broke")
    expect(alert).to_contain_text("The model fell over.")
    expect(alert).to_contain_text("Request id: req-7")
    first(page).fill("a good film again")
    expect(card(page, "mood")).to_be_visible()
    expect(alert).to_have_count(0)


def test_a_text_that_is_refused_says_why(open_page: OpenPage) -> None:
    page = open_page()
    first(page).fill("x" * 6000)
    expect(page.get_by_role("alert").filter(has_text="Too long")).to_contain_text("at most 5000 characters")
    expect(page.get_by_role("article")).to_have_count(0)


@pytest.mark.parametrize("status", [429, 503])
def test_a_busy_server_is_asked_again_when_it_says(open_page: OpenPage, service: FakeService, status: int) -> None:
    page = open_page()
    service.refusals = [problem(status, "Busy", "Too many texts.", Retry_After="1")]
    began = time.monotonic()
    first(page).fill("a good film")
    expect(page.get_by_text("Asking again in 1 s.")).to_be_visible()
    expect(card(page, "mood").get_by_role("heading")).to_have_text("positive")
    assert time.monotonic() - began > 1 and len(service.asked) == 2


def test_a_server_that_is_gone_is_said(open_page: OpenPage) -> None:
    page = open_page()
    page.route("**/v1/predict", lambda route: route.abort())
    first(page).fill("a good film")
    expect(page.get_by_role("alert").filter(has_text="The server does not answer")).to_be_visible()
    page.unroute("**/v1/predict")


def test_runs_are_chosen_by_name(open_page: OpenPage, service: FakeService) -> None:
    service.names = ["demo", "other"]
    page = open_page()
    first(page).fill("a good film")
    expect(card(page, "mood")).to_be_visible()
    page.get_by_role("combobox", name="Run").select_option("other")
    expect(page.get_by_role("heading", level=1)).to_have_text("Ask other")
    expect(card(page, "mood")).to_be_visible()
    assert service.asked[-1]["run"] == "other"


def test_an_audit_of_bias_is_shown_with_its_limits(open_page: OpenPage, service: FakeService) -> None:
    page = open_page()
    expect(page.locator("#bias")).to_be_hidden()
    task = {"name": HOSTILE, "overall": "9 pairs.", "groups": 3, "significant": 1, "largest": ["age: old +1.000"]}
    audit = {"tasks": [task], "rows_from": "templates", "limits": ["These words only."], "is_stale": True}
    service.bias = dict.fromkeys(service.names, audit)
    page = open_page()
    page.get_by_text("Do answers change when a text names another group of people?").click()
    expect(page.locator("#bias-tasks")).to_contain_text("9 pairs. 1 of 3 groups have a significant shift.")
    expect(page.locator("#bias-tasks")).to_contain_text(HOSTILE)
    expect(page.locator("#bias-limits")).to_contain_text("The model has changed since this audit.")
    expect(page.locator("#bias-limits")).to_contain_text("These words only.")
