"""palbert submit: the files to hand in, as the course's own code writes them."""

from __future__ import annotations

import csv
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import tomli_w

import palbert
from palbert.errors import CheckpointError, DataError, PalbertError
from palbert.recipe.paths import SAMPLES_FOLDER
from palbert.runtime.run_folder import RunFolder
from palbert.tasks.catalog import COURSE_FILES

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

pytestmark = pytest.mark.usefixtures("on_cpu", "no_plots")

Cli = Callable[..., Any]

ROWS = 12
TEXTS = {"sst": ["sentence"], "quora": ["sentence1", "sentence2"], "sts": ["sentence1", "sentence2"]}
SampleRows = Callable[[str], list[dict[str, str]]]


def test_every_task_is_written_in_the_form_of_the_course(run_copy: Path, course: Path, sample_rows: SampleRows) -> None:
    done = palbert.submit(run_copy, test=course)
    folder = run_copy / "submission"
    assert done.run == run_copy and done.rows == {"sst": ROWS, "quora": ROWS, "sts": ROWS}
    assert sorted(path.name for path in folder.glob("*.csv")) == [
        "para-test-output.csv",
        "sst-test-output.csv",
        "sts-test-output.csv",
    ]
    predictor = palbert.load(run_copy)
    headers = {"sst": "Predicted_Sentiment", "para": "Predicted_Is_Paraphrase", "sts": "Predicted_Similiary"}
    for name, column in headers.items():
        task = "quora" if name == "para" else name
        header, *lines = (folder / f"{name}-test-output.csv").read_text("utf-8").splitlines()
        assert header == f"id \t {column} "
        texts: Any = [tuple(row[key].strip() for key in TEXTS[task]) for row in sample_rows(task)]
        answers = predictor.predict(task, [text[0] for text in texts] if task == "sst" else texts)
        classes = predictor.task(task).classes
        for number, (line, answer) in enumerate(zip(lines, answers, strict=True)):
            identity, value = line.split(" , ")
            assert identity == f"{task}{number:03}"
            wanted = classes.index(str(answer.answer)) if classes else float(answer.answer)
            assert float(value) == pytest.approx(wanted, abs=1e-4)
            assert (value == f"{wanted} ") if task == "sst" else ("." in value)


def test_the_plain_form_has_ids_and_answers_as_predict_gives_them(
    run_copy: Path, course: Path, tmp_path: Path, sample_rows: SampleRows
) -> None:
    done = palbert.submit(run_copy, test=course, tasks=["sst"], out=tmp_path / "out")
    assert done.files == {"sst": [tmp_path / "out/predictions/sst.csv", tmp_path / "out/sst-test-output.csv"]}
    with (tmp_path / "out/predictions/sst.csv").open(encoding="utf-8") as stream:
        header, *rows = list(csv.reader(stream))
    assert header == ["id", "prediction"]
    answers = palbert.load(run_copy).predict("sst", [row["sentence"] for row in sample_rows("sst")])
    assert rows == [[f"sst{number:03}", answer.answer] for number, answer in enumerate(answers)]


def test_the_command_takes_a_folder_and_files_of_single_tasks(run_copy: Path, course: Path, cli: Cli) -> None:
    (course / COURSE_FILES["quora"]["test"]).rename(course / "other.csv")
    result = cli("submit", run_copy, "--test", course, "--test", f"quora={course / 'other.csv'}")
    assert result.code == 0
    assert [line.split()[:2] for line in result.out.splitlines()[1:]] == [
        [task, str(ROWS)] for task in ("sst", "quora", "sts") for _ in range(2)
    ]
    again = cli("submit", run_copy, "--test", course, "--test", f"quora={course / 'other.csv'}")
    assert again.code == 2 and "already exists" in again.err and "--force" in again.err
    assert cli("submit", run_copy, "--test", course, "--task", "sst", "--force").code == 0
    assert "expected one folder, found 2" in cli("submit", run_copy, "--test", course, "--test", course.parent).err


def test_dev_files_have_their_own_names(run_copy: Path) -> None:
    done = palbert.submit(run_copy, split="dev", tasks=["sts"])  # those of the run's own recipe
    assert [path.name for path in done.files["sts"]] == ["sts-dev.csv", "sts-dev-output.csv"]
    assert done.rows["sts"] == (SAMPLES_FOLDER / "sts-dev.tsv").read_text("utf-8").count("\n") - 1


def test_a_checkpoint_folder_predicts_like_its_run(run_copy: Path, course: Path, tmp_path: Path) -> None:
    best = run_copy / "checkpoints" / "best"
    palbert.submit(best, test=course, out=tmp_path / "one")
    palbert.submit(run_copy, test=course, out=tmp_path / "two")
    for file in ("sst-test-output.csv", "predictions/sts.csv"):
        assert (tmp_path / "one" / file).read_bytes() == (tmp_path / "two" / file).read_bytes()
    with pytest.raises(CheckpointError, match="nor its recipe is known"):
        palbert.submit(best, test=course, with_dev=True)


def test_a_run_is_replaced_with_all_that_the_verbs_have_written_into_it(run_copy: Path, course: Path) -> None:
    run = RunFolder(run_copy)
    for each in (run_copy, run.checkpoints / "best"):
        palbert.submit(each, test=course)
    palbert.submit(run_copy, split="dev")
    for split in ("train", "dev"):
        palbert.evaluate(run_copy, split=split, checkpoint="last")  # type: ignore[arg-type]
    palbert.evaluate(run_copy, data={"sst": [{"sentence": "A film.", "sentiment": 4}]})
    assert (run.submission / "predictions" / "sst.csv").is_file() and (run.evaluations / "rows").is_dir()
    run.check_free(resume=False, force=True)
    run.clear()
    assert list(run_copy.iterdir()) == [run.marker]


def test_files_of_other_tasks_are_looked_for_by_their_own_names(run_copy: Path, tmp_path: Path) -> None:
    recipe = (run_copy / "recipe.toml").read_text("utf-8")
    values = tomllib.loads(recipe)
    values["tasks"]["sst"]["test"] = [{"path": "/elsewhere/mine.csv", "text": ["words"]}]
    (run_copy / "recipe.toml").write_text(tomli_w.dumps(values), "utf-8")
    (tmp_path / "mine.csv").write_text("id,words\n7,A film.\n", "utf-8")
    with pytest.MonkeyPatch.context() as patch:
        patch.delitem(COURSE_FILES, "sst")
        done = palbert.submit(run_copy, test=tmp_path, tasks=["sst"])
    assert done.rows == {"sst": 1} and "\n7," in (run_copy / "submission/predictions/sst.csv").read_text("utf-8")


def test_all_missing_files_are_reported_together(run_copy: Path, course: Path) -> None:
    for task in ("quora", "sts"):
        (course / COURSE_FILES[task]["test"]).unlink()
    with pytest.raises(DataError) as error:
        palbert.submit(run_copy, test=course)
    assert f"quora: no such file: {course / 'quora-test-student.csv'}" in error.value.message
    assert f"sts: no such file: {course / 'sts-test-student.csv'}" in error.value.message
    assert "--test task=FILE" in (error.value.hint or "")
    assert not (run_copy / "submission").exists()
    with pytest.raises(DataError, match="sst: no test file is known: the run's recipe names none"):
        palbert.submit(run_copy)
    with pytest.raises(DataError, match="no such folder"):
        palbert.submit(run_copy, test=course / "nowhere")
    with pytest.raises(PalbertError, match="Unknown task 'sst2'"):
        palbert.submit(run_copy, test=course, tasks=["sst2"])
