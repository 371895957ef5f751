"""Limits: what a client may send, how long it waits otherwise, and how little is remembered."""

from __future__ import annotations

import random
import threading

import pytest

from palbert.errors import PalbertError
from palbert.serving.limits import RateLimits, TooManyTextsError


def test_a_burst_passes_at_once_and_the_next_text_waits_for_one_to_flow_in() -> None:
    limits = RateLimits(rate=2.0, burst=4)
    assert [limits.take("a", 1, now=10.0) for _ in range(4)] == [0.0] * 4
    assert limits.take("a", 1, now=10.0) == pytest.approx(0.5)
    assert limits.take("a", 3, now=10.0) == pytest.approx(1.5)
    assert limits.take("a", 1, now=10.5) == 0.0


def test_a_client_that_waits_as_long_as_told_passes() -> None:
    limits, chance, now = RateLimits(rate=3.7, burst=11), random.Random(1), 1e6
    for _ in range(2_000):
        texts = chance.randint(1, 11)
        if wait := limits.take("a", texts, now=now):
            assert 0.0 < wait <= 11 / 3.7
            now += wait
            assert limits.take("a", texts, now=now) == 0.0
        now += chance.random()


def test_in_the_long_run_a_client_sends_the_rate_and_one_burst() -> None:
    limits = RateLimits(rate=5.0, burst=20)
    passed = sum(
        texts for step in range(10_000) for texts in [1 + step % 3] if limits.take("a", texts, step / 100) == 0
    )
    assert 0.99 * (5.0 * 100 + 20) <= passed <= 5.0 * 100 + 20


def test_what_is_refused_costs_nothing() -> None:
    limits = RateLimits(rate=1.0, burst=2)
    limits.take("a", 2, now=0.0)
    waits = [limits.take("a", 2, now=1.0) for _ in range(50)]
    assert waits == [pytest.approx(1.0)] * 50


def test_clients_have_buckets_of_their_own() -> None:
    limits = RateLimits(rate=1.0, burst=1)
    assert limits.take("a", 1, now=0.0) == limits.take("b", 1, now=0.0) == 0.0
    assert limits.take("a", 1, now=0.0) > 0.0


def test_a_request_without_texts_counts_as_one() -> None:
    limits = RateLimits(rate=1.0, burst=1)
    assert limits.take("a", 0, now=0.0) == 0.0
    assert limits.take("a", 0, now=0.0) == pytest.approx(1.0)


def test_a_request_that_would_wait_for_ever_is_told_what_to_do() -> None:
    limits = RateLimits(rate=1.0, burst=8)
    with pytest.raises(TooManyTextsError, match=r"at most 8 texts per request, found 9.*several requests") as caught:
        limits.take("a", 9, now=0.0)
    assert caught.value.most == 8
    assert limits.take("a", 8, now=0.0) == 0.0


def test_a_clock_that_steps_back_costs_no_more_than_a_burst() -> None:
    limits = RateLimits(rate=1.0, burst=1)
    limits.take("a", 1, now=100.0)
    assert limits.take("b", 1, now=99.0) == 0.0
    assert limits.take("a", 1, now=99.0) == pytest.approx(2.0)


def test_full_buckets_are_forgotten() -> None:
    limits = RateLimits(rate=10.0, burst=10)
    most = 0
    for second in range(100):
        for client in range(200):
            limits.take(f"{second}-{client}", 1, now=float(second))
        most = max(most, len(limits))
    assert most <= 1_001


def test_beyond_the_most_clients_the_oldest_are_forgotten() -> None:
    limits = RateLimits(rate=0.001, burst=1, most_clients=100)
    for client in range(100):
        limits.take(str(client), 1, now=0.0)
    limits.take("0", 1, now=0.0)  # refused, which is no use
    for client in range(1_000, 1_050):
        limits.take(str(client), 1, now=1.0)
    assert len(limits) == 100
    assert limits.take("99", 1, now=1.0) > 0.0
    assert limits.take("49", 1, now=1.0) == 0.0


def test_threads_get_together_what_one_client_may_have() -> None:
    limits = RateLimits(rate=1e-6, burst=1_000)
    passed: list[bool] = []

    def ask() -> None:
        passed.extend(limits.take("a", 1, now=5.0) == 0.0 for _ in range(500))

    threads = [threading.Thread(target=ask) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sum(passed) == 1_000


@pytest.mark.parametrize(("rate", "burst"), [(0.0, 1), (-1.0, 1), (float("nan"), 1), (float("inf"), 1), (1.0, 0)])
def test_impossible_limits_are_refused(rate: float, burst: int) -> None:
    with pytest.raises(PalbertError, match="found"):
        RateLimits(rate, burst)
