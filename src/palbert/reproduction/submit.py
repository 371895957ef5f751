"""Submit: predict the test sets of all tasks of a run, and write the files to hand in."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from palbert.errors import RunFolderError
from palbert.recipe.load import load_run_recipe
from palbert.recipe.schema import Recipe
from palbert.registry.trust import trusting
from palbert.reporting.display import Table
from palbert.reproduction.submission_files import TaskAnswers, write_submission
from palbert.reproduction.submission_rows import SubmissionRows, find_files, read_rows
from palbert.reproduction.with_dev import folder_with_dev, has_dev, is_finished, train_with_dev
from palbert.runtime.files import AnyPath, refuse_to_replace
from palbert.runtime.run_folder import RunFolder
from palbert.verbs.predict import Predictor, load


@dataclass(frozen=True)
class Submission:
    """The files of a submission, and the run that made them."""

    run: Path
    """The run whose predictions they are: the given one, or the one trained on dev too."""
    files: dict[str, list[Path]]
    """The prediction files by task."""
    rows: dict[str, int]
    """The number of rows of each task."""

    def _repr_html_(self) -> str:
        written = [(name, f"{self.rows[name]:,}", str(file)) for name, files in self.files.items() for file in files]
        return Table(("task", "rows", "file"), written, (f"Predicted by {self.run}",)).html()


def submit(
    run: AnyPath,
    *,
    test: str | Path | None = None,
    files: Mapping[str, str | Path] | None = None,
    tasks: Sequence[str] = (),
    split: Literal["dev", "test"] = "test",
    out: str | Path | None = None,
    with_dev: bool = False,
    checkpoint: str | None = None,
    spreadsheet_safe: bool = False,
    force: bool = False,
    trust: bool = False,
) -> Submission:
    """Predict the test sets of a run's tasks and write the files to hand in.

    Args:
        run: The folder of a run.
        test: A folder with the course's files, or with files named as in the run's recipe; the recipe's own files
            unless given.
        files: Files of single tasks.
        tasks: The tasks to predict; all tasks of the run unless given.
        split: The split whose files are looked for in the folder or in the run's recipe.
        out: The folder to write to; `submission` in the folder of the predicting run unless given.
        with_dev: First train again on train and dev together, in a run folder next to the given one.
        checkpoint: The checkpoint that predicts, or that gives the number of epochs to train; the best unless given.
        spreadsheet_safe: Put an apostrophe in front of what a spreadsheet program may take for a formula; files in the
            course's form stay as they are.
        force: Replace existing files, and an existing run with dev.
        trust: Whether code from outside palbert that the run names may be imported.

    Raises:
        StoppedError: Ctrl-C stopped the training with dev; the same call continues it.
    """
    with trusting(trust):
        return _submit(
            RunFolder(Path(run)),
            test,
            files or {},
            tasks,
            split,
            out,
            with_dev=with_dev,
            checkpoint=checkpoint,
            spreadsheet_safe=spreadsheet_safe,
            force=force,
        )


def _submit(
    folder: RunFolder,
    test: str | Path | None,
    files: Mapping[str, str | Path],
    tasks: Sequence[str],
    split: Literal["dev", "test"],
    out: str | Path | None,
    *,
    with_dev: bool,
    checkpoint: str | None,
    spreadsheet_safe: bool,
    force: bool,
) -> Submission:
    """Do what `submit` describes."""
    recipe = load_run_recipe(folder.recipe) if folder.recipe.is_file() else None
    if recipe and has_dev(recipe):
        checkpoint = _checkpoint_with_dev(folder, checkpoint)
    predictor = load(folder.path, checkpoint=checkpoint)
    rows = _read_tasks(predictor, recipe, tasks or predictor.tasks, split=split, folder=test, files=files)
    if with_dev:
        target = folder_with_dev(folder)
        _refuse_to_replace(Path(out or target.submission), list(rows), split, predictor, force=force)
        folder = RunFolder(train_with_dev(folder, target, checkpoint, force=force))
        predictor = load(folder.path, checkpoint="last")  # no rows are left to choose a best one on
    target_folder = Path(out or folder.submission)
    _refuse_to_replace(target_folder, list(rows), split, predictor, force=force)
    with folder.locked("submitting") if out is None else nullcontext():
        answers = [_predict(predictor, name, split, each) for name, each in rows.items()]
        written = write_submission(target_folder, answers, spreadsheet_safe=spreadsheet_safe, replace=force)
    return Submission(folder.path, written, {each.task.name: len(each.ids) for each in answers})


def _checkpoint_with_dev(folder: RunFolder, checkpoint: str | None) -> str:
    """Return the checkpoint of a run on train and dev: the last, as its best was chosen on rows it was trained on."""
    if checkpoint in (None, "last") and not is_finished(folder):
        raise RunFolderError(
            f"{folder.path}: its training on train and dev is not finished.",
            hint="Repeat the --with-dev command, which continues it, or choose a --checkpoint yourself.",
        )
    return checkpoint or "last"


def _read_tasks(
    predictor: Predictor,
    recipe: Recipe | None,
    tasks: Iterable[str],
    *,
    split: Literal["dev", "test"],
    folder: str | Path | None,
    files: Mapping[str, str | Path],
) -> dict[str, SubmissionRows]:
    """Read the rows of every task, so that problems with files are found before hours of training."""
    for name in [*tasks, *files]:
        predictor.task(name)  # raises for unknown tasks
    own = recipe.tasks if recipe else {}
    sources = find_files(list(tasks), recipe_tasks=own, split=split, folder=folder, files=files)
    return {name: read_rows(predictor.task(name), each) for name, each in sources.items()}


def _predict(predictor: Predictor, task: str, split: str, rows: SubmissionRows) -> TaskAnswers:
    texts = [row[0] if len(row) == 1 else (row[0], row[1]) for row in rows.texts]
    answers = [prediction.answer for prediction in predictor.predict(task, texts)]
    return TaskAnswers(predictor.task(task), split, rows.ids, answers)


def _refuse_to_replace(folder: Path, tasks: Sequence[str], split: str, predictor: Predictor, *, force: bool) -> None:
    names = [name for task in tasks for name in TaskAnswers(predictor.task(task), split, (), ()).files()]
    for name in () if force else names:
        refuse_to_replace(folder / name)
