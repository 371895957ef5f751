"""Jobs: rows taken longest first, outputs put back in their order, and calls that are woken up."""

from __future__ import annotations

import asyncio
import time
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

pytest.importorskip("starlette", reason="needs Starlette: pip install 'palbert[serve]'")

import torch

from palbert.data.ragged import Ragged
from palbert.inference.evaluator import Packing
from palbert.serving.jobs import Call, Job, Lane, finish

LANE = Lane(Packing("sst", 10), 1)


def new_call(loop: asyncio.AbstractEventLoop | None = None) -> Call:
    own = loop or asyncio.new_event_loop()
    call = Call(SimpleNamespace(), "client", time.monotonic(), own.create_future(), own)
    if loop is None:
        own.close()
    return call


def measured(lengths: list[int], max_length: int = 10) -> Job:
    call = new_call()
    call.add(LANE, [["text"] * len(lengths)], range(len(lengths)), ())
    tokens = (Ragged.from_rows([[1] * length for length in lengths]),)
    call.jobs[0].measure(tokens, np.array([lengths]), max_length)
    return call.jobs[0]


def test_rows_are_taken_longest_first_up_to_so_many_tokens() -> None:
    job = measured([2, 9, 4, 7])
    first = job.take(16)
    assert first is not None and (first.rows.tolist(), first.tokens, job.left) == ([1, 3], 16, 2)
    assert job.take(3) is None and job.take(0) is None and job.take(-5) is None and job.left == 2
    rest = job.take(100)
    assert rest is not None and (rest.rows.tolist(), rest.tokens, job.left) == ([2, 0], 6, 0)
    assert job.take(100) is None


def test_one_row_is_taken_whatever_its_length() -> None:
    job = measured([9, 2])
    assert job.take(5) is None
    assert job.take_one().rows.tolist() == [0] and job.take_one().rows.tolist() == [1] and not job.left


def test_rows_of_two_sequences_have_the_tokens_of_both_and_are_cut_if_one_is() -> None:
    job = measured([1, 1, 1])
    job.measure(job.tokens, np.array([[3, 12, 10], [4, 2, 10]]), 10)
    assert job.lengths.tolist() == [7, 12, 20] and job.cut.tolist() == [False, True, False]


def test_outputs_of_several_batches_are_in_the_order_of_the_rows() -> None:
    job = measured([2, 9, 4, 7])
    for tokens in (16, 4, 100):
        piece = job.take(tokens)
        assert piece is not None
        job.keep("sst", piece.rows, torch.tensor([[10.0 * row] for row in piece.rows]))
    assert job.outputs("sst").tolist() == [[0.0], [10.0], [20.0], [30.0]]


def test_the_outputs_of_a_single_row_are_given_as_they_are() -> None:
    job = measured([3])
    kept = torch.tensor([[1.0, 2.0]])
    job.keep("sst", job.take_one().rows, kept)
    assert job.outputs("sst") is kept


def test_a_call_counts_the_rows_of_all_its_jobs() -> None:
    call = new_call()
    call.add(LANE, [["a", "b"]], [0, 2], ())
    call.add(LANE, [["c"]], [1], ())
    assert (call.rows, call.left, [job.rows for job in call.jobs]) == (3, 3, [(0, 2), (1,)])


def test_calls_of_several_loops_are_woken_up_each_in_its_own() -> None:
    loops = [asyncio.new_event_loop() for _ in range(2)]
    calls = [new_call(loop) for loop in loops]
    finish([(call, None) for call in calls])
    for loop, call in zip(loops, calls, strict=True):
        loop.run_until_complete(asyncio.wait_for(asyncio.shield(call.done), 20))
        loop.close()


def test_errors_reach_who_waits_and_nobody_is_woken_up_twice() -> None:
    async def scenario() -> None:
        loop = asyncio.get_running_loop()
        good, bad, gone = (new_call(loop) for _ in range(3))
        gone.done.cancel()
        error = ValueError("broken")
        finish([(good, None), (bad, error), (gone, None), (good, error)])
        await good.done
        with pytest.raises(ValueError, match="broken"):
            await bad.done
        finish([])

    asyncio.run(scenario())


def test_a_loop_that_is_closed_does_not_stop_the_others(caplog: Any) -> None:
    async def scenario() -> None:
        call = new_call(asyncio.get_running_loop())
        finish([(new_call(), None), (call, None)])  # the first one's loop is closed
        await call.done

    asyncio.run(scenario())
