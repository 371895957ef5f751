"""Jobs: small commands of palbert with everything they need in one folder, and what has to hold for their files."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest.mock import patch

from tests.soak.material import Results, columns, digest, files, of_run, recipe, without_times, write_inputs, write_rows


@dataclass(frozen=True)
class Job:
    """A command that can be disturbed.

    Args:
        prepare: Makes what the command finds in its folder.
        command: The command.
        again: The command that continues what was begun.
        results: What the command leaves, without times.
        readable: Raises AssertionError unless what is there after a disturbance can be read; it is given the step of
            the last checkpoint that was complete, if there was one.
    """

    prepare: Callable[[Path], object]
    command: Callable[[Path], object]
    again: Callable[[Path], object]
    results: Callable[[Path], Results]
    readable: Callable[[Path, int | None], object] = lambda root, step: None


def train(root: Path, **settings: Any) -> None:
    """Train the recipe."""
    import palbert

    palbert.train(recipe(root), out=root / "run", progress=False, **settings)


def resume(root: Path) -> None:
    """Continue the run, or start it where nothing was begun."""
    from palbert.errors import RunFolderError

    try:
        train(root, resume=True)
    except RunFolderError as error:
        if "nothing to resume" not in str(error):
            raise
        train(root)


def last_is_readable(root: Path, step: int | None) -> None:
    """Check that the last checkpoint answers, and that it is the one that was complete, or a later one."""
    import palbert
    from palbert.runtime.run_folder import RunFolder

    if step is None:
        return
    last = RunFolder(root / "run").checkpoint("last")
    found = json.loads((last / "trainer.json").read_text("utf-8"))["position"]["step"]
    assert found >= step, f"the checkpoint of step {step} was complete, and the last one is of step {found}"
    assert palbert.load(root / "run", checkpoint="last").predict("score", ["good one"])


def write_run(root: Path) -> None:
    """Write encoder, data and a trained run."""
    write_inputs(root)
    train(root)


def run_is_readable(root: Path, step: int | None) -> None:
    """Check that a run that was complete answers, and that its report is a whole one."""
    import palbert

    assert palbert.load(root / "run").predict("score", ["good one"])
    json.loads((root / "run" / "report.json").read_text("utf-8"))


def evaluate(root: Path) -> None:
    """Score the run's best and its last checkpoint."""
    import palbert

    palbert.evaluate(root / "run")
    palbert.evaluate(root / "run", checkpoint="last")


def of_evaluation(root: Path) -> Results:
    """Hash scores and predictions of both checkpoints."""
    other = root / "run" / "evaluations" / "last"
    report = without_times(json.loads((other / "report.json").read_text("utf-8")))
    return {**of_run(root / "run"), **files(other, ["predictions/*"]), "other report.json": digest(report)}


OUTPUTS = ("answers.csv", "answers.jsonl.gz", "answers.parquet", "answers.xlsx")


def write_for_prediction(root: Path) -> None:
    """Write a run, an input of several chunks, and outputs of an earlier prediction."""
    write_run(root)
    write_rows(root / "in.csv", 10, seed=3)
    for name in OUTPUTS:
        (root / name).write_bytes(b"earlier")


def predict(root: Path) -> None:
    """Predict a file into outputs of several kinds, which are replaced, and embed it into a new one."""
    import palbert
    from palbert.verbs import predict_file
    from palbert.verbs.embed_file import embed_file

    predictor = palbert.load(root / "run")
    with patch.object(predict_file, "CHUNK", 4):
        for name in OUTPUTS:
            predict_file.predict_file(predictor, "score", root / "in.csv", root / name, force=True)
    vectors = root / "vectors.npy"  # there when this is continued
    embed_file(predictor, root / "in.csv", vectors, column="text", force=vectors.exists())


def of_prediction(root: Path) -> Results:
    """Hash the rows of all outputs; files of Excel hold the time."""
    found = {name: digest(columns(root / name)) for name in OUTPUTS}
    return {**found, "vectors.npy": digest(root / "vectors.npy")}


def outputs_are_whole(root: Path, step: int | None) -> None:
    """Check that each output is the earlier one or a complete new one."""
    for name in OUTPUTS:
        if (root / name).read_bytes() != b"earlier":
            assert len(columns(root / name)["text"]) == 10, f"{name} is not whole"


def build_cache(root: Path) -> Results:
    """Build the token cache of the data in several chunks; return hashes of its arrays."""
    from palbert.data import rows, token_cache
    from palbert.data.dataset import load_dataset
    from palbert.data.tokenizer import TextTokenizer
    from palbert.recipe.load import make_recipe
    from palbert.tasks.sets import files_of

    task = make_recipe(recipe(root)).tasks["score"]
    with patch.object(rows, "CHUNK", 6), patch.object(token_cache, "CHUNK", 6):
        found = load_dataset(files_of(task, "train"), TextTokenizer.from_folder(root / "encoder"))
    tokens = [row.tolist() for column in found.tokens for row in (column[index] for index in range(len(found)))]
    labels = [] if found.labels is None else found.labels.tolist()
    return {"rows": digest([list(found.ids), [list(texts) for texts in found.texts], tokens, labels])}


