"""Forms: which tasks an export takes, and when numbers are the same."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from palbert.build import Machine, open_checkpoint, open_encoder
from palbert.errors import DataError, EncoderError
from palbert.runtime.run_folder import RunFolder
from palbert.verbs.exports.form import Source, Wanted, compared, one_task


def test_a_form_of_one_task_says_which_ones_there_are(trained: Path, tiny_encoder: Path) -> None:
    machine = Machine.of("cpu", "fp32")
    source = Source(trained, open_checkpoint(RunFolder(trained).checkpoint(None), machine), machine)
    assert one_task(source, Wanted(("sts",)), "this").name == "sts"
    with pytest.raises(DataError, match=r"--to this holds one task, found sst, quora, sts\. Name one with --task"):
        one_task(source, Wanted(), "this")
    with pytest.raises(DataError, match=r"Unknown task 'stss'\..*sts"):
        one_task(source, Wanted(("stss",)), "this")
    encoder = Source(tiny_encoder, open_encoder(str(tiny_encoder), machine), machine)
    with pytest.raises(DataError, match="an encoder without tasks"):
        one_task(encoder, Wanted(), "this")


def test_numbers_are_compared_relative_to_the_largest_one_above_one() -> None:
    expected = np.array([[0.0, 10.0]], np.float32)
    assert compared("it", "outputs", expected + np.float32(5e-4), expected, tolerance=1e-4) == pytest.approx(
        5e-4, rel=1e-2
    )
    for wrong in (expected + np.float32(2e-3), expected[:, :1], expected * np.float32(np.nan)):
        with pytest.raises(EncoderError, match="it gives other outputs than palbert"):
            compared("it", "outputs", wrong, expected, tolerance=1e-4)
