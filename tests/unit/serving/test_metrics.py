"""Metrics: what is counted, also over several processes."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("starlette", reason="needs Starlette: pip install 'palbert[serve]'")

from palbert.serving.metrics import FOLDER, Metrics

BATCH: Any = [SimpleNamespace(tokens=30), SimpleNamespace(tokens=12)]
MODEL: Any = SimpleNamespace(name="demo")


def test_batches_are_counted_with_their_tokens_and_time() -> None:
    metrics = Metrics()
    metrics.batch(MODEL, BATCH, 0.003)
    metrics.batch(MODEL, BATCH[:1], 0.003)
    page = metrics.page().decode()
    for line in (
        'palbert_tokens_total{run="demo"} 72.0',
        "palbert_batch_tokens_sum 72.0",
        "palbert_batch_tokens_count 2.0",
        'palbert_batch_seconds_bucket{le="0.005"} 2.0',
        'palbert_batch_seconds_bucket{le="0.0025"} 0.0',
    ):
        assert line in page


def test_dropped_rows_are_counted_once() -> None:
    metrics = Metrics()
    for dropped in (0, 3, 3, 10):
        metrics.count_dropped(dropped)
    assert "palbert_audit_dropped_total 10.0" in metrics.page().decode()


def test_services_of_one_process_count_apart() -> None:
    one, other = Metrics(), Metrics()
    one.reloads.labels("failed").inc()
    assert 'result="failed"} 1.0' in one.page().decode() and 'result="failed"} 1.0' not in other.page().decode()


def test_several_processes_report_the_sum_over_all_whoever_is_asked(tmp_path: Path) -> None:
    code = """
import sys
from types import SimpleNamespace
from palbert.serving.metrics import Metrics
metrics = Metrics()
metrics.batch(SimpleNamespace(name="demo"), [SimpleNamespace(tokens=int(sys.argv[1]))], 0.1)
metrics.queue.set(int(sys.argv[2]))
print("ready", flush=True)
sys.stdin.readline()
sys.stdout.write(metrics.page().decode())
"""
    with_folder = {**os.environ, FOLDER: str(tmp_path)}
    workers = [
        subprocess.Popen(
            [sys.executable, "-c", code, tokens, left],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=with_folder,
        )
        for tokens, left in (("100", "7"), ("23", "4"))
    ]  # fmt: skip
    for worker in workers:
        assert worker.stdout is not None and worker.stdout.readline() == "ready\n"
    page, _ = workers[0].communicate("\n", timeout=60)
    assert 'palbert_tokens_total{run="demo"} 123.0' in page and "palbert_queue_texts 11.0" in page
    workers[1].communicate("\n", timeout=60)
