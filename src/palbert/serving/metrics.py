"""Metrics: what Prometheus reads from /metrics."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.multiprocess import MultiProcessCollector

from palbert.runtime.files import disk_errors
from palbert.serving.jobs import Piece
from palbert.serving.model import ServedModel

SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10)
TOKENS = (16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384, 32768, 65536)
REASONS = ("queue", "rate", "audit")
"""Why requests are not taken."""
RESULTS = ("unchanged", "replaced", "failed")
"""What came of a look at a new checkpoint."""
FOLDER = "PROMETHEUS_MULTIPROC_DIR"
"""The environment variable with the folder in which several workers add up their numbers."""


class Metrics:
    """All metrics of a process; with several workers, each reports the sum over all."""

    def __init__(self) -> None:
        self.registry = registry = CollectorRegistry()
        self.requests = Counter("palbert_requests", "Requests.", ["route", "status"], registry=registry)
        self.seconds = Histogram(
            "palbert_request_seconds", "Time to answer.", ["route"], buckets=SECONDS, registry=registry
        )
        self.texts = Counter("palbert_texts", "Answers.", ["run", "task"], registry=registry)
        self.tokens = Counter("palbert_tokens", "Tokens computed.", ["run"], registry=registry)
        self.batch_tokens = Histogram("palbert_batch_tokens", "Tokens per batch.", buckets=TOKENS, registry=registry)
        self.batch_seconds = Histogram("palbert_batch_seconds", "Time per batch.", buckets=SECONDS, registry=registry)
        self.queue = Gauge(
            "palbert_queue_texts", "Texts that wait or are computed.", multiprocess_mode="livesum", registry=registry
        )
        self.rejected = Counter("palbert_rejected", "Requests not taken.", ["reason"], registry=registry)
        self.dropped = Counter("palbert_audit_dropped", "Rows missing in the audit log.", registry=registry)
        self._dropped = 0
        self.reloads = Counter("palbert_reloads", "Looks at a new checkpoint.", ["result"], registry=registry)
        for counter, values in ((self.rejected, REASONS), (self.reloads, RESULTS)):
            for value in values:  # a series that begins with 1 has no increase that Prometheus could see
                counter.labels(value)
        _reserve_space()

    def batch(self, model: ServedModel, pieces: Sequence[Piece], seconds: float) -> None:
        """Count a batch."""
        tokens = sum(piece.tokens for piece in pieces)
        self.tokens.labels(model.name).inc(tokens)
        self.batch_tokens.observe(tokens)
        self.batch_seconds.observe(seconds)

    def count_dropped(self, rows: int) -> None:
        """Note how many rows the audit logs have dropped so far."""
        self.dropped.inc(rows - self._dropped)
        self._dropped = rows

    def page(self) -> bytes:
        """Return all metrics in Prometheus' text format."""
        if FOLDER not in os.environ:
            return generate_latest(self.registry)
        together = CollectorRegistry()
        MultiProcessCollector(together)  # type: ignore[no-untyped-call]
        return generate_latest(together)


def _reserve_space() -> None:
    """Occupy the disk that shared metrics need: a process that writes to them is killed if it is full."""
    if FOLDER not in os.environ or not hasattr(os, "posix_fallocate"):
        return
    for path in Path(os.environ[FOLDER]).glob(f"*_{os.getpid()}.db"):
        with disk_errors(path), path.open("r+b") as file:
            os.posix_fallocate(file.fileno(), 0, path.stat().st_size)
