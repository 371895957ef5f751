"""Problems: every error as problem+json, with its status, a hint and when to ask again."""

from __future__ import annotations

import json

import pytest

pytest.importorskip("starlette", reason="needs Starlette: pip install 'palbert[serve]'")

from starlette.exceptions import HTTPException

from palbert.errors import AnswerError, DataError
from palbert.serving.problems import HUNG_UP, Problem, item_error, problem_of


def test_a_problem_is_sent_as_rfc_9457_has_it() -> None:
    response = Problem(404, "Unknown task 'x'.", hint="Known: a.", headers={"X-Own": "1"}).response("r1")
    assert response.status_code == 404 and response.headers["X-Own"] == "1"
    assert response.headers["Content-Type"] == "application/problem+json"
    assert json.loads(bytes(response.body)) == {
        "type": "about:blank",
        "title": "Not Found",
        "status": 404,
        "detail": "Unknown task 'x'.",
        "hint": "Known: a.",
        "request_id": "r1",
    }


def test_without_a_hint_there_is_none() -> None:
    assert "hint" not in Problem(400, "Wrong.").as_dict()


@pytest.mark.parametrize(("seconds", "sent"), [(0.0, "1"), (0.2, "1"), (1.0, "1"), (1.001, "2"), (7.5, "8")])
def test_who_asks_again_after_the_whole_seconds_sent_does_not_come_too_early(seconds: float, sent: str) -> None:
    assert Problem(429, "Wait.", retry_after=seconds).response("r").headers["Retry-After"] == sent
    assert int(sent) >= seconds


def test_statuses_that_http_does_not_name_have_titles() -> None:
    assert Problem(HUNG_UP, "The client hung up.").response("r").status_code == 499
    assert Problem(HUNG_UP, "The client hung up.").as_dict()["title"] == "Client Closed Request"
    assert Problem(599, "Odd.").as_dict()["title"]


@pytest.mark.parametrize(
    ("error", "status", "detail"),
    [
        (Problem(409, "Own."), 409, "Own."),
        (DataError("Bad text.", hint="Mend it."), 422, "Bad text."),
        (AnswerError("The vector", 0), 500, "The vector of row 1 is not a number."),
        (HTTPException(405, headers={"Allow": "POST"}), 405, "Method Not Allowed"),
        (RuntimeError("secret: /home/me"), 500, "An unexpected error; the server's log has more."),
    ],
)
def test_errors_become_problems(error: Exception, status: int, detail: str) -> None:
    problem = problem_of(error)
    assert (problem.status, problem.detail) == (status, detail)


def test_hints_and_headers_of_errors_are_kept() -> None:
    assert problem_of(DataError("Bad text.", hint="Mend it.")).hint == "Mend it."
    assert problem_of(HTTPException(405, headers={"Allow": "POST"})).headers == {"Allow": "POST"}


def test_the_error_of_an_item_has_its_index() -> None:
    error = item_error(3, "Too long.", hint="Cut it.")["error"]
    assert (error["index"], error["status"], error["detail"], error["hint"]) == (3, 422, "Too long.", "Cut it.")
