"""Run: what training leaves, as an object: its report, its scores, its recipe and its model."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from palbert.errors import RunFolderError
from palbert.recipe.load import load_run_recipe
from palbert.recipe.schema import Recipe
from palbert.reporting.display import Summary, summary_table
from palbert.runtime.files import AnyPath
from palbert.runtime.json_objects import read_object
from palbert.runtime.run_folder import RunFolder
from palbert.runtime.visible import visible
from palbert.verbs.hub_run import locate
from palbert.verbs.predict import Predictions, Predictor, load
from palbert.verbs.texts import Text


class Run:
    """A trained run: `palbert.train(...)` returns one, and `palbert.Run("runs/mine")` opens one again.

    It stands for the path of its folder wherever a path is taken: `palbert.load(run)`, `open(run / "report.json")`,
    `Path(run)`, `str(run)`.

    Args:
        path: The run folder, or `owner/name` of a run on the Hugging Face Hub.

    Raises:
        RunFolderError: There is no run in the folder.
    """

    def __init__(self, path: AnyPath) -> None:
        self.path = locate(path)
        if not RunFolder(self.path).exists:
            raise RunFolderError(f"{self.path}: there is no run here.", hint="Give the folder of a run.")

    @property
    def report(self) -> Summary:
        """The content of report.json: a dict that is shown as a table."""
        file = RunFolder(self.path).report("json")
        hint = f'Make it with: palbert.evaluate("{self.path}")'
        if not file.is_file():
            raise RunFolderError(f"{file}: no such file, so there is no report of a run.", hint=hint)
        return Summary(read_object(file, raises=RunFolderError, hint=hint))

    @property
    def scores(self) -> dict[str, dict[str, float]]:
        """Every metric of every task on the dev split: `run.scores["tone"]["accuracy"]`."""
        found: dict[str, dict[str, float]] = self.report["tasks"]
        return found

    @property
    def recipe(self) -> Recipe:
        """The recipe that was trained, with all its defaults."""
        return load_run_recipe(RunFolder(self.path).recipe)

    @cached_property
    def predictor(self) -> Predictor:
        """The model of the best checkpoint, loaded when it is first used."""
        return self.load()

    def load(
        self,
        *,
        checkpoint: str | None = None,
        device: str = "auto",
        precision: Literal["auto", "fp32", "bf16", "int8"] = "auto",
        trust: bool = False,
    ) -> Predictor:
        """Load the best checkpoint, or the named one, for prediction; see `palbert.load`."""
        return load(self.path, checkpoint=checkpoint, device=device, precision=precision, trust=trust)

    def predict(self, task: str, texts: Sequence[Text], *, min_confidence: float | None = None) -> Predictions:
        """Predict for texts, or for pairs of texts if the task takes pairs, with the best checkpoint.

        Args:
            task: Which task to ask.
            texts: The texts, or pairs of texts.
            min_confidence: Abstain where an answer is less likely to be right.
        """
        return self.predictor.predict(task, texts, min_confidence=min_confidence)

    def __fspath__(self) -> str:
        return str(self.path)

    def __str__(self) -> str:
        return str(self.path)

    def __truediv__(self, name: AnyPath) -> Path:
        return self.path / name

    def __eq__(self, other: object) -> bool:
        if isinstance(other, Run):
            return self.path == other.path
        return self.path == other if isinstance(other, Path) else NotImplemented

    def __hash__(self) -> int:
        return hash(self.path)

    def __repr__(self) -> str:
        page = RunFolder(self.path).report("html")
        try:
            return visible(f"Run {self.path}\n{summary_table(self.report).text()}\nReport: {page}")
        except RunFolderError:
            return visible(f"Run {self.path}, without a report")

    def _repr_html_(self) -> str:
        page = RunFolder(self.path).report("html")
        try:
            return summary_table(self.report).html(links={f"The whole report: {page}": page})
        except RunFolderError:
            return summary_table({"run": self.path, "report": "none"}).html()

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            """Return what its path has: code that takes a run for a Path continues to work."""
            if name == "path" or name.startswith("_"):
                raise AttributeError(f"'Run' object has no attribute '{name}'")
            try:
                return getattr(self.path, name)
            except AttributeError:
                raise AttributeError(f"'Run' object has no attribute '{name}'") from None
