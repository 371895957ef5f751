"""Engine: the thread that computes what requests ask, many requests in one batch."""

from __future__ import annotations

import logging
import math
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from typing import Protocol, TypeVar

from palbert.serving.fair_queue import FairQueue
from palbert.serving.jobs import Call, Job, Piece, finish
from palbert.serving.model import ServedModel

log = logging.getLogger(__name__)
Item = TypeVar("Item", Piece, Job)


class QueueFullError(Exception):
    """As many texts wait as may; `seconds` is about the time until they are answered."""

    def __init__(self, seconds: float) -> None:
        super().__init__(f"The queue is full for about {seconds:.0f} s.")
        self.seconds = seconds


class ClosedError(Exception):
    """The engine has been told to end, so it takes no more calls."""


class Watcher(Protocol):
    """Is told what the engine does, in the engine's thread."""

    def batch(self, model: ServedModel, pieces: Sequence[Piece], seconds: float) -> None:
        """Count a batch."""
        ...


class Engine:
    """Computes calls in batches; one thread for all models, which take turns, since they share the cores or the GPU.

    A batch is computed when it is full, when as many requests wait as the last batches had, or when the oldest request
    has waited for `wait` seconds: a single client never waits, and under load nobody does, since the next requests come
    while a batch is being computed.

    Args:
        queue: Texts that may wait. Whether a request is taken does not depend on how many texts it has.
        wait: Seconds that the oldest request waits at most for others.
        watcher: Is told of each batch.
    """

    def __init__(self, *, queue: int, wait: float, watcher: Watcher | None = None) -> None:
        self.queue = queue
        self.wait = wait
        self.watcher = watcher
        self.texts = 0
        """Texts that wait or are being computed."""
        self._new: deque[Call] = deque()
        self._queues: dict[ServedModel, FairQueue] = {}
        self._changed = threading.Condition()
        self._closing = False
        self._expected = [1, 1]
        """How many jobs the last two batches had."""
        self._texts_per_second = 0.0
        self._thread = threading.Thread(target=self._run, name="palbert-engine", daemon=True)

    def start(self) -> None:
        """Begin to compute."""
        self._thread.start()

    @property
    def has_died(self) -> bool:
        """Whether the thread has ended although nobody told it to: nothing will be computed any more."""
        return self._thread.ident is not None and not self._thread.is_alive() and not self._closing

    def put(self, call: Call) -> None:
        """Let a call wait for a batch; raise QueueFullError if too many texts wait already, ClosedError at the end."""
        with self._changed:
            if self._closing or self.has_died:
                raise ClosedError
            if self.texts >= self.queue:
                raise QueueFullError(self.texts / self._texts_per_second if self._texts_per_second else 1.0)
            self.texts += call.left
            self._new.append(call)
            self._changed.notify()

    def cancel(self, call: Call) -> None:
        """Compute no more rows of a call: nobody waits for them."""
        with self._changed:
            call.is_cancelled = True
            self._changed.notify()

    def close(self) -> None:
        """Compute what waits, and end the thread."""
        with self._changed:
            self._closing = True
            self._changed.notify()
        if self._thread.is_alive():
            self._thread.join()

    def _run(self) -> None:
        while True:
            with self._changed:
                while not (self._new or self._queues or self._closing):
                    self._changed.wait()
                new = list(self._new)
                self._new.clear()
                if not new and not self._queues:
                    return
            self._accept(new)
            model = self._ready()
            if model is not None:
                self._queues[model] = waiting = self._queues.pop(model)  # to the end: the others come next
                self._compute(model, waiting.take(model.inference.budget))

    def _accept(self, calls: Sequence[Call]) -> None:
        """Tokenize new calls, those of a model together, and queue their jobs."""
        by_model: dict[ServedModel, list[Job]] = {}
        for call in calls:
            if call.is_cancelled:
                self._release(call.left)
                continue
            by_model.setdefault(call.model, []).extend(call.jobs)
        for model, jobs in by_model.items():
            tokenized = _each(model.tokenize, jobs, self._fail)
            for job in tokenized:
                self._queues.setdefault(model, FairQueue()).add(job)
            self._release(sum(map(len, jobs)) - sum(map(len, tokenized)))

    def _ready(self) -> ServedModel | None:
        """Return the next model whose requests have waited long enough for others; models take turns."""
        self._tidy()
        left = math.inf
        for model, waiting in self._queues.items():
            still = waiting.oldest() + self.wait - time.monotonic()
            full = waiting.waiting(model.inference.budget) >= model.inference.budget
            if full or still <= 0 or len(waiting) >= max(self._expected) or self._closing:
                return model
            left = min(left, still)
        with self._changed:
            if self._queues and not self._new:
                self._changed.wait(left)
        return None

    def _tidy(self) -> None:
        """Drop what nobody waits for, and queues without jobs."""
        for model in list(self._queues):
            self._release(self._queues[model].drop_cancelled())
            if not len(self._queues[model]):
                del self._queues[model]

    def _release(self, texts: int) -> None:
        with self._changed:
            self.texts -= texts

    def _compute(self, model: ServedModel, pieces: Sequence[Piece]) -> None:
        """Compute one batch, and wake up the requests that are complete."""
        start = time.monotonic()
        complete = []
        for piece in _each(model.compute, pieces, self._fail):
            call = piece.job.call
            call.left -= len(piece.rows)
            if call.left == 0:
                complete.append(call)
        jobs = [job for call in complete for job in call.jobs]
        decided = set(_each(model.decide, jobs, self._fail))
        self._release(sum(len(piece.rows) for piece in pieces))  # who has its answer may ask again at once
        finish([(call, None) for call in complete if decided.issuperset(call.jobs)])
        self._note(model, pieces, time.monotonic() - start)

    def _note(self, model: ServedModel, pieces: Sequence[Piece], seconds: float) -> None:
        """Remember what the next decisions need of a batch, and tell the watcher."""
        rows = sum(len(piece.rows) for piece in pieces)
        self._expected = [self._expected[1], len({piece.job for piece in pieces})]
        speed = rows / max(seconds, 1e-6)
        self._texts_per_second = 0.8 * (self._texts_per_second or speed) + 0.2 * speed
        if self.watcher:
            try:
                self.watcher.batch(model, pieces, seconds)
            except Exception:  # such as metrics of several processes on a full disk: answers do not need them
                log.exception("A batch was not counted.")

    def _fail(self, failed: Piece | Job, error: BaseException) -> None:
        """End a call with an error; its other rows are not computed."""
        call = failed.job.call if isinstance(failed, Piece) else failed.call
        call.is_cancelled = True
        finish([(call, error if isinstance(error, Exception) else RuntimeError(str(error)))])


def _each(
    work: Callable[[list[Item]], None], items: Sequence[Item], fail: Callable[[Item, BaseException], None]
) -> list[Item]:
    """Work on all items at once, or each alone if that fails, so that one request does not fail others.

    Panics of the tokenizers and exits of code of the user's own are no Exceptions, and must not end the engine either.

    Returns:
        The items that succeeded.
    """
    try:
        if items:
            work(list(items))
        return list(items)
    except BaseException as error:
        if len(items) == 1:
            log.exception("A request failed.")
            fail(items[0], error)
            return []
        return [item for each in items for item in _each(work, [each], fail)]
