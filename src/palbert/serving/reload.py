"""Reload: a new checkpoint takes the place of the served one, while requests are answered."""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path

from palbert.errors import PalbertError
from palbert.runtime.run_folder import RunFolder
from palbert.serving.model import ServedModel, fingerprint_of, open_model
from palbert.serving.runs import check_examples
from palbert.serving.service import Service

log = logging.getLogger(__name__)


class Reloader:
    """Replaces models whose checkpoints have changed.

    Args:
        service: The service.
    """

    def __init__(self, service: Service) -> None:
        self.service = service
        self._one_at_a_time = asyncio.Lock()
        self._begun: set[asyncio.Task[None]] = set()
        self._refused: dict[str, tuple[object, ...]] = {}
        """The files of each run that were not good enough: `watch` tries them again when one of them has changed."""
        self._said: dict[str, str] = {}
        """The last error of each run: `watch` does not repeat it."""

    def begin(self) -> None:
        """Look for new checkpoints now, as SIGHUP asks."""
        self._refused.clear()
        self._said.clear()
        task = asyncio.ensure_future(self.reload())
        self._begun.add(task)
        task.add_done_callback(self._begun.discard)

    async def watch(self) -> None:
        """Look for new checkpoints again and again."""
        while True:
            await asyncio.sleep(self.service.settings.watch)
            await self.reload()

    async def reload(self) -> None:
        """Replace every model whose checkpoint has changed; those that fail keep the old one."""
        async with self._one_at_a_time:
            for model in self.service.runs.all():
                result = await asyncio.to_thread(self._renew, model)
                self.service.metrics.reloads.labels(result).inc()

    def _renew(self, model: ServedModel) -> str:
        """Load the checkpoint of a run if it is another one, let it answer examples, and serve it."""
        settings = self.service.settings
        try:
            checkpoint = RunFolder(model.folder).checkpoint(settings.checkpoint)
            found = fingerprint_of(checkpoint), *_versions(checkpoint)
            if found[0] == model.fingerprint or found == self._refused.get(model.name):
                return "unchanged"
            self._refused[model.name] = found
            new = open_model(
                model.name, model.folder, checkpoint=settings.checkpoint, device=settings.device,
                precision=settings.precision, trust=settings.trust,
            )  # fmt: skip
            differing = check_examples(new, model)
            new.predictor.explainer.prepare()
            self.service.runs.replace(new)
        except PalbertError as error:
            self._say(model.name, f"{model.name}: the new checkpoint is not served, the former one is: {error}")
            return "failed"
        except Exception as error:  # a disk that does not answer, or too little memory: it may work the next time
            self._refused.pop(model.name, None)
            what = f"{model.name}: the new checkpoint is not served, the former one is: {type(error).__name__}: {error}"
            self._say(model.name, what, with_traceback=not isinstance(error, OSError | MemoryError))
            return "failed"
        self._said.pop(model.name, None)
        log.info("%s: serving %s in place of %s; %d answers to examples differ",
                 model.name, new.fingerprint, model.fingerprint, differing)  # fmt: skip
        return "replaced"

    def _say(self, name: str, message: str, *, with_traceback: bool = False) -> None:
        """Log an error once, however often `watch` finds it again."""
        if self._said.get(name) != message:
            self._said[name] = message
            log.error("%s", message, exc_info=with_traceback)


def _versions(checkpoint: Path) -> list[tuple[str, int, int]]:
    """Return what changes in a folder that is still being copied."""
    found = [(path, path.stat()) for path in sorted(checkpoint.iterdir())]
    return [(path.name, status.st_size, status.st_mtime_ns) for path, status in found]
