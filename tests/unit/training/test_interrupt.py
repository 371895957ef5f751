"""Ctrl-C: the first asks the trainer to stop, the second ends the program, and the handler is restored."""

from __future__ import annotations

import signal
import threading
from types import SimpleNamespace
from typing import Any

import pytest

from palbert.training.interrupt import stop_on_interrupt


@pytest.fixture
def trainer() -> Any:
    return SimpleNamespace(stopping=False)


def test_the_first_ctrl_c_requests_a_stop_and_the_second_exits_immediately(trainer: Any) -> None:
    with stop_on_interrupt(trainer):
        signal.raise_signal(signal.SIGINT)
        assert trainer.stopping
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)


@pytest.mark.parametrize("pressed", [False, True])
def test_the_previous_handler_is_restored(trainer: Any, pressed: bool) -> None:
    former = signal.getsignal(signal.SIGINT)
    with stop_on_interrupt(trainer):
        assert signal.getsignal(signal.SIGINT) is not former
        if pressed:
            signal.raise_signal(signal.SIGINT)
    assert signal.getsignal(signal.SIGINT) is former


def test_the_handler_is_restored_after_an_error(trainer: Any) -> None:
    former = signal.getsignal(signal.SIGINT)
    with pytest.raises(RuntimeError), stop_on_interrupt(trainer):
        raise RuntimeError
    assert signal.getsignal(signal.SIGINT) is former


def test_no_handler_is_installed_outside_the_main_thread(trainer: Any) -> None:
    former, ran = signal.getsignal(signal.SIGINT), []

    def train() -> None:
        with stop_on_interrupt(trainer):
            ran.append(signal.getsignal(signal.SIGINT) is former)

    thread = threading.Thread(target=train)
    thread.start()
    thread.join()
    assert ran == [True]


def test_sigterm_requests_a_stop_however_often_it_is_sent(trainer: Any) -> None:
    former = signal.getsignal(signal.SIGTERM)
    with stop_on_interrupt(trainer):
        for _ in range(3):
            signal.raise_signal(signal.SIGTERM)
        assert trainer.stopping
    assert signal.getsignal(signal.SIGTERM) is former
