"""Streams: every pass covers the whole set, and a batch depends only on its first position."""

from __future__ import annotations

import zlib

import numpy as np
import pytest

from palbert.data.streams import Stream, cut


def take(stream: Stream, batches: int) -> list[int]:
    return [int(row) for number in range(batches) for row in stream.batch(number * stream.batch_size)]


@pytest.mark.parametrize(("rows", "batch_size"), [(10, 2), (10, 3), (7, 7), (3, 8), (1, 4)])
def test_every_pass_is_a_permutation(rows: int, batch_size: int) -> None:
    taken = take(Stream("a", rows=rows, batch_size=batch_size, seed=0), 6 * rows)
    for start in range(0, len(taken) - rows + 1, rows):
        assert sorted(taken[start : start + rows]) == list(range(rows))


@pytest.mark.parametrize("batch_size", [2, 3, 8, 25])
def test_every_batch_is_full(batch_size: int) -> None:
    stream = Stream("a", rows=7, batch_size=batch_size, seed=0)
    assert {len(stream.batch(start)) for start in range(20)} == {batch_size}


def test_a_batch_does_not_depend_on_earlier_ones() -> None:
    settings = {"rows": 10, "batch_size": 4, "seed": 3}
    in_order = Stream("a", **settings)
    expected = [in_order.batch(start) for start in range(30)]
    for start in (29, 0, 13, 13, 2):
        assert np.array_equal(Stream("a", **settings).batch(start), expected[start])
        assert np.array_equal(in_order.batch(start), expected[start])


def test_batches_of_another_size_continue_where_the_others_ended() -> None:
    small, large = (Stream("a", rows=12, batch_size=size, seed=0) for size in (2, 5))
    taken = [*take(small, 3), *large.batch(6), *small.batch(11)[:1]]
    assert sorted(taken) == list(range(12))


def test_passes_differ() -> None:
    stream = Stream("a", rows=50, batch_size=50, seed=0)
    assert not np.array_equal(stream.batch(0), stream.batch(50))


@pytest.mark.parametrize(
    "other", [Stream("b", rows=50, batch_size=50, seed=0), Stream("a", rows=50, batch_size=50, seed=1)]
)
def test_another_seed_or_name_gives_another_order(other: Stream) -> None:
    assert not np.array_equal(Stream("a", rows=50, batch_size=50, seed=0).batch(0), other.batch(0))


def test_the_order_is_that_of_a_permutation_by_numpy() -> None:
    order = np.random.default_rng([3, zlib.crc32(b"a"), 1]).permutation(1000)
    found = Stream("a", rows=1000, batch_size=1000, seed=3).batch(1000)
    assert found.dtype == np.int64 and np.array_equal(found, order)


@pytest.mark.parametrize("batch_size", [2, 4, 6])
def test_neighbours_stay_together(batch_size: int) -> None:
    stream = Stream("a", rows=10, batch_size=batch_size, seed=0, together=2)
    taken = take(stream, 20)
    assert all(first % 2 == 0 and second == first + 1 for first, second in zip(taken[::2], taken[1::2], strict=True))
    assert sorted(taken[:10]) == list(range(10)) and taken[:10] != taken[10:20]


def test_a_cut_keeps_neighbours_together_and_loses_no_row() -> None:
    parts = cut(np.arange(10), 3, together=2)
    assert [part.tolist() for part in parts] == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9]]
    assert [len(part) for part in cut(np.arange(10), 3)] == [4, 3, 3]
    assert [len(part) for part in cut(np.arange(2), 3, together=2)] == [2, 0, 0]
