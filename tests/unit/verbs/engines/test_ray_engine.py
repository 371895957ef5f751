"""The Ray engine: the answers of the plain engine, each row once, also when a worker dies or the work is stopped."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import palbert
from palbert.errors import AnswerError, DataError, MissingExtraError, PalbertError, RunFolderError
from palbert.readers import read_chunks
from palbert.runtime.children import python_command
from palbert.runtime.ownership import locked_folder
from palbert.verbs.engines.ray_engine import RayEngine, _error, _ray
from palbert.verbs.predict_file import predict_file

pytest.importorskip("ray", reason="needs Ray: pip install 'palbert[ray]'")
pytestmark = [pytest.mark.usefixtures("on_cpu"), pytest.mark.filterwarnings("ignore")]  # Ray warns about itself

ROWS = 60
BLOCK = 7


@pytest.fixture(autouse=True)
def _small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("palbert.verbs.predict_file.CHUNK", BLOCK)


@pytest.fixture(scope="module")
def two_workers() -> Iterator[None]:
    """Start Ray once for this file."""
    with _ray(2):
        yield


@pytest.fixture
def source(tmp_path: Path) -> Path:
    path = tmp_path / "in.csv"
    lines = [f"r{number},film {number} is {'good ' * (number % 5)}\n" for number in range(ROWS)]
    path.write_text("key,sentence\n" + "".join(lines), "utf-8")
    return path


def engine_for(run: Path) -> RayEngine:
    return RayEngine.for_run(run, checkpoint=None, device="cpu", precision="fp32", workers=2)


@pytest.mark.parametrize(
    ("device", "gpus"), [("auto", None), ("cpu", 0.0), ("mps", 0.0), ("cuda", 1.0), ("cuda:1", 1.0)]
)
def test_a_gpu_is_asked_for_where_workers_use_one(trained: Path, device: str, gpus: float | None) -> None:
    engine = RayEngine.for_run(trained, checkpoint=None, device=device, precision="fp32", workers=2)
    assert engine.gpus == gpus


def scorer(run: Path, at: str, act: Callable[[], None]) -> Callable[[], palbert.Predictor]:
    """Return a loader whose model acts before it answers a block with a certain text."""

    def load() -> palbert.Predictor:
        model = palbert.load(run, device="cpu", precision="fp32")
        plain = model.predict

        def predict(task: str, texts: Any, **options: Any) -> Any:
            if any(at in text[0] for text in texts):
                act()
            return plain(task, texts, **options)

        model.predict = predict  # type: ignore[method-assign]
        return model

    return load


def keys(path: Path) -> list[str]:
    return [key for chunk in read_chunks(str(path)) for key in chunk.columns["key"]]


@pytest.mark.usefixtures("two_workers")
@pytest.mark.parametrize("task", ["sst", None])
def test_the_answers_are_those_of_the_plain_engine(
    task: str | None, trained: Path, source: Path, tmp_path: Path
) -> None:
    model = palbert.load(trained, device="cpu", precision="fp32")
    assert predict_file(model, task, source, tmp_path / "plain.csv") == ROWS
    assert predict_file(model, task, source, tmp_path / "ray.csv", engine=engine_for(trained)) == ROWS
    assert (tmp_path / "ray.csv").read_bytes() == (tmp_path / "plain.csv").read_bytes()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["in.csv", "plain.csv", "ray.csv"]


@pytest.mark.usefixtures("two_workers")
def test_each_row_is_there_once_when_a_worker_is_killed(trained: Path, source: Path, tmp_path: Path) -> None:
    mark, out = tmp_path / "died", tmp_path / "out.csv"

    def die_once() -> None:
        if not mark.exists():
            mark.touch()
            os.kill(os.getpid(), signal.SIGKILL)

    model = palbert.load(trained, device="cpu", precision="fp32")
    engine = RayEngine(scorer(trained, "film 30 ", die_once), identity="dies", workers=2, gpus=0)
    assert predict_file(model, "sst", source, out, engine=engine) == ROWS
    assert mark.exists(), "no worker died"
    assert keys(out) == [f"r{number}" for number in range(ROWS)]
    predict_file(model, "sst", source, tmp_path / "plain.csv")
    assert out.read_bytes() == (tmp_path / "plain.csv").read_bytes()


@pytest.mark.usefixtures("two_workers")
def test_a_block_that_kills_its_workers_ends_the_job_and_is_named(trained: Path, source: Path, tmp_path: Path) -> None:
    def die() -> None:
        os.kill(os.getpid(), signal.SIGKILL)

    model = palbert.load(trained, device="cpu", precision="fp32")
    engine = RayEngine(scorer(trained, "film 30 ", die), identity="dies", workers=2, gpus=0)
    with pytest.raises(PalbertError, match=rf"in\.csv: 5 workers died at the block behind row {4 * BLOCK}\."):
        predict_file(model, "sst", source, tmp_path / "out.csv", engine=engine)
    assert not (tmp_path / "out.csv").exists()


def test_a_second_process_does_not_score_into_the_same_file(trained: Path, source: Path, tmp_path: Path) -> None:
    model = palbert.load(trained, device="cpu")
    with (
        locked_folder(tmp_path / ".out.csv.blocks", "scoring into out.csv"),
        pytest.raises(RunFolderError, match=r"another process is (scoring into out\.csv|working) here"),
    ):
        predict_file(model, "sst", source, tmp_path / "out.csv", engine=engine_for(trained))


def test_workers_import_no_module_of_the_current_folder(trained: Path, source: Path, tmp_path: Path) -> None:
    strange = tmp_path / "strange"
    strange.mkdir()
    for name in ("torch", "numpy", "rich", "uvloop"):
        (strange / f"{name}.py").write_text("raise SystemExit('a module of the current folder ran')")
    code = "from palbert.cli import main; main()"
    result = subprocess.run(
        [*python_command(code), "predict", str(trained), "--task", "sst", "--input", str(source),
         "--output", "../out.csv", "--engine", "ray", "--workers", "1", "--device", "cpu"],
        cwd=strange, capture_output=True, text=True, timeout=300, check=False,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)},
    )  # fmt: skip
    assert result.returncode == 0, result.stderr
    assert keys(tmp_path / "out.csv") == [f"r{number}" for number in range(ROWS)]


@pytest.mark.usefixtures("two_workers")
def test_an_error_of_a_worker_is_raised_here_and_the_same_job_continues(
    trained: Path, source: Path, tmp_path: Path
) -> None:
    mark, out = tmp_path / "mended", tmp_path / "out.csv"

    def fail() -> None:
        if not mark.exists():
            raise DataError("film 59: cannot be scored.", hint="Mend it.")

    model = palbert.load(trained, device="cpu", precision="fp32")
    engine = RayEngine(scorer(trained, "film 59 ", fail), identity="fails", workers=2, gpus=0)
    with pytest.raises(DataError, match=r"film 59: cannot be scored\. Mend it\."):
        predict_file(model, "sst", source, out, engine=engine)
    kept = sorted((tmp_path / ".out.csv.blocks").glob("answers-*.json"))
    assert kept and not out.exists() and not (tmp_path / ".out.csv.part").exists()
    before = {path.name: path.stat().st_mtime_ns for path in kept}
    mark.touch()
    after: dict[str, int] = {}
    remove = engine._score

    def watch(question: Any, folder: Any, source: Path, starts: dict[int, int]) -> Iterator[int]:
        yield from remove(question, folder, source, starts)
        after.update({path.name: path.stat().st_mtime_ns for path in folder.path.glob("answers-*.json")})

    engine._score = watch  # type: ignore[method-assign]
    assert predict_file(model, "sst", source, out, engine=engine) == ROWS
    assert {name: after[name] for name in before} == before, "finished blocks were scored again"
    assert keys(out) == [f"r{number}" for number in range(ROWS)]
    assert not (tmp_path / ".out.csv.blocks").exists()


@pytest.mark.usefixtures("two_workers")
def test_an_answer_that_is_no_number_is_named_by_its_row_of_the_file(
    trained: Path, source: Path, tmp_path: Path
) -> None:
    def fail() -> None:
        raise AnswerError("tasks.sst: the output", 3)  # the row of the block; this one is the fifth

    model = palbert.load(trained, device="cpu", precision="fp32")
    engine = RayEngine(scorer(trained, "film 30 ", fail), identity="broken", workers=2, gpus=0)
    with pytest.raises(AnswerError, match=rf"^{source}: tasks\.sst: the output of row {4 * BLOCK + 4} is not a number"):
        predict_file(model, "sst", source, tmp_path / "out.csv", engine=engine)


def test_a_bad_row_is_refused_before_a_worker_starts(trained: Path, tmp_path: Path) -> None:
    bad = tmp_path / "in.csv"
    bad.write_text("key,sentence\nr0,fine\nr1,a,b,c\n", "utf-8")
    model = palbert.load(trained, device="cpu")
    with pytest.raises(DataError, match=r"in\.csv, line 3: expected 2 fields, found 4"):
        predict_file(model, "sst", bad, tmp_path / "out.csv", engine=engine_for(trained))
    assert [path.name for path in tmp_path.iterdir()] == ["in.csv"]


def test_errors_keep_their_class_and_hint() -> None:
    error = _error("MissingExtraError", "X needs y.", "Install it.")
    assert isinstance(error, MissingExtraError) and str(error) == "X needs y. Install it."


def test_the_command_prints_nothing_on_stdout(trained: Path, source: Path, tmp_path: Path) -> None:
    out = tmp_path / "out.jsonl"
    command = [sys.executable, "-m", "palbert", "predict", trained, "--task", "sst", "--input", source, "--output", out]
    result = subprocess.run(
        [*map(str, command), "--engine", "ray", "--workers", "2", "--device", "cpu"],
        capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert (result.returncode, result.stdout) == (0, ""), result.stderr
    assert f"{ROWS} rows written to {out}" in result.stderr
    assert keys(out) == [f"r{number}" for number in range(ROWS)]


@pytest.mark.skipif(not Path("/proc/net/tcp").exists(), reason="needs Linux's list of sockets")
@pytest.mark.usefixtures("two_workers")
def test_ray_listens_on_the_loopback_address_alone() -> None:
    import ray

    assert ray.nodes()[0]["NodeManagerAddress"] == "127.0.0.1"
    inodes = sockets_of_children()
    sockets = [line.split() for kind in ("tcp", "tcp6") for line in Path(f"/proc/net/{kind}").read_text().splitlines()]
    listening = [words[1].split(":")[0] for words in sockets if words[3] == "0A" and words[9] in inodes]
    loopback = {"0100007F", "0000000000000000FFFF00000100007F", "00000000000000000000000001000000"}
    assert listening and set(listening) <= loopback


def sockets_of_children() -> set[str]:
    """Return the inodes of all sockets of this process and of those that it started, also through others."""
    found: set[str] = set()
    family = {os.getpid()}
    stats = {int(path.parent.name): path.read_text() for path in Path("/proc").glob("[0-9]*/stat")}
    for process in sorted(stats):
        if int(stats[process].rpartition(")")[2].split()[1]) in family:
            family.add(process)
    for process in family:
        for link in Path(f"/proc/{process}/fd").iterdir():
            with contextlib.suppress(OSError):
                found.add(os.readlink(link).removeprefix("socket:[").removesuffix("]"))
    return found


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (["--text", "a", "--engine", "ray"], "--engine ray scores files."),
        (["--input", "in.csv", "--output", "out.csv", "--workers", "2"], "only Ray has workers."),
    ],
)
def test_options_that_do_not_go_together_are_refused(options: list[str], says: str, trained: Path, cli: Any) -> None:
    result = cli("predict", trained, *options)
    assert result.code == 2 and says in result.err


def test_a_command_that_is_stopped_continues_when_it_is_given_again(trained: Path, tmp_path: Path) -> None:
    big, out, blocks = tmp_path / "big.csv", tmp_path / "out.csv", tmp_path / ".out.csv.blocks"
    names = [f"r{number}" for number in range(100_000)]
    big.write_text("key,sentence\n" + "".join(f"{name},film {name} is good\n" for name in names), "utf-8")
    asked = [sys.executable, "-m", "palbert", "predict", trained, "--task", "sst", "--input", big, "--output", out]
    command = [*map(str, asked), "--engine", "ray", "--workers", "2", "--device", "cpu"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as job:
        while job.poll() is None and not list(blocks.glob("answers-*.json")):
            time.sleep(0.05)  # until the first block is finished
        job.send_signal(signal.SIGTERM)
        printed, said = job.communicate(timeout=60)
    assert (job.returncode, printed) == (130, ""), said
    assert "finished blocks are kept" in said and "Traceback" not in said
    assert sorted(path.name for path in tmp_path.iterdir()) == [blocks.name, big.name]
    result = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert result.returncode == 0 and "blocks were scored before" in result.stderr
    assert keys(out) == names
    assert not blocks.exists()
