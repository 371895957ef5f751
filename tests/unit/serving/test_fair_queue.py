"""FairQueue: shares of a batch by client, rows that do not fit anywhere, and jobs that nobody waits for."""

from __future__ import annotations

from collections import Counter

import pytest

pytest.importorskip("starlette", reason="needs Starlette: pip install 'palbert[serve]'")

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.serving.test_jobs import LANE, new_call

from palbert.serving.fair_queue import FairQueue
from palbert.serving.jobs import Job, Piece


def job_of(client: str, lengths: list[int], arrived: float = 0.0) -> Job:
    call = new_call()
    call.client, call.arrived = client, arrived
    call.add(LANE, [["text"] * len(lengths)], range(len(lengths)), ())
    call.jobs[0].measure((), np.array([lengths]), 1_000_000)
    return call.jobs[0]


def filled(**lengths: list[int]) -> tuple[FairQueue, dict[str, Job]]:
    queue, jobs = FairQueue(), {client: job_of(client, own) for client, own in lengths.items()}
    for job in jobs.values():
        queue.add(job)
    return queue, jobs


def tokens_by_client(pieces: list[Piece]) -> Counter[str]:
    found: Counter[str] = Counter()
    for piece in pieces:
        found[piece.job.call.client] += piece.tokens
    return found


def test_clients_get_the_same_share() -> None:
    queue, _ = filled(a=[10] * 100, b=[10] * 100)
    assert tokens_by_client(queue.take(200)).keys() == {"a", "b"}
    found = tokens_by_client(queue.take(400))
    assert abs(found["a"] - found["b"]) <= 20 and found.total() == 400


def test_what_a_client_does_not_need_goes_to_the_others() -> None:
    queue, jobs = filled(a=[10] * 100, b=[10], c=[10] * 2)
    assert tokens_by_client(queue.take(200)) == {"a": 170, "b": 10, "c": 20}
    assert (jobs["a"].left, jobs["b"].left, jobs["c"].left, len(queue)) == (83, 0, 0, 1)


def test_a_client_with_one_text_is_in_the_next_batch_after_one_with_thousands() -> None:
    queue, _ = filled(a=[10] * 5_000)
    queue.take(200)
    queue.add(job_of("b", [10]))
    assert "b" in tokens_by_client(queue.take(200))


def test_a_row_longer_than_the_budget_is_taken_alone_and_never_stuck() -> None:
    queue, _ = filled(a=[500], b=[5])
    assert tokens_by_client(queue.take(100)) == {"a": 500}
    assert tokens_by_client(queue.take(100)) == {"b": 5}
    assert not len(queue) and queue.take(100) == []


def test_clients_with_long_rows_take_turns() -> None:
    queue, _ = filled(a=[90] * 3, b=[90] * 3, c=[90] * 3)
    assert [next(iter(tokens_by_client(queue.take(100)))) for _ in range(9)] == list("abcabcabc")


def test_the_oldest_request_is_known() -> None:
    queue = FairQueue()
    for client, arrived in (("a", 5.0), ("b", 3.0), ("a", 7.0)):
        queue.add(job_of(client, [1], arrived))
    assert queue.oldest() == 3.0
    queue.take(2)
    assert queue.oldest() == 7.0


def test_waiting_tokens_are_counted_up_to_a_bound() -> None:
    queue, jobs = filled(a=[10] * 5, b=[7])
    assert queue.waiting(1000) == 57 and queue.waiting(1) >= 1
    jobs["a"].take_one()
    assert queue.waiting(1000) == 47


def test_jobs_that_nobody_waits_for_are_dropped_and_their_rows_counted() -> None:
    queue, jobs = filled(a=[10] * 5, b=[7])
    queue.take(25)
    left = jobs["a"].left
    jobs["a"].call.is_cancelled = True
    assert queue.drop_cancelled() == left and queue.drop_cancelled() == 0
    assert tokens_by_client(queue.take(1000)).keys() <= {"b"}


def test_a_job_that_is_done_before_an_earlier_one_of_its_client_is_forgotten() -> None:
    queue = FairQueue()
    first, second = job_of("a", [10, 60, 10]), job_of("a", [5])
    queue.add(first)
    queue.add(second)
    assert [piece.job for piece in queue.take(75)] == [first, first, second]  # the short row fits next to the long one
    assert (first.left, second.left, len(queue)) == (1, 0, 1)


@settings(max_examples=60, deadline=None, derandomize=True, database=None)
@given(
    lengths=st.dictionaries(st.sampled_from("abcdef"), st.lists(st.integers(2, 300), min_size=1, max_size=30)),
    budget=st.integers(1, 400),
)
def test_every_row_is_taken_once_and_batches_keep_to_the_budget(lengths: dict[str, list[int]], budget: int) -> None:
    queue, jobs = filled(**lengths)
    taken: dict[str, list[int]] = {client: [] for client in jobs}
    for _ in range(sum(map(len, lengths.values()))):
        pieces = queue.take(budget)
        assert sum(piece.tokens for piece in pieces) <= max(budget, pieces[0].tokens if pieces else 0)
        for piece in pieces:
            assert piece.tokens == int(piece.job.lengths[piece.rows].sum())
            taken[piece.job.call.client] += piece.rows.tolist()
        if not len(queue):
            break
    assert {client: sorted(rows) for client, rows in taken.items()} == {
        client: list(range(len(own))) for client, own in lengths.items()
    }
