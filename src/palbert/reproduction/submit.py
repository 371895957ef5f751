"""Submit: predictions for the test sets of all tasks of a run, as files to hand in."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from palbert.data.readers import Chunk, no_column, read_chunks
from palbert.errors import CheckpointError, DataError, RecipeError, RunFolderError, StoppedError
from palbert.recipe.load import load_recipe
from palbert.reporting.wording import plural
from palbert.reproduction.submission import TaskAnswers, write_submission
from palbert.reproduction.with_dev import has_dev
from palbert.reproduction.with_dev import with_dev as with_dev_rows
from palbert.runtime.run_folder import RunFolder
from palbert.tasks.catalog import CATALOG, COURSE_FILES
from palbert.tasks.sources import Source, Sources
from palbert.tasks.spec import Task
from palbert.training.checkpoint import read_description
from palbert.verbs.predict import Predictor, load
from palbert.verbs.train import train

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Submission:
    """What was written, and whose answers they are."""

    run: Path
    """The run that answered: the given one, or the one trained on dev too."""
    files: dict[str, list[Path]]
    """The prediction files by task."""
    rows: dict[str, int]
    """Rows of each task."""


def submit(
    run: str | Path,
    *,
    test: str | Path | None = None,
    files: Mapping[str, str | Path] | None = None,
    tasks: Sequence[str] = (),
    split: Literal["dev", "test"] = "test",
    out: str | Path | None = None,
    with_dev: bool = False,
    checkpoint: str | None = None,
    force: bool = False,
) -> Submission:
    """Predict the test sets of a run's tasks and write the files to hand in.

    Args:
        run: The folder of a run.
        test: A folder with the course's files, or with files named as in the run's recipe; the recipe's own files
            unless given.
        files: Files of single tasks, wherever they are.
        tasks: Which tasks; all of the run unless given.
        split: Whose rows are looked for in the folder or in the run's recipe.
        out: Where to write; `submission` in the folder of the run that answers, unless given.
        with_dev: Train anew on train and dev together first, into a run folder beside the given one.
        checkpoint: Which checkpoint answers, or gives the number of epochs to train anew; the best unless given.
        force: Replace files, and a run with dev, that exist.

    Raises:
        StoppedError: Ctrl-C stopped the training with dev; the same call continues it.
    """
    folder = RunFolder(Path(run))
    if folder.recipe.is_file() and has_dev(load_recipe(folder.recipe, check_files=False)):
        checkpoint = checkpoint or "last"  # its best one was chosen on rows that it had learnt
        if checkpoint == "last" and not _is_trained(folder):
            raise RunFolderError(
                f"{folder.path}: its training on train and dev is not finished.",
                hint="Give the --with-dev command again, which goes on with it, or choose a --checkpoint yourself.",
            )
    predictor = load(folder.path, checkpoint=checkpoint)
    sources = _find(folder, predictor, tasks or list(predictor.tasks), split, test, files or {})
    rows = {name: _read(predictor.task(name), each) for name, each in sources.items()}  # before hours of training
    if with_dev:
        trained = _with_dev_folder(folder)
        _refuse_to_replace(Path(out or trained.submission), list(sources), split, predictor, force=force)
        folder = RunFolder(_train_with_dev(folder, trained, checkpoint, force=force))
        predictor = load(folder.path, checkpoint="last")  # there is nothing left to choose a best one on
    target = Path(out or folder.submission)
    _refuse_to_replace(target, list(sources), split, predictor, force=force)
    answers = [_answer(predictor, name, split, *each) for name, each in rows.items()]
    written = write_submission(target, answers)
    return Submission(folder.path, written, {each.task.name: len(each.ids) for each in answers})


def _find(
    folder: RunFolder,
    predictor: Predictor,
    tasks: Sequence[str],
    split: Literal["dev", "test"],
    test: str | Path | None,
    files: Mapping[str, str | Path],
) -> dict[str, Sources]:
    """Return the files of every task; say which are missing, all at once."""
    for name in [*tasks, *files]:
        predictor.task(name)  # refuses unknown ones
    if test is not None and not Path(test).is_dir():
        raise DataError(f"{test}: no such folder.", hint="Give the folder of the test files, or task=FILE.")
    own = load_recipe(folder.recipe, check_files=False).tasks if folder.recipe.is_file() else {}
    found: dict[str, Sources] = {}
    problems = []
    for name in tasks:
        course = COURSE_FILES.get(name, {}).get(split)
        if name in files:
            found[name] = (Source(path=str(files[name])),)
        elif test is not None and course:
            found[name] = (Source(path=str(Path(test) / course)),)
        elif name in own and getattr(own[name], split):
            found[name] = tuple(_in_folder(source, test) for source in getattr(own[name], split))
        else:
            problems.append(f"{name}: no {split} file is known: the run's recipe names none.")
            continue
        problems += [
            f"{name}: no such file: {source.path}"
            for source in found[name]
            if not source.path.startswith("hf:") and not Path(source.path).is_file()
        ]
    if problems:
        raise DataError(
            "\n".join(problems), hint="Name a task's file with --test task=FILE, or the tasks to predict with --task."
        )
    return found


def _in_folder(source: Source, folder: str | Path | None) -> Source:
    """Look for a file of the run's own recipe in another folder, if one is given."""
    if folder is None or source.path.startswith("hf:"):
        return source
    return source.model_copy(update={"path": str(Path(folder) / Path(source.path).name)})


