"""POST /v1/predict: answers as `palbert predict` gives them, for one task, several, or all, from few passes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("starlette", reason="needs Starlette: pip install 'palbert[serve]'")

from starlette.testclient import TestClient
from tests.unit.serving.conftest import Connect

import palbert
from palbert.model import heads
from palbert.serving.audit_log import AuditLog
from palbert.serving.audit_reader import read_audit_log
from palbert.serving.model import ServedModel

TEXTS = ["A quiet little triumph .", "dull", "the film is good , and the story is fine"]
PAIRS = [["How do I cook rice ?", "How is rice cooked ?"], ["A man plays .", "A dog runs in the snow ."]]
LONG = "a very long film " * 20


@pytest.fixture(scope="module")
def predictor(served_run: Path) -> palbert.Predictor:
    return palbert.load(served_run, device="cpu", precision="fp32")


def ask(client: TestClient, status: int = 200, /, **body: Any) -> Any:
    answer = client.post("/v1/predict", json=body)
    assert answer.status_code == status, answer.text
    return answer.json()


def expected(predictor: palbert.Predictor, task: str, texts: list[Any], **settings: Any) -> list[dict[str, Any]]:
    rows = [text if isinstance(text, str) else tuple(text) for text in texts]
    return [found.as_dict() | {"cut": False} for found in predictor.predict(task, rows, **settings)]


def check(found: Any, wanted: Any) -> None:
    """Compare answers; numbers may differ by the rounding of differently packed batches."""
    assert found.keys() == wanted.keys()
    for name, value in wanted.items():
        assert found[name] == (pytest.approx(value, abs=1e-5) if name == "probabilities" else value) or (
            isinstance(value, float) and found[name] == pytest.approx(value, abs=1e-4)
        )


@pytest.mark.parametrize("task", ["sst", "topics", "quora", "sts"])
def test_one_task_answers_as_the_predictor_does(client: TestClient, predictor: palbert.Predictor, task: str) -> None:
    texts: list[Any] = PAIRS if task in ("quora", "sts") else TEXTS
    found = ask(client, task=task, texts=texts)
    for result, wanted in zip(found["results"], expected(predictor, task, texts), strict=True):
        assert list(result) == [task]
        check(result[task], wanted)


def test_answers_say_which_run_and_version_gave_them(client: TestClient, model: ServedModel) -> None:
    asked: dict[str, str]
    for asked in ({}, {"run": "demo"}):
        assert ask(client, task="sst", texts=["a"], **asked)["run"] == {
            "name": "demo",
            "fingerprint": model.fingerprint,
        }


def test_several_tasks_answer_the_texts_that_they_take(client: TestClient, predictor: palbert.Predictor) -> None:
    texts = [TEXTS[0], PAIRS[0], TEXTS[1]]
    results = ask(client, tasks=["sts", "sst", "sts"], texts=texts)["results"]
    assert [list(result) for result in results] == [["sst"], ["sts"], ["sst"]]
    check(results[1]["sts"], expected(predictor, "sts", [PAIRS[0]])[0])


def test_all_tasks_answer_from_one_pass_in_which_each_text_is_once(
    client: TestClient, predictor: palbert.Predictor, passes: list[int]
) -> None:
    ask(client, task="sst", texts=TEXTS)
    ask(client, task="quora", texts=PAIRS)
    ask(client, task="sts", texts=PAIRS)
    alone = list(passes)
    passes.clear()
    results = ask(client, tasks="all", texts=TEXTS + PAIRS)["results"]
    # sst and topics read the same states; quora, with its adapter and joint pairs, and sts share the packed pass.
    assert len(alone) == 3 and passes == [sum(alone)]
    for result, text in zip(results, TEXTS + PAIRS, strict=True):
        assert list(result) == (["sst", "topics"] if isinstance(text, str) else ["quora", "sts"])
        for task, answer in result.items():
            check(answer, expected(predictor, task, [text])[0])


def test_asking_two_tasks_that_share_a_pass_encodes_no_more_than_one(client: TestClient, passes: list[int]) -> None:
    ask(client, task="sst", texts=TEXTS)
    ask(client, tasks=["sst", "topics"], texts=TEXTS)
    assert len(passes) == 2 and passes[0] == passes[1]


def test_a_run_of_several_tasks_must_be_told_which(client: TestClient) -> None:
    problem = ask(client, 422, texts=TEXTS)
    assert "Which task?" in problem["detail"] and problem["hint"] == "There are: sst, topics, quora, sts."
    assert "expected at least one task" in ask(client, 422, texts=TEXTS, tasks=[])["detail"]
    assert 'give either "task" or "tasks"' in ask(client, 422, texts=TEXTS, task="sst", tasks="all")["detail"]


@pytest.mark.parametrize(
    ("body", "detail", "hint"),
    [
        ({"task": "stt"}, "Unknown task 'stt'.", "Did you mean 'sts'?"),
        ({"tasks": ["sst", "topic"]}, "Unknown task 'topic'.", "Did you mean 'topics'?"),
        ({"task": "sst", "run": "dem"}, "Unknown run 'dem'.", "Known: demo. Did you mean 'demo'?"),
    ],
)
def test_unknown_names_are_404_with_the_nearest_known_one(
    client: TestClient, body: Any, detail: str, hint: str
) -> None:
    answer = client.post("/v1/predict", json={"texts": ["a"], **body})
    assert answer.status_code == 404 and answer.headers["Content-Type"] == "application/problem+json"
    problem = answer.json()
    assert problem["detail"] == detail and problem["hint"].endswith(hint)
    assert problem["request_id"] == answer.headers["X-Request-Id"]


def test_one_bad_item_fails_alone_with_its_index(connect: Connect) -> None:
    client = connect(max_characters=30)
    texts: list[Any] = ["good", 5, None, "x" * 31, ["one"], PAIRS[0], ["a", "b", "c"], ["a", 1], {}, "fine"]
    results = ask(client, task="sst", texts=texts)["results"]
    assert [index for index, result in enumerate(results) if "sst" in result] == [0, 9]
    for index, result in enumerate(results[1:9], start=1):
        assert list(result) == ["error"]
        assert (result["error"]["index"], result["error"]["status"]) == (index, 422)
    details = [result["error"]["detail"] for result in results[1:9]]
    assert "at most 30 characters, found 31" in details[2] and "sst takes a text" in details[4]
    assert "two texts in a list, found one" in details[3]


def test_a_request_with_bad_items_alone_is_answered(client: TestClient, passes: list[int]) -> None:
    [result] = ask(client, task="sts", texts=["single"])["results"]
    assert "sts takes a pair of texts" in result["error"]["detail"] and passes == []


def test_texts_that_are_too_long_say_that_they_were_cut(client: TestClient) -> None:
    long = [[LONG, "short"], ["short", "short"], ["short", LONG]]
    for task, texts in (("sst", ["short", LONG, "a b"]), ("quora", long), ("sts", long)):
        cut = [result[task]["cut"] for result in ask(client, task=task, texts=texts)["results"]]
        assert cut == ([False, True, False] if task == "sst" else [True, False, True])


def test_min_confidence_abstains_as_the_predictor_does(client: TestClient, predictor: palbert.Predictor) -> None:
    shares = [max(found.probabilities.values()) for found in predictor.predict("sst", TEXTS)]
    between = (min(shares) + max(shares)) / 2
    results = ask(client, task="sst", texts=TEXTS, min_confidence=between)["results"]
    for result, wanted in zip(results, expected(predictor, "sst", TEXTS, min_confidence=between), strict=True):
        check(result["sst"], wanted)
    assert {result["sst"]["abstained"] for result in results} == {False, True}
    assert {result["sst"]["prediction"] is None for result in results} == {False, True}


def test_numbers_have_no_confidence(client: TestClient) -> None:
    assert "have no probabilities" in ask(client, 422, task="sts", texts=PAIRS, min_confidence=0.5)["detail"]
    [result] = ask(client, tasks="all", texts=PAIRS[:1], min_confidence=1.0)["results"]
    assert result["quora"]["abstained"] and isinstance(result["sts"]["prediction"], float)


@pytest.mark.parametrize("value", [-0.1, 1.1, "x", float("nan")])
def test_a_confidence_is_a_probability(client: TestClient, value: Any) -> None:
    content = json.dumps({"task": "sst", "texts": ["a"], "min_confidence": value})
    answer = client.post("/v1/predict", content=content, headers={"Content-Type": "application/json"})
    assert answer.status_code == 422 and "min_confidence" in answer.json()["detail"]


@pytest.mark.parametrize("method", [True, "gradient-input", "integrated-gradients", "occlusion"])
def test_explanations_are_added_to_answers(client: TestClient, predictor: palbert.Predictor, method: Any) -> None:
    texts = [TEXTS[0], 5, PAIRS[0]]
    results = ask(client, tasks=["sst", "sts"], texts=texts, explain=method)["results"]
    chosen = "gradient-input" if method is True else method
    text: str | tuple[str, str]
    for index, task, text in ((0, "sst", TEXTS[0]), (2, "sts", (PAIRS[0][0], PAIRS[0][1]))):
        [wanted] = predictor.explain(task, [text], method=chosen)
        found = results[index][task]["explanation"]
        assert [word["text"] for word in found["words"]] == [word.text for word in wanted.words]
        assert [word["score"] for word in found["words"]] == pytest.approx([w.score for w in wanted.words], abs=1e-4)
        assert (found["method"], found["task"]) == (chosen, task)
    assert results[1]["error"]["index"] == 1


def test_fewer_texts_are_explained_than_answered(connect: Connect) -> None:
    client = connect(max_explained=2, max_items=3)
    assert len(ask(client, task="sst", texts=TEXTS)["results"]) == 3
    assert "at most 2, found 3" in ask(client, 422, task="sst", texts=TEXTS, explain=True)["detail"]
    assert "at most 3, found 4" in ask(client, 422, task="sst", texts=[*TEXTS, "a"])["detail"]
    assert "at least one text" in ask(client, 422, task="sst", texts=[])["detail"]


def test_an_output_that_is_not_a_number_fails_its_text_alone(
    client: TestClient, predictor: palbert.Predictor, monkeypatch: pytest.MonkeyPatch
) -> None:
    forward = heads.ConcatDifference.forward
    wanted = expected(predictor, "sts", PAIRS)

    def broken(self: Any, *inputs: Any) -> Any:
        outputs = forward(self, *inputs).clone()
        outputs[0] = float("nan")  # the longest pair comes first
        return outputs

    monkeypatch.setattr(heads.ConcatDifference, "forward", broken)
    results = ask(client, tasks="all", texts=[*PAIRS, "single"])["results"]
    error = results[0]["error"]
    assert (error["status"], error["index"]) == (500, 0) and "not a number" in error["detail"]
    check(results[1]["sts"], wanted[1])
    assert "sst" in results[2]


def test_every_input_is_logged_with_its_answers(make_service: Any, connect: Connect, tmp_path: Path) -> None:
    log = AuditLog(tmp_path / "log.sqlite")
    service = make_service(audit_logs={"demo": log})
    found = ask(connect(service), tasks=["sst", "topics", "sts"], texts=[TEXTS[0], PAIRS[0], 5])
    assert log.flush(20)
    rows = list(read_audit_log(log.path))
    assert [(row["task"], row["input"]) for row in rows] == [
        ("sst", TEXTS[0]),
        ("topics", TEXTS[0]),
        ("sts", PAIRS[0]),
    ]
    assert rows[0]["answer"] == found["results"][0]["sst"]
    assert {row["client"] for row in rows} == {"testclient"} and {row["run"] for row in rows} == {"demo"}
    assert rows[0]["fingerprint"] == found["run"]["fingerprint"] and rows[0]["seconds"] > 0


def test_an_error_of_an_item_is_logged_under_the_tasks_that_were_asked(
    make_service: Any, connect: Connect, tmp_path: Path
) -> None:
    log = AuditLog(tmp_path / "log.sqlite")
    ask(connect(make_service(audit_logs={"demo": log})), tasks=["quora", "sts"], texts=["single"])
    assert log.flush(20)
    rows = list(read_audit_log(log.path))
    assert [row["task"] for row in rows] == ["quora", "sts"]
    assert all("takes a pair" in row["answer"]["error"]["detail"] for row in rows)


def test_answers_are_counted_by_run_and_task(client: TestClient) -> None:
    ask(client, tasks="all", texts=[TEXTS[0], TEXTS[1], PAIRS[0], 5])
    page = client.get("/metrics").text
    assert 'palbert_texts_total{run="demo",task="sst"} 2.0' in page
    assert 'palbert_texts_total{run="demo",task="sts"} 1.0' in page
