"""RayEngine: workers of Ray Data score the blocks of a file, on one machine or on many."""

from __future__ import annotations

import contextlib
import copy
import json
import logging
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from functools import partial
from itertools import accumulate
from pathlib import Path
from typing import Any

from palbert import errors
from palbert.errors import DataError, MissingExtraError, PalbertError
from palbert.registry.trust import is_trusting
from palbert.runtime.files import AnyPath, sha256
from palbert.runtime.ownership import locked_folder
from palbert.runtime.run_folder import RunFolder
from palbert.verbs.answer_columns import AnswerColumns
from palbert.verbs.engines.block_folder import BlockFolder
from palbert.verbs.engines.engine import Block, Engine, Scored, rows_of
from palbert.verbs.hub_run import locate
from palbert.verbs.predict import Predictor, load

MOST_DEATHS = 5
"""How often workers may die at one block, which may be what they die of."""
log = logging.getLogger(__name__)


class RayEngine(Engine):
    """Scores with workers that each load the model once; a block whose worker dies is scored by another one.

    Workers read and write files next to the output, so all machines have to see that folder and the run. What is
    finished stays there if the work is stopped, and the same job continues with the rest.

    Args:
        load_model: Loads the model in a worker; it is pickled.
        identity: What tells this model from others, so that a job only continues with the same one.
        workers: How many workers there are.
        gpus: How many GPUs each worker has.
    """

    def __init__(
        self, load_model: Callable[[], Predictor], *, identity: str, workers: int = 2, gpus: float | None = None
    ) -> None:
        self.load_model = load_model
        self.identity = identity
        self.workers = workers
        self.gpus = gpus

    @classmethod
    def for_run(cls, run: AnyPath, *, checkpoint: str | None, device: str, precision: Any, workers: int) -> RayEngine:
        """Return the engine for a checkpoint of a run."""
        folder = locate(run).resolve()
        files = sorted(path for path in RunFolder(folder).checkpoint(checkpoint).iterdir() if path.is_file())
        model = partial(load, folder, checkpoint=checkpoint, device=device, precision=precision, trust=is_trusting())
        gpus = None if device == "auto" else float(device.startswith("cuda"))  # Ray counts no others
        return cls(model, identity=f"{sha256(*files)} {device} {precision}", workers=workers, gpus=gpus)

    def run(
        self,
        question: AnswerColumns,
        blocks: Callable[[], Iterator[Block]],
        *,
        source: Path,
        output: Path,
        advance: Callable[[int], None],
    ) -> Scored:
        """Score all blocks, then yield them in the order of the file."""
        folder = BlockFolder(output.resolve().with_name(f".{output.name}.blocks"))
        with locked_folder(folder.path, f"scoring into {output.name}"):
            yield from self._run(question, blocks, folder=folder, source=source, advance=advance)

    def _run(
        self,
        question: AnswerColumns,
        blocks: Callable[[], Iterator[Block]],
        *,
        folder: BlockFolder,
        source: Path,
        advance: Callable[[int], None],
    ) -> Scored:
        try:
            rows = folder.cut(self._job(question, source), blocks())
            missing = [number for number in range(len(rows)) if not folder.has_answers(number)]
            if len(missing) < len(rows):
                log.info("%d of %d blocks were scored before", len(rows) - len(missing), len(rows))
            advance(sum(rows) - sum(rows[number] for number in missing))
            before = [0, *accumulate(rows)]
            starts = {number: before[number] for number in missing}
            for number in self._score(question, folder, source, starts):
                advance(rows[number])
        except BaseException:
            if not folder.is_scored():
                folder.remove()
            else:
                log.warning("finished blocks are kept in %s; the same command continues", folder.path)
            raise
        found = 0
        for number, block in enumerate(blocks()):
            if number >= len(rows) or block.rows != rows[number]:
                raise DataError(f"{source}: it changed while it was scored.", hint="Start again.")
            yield block, folder.answers(number)
            found += 1
        if found < len(rows):
            raise DataError(f"{source}: it changed while it was scored.", hint="Start again.")
        folder.remove()

    def _job(self, question: AnswerColumns, source: Path) -> dict[str, Any]:
        """Return what determines the answers."""
        facts = source.stat() if source.exists() else None
        return {
            "model": self.identity,
            "source": [str(source.resolve()), facts and facts.st_size, facts and facts.st_mtime_ns],
            "asked": question.title,
            "columns": question.added(),
            "texts": question.read_columns(),
            "flat": question.flat,
            "min_confidence": question.min_confidence,
        }

    def _score(
        self, question: AnswerColumns, folder: BlockFolder, source: Path, starts: dict[int, int]
    ) -> Iterator[int]:
        """Let workers score blocks; yield the number of each when it is finished, in any order.

        Args:
            question: What is asked.
            folder: Where the blocks are.
            source: The input.
            starts: The rows of the input before each block that is to be scored, by its number.
        """
        if not starts:
            return
        folder.forget_tries()
        plain = copy.copy(question)
        del plain.predictor  # each worker loads its own
        with _ray(self.workers) as ray:
            gpus = self.gpus if self.gpus is not None else float(bool(ray.cluster_resources().get("GPU")))
            blocks = [{"number": number, "start": start} for number, start in starts.items()]
            items = ray.data.from_items(blocks, override_num_blocks=len(blocks))
            scored = items.map_batches(
                BlockScorer,
                fn_constructor_args=(self.load_model, plain, folder, source),
                batch_size=1,
                # One at a time: what waits for a worker could go to another one.
                compute=ray.data.ActorPoolStrategy(size=self.workers, max_tasks_in_flight_per_actor=1),
                num_cpus=1,
                num_gpus=gpus,
            )
            for row in scored.iter_rows():
                outcome = json.loads(row["outcome"])
                for message in outcome["warnings"]:
                    log.warning("%s", message)
                if "error" in outcome:
                    raise _error(**outcome["error"])
                yield int(row["number"])


