"""Peak memory: whole storages while they are alive, as torch's profiler counts them."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from palbert.runtime.memory import TensorCounter, bytes_of, peak_bytes

KIB = 256  # float32 values of a KiB


def profiled_peak(parameters: nn.Module, inputs: Tensor) -> int:
    """Return the peak by the events of the CPU's allocator."""
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU], profile_memory=True) as profile:
        parameters(inputs).sum().backward()
    events = [event for event in profile.profiler.kineto_results.events() if event.name() == "[memory]"]
    live = peak = 0
    for event in sorted(events, key=lambda event: event.start_ns()):
        live += event.nbytes()
        peak = max(peak, live)
    return peak


def test_only_tensors_alive_at_the_same_time_count() -> None:
    given = torch.ones(KIB)
    counter = TensorCounter()
    with counter:
        one = given + 1
        two = one * 2  # two new ones
        del one
        three = two * 3  # again two
        del two, three
        torch.zeros(KIB)
    assert counter.peak == 2 * 1024
    assert counter.live == 0


def test_views_and_in_place_changes_take_no_memory() -> None:
    given = torch.ones(KIB)
    counter = TensorCounter()
    with counter:
        given.view(2, -1)[0].add_(1)
        torch.mul(given, 2, out=given)
        part = (given + 1)[:1]  # holds all of its storage
        given.t()
    assert len(part) == 1
    assert counter.peak == counter.live == 1024


def test_the_peak_of_a_forward_and_backward_pass_equals_that_of_the_profiler() -> None:
    torch.manual_seed(0)
    layers = nn.Sequential(nn.Linear(64, 256), nn.GELU(), nn.LayerNorm(256), nn.Linear(256, 64))
    inputs = torch.randn(500, 64)
    found = peak_bytes(lambda: layers(inputs).sum().backward(), torch.device("cpu"))
    layers.zero_grad()
    assert found == pytest.approx(profiled_peak(layers, inputs), rel=0.1)


def test_tensors_of_one_storage_count_once() -> None:
    whole, other = torch.ones(KIB), torch.ones(KIB)
    assert bytes_of([whole, whole[:5], other]) == 2 * 1024
    assert bytes_of([whole, other], without=[other[3:]]) == 1024
