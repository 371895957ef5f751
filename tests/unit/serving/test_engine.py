"""Engine: batches over tasks and clients, deadlines, fairness, hang-ups, full queues, and requests that fail alone."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import pytest

pytest.importorskip("starlette", reason="needs Starlette: pip install 'palbert[serve]'")

from tests.unit.serving.asking import PATIENCE

from palbert.inference.evaluator import Inference
from palbert.serving.engine import ClosedError, Engine, QueueFullError
from palbert.serving.jobs import Call, Piece
from palbert.serving.model import ServedModel

OpenServed = Callable[..., ServedModel]
LONG = "a very long film " * 20


class Batches:
    """A watcher that keeps what it is told."""

    def __init__(self) -> None:
        self.clients: list[set[str]] = []
        self.models: list[str] = []
        self.tokens: list[int] = []

    def batch(self, model: ServedModel, pieces: Sequence[Piece], seconds: float) -> None:
        self.clients.append({piece.job.call.client for piece in pieces})
        self.models.append(model.name)
        self.tokens.append(sum(piece.tokens for piece in pieces))


class Desk:
    """Puts calls into an engine from an event loop in another thread, and waits for them."""

    def __init__(self, model: ServedModel, engine: Engine) -> None:
        self.model, self.engine = model, engine
        self.loop = asyncio.new_event_loop()
        self.thread = threading.Thread(target=self.loop.run_forever, daemon=True)
        self.thread.start()

    def call(self, texts: Sequence[str], *, client: str = "a", task: str = "sst", model: Any = None) -> Call:
        """Return a call that asks one task."""
        own = model or self.model
        call = Call(own, client, time.monotonic(), self.loop.create_future(), self.loop)
        [(lane, tasks)] = own.lanes([own.tasks[task]]).items()
        call.add(lane, [list(texts)], range(len(texts)), tasks)
        return call

    def put(self, texts: Sequence[str], **named: Any) -> Call:
        call = self.call(texts, **named)
        self.engine.put(call)
        return call

    def wait(self, *calls: Call) -> None:
        """Wait until calls have ended; raise their errors."""
        for call in calls:
            asyncio.run_coroutine_threadsafe(_result(call), self.loop).result(PATIENCE)

    def end(self) -> None:
        """Let the engine end, so that its watcher has been told everything."""
        self.engine.close()

    def close(self) -> None:
        self.engine.close()
        self.loop.call_soon_threadsafe(self.loop.stop)
        self.thread.join(PATIENCE)
        self.loop.close()


async def _result(call: Call) -> None:
    await asyncio.wait_for(asyncio.shield(call.done), PATIENCE)


@pytest.fixture
def watcher() -> Batches:
    return Batches()


@pytest.fixture
def open_desk(model: ServedModel, watcher: Batches) -> Iterator[Callable[..., Desk]]:
    """Return a function that makes a desk with an engine; it is started unless told otherwise."""
    desks = []

    def make(*, queue: int = 2048, wait: float = 0.002, start: bool = True) -> Desk:
        desk = Desk(model, Engine(queue=queue, wait=wait, watcher=watcher))
        desks.append(desk)
        if start:
            desk.engine.start()
        return desk

    yield make
    for desk in desks:
        desk.close()


@contextmanager
def held(monkeypatch: pytest.MonkeyPatch) -> Iterator[threading.Event]:
    """Hold the first batch inside the model until the block ends; yields what is set when the batch is there."""
    there, go, original = threading.Event(), threading.Event(), Inference.run_together

    def waiting(self: Inference, asked: Any) -> Any:
        there.set()
        assert go.wait(PATIENCE)
        return original(self, asked)

    monkeypatch.setattr(Inference, "run_together", waiting)
    try:
        yield there
    finally:
        go.set()


def test_requests_of_several_clients_and_tasks_share_a_batch(open_desk: Any, watcher: Batches) -> None:
    desk = open_desk(start=False)
    calls = [desk.put(["good", "bad"], client=f"c{number}") for number in range(5)]
    pair = desk.call(["x"], client="pair", task="topics")
    desk.engine.put(pair)
    desk.engine.start()
    desk.wait(*calls, pair)
    desk.end()
    assert watcher.clients == [{"c0", "c1", "c2", "c3", "c4", "pair"}]
    assert {row for row, _ in calls[0].answers} == {0, 1} and desk.engine.texts == 0


def test_batches_keep_to_the_budget_of_tokens(
    open_desk: Any, watcher: Batches, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Inference, "budget", 50)
    desk = open_desk(start=False)
    calls = [desk.put(["a b c d e f g h"] * 20, client=f"c{number}") for number in range(3)]  # 10 tokens each
    desk.engine.start()
    desk.wait(*calls)
    desk.end()
    assert sum(watcher.tokens) == 600 and max(watcher.tokens) <= 50 and len(watcher.tokens) == 12


def test_a_text_longer_than_the_budget_is_computed_alone(
    open_desk: Any, watcher: Batches, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Inference, "budget", 5)
    desk = open_desk()
    call = desk.put([LONG, "a", LONG])
    desk.wait(call)
    desk.end()
    assert watcher.tokens == [24, 24, 3]
    assert [call.answers[row, "sst"]["cut"] for row in range(3)] == [True, False, True]


def test_a_single_client_does_not_wait_for_others(open_desk: Any, watcher: Batches) -> None:
    desk = open_desk(wait=1000.0)  # the deadline never comes
    for _ in range(3):
        desk.wait(desk.put(["good"]))
    desk.end()
    assert len(watcher.clients) == 3


def test_as_many_requests_as_lately_are_waited_for(open_desk: Any, watcher: Batches) -> None:
    desk = open_desk(wait=1000.0, start=False)
    first = [desk.put(["good"], client=f"c{number}") for number in range(3)]
    desk.engine.start()
    desk.wait(*first)
    one = desk.put(["good"], client="x")
    time.sleep(0.1)
    assert not one.done.done()  # three came together before, so two more are expected
    desk.wait(one, *[desk.put(["good"], client=f"y{number}") for number in range(2)])
    desk.end()
    assert watcher.clients[1:] == [{"x", "y0", "y1"}]


def test_the_deadline_counts_from_the_arrival_of_the_oldest_request(open_desk: Any, watcher: Batches) -> None:
    desk = open_desk(wait=1000.0, start=False)
    first = [desk.put(["good"], client=f"c{number}") for number in range(3)]
    desk.engine.start()
    desk.wait(*first)
    late = desk.call(["good"], client="late")
    late.arrived -= 1001.0
    desk.engine.put(late)
    desk.wait(late)
    desk.end()
    assert watcher.clients[1:] == [{"late"}]


def test_nothing_waits_at_saturation(open_desk: Any, watcher: Batches, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Inference, "budget", 30)
    desk = open_desk(wait=1000.0)
    with held(monkeypatch) as there:
        first = desk.put(["good"])
        assert there.wait(PATIENCE)
        others = [desk.put(["a b c d e f g h"], client=f"c{number}") for number in range(6)]  # while it is computed
    desk.wait(first, *others)
    desk.end()
    assert watcher.tokens == [3, 30, 30]


def test_a_client_with_one_text_does_not_wait_for_anothers_thousand(
    open_desk: Any, watcher: Batches, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Inference, "budget", 100)
    desk = open_desk()
    with held(monkeypatch) as there:
        many = desk.put(["a b c d e f g h"] * 300, client="many")
        assert there.wait(PATIENCE)
        few = desk.put(["good"], client="few")
    desk.wait(few, many)
    desk.end()
    assert "few" in watcher.clients[1] and len(watcher.clients) >= 30


def test_a_client_of_one_run_does_not_wait_for_a_queue_of_another(
    open_desk: Any, watcher: Batches, model: ServedModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Inference, "budget", 100)
    other = ServedModel("other", model.folder, model.predictor, model.fingerprint)
    desk = open_desk()
    with held(monkeypatch) as there:
        many = desk.put(["a b c d e f g h"] * 100, client="many")
        assert there.wait(PATIENCE)
        few = desk.put(["good"], client="few", model=other)
    desk.wait(few, many)
    desk.end()
    assert watcher.models.index("other") <= 2 and len(watcher.models) >= 10


def test_a_client_that_hangs_up_is_not_computed(
    open_desk: Any, watcher: Batches, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Inference, "budget", 30)
    desk = open_desk()
    with held(monkeypatch) as there:
        first = desk.put(["good"] * 30)
        assert there.wait(PATIENCE)
        gone, stays = desk.put(["good"] * 7, client="gone"), desk.put(["good"], client="stays")
        desk.engine.cancel(gone)
        desk.engine.cancel(first)  # in the middle: what is left is not computed
    desk.wait(stays)
    desk.end()
    assert watcher.clients == [{"a"}, {"stays"}] and desk.engine.texts == 0
    assert gone.answers == {} and first.answers == {}


def test_texts_of_clients_that_are_gone_are_not_even_tokenized(
    open_desk: Any, model: ServedModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    desk, original = open_desk(start=False), ServedModel.tokenize
    tokenized: list[str] = []

    def noting(self: ServedModel, jobs: Any) -> None:
        tokenized.extend(job.call.client for job in jobs)
        original(self, jobs)

    monkeypatch.setattr(ServedModel, "tokenize", noting)
    gone, stays = desk.put([LONG] * 100, client="gone"), desk.put(["good"], client="stays")
    desk.engine.cancel(gone)
    desk.engine.start()
    desk.wait(stays)
    assert tokenized == ["stays"] and desk.engine.texts == 0


def test_one_text_and_many_are_admitted_alike_until_the_queue_is_full(open_desk: Any) -> None:
    for number in (1, 500):
        desk = open_desk(queue=10, start=False)
        first = desk.put(["good"] * 9)
        taken = desk.put(["good"] * number)
        for refused in (1, 500):
            with pytest.raises(QueueFullError) as full:
                desk.put(["good"] * refused)
            assert full.value.seconds > 0
        assert desk.engine.texts == 9 + number
        desk.engine.start()
        desk.wait(first, taken)
        desk.wait(desk.put(["good"]))


def test_the_time_until_the_queue_has_room_is_estimated_from_batches(open_desk: Any) -> None:
    desk = open_desk(queue=1)
    desk.wait(desk.put(["good"]))
    desk.engine._texts_per_second = 50.0
    desk.engine.texts = 100
    with pytest.raises(QueueFullError) as full:
        desk.put(["good"])
    desk.engine.texts = 0
    assert full.value.seconds == 2.0


def test_a_request_that_fails_does_not_fail_those_in_its_batch(
    open_desk: Any, model: ServedModel, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    desk, original = open_desk(start=False), ServedModel.compute

    def broken(self: ServedModel, pieces: Sequence[Piece]) -> None:
        if any(piece.job.call.client == "bad" for piece in pieces):
            raise RuntimeError("this one is bad")
        original(self, pieces)

    monkeypatch.setattr(ServedModel, "compute", broken)
    good, bad = [desk.put(["good", "fine"], client=f"c{number}") for number in range(3)], desk.put(["x"], client="bad")
    desk.engine.start()
    desk.wait(*good)
    with pytest.raises(RuntimeError, match="this one is bad"):
        desk.wait(bad)
    assert all(len(call.answers) == 2 for call in good) and desk.engine.texts == 0
    assert "A request failed." in caplog.text


@pytest.mark.parametrize("step", ["tokenize", "decide"])
def test_a_request_fails_alone_at_every_step(
    step: str, open_desk: Any, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    desk, original = open_desk(start=False), getattr(ServedModel, step)

    def broken(self: ServedModel, jobs: Any) -> None:
        if any(job.call.client == "bad" for job in jobs):
            raise ValueError("bad")
        original(self, jobs)

    monkeypatch.setattr(ServedModel, step, broken)
    good, bad = desk.put(["good"], client="good"), desk.put(["x"] * 3, client="bad")
    desk.engine.start()
    desk.wait(good)
    with pytest.raises(ValueError, match="bad"):
        desk.wait(bad)
    desk.wait(desk.put(["again"], client="good"))
    assert desk.engine.texts == 0


@pytest.mark.parametrize("error", [BaseException("a panic of the tokenizer"), SystemExit(3)])
def test_what_is_no_exception_fails_a_request_and_not_the_engine(
    error: BaseException, open_desk: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    desk, original = open_desk(), ServedModel.tokenize

    def broken(self: ServedModel, jobs: Any) -> None:
        if any(job.call.client == "bad" for job in jobs):
            raise error
        original(self, jobs)

    monkeypatch.setattr(ServedModel, "tokenize", broken)
    with pytest.raises(RuntimeError):
        desk.wait(desk.put(["x"], client="bad"))
    desk.wait(desk.put(["good"], client="good"))
    assert not desk.engine.has_died


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_an_engine_that_has_died_takes_nothing(open_desk: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    desk = open_desk()
    monkeypatch.setattr(Engine, "_accept", lambda *_: 1 / 0)
    desk.put(["good"])
    desk.engine._thread.join(PATIENCE)
    assert desk.engine.has_died
    with pytest.raises(ClosedError):
        desk.put(["more"])


def test_a_watcher_that_fails_stops_nothing(
    open_desk: Any, watcher: Batches, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(watcher, "batch", lambda *_: 1 / 0)
    desk = open_desk()
    desk.wait(desk.put(["good"]))
    desk.wait(desk.put(["again"]))
    assert "A batch was not counted." in caplog.text and not desk.engine.has_died


def test_what_waits_is_computed_at_the_end_and_nothing_is_taken_after_it(open_desk: Any) -> None:
    desk = open_desk(wait=1000.0, start=False)
    calls = [desk.put(["good"] * 50, client=f"c{number}") for number in range(4)]
    desk.engine.start()
    desk.engine.close()
    desk.wait(*calls)
    with pytest.raises(ClosedError):
        desk.put(["late"])
    assert not desk.engine.has_died


def test_an_engine_that_was_never_started_can_be_closed() -> None:
    engine = Engine(queue=1, wait=0.0)
    assert not engine.has_died
    engine.close()


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_it_is_known_when_the_thread_has_died(open_desk: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    desk = open_desk(start=False)
    monkeypatch.setattr(Engine, "_tidy", lambda self: 1 / 0)
    desk.put(["good"])
    desk.engine.start()
    desk.engine._thread.join(PATIENCE)
    assert desk.engine.has_died


def test_many_threads_may_put_and_cancel_at_once(open_desk: Any, model: ServedModel) -> None:
    desk = open_desk(queue=10_000)
    wanted = {text: model.predictor.predict("sst", [text])[0].answer for text in ("good", "dull", "a film")}
    kept: list[tuple[str, Call]] = []

    def work(number: int) -> None:
        for round_ in range(20):
            text = list(wanted)[(number + round_) % 3]
            call = desk.put([text] * (1 + round_ % 3), client=f"c{number % 3}")
            if round_ % 5 == 4:
                desk.engine.cancel(call)
            else:
                kept.append((text, call))

    threads = [threading.Thread(target=work, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE)
    assert len(kept) == 6 * 16
    for text, call in kept:
        desk.wait(call)
        assert {answer["prediction"] for answer in call.answers.values()} == {wanted[text]}
    desk.wait(desk.put(["good"]))  # after which what was cancelled is gone, too
    assert desk.engine.texts == 0