def export(root: Path) -> None:
    """Export the encoder in both forms."""
    import palbert

    for form in ("sentence-transformers", "transformers"):
        force = (root / form).exists()  # when this is continued
        palbert.export(root / "run", out=root / form, to=form, pooling="mean", check=False, force=force)  # type: ignore[arg-type]


def of_export(root: Path) -> Results:
    """Hash the exported folders."""
    return {**files(root, ["sentence-transformers/**/*", "transformers/**/*"])}


def export_is_whole(root: Path, step: int | None) -> None:
    """Check that an exported folder is there completely or not at all."""
    import palbert

    for form in ("sentence-transformers", "transformers"):
        if (root / form).exists():
            assert palbert.load(root / form).embed(["good one"]).shape == (1, 8)


def write_table(root: Path) -> None:
    """Write a table of two rows, which train the recipe with and without an average."""
    import tomli_w

    write_inputs(root)
    base = {"description": "Base.", **recipe(root)}
    rows = {"one": {"label": "one"}, "two": {"label": "two", "settings": {"training": {"average": "none"}}}}
    (root / "base.toml").write_text(tomli_w.dumps(base), "utf-8")
    (root / "table.toml").write_text(tomli_w.dumps({"title": "Table", "rows": rows}), "utf-8")


def reproduce(root: Path) -> None:
    """Train the rows of the table."""
    import palbert

    done = palbert.reproduce([root / "table.toml"], out=root / "out")
    if done.failures:
        from palbert.errors import TrainingError

        raise TrainingError("; ".join(done.failures.values()))


def of_reproduction(root: Path) -> Results:
    """Hash the results of the rows and the table."""
    found = {
        str(path.relative_to(root)): digest(without_times(json.loads(path.read_text("utf-8"))))
        for path in root.glob("out/**/seed-*.json")
    }
    table = next(root.glob("out/**/table.md")).read_text("utf-8")
    assert "| one" in table and "| two" in table, "the table lacks rows"  # it also has times
    return found


def cross_validate(root: Path, **settings: Any) -> None:
    """Train two folds."""
    import palbert

    values = recipe(root)
    values["tasks"]["score"]["dev"] = "auto"
    palbert.cross_validate(values, folds=2, out=root / "run", **settings)


def resume_folds(root: Path) -> None:
    """Continue the folds, or start them where nothing was begun."""
    from palbert.errors import RunFolderError

    try:
        cross_validate(root, resume=True)
    except RunFolderError as error:
        if "no folds to continue" not in str(error) and "nothing to resume" not in str(error):
            raise
        cross_validate(root)


def of_folds(root: Path) -> Results:
    """Hash the scores of all folds, and each fold's run."""
    runs = {f"{fold}/{name}": value for fold in (1, 2) for name, value in of_run(root / "run" / f"fold-{fold}").items()}
    return {**runs, "folds.json": digest(without_times(json.loads((root / "run" / "folds.json").read_text("utf-8"))))}


def with_pretraining(root: Path) -> dict[str, Any]:
    """Return the recipe with pretraining before it."""
    return {**recipe(root), "pretraining": {"steps_per_epoch": 2, "batch_size": 4, "epochs": 1, "max_length": 16}}


def pretrain(root: Path, **settings: Any) -> None:
    """Train with pretraining before it."""
    import palbert

    palbert.train(with_pretraining(root), out=root / "run", progress=False, **settings)


def resume_pretraining(root: Path) -> None:
    """Continue the run, or start it where nothing was begun."""
    from palbert.errors import RunFolderError

    try:
        pretrain(root, resume=True)
    except RunFolderError as error:
        if "nothing to resume" not in str(error):
            raise
        pretrain(root)


def of_pretraining(root: Path) -> Results:
    """Hash the run and its pretrained encoder, which keeps no checkpoints."""
    return {**of_run(root / "run"), **files(root / "run", ["pretrained/**/*.safetensors"])}


JOBS = {
    "train": Job(write_inputs, train, resume, lambda root: of_run(root / "run"), last_is_readable),
    "pretrain": Job(write_inputs, pretrain, resume_pretraining, of_pretraining),
    "folds": Job(write_inputs, cross_validate, resume_folds, of_folds),
    "evaluate": Job(write_run, evaluate, evaluate, of_evaluation, run_is_readable),
    "predict": Job(write_for_prediction, predict, predict, of_prediction, outputs_are_whole),
    "cache": Job(write_inputs, build_cache, build_cache, build_cache),
    "export": Job(write_run, export, export, of_export, export_is_whole),
    "reproduce": Job(write_table, reproduce, reproduce, of_reproduction),
}
"""All jobs, by name."""