class BlockScorer:
    """A worker: it loads the model with its first block and writes the answers of each block it is given."""

    def __init__(
        self, load_model: Callable[[], Predictor], question: AnswerColumns, folder: BlockFolder, source: Path
    ) -> None:
        self.load_model = load_model
        self.question = question
        self.folder = folder
        self.source = source
        self.warnings = _Warnings()
        self.loaded = False
        logging.getLogger("palbert").addHandler(self.warnings)

    def __call__(self, batch: dict[str, Any]) -> dict[str, Any]:
        """Score one block; an error of palbert is returned, as Ray would wrap it."""
        [number], [start] = map(int, batch["number"]), map(int, batch["start"])
        self.warnings.messages.clear()
        outcome: dict[str, Any] = {"warnings": self.warnings.messages}
        try:
            if self.folder.begin(number) > MOST_DEATHS:  # Ray itself would try for ever
                raise PalbertError(
                    f"{self.source}: {MOST_DEATHS} workers died at the block behind row {start}.",
                    hint="Is there enough memory for all --workers? The same command continues with what is missing.",
                )
            if not self.loaded:
                self.question.predictor = self.load_model()
                self.loaded = True
                self.warnings.messages.clear()  # the process that started the workers has said the same
            with rows_of(self.source, after=start):
                answers = self.question.answers(self.folder.texts(number))
            self.folder.write_answers(number, answers)
        except PalbertError as error:
            outcome["error"] = {"kind": type(error).__name__, "message": error.message, "hint": error.hint}
        return {"number": [number], "outcome": [json.dumps(outcome)]}


class _Warnings(logging.Handler):
    """Keeps warnings, to be shown by the process that started the workers."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.messages: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.messages.append(record.getMessage())


def _error(kind: str, message: str, hint: str | None) -> PalbertError:
    """Return the error that a worker had."""
    found = getattr(errors, kind, PalbertError)
    error: PalbertError = found.__new__(found)  # some take other arguments than a message
    PalbertError.__init__(error, message, hint=hint)
    return error


@contextlib.contextmanager
def _ray(workers: int) -> Iterator[Any]:
    """Yield Ray: as the caller has started it, connected to RAY_ADDRESS, or started here while the block runs."""
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # nothing is sent to Ray's makers
    try:
        import ray
        import ray.data
        from ray._private import ray_constants
    except ImportError:
        raise MissingExtraError("The Ray engine needs", package="ray", extra="ray") from None
    logging.getLogger("ray.data").setLevel(logging.ERROR)
    with contextlib.redirect_stdout(sys.stderr):  # Ray reports dead workers on stdout
        ray.data.DataContext.get_current().enable_progress_bars = False
        ours = not ray.is_initialized()
        if ours:
            if not os.environ.get("RAY_ADDRESS"):
                # Otherwise Ray on Linux replaces 127.0.0.1 by a public address.
                os.environ[ray_constants.ENABLE_RAY_CLUSTERS_ENV_VAR] = "0"  # in the processes that it starts
                ray_constants.ENABLE_RAY_CLUSTER = False  # in this one, which may have imported Ray before
            _start(ray, workers)
        try:
            yield ray
        finally:
            if ours:
                ray.shutdown()


def _start(ray: Any, workers: int) -> None:
    """Connect to the cluster that RAY_ADDRESS names, or start Ray on this machine."""
    quiet = {"log_to_driver": False, "logging_level": logging.ERROR, "job_config": _job_config(ray)}
    main = threading.current_thread() is threading.main_thread()
    former = signal.getsignal(signal.SIGTERM) if main else None
    if os.environ.get("RAY_ADDRESS"):
        ray.init(**quiet)
    else:
        cores = max(workers, os.cpu_count() or 1)
        ray.init(address="local", num_cpus=cores, include_dashboard=False, _node_ip_address="127.0.0.1", **quiet)
    if main:
        signal.signal(signal.SIGTERM, former)  # Ray sets its own


def _job_config(ray: Any) -> Any:
    """Return settings for Ray with which workers import what this process would.

    Otherwise they look into the current folder first, where a stranger's files may have the names of modules.
    """
    config = ray.job_config.JobConfig()
    if not {"", os.getcwd()} & set(sys.path):
        config._runtime_env_has_working_dir = lambda: True  # then Ray adds neither that folder nor the script's
        script = os.path.dirname(os.path.realpath(sys.argv[0]))
        config._py_driver_sys_path = [script] if script in sys.path else []
    return config
