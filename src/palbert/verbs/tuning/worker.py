"""Worker: a child process that trains one run after the other, and asks its parent about every evaluation.

Both send each other JSON, one object per line. Parent to child: a job, or the answer to an evaluation. Child to parent:
an evaluation, or how the job ended. The child ends with its parent, however that ends.
"""

from __future__ import annotations

import json
import os
import queue
import subprocess
import sys
import threading
from collections.abc import Mapping
from contextlib import nullcontext, suppress
from pathlib import Path
from typing import IO, Any

from palbert.errors import StoppedError
from palbert.recipe.load import dump_recipe, make_recipe
from palbert.registry.registry import look_in
from palbert.registry.trust import trusting
from palbert.runtime.children import python_command
from palbert.verbs.tuning.trials import Decide, Job, Outcome, run_here

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

STOPPED = 130
PATIENCE = 120.0
"""Seconds that a child has to write its checkpoint."""


class Worker:
    """A child process, as its parent sees it; started when it is first used, and again when it has died.

    Args:
        environment: Its environment variables, in addition to those of this process.
        trust: Whether it may import code from outside palbert that runs and teachers name.
    """

    def __init__(self, environment: Mapping[str, str], *, trust: bool) -> None:
        self.environment = environment
        self.trust = trust
        self.process: subprocess.Popen[str] | None = None

    def run(self, job: Job, decide: Decide) -> Outcome:
        """Let the child train a run; return how it ended.

        Raises:
            StoppedError: The child was told to stop.
        """
        try:
            child = self._alive(job)
            self._send(
                child, {"name": job.name, "recipe": dump_recipe(job.recipe), "run": str(job.run), "number": job.number}
            )
            for line in child.stdout or ():
                found = json.loads(line)
                if "score" in found:
                    self._send(child, {"prune": decide(found["evaluation"], found["score"])})
                else:
                    return Outcome(**found)
        except BrokenPipeError:
            pass
        code = self.process.wait() if self.process else 0
        self.close()
        if code in (STOPPED, -15):
            raise StoppedError(job.run, verb="tune")
        how = f"signal {-code}" if code < 0 else f"exit code {code}"
        return Outcome("failed", reason=f"its process ended with {how} (log: {job.log})")

    def _alive(self, job: Job) -> subprocess.Popen[str]:
        if self.process is not None and self.process.poll() is not None:
            self.close()
        if self.process is None:
            job.log.parent.mkdir(parents=True, exist_ok=True)
            with job.log.open("ab") as log:
                self.process = subprocess.Popen(
                    python_command(f"from palbert.verbs.tuning.worker import main; main(trust={self.trust})"),
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=log,
                    text=True,
                    encoding="utf-8",
                    env={**os.environ, **self.environment},
                    start_new_session=True,  # Ctrl-C reaches the parent, which stops its children
                )
        return self.process

    @staticmethod
    def _send(child: subprocess.Popen[str], message: Mapping[str, Any]) -> None:
        assert child.stdin
        child.stdin.write(json.dumps(message) + "\n")
        child.stdin.flush()

    def stop(self) -> None:
        """Let the child end after the current step, with a checkpoint."""
        if self.process and self.process.poll() is None:
            self.process.terminate()

    def close(self) -> None:
        """End the child, which has stopped or has nothing to do."""
        if self.process is None:
            return
        with suppress(BrokenPipeError):
            if self.process.stdin:
                self.process.stdin.close()
        try:
            self.process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        if self.process.stdout:
            self.process.stdout.close()
        self.process = None


def main(*, trust: bool) -> None:
    """Train what the parent sends, until it has no more."""
    look_in("")  # the current folder, for "module:Class"
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # what a part prints must not get between the answers
    messages: queue.Queue[dict[str, Any]] = queue.Queue()
    threading.Thread(target=_listen, args=(messages,), daemon=True).start()
    with trusting() if trust else nullcontext():
        try:
            while True:
                _answer(answers, **vars(_train(messages.get(), messages, answers)))
        except (KeyboardInterrupt, StoppedError):
            answers.flush()
            os._exit(STOPPED)


def _train(message: dict[str, Any], messages: queue.Queue[dict[str, Any]], answers: IO[str]) -> Outcome:
    def decide(evaluation: int, score: float) -> bool:
        _answer(answers, evaluation=evaluation, score=score)
        return bool(messages.get()["prune"])

    try:
        recipe = make_recipe(tomllib.loads(message["recipe"]), name=message["name"])
    except Exception as error:  # such as a file that has been removed
        return Outcome("failed", reason=str(error))
    return run_here(Job(message["name"], recipe, Path(message["run"]), message["number"]), decide)


def _answer(answers: IO[str], **message: Any) -> None:
    answers.write(json.dumps(message) + "\n")
    answers.flush()


def _listen(messages: queue.Queue[dict[str, Any]]) -> None:
    """Pass on what the parent sends. At its end the process ends: what it trains is continued from its checkpoint."""
    for line in sys.stdin:
        messages.put(json.loads(line))
    os._exit(0)
