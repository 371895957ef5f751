"""The verb serve: what `palbert serve` and `palbert.serve` do."""

from __future__ import annotations

import os
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from palbert.errors import MissingExtraError, PalbertError, did_you_mean
from palbert.runtime.collector import pause_collector, resume_collector
from palbert.serving.keys import default_path
from palbert.serving.settings import LOOPBACK, Settings, name_runs

NEEDED = ("starlette", "uvicorn", "httptools", "prometheus_client")


def serve(*runs: str | Path, **settings: Any) -> None:
    """Answer requests over HTTP until SIGTERM or Ctrl-C.

    Args:
        runs: Run folders, or `owner/name` of runs on the Hub; "name=folder" gives one another name.
        settings: Fields of `palbert.serving.settings.Settings`, such as `port=9000`.
    """
    known = set(Settings.__dataclass_fields__) - {"runs"}
    if unknown := sorted(set(settings) - known):
        raise PalbertError(f"Unknown setting '{unknown[0]}'.", hint=did_you_mean(unknown[0], known))
    files: dict[str, Path | None] = {
        name: Path(settings[name]) for name in ("keys", "audit_log") if settings.get(name) is not None
    }
    files.setdefault("keys", _usual_keys(str(settings.get("host", Settings.host))))
    chosen = Settings(runs=name_runs(runs), **{**settings, **files})
    for package in NEEDED:
        if find_spec(package) is None:
            raise MissingExtraError("Serving needs", package=package, extra="serve")
    chosen = replace(chosen, runs=_on_this_machine(chosen.runs))
    pause_collector()  # until the models are loaded
    try:
        from palbert.serving.server import run_server

        run_server(chosen)
    finally:
        resume_collector()


def _on_this_machine(runs: tuple[tuple[str, Path], ...]) -> tuple[tuple[str, Path], ...]:
    """Return runs with folders of this machine; those of the Hub are fetched."""
    if all(folder.exists() for _, folder in runs):
        return runs
    from palbert.verbs.hub_run import local_copy

    return tuple((name, local_copy(folder)) for name, folder in runs)


def _usual_keys(host: str) -> Path | None:
    """Return the file of keys where none is given: that of $PALBERT_KEYS, or the user's own for other machines."""
    path = default_path()
    return path if os.environ.get("PALBERT_KEYS") or (host not in LOOPBACK and path.exists()) else None
