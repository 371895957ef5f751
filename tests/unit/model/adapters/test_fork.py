"""Fork: branches run in line outside a CUDA graph, and on their own stream inside one."""

from __future__ import annotations

import pytest
import torch

from palbert.model.adapters.fork import Fork


def test_a_branch_on_the_cpu_runs_in_line() -> None:
    fork = Fork.now(torch.device("cpu"))
    assert type(fork) is Fork
    values = torch.ones(3)
    assert fork.run(lambda: values, [values]) is values
    assert fork.run(lambda: None, []) is None


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_a_branch_gives_the_same_result_in_a_graph_and_in_line() -> None:
    values = torch.randn(64, 64, device="cuda")
    stream, graph = torch.cuda.Stream(), torch.cuda.CUDAGraph()
    with torch.cuda.stream(stream):
        torch.mm(values, values)  # loads its kernels before the capture
    with torch.cuda.graph(graph, stream=stream):
        fork = Fork.now(values.device)
        other = values + 1
        added = fork.run(lambda: torch.mm(values, values), [values])
        assert added is not None
        total = other + added
    graph.replay()
    assert type(fork) is not Fork
    torch.testing.assert_close(total, values + 1 + values @ values)
