"""Runners: one at a time here, several in children, and both give the same trials."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.tuned import SPACE

import palbert
from palbert.verbs.tuning.runners import environments


@pytest.mark.usefixtures("no_plots")
def test_two_at_a_time_train_as_many_trials_and_those_at_random_are_the_same(
    values: dict[str, Any], tmp_path: Path
) -> None:
    one = palbert.tune(values, space=SPACE, trials=2, confirm=0, out=tmp_path / "one")
    two = palbert.tune(values, space=SPACE, trials=3, confirm=0, jobs=2, out=tmp_path / "two")
    pairs = list(zip(one.summary["trials"], two.summary["trials"], strict=False))
    assert len(two.summary["trials"]) == 3 and len(pairs) == 2
    for here, child in pairs:
        assert (here["number"], here["parameters"]) == (child["number"], child["parameters"])
        assert here["evaluations"] == pytest.approx(child["evaluations"], abs=1e-4)
    assert (tmp_path / "two" / "trials" / "0002.log").is_file()


def test_children_share_the_cores_and_the_gpus(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    monkeypatch.setattr("torch.get_num_threads", lambda: 8)
    monkeypatch.setattr("torch.cuda.device_count", lambda: 1)
    assert environments(3) == [{"OMP_NUM_THREADS": "2"}] * 3
    monkeypatch.setattr("torch.cuda.device_count", lambda: 2)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "4,6")
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    assert [each["CUDA_VISIBLE_DEVICES"] for each in environments(3)] == ["4", "6", "4"]
    assert "OMP_NUM_THREADS" not in environments(1)[0]
