"""Deterministic mode: what it sets, what it refuses, and that it is left as it was."""

from __future__ import annotations

import logging
import os

import pytest
import torch

from palbert.errors import DeviceError
from palbert.runtime.determinism import WORKSPACE, choose_workspace, deterministic

CPU = torch.device("cpu")


def test_the_mode_holds_inside_only(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO), deterministic(CPU, asked=True):
        assert torch.are_deterministic_algorithms_enabled()
    assert not torch.are_deterministic_algorithms_enabled()
    assert "the same number of threads" in caplog.text
    with deterministic(CPU, asked=False):
        assert not torch.are_deterministic_algorithms_enabled()


def test_an_operation_without_a_deterministic_implementation_is_named() -> None:
    target = torch.zeros(3)
    message = r"put_.*does not have a deterministic implementation"
    with pytest.raises(DeviceError, match=message) as raised, deterministic(CPU, asked=True):
        target.put_(torch.tensor([0, 0]), torch.ones(2), accumulate=False)
    assert "run.deterministic = false" in str(raised.value)
    assert not torch.are_deterministic_algorithms_enabled()


def test_other_errors_pass_through() -> None:
    with pytest.raises(RuntimeError, match="size"), deterministic(CPU, asked=True):
        torch.ones(2) @ torch.ones(3)


def test_cublas_gets_a_fixed_workspace_unless_one_is_given(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(WORKSPACE, raising=False)
    choose_workspace(CPU)
    assert WORKSPACE not in os.environ
    choose_workspace(torch.device("cuda"))
    assert os.environ[WORKSPACE] == ":4096:8"
    monkeypatch.setenv(WORKSPACE, ":16:8")
    choose_workspace(torch.device("cuda"))
    assert os.environ[WORKSPACE] == ":16:8"
