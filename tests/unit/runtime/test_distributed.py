"""A single process: collective calls return what they are given, and torchrun's environment is read.

Several processes are tested in tests/distributed.
"""

from __future__ import annotations

import pytest
import torch

from palbert.errors import DeviceError
from palbert.runtime import distributed
from palbert.runtime.distributed import ENVIRONMENT, Processes, Ranks, find_ranks


def test_a_single_process_is_first_and_its_values_are_returned_unchanged() -> None:
    ranks = Ranks()
    tensors = [torch.ones(2), torch.zeros(3)]
    assert ranks.is_first and ranks.size == 1
    assert ranks.count(3, 4) == [3, 4]
    assert ranks.join_rows(tensors[0], (2,)) == (tensors[0], 0)
    assert not ranks.communicate
    assert ranks.sum_gradients([None, tensors[0]], tensors) == [None, tensors[0]]
    assert ranks.gather({"x": tensors[0]}) == [{"x": tensors[0]}]
    assert ranks.broadcast(tensors[0]) is tensors[0]


def test_a_single_process_changes_nothing_in_place() -> None:
    ranks, layer = Ranks(), torch.nn.Linear(2, 2)
    layer.weight.grad = torch.ones(2, 2)
    before = layer.weight.clone()
    ranks.sum_in_place([layer.weight])
    ranks.add_in_place(layer.weight.grad, layer.weight)
    ranks.broadcast_module(layer)
    ranks.wait()
    assert torch.equal(layer.weight, before) and torch.equal(layer.weight.grad, torch.ones(2, 2))
    ran = []
    with ranks.connected(torch.device("cpu")), ranks.first_process_first():
        ran.append(True)
    assert ran


def test_without_torchrun_there_is_one_process(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ENVIRONMENT:
        monkeypatch.delenv(name, raising=False)
    assert find_ranks() == Ranks()
    monkeypatch.setenv("RANK", "1")  # alone, it may come from another launcher
    assert find_ranks() == Ranks()


def test_torchrun_says_which_process_this_is(monkeypatch: pytest.MonkeyPatch) -> None:
    values = {"RANK": "5", "WORLD_SIZE": "8", "MASTER_ADDR": "a", "MASTER_PORT": "1"}
    for name, value in {**values, "LOCAL_RANK": "1", "LOCAL_WORLD_SIZE": "4"}.items():
        monkeypatch.setenv(name, value)
    found = find_ranks()
    assert found == Processes(5, 8, local_rank=1, local_size=4)
    assert not found.is_first


def test_tensors_are_grouped_by_type_and_size(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(distributed, "BUCKET", 4)
    tensors = [torch.zeros(size) for size in (1, 3, 2, 9, 1)] + [torch.zeros(1, dtype=torch.int64)]
    groups = [[tensor.numel() for tensor in bucket] for bucket in distributed._buckets(tensors)]
    assert groups == [[1, 3], [2], [9], [1], [1]]
    assert list(distributed._buckets([])) == []


def test_devices_that_processes_cannot_share_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    processes = Processes(0, 2, local_rank=0, local_size=2)
    assert processes._backend(torch.device("cpu")) == "gloo"
    with pytest.raises(DeviceError, match="cannot share 'mps'"):
        processes._backend(torch.device("mps"))
    monkeypatch.setattr("torch.cuda.device_count", lambda: 1)
    with pytest.raises(DeviceError, match="2 processes on this machine; there are 1 CUDA devices"):
        processes._backend(torch.device("cuda"))
    assert processes._backend(torch.device("cuda:0")) == "gloo"
