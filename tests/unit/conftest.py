"""Fixtures of the unit tests: one trained run, and palbert's main() in this process."""

from __future__ import annotations

import logging
import shutil
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import tomli_w
from tests.hub import Hub, point_at, running

Snapshot = dict[str, bytes]


class Result(NamedTuple):
    """What a command did: its exit code and what it printed."""

    code: int
    out: str
    err: str


def trained_values(encoder: Path) -> dict[str, Any]:
    """Return a recipe with a joint pair, a siamese pair and a single text, with enough steps to learn a little."""
    return {
        "seed": 1,
        "data": "samples",
        "encoder": {"name": str(encoder), "dropout": 0.0, "attention_dropout": 0.0},
        "tasks": {
            "sst": {"pooling": "mean", "head": "mlp"},
            "quora": {"pooling": "mean"},
            "sts": {"pair_input": "siamese", "pooling": "mean", "head": "concat-difference"},
        },
        "training": {"epochs": 3, "steps_per_epoch": 32, "batch_size": 16, "log_every": 8, "sampler": "round-robin"},
        "optimizer": {"learning_rate": 3e-3},
        "run": {"device": "cpu", "tensorboard": False},
    }


@pytest.fixture(scope="session")
def trained(tiny_encoder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Train once for all tests that only read; return the folder of the run."""
    import palbert

    folder = tmp_path_factory.mktemp("trained")
    (folder / "given.toml").write_text(tomli_w.dumps(trained_values(tiny_encoder)), "utf-8")
    return palbert.train(folder / "given.toml", out=folder / "run").path


@pytest.fixture(scope="module")
def on_cpu() -> Iterator[None]:
    """Hide CUDA devices, so that a loaded model computes on the device it was trained on."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("torch.cuda.is_available", lambda: False)
        yield


@pytest.fixture
def run_copy(trained: Path, tmp_path: Path) -> Path:
    """Return a copy of the trained run for tests that write into it."""
    return Path(shutil.copytree(trained, tmp_path / "copied-run"))


@pytest.fixture
def write_recipe(tmp_path: Path) -> Callable[..., Path]:
    """Return a function that writes a recipe's values to a file."""

    def write(values: dict[str, Any], name: str = "mine.toml") -> Path:
        path = tmp_path / name
        path.write_text(tomli_w.dumps(values), encoding="utf-8")
        return path

    return write


@pytest.fixture
def snapshot() -> Callable[[Path], Snapshot]:
    """Return a function that reads all files below a folder."""

    def read(folder: Path) -> Snapshot:
        return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}

    return read


@pytest.fixture
def no_plots(monkeypatch: pytest.MonkeyPatch) -> None:
    """Behave as on a machine without matplotlib, so that reports take no time."""
    monkeypatch.setitem(sys.modules, "matplotlib", None)


@pytest.fixture
def trusted() -> Iterator[None]:
    """Allow all code from outside palbert, as --trust does."""
    from palbert.registry.trust import trusting

    with trusting():
        yield


@pytest.fixture
def cli(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Iterator[Callable[..., Result]]:
    """Return a function that runs `palbert …` as the installed command does, in this process."""
    from palbert.cli import main

    logger = logging.getLogger("palbert")
    former = logger.handlers[:], logger.level, logger.propagate

    def restore() -> None:
        logger.handlers[:], logger.propagate = former[0], former[2]
        logger.setLevel(former[1])

    def run(*arguments: object) -> Result:
        monkeypatch.setattr(sys, "argv", ["palbert", *map(str, arguments)])
        capsys.readouterr()
        code = 0
        try:
            main()
        except SystemExit as end:
            code = int(end.code or 0)
        finally:
            restore()
        printed = capsys.readouterr()
        return Result(code, printed.out, printed.err)

    yield run
    restore()


@pytest.fixture(scope="session")
def interpreter() -> Iterator[None]:
    """Let interpreted loops have bounds: Triton 3.6 calls int() on an array of one, which NumPy 2.4 refuses."""
    module = pytest.importorskip("triton.runtime.interpreter", reason="needs Triton")
    original = module._patch_lang_tensor

    def patched(tensor: Any, scope: Any) -> None:
        original(tensor, scope)
        scope.set_attr(tensor, "__index__", lambda self: self.handle.data.item())

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "_patch_lang_tensor", patched)
        yield


@pytest.fixture
def hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Hub]:
    """Start an empty stand-in for the Hub, and let this process talk to it, with a token that may write."""
    with running(Hub()) as started:
        point_at(started, tmp_path / "hub-cache", monkeypatch)
        yield started
