"""Fixtures of the service's tests: one trained run, loaded once, and services around it in this process."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from starlette.testclient import TestClient

    from palbert.serving.model import ServedModel
    from palbert.serving.service import Service

MakeService = Callable[..., "Service"]
Connect = Callable[..., "TestClient"]


@pytest.fixture(scope="session")
def served_run(tiny_encoder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Train a run in which two tasks of single texts share a pass, a joint pair has an adapter, and a pair is siamese.

    Texts of more than 24 tokens are cut.
    """
    import palbert

    topics = {
        "kind": "single",
        "target": "multilabel",
        "classes": ["delivery", "billing", "account", "quality", "praise"],
        "text": "message",
        "label": "topics",
        "train": "topics-train.tsv",
        "dev": "topics-dev.tsv",
    }
    tasks: dict[str, dict[str, Any]] = {
        "sst": {},
        "topics": topics,
        "quora": {},
        "sts": {"pair_input": "siamese", "head": "concat-difference"},
    }
    values = {
        "seed": 1,
        "data": "samples",
        "encoder": {"name": str(tiny_encoder), "dropout": 0.0, "attention_dropout": 0.0},
        "tasks": {name: {"pooling": "mean", "max_length": 24, **own} for name, own in tasks.items()},
        "adapters": {"name": "lora", "tasks": ["quora"], "rank": 2},
        "training": {"epochs": 1, "steps_per_epoch": 40, "batch_size": 8, "sampler": "round-robin"},
        "optimizer": {"learning_rate": 3e-3},
        "run": {"device": "cpu", "tensorboard": False},
    }
    folder = tmp_path_factory.mktemp("served")
    return palbert.train(palbert.make_recipe(values), out=folder / "demo").path


@pytest.fixture
def served_copy(served_run: Path, tmp_path: Path) -> Path:
    """Return a copy of the run for tests that change it."""
    return Path(shutil.copytree(served_run, tmp_path / "copied"))


@pytest.fixture(scope="session")
def open_served() -> Callable[..., ServedModel]:
    """Return a function that loads a run to be served."""
    from palbert.serving.model import open_model

    def load(folder: Path, name: str = "demo", checkpoint: str | None = None) -> ServedModel:
        return open_model(name, folder, checkpoint=checkpoint, device="cpu", precision="fp32", trust=False)

    return load


@pytest.fixture(scope="session")
def model(served_run: Path, open_served: Callable[..., ServedModel]) -> ServedModel:
    """Load the run once."""
    pytest.importorskip("starlette", reason="needs Starlette: pip install 'palbert[serve]'")
    return open_served(served_run)


@pytest.fixture(scope="session")
def plain(
    tiny_encoder: Path, tmp_path_factory: pytest.TempPathFactory, open_served: Callable[..., ServedModel]
) -> ServedModel:
    """Return a run of one task without adapters, whose texts have one vector each."""
    import palbert

    values = {
        "seed": 1,
        "data": "samples",
        "encoder": {"name": str(tiny_encoder)},
        "tasks": {"sst": {}},
        "training": {"epochs": 1, "steps_per_epoch": 1, "batch_size": 2},
        "run": {"device": "cpu", "tensorboard": False},
    }
    run = palbert.train(palbert.make_recipe(values), out=tmp_path_factory.mktemp("plain") / "plain")
    return open_served(run.path, "plain")


@pytest.fixture
def make_service(model: ServedModel) -> MakeService:
    """Return a function that makes a service of the loaded run, or of others; what it takes are settings."""
    from palbert.serving.engine import Engine
    from palbert.serving.limits import RateLimits
    from palbert.serving.metrics import Metrics
    from palbert.serving.runs import Runs
    from palbert.serving.service import Service
    from palbert.serving.settings import Settings

    def make(*models: ServedModel, **given: Any) -> Service:
        own = list(models or [model])
        parts = {name: given.pop(name) for name in ("audit_logs", "known_keys") if name in given}
        settings = Settings(runs=tuple((each.name, each.folder) for each in own), device="cpu", audit="off", **given)
        metrics = Metrics()
        return Service(
            settings=settings,
            runs=Runs(own),
            engine=Engine(queue=settings.queue, wait=settings.wait, watcher=metrics),
            metrics=metrics,
            keys=parts.get("known_keys"),
            limits=RateLimits(settings.rate, round(settings.burst)) if settings.rate else None,
            audit=parts.get("audit_logs", {}),
        )

    return make


@pytest.fixture
def connect(make_service: MakeService) -> Iterator[Connect]:
    """Return a function that starts a service in this process and gives a client of it; takes a service or settings."""
    from starlette.testclient import TestClient

    from palbert.serving.app import build_app

    with ExitStack() as stack:

        def start(service: Service | None = None, **settings: Any) -> TestClient:
            app = build_app(service or make_service(**settings))
            client = TestClient(app, base_url="http://127.0.0.1", raise_server_exceptions=False)
            return stack.enter_context(client)

        yield start


@pytest.fixture
def client(connect: Connect) -> TestClient:
    """Return a client of a service with default settings."""
    return connect()


@pytest.fixture
def passes(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Return a list that gets the tokens of each pass of the encoder."""
    from palbert.model.multitask import MultiTaskModel

    found: list[int] = []
    original = MultiTaskModel.states

    def counting(self: MultiTaskModel, batch: Any, *arguments: Any, **named: Any) -> Any:
        found.append(len(batch.ids))
        return original(self, batch, *arguments, **named)

    monkeypatch.setattr(MultiTaskModel, "states", counting)
    return found