def _read(task: Task, sources: Sources) -> tuple[list[str], list[tuple[str, ...]]]:
    """Return ids and texts of all rows; one row an id is what a submission needs."""
    first: dict[str, str] = {}
    texts: list[tuple[str, ...]] = []
    for source in sources:
        for chunk in read_chunks(source.path, quoting=source.quoting or task.quoting):
            if not chunk.columns:
                continue  # JSONL without rows names no columns
            columns = [chunk.column(name) for name in _text_columns(task, source, chunk)]
            for row, line, *cells in zip(_ids(task, chunk), chunk.lines, *columns, strict=True):
                place, identity = f"{chunk.path}, line {line}", (row or "").strip()
                if not identity:
                    raise DataError(f"{place}: the id is empty.", hint="A submission needs an id for every row.")
                if identity in first:
                    raise DataError(f"{place}: the id {identity} came before, in {first[identity]}.")
                first[identity] = place
                texts.append(tuple((cell or "").strip() for cell in cells))
    if not texts:
        raise DataError(f"{', '.join(source.path for source in sources)}: no rows for {task.name}.")
    empty = sum(not all(row) for row in texts)
    if empty:
        log.warning(
            "%s: %d of %d rows have an empty text; they are answered all the same.", task.name, empty, len(texts)
        )
    return list(first), texts


def _ids(task: Task, chunk: Chunk) -> list[str | None]:
    """Return the column of ids: the task's, or the course's where a run was trained on other files."""
    for name in (task.id, "id"):
        if name in chunk.columns:
            return chunk.column(name)
    raise DataError(
        f"{chunk.path}: no column '{task.id}', and a submission needs an id for every row.",
        hint=f"There are: {', '.join(name for name in chunk.columns if name)}.",
    )


def _text_columns(task: Task, source: Source, chunk: Chunk) -> Sequence[str]:
    """Return the text columns: the task's, or the course's where a run was trained on other files."""
    own = source.text or task.text
    course = CATALOG.get(task.name, {}).get("text", ())
    for names in (own, (course,) if isinstance(course, str) else course):
        if names and set(names) <= set(chunk.columns):
            return names
    missing = next(name for name in own if name not in chunk.columns)
    raise no_column(chunk.path, missing, list(chunk.columns))


def _answer(
    predictor: Predictor, task: str, split: str, ids: Sequence[str], texts: Sequence[tuple[str, ...]]
) -> TaskAnswers:
    rows = [row[0] if len(row) == 1 else (row[0], row[1]) for row in texts]
    answers = [prediction.answer for prediction in predictor.predict(task, rows)]
    return TaskAnswers(predictor.task(task), split, ids, answers)


def _refuse_to_replace(folder: Path, tasks: Sequence[str], split: str, predictor: Predictor, *, force: bool) -> None:
    names = [name for task in tasks for name in TaskAnswers(predictor.task(task), split, (), ()).files()]
    there = [str(folder / name) for name in names if (folder / name).exists()]
    if there and not force:
        raise RunFolderError(f"{there[0]}: exists already.", hint="Add --force to replace it, or give another --out.")


def _is_trained(folder: RunFolder) -> bool:
    """Whether a run has done all of its epochs; one that was stopped may have a report all the same."""
    last = folder.checkpoints / "last"
    if not folder.recipe.is_file() or not folder.has_begun:
        return False
    epochs = sum(stage.training.epochs for stage in load_recipe(folder.recipe, check_files=False).stages)
    return bool(read_description(last)["scores"].get("epoch") == epochs)


def _with_dev_folder(folder: RunFolder) -> RunFolder:
    place = folder.path if folder.path.name else folder.path.resolve()  # "." has no name
    return RunFolder(place.with_name(f"{place.name}-with-dev"))


def _train_with_dev(folder: RunFolder, target: RunFolder, checkpoint: str | None, *, force: bool) -> Path:
    """Train a run's recipe anew on train and dev, or go on with that.

    Nothing is left to stop by, so the best epoch's number is taken.
    """
    if _is_trained(target) and not force:
        raise RunFolderError(
            f"{target.path}: has been trained on train and dev already.",
            hint=f"Predict with it: palbert submit {target.path}; or train it anew with --force.",
        )
    chosen = folder.checkpoint(checkpoint)
    epoch = read_description(chosen).get("scores", {}).get("epoch")
    if not epoch or not folder.recipe.is_file():
        raise CheckpointError(
            f"{chosen}: says neither after how many epochs it was best, nor by which recipe.",
            hint="Give the folder of a run that has finished an epoch.",
        )
    recipe = load_recipe(folder.recipe)
    if has_dev(recipe):
        raise RecipeError(f"{folder.path}: has been trained on dev already.", hint="Leave --with-dev out.")
    resume = target.recipe.is_file() and not force
    log.info(
        "training %s on train and dev together, into %s: %s, as many as %s took; no dev rows are left "
        "to choose a checkpoint on, so the last one answers, and its scores on dev are of rows it has learnt",
        "goes on" if resume else "anew",
        target.path,
        plural(epoch, "epoch"),
        chosen.name,
    )
    try:
        return train(with_dev_rows(recipe, epochs=epoch), out=target.path, resume=resume, force=force)
    except StoppedError as stop:
        raise StoppedError(stop.folder, verb="submit") from None
