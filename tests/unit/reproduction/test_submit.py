"""palbert submit: files to hand in, the course's form to the letter, and a last run on train and dev."""

from __future__ import annotations

import csv
import json
import logging
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import tomli_w

import palbert
from palbert.errors import CheckpointError, DataError, PalbertError, RecipeError, RunFolderError
from palbert.recipe.load import SAMPLES_FOLDER, load_recipe, make_recipe
from palbert.reproduction.with_dev import has_dev, with_dev
from palbert.tasks.catalog import COURSE_FILES
from palbert.training.trainer import Trainer

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

pytestmark = pytest.mark.usefixtures("on_cpu", "no_plots")

Cli = Callable[..., Any]

ROWS = 12
TEXTS = {"sst": ["sentence"], "quora": ["sentence1", "sentence2"], "sts": ["sentence1", "sentence2"]}


def sample_rows(task: str) -> list[dict[str, str]]:
    with (SAMPLES_FOLDER / f"{task}-dev.tsv").open(encoding="utf-8") as stream:
        return list(csv.DictReader(stream, delimiter="\t", quoting=csv.QUOTE_NONE))[:ROWS]


@pytest.fixture
def course(tmp_path: Path) -> Path:
    """Write test files as the course has them: an index without a name, tabs, quotes, no labels."""
    folder = tmp_path / "course"
    folder.mkdir()
    for task, names in TEXTS.items():
        with (folder / COURSE_FILES[task]["test"]).open("w", encoding="utf-8", newline="") as stream:
            writer = csv.writer(stream, delimiter="\t")
            writer.writerow(["", "id", *names])
            for number, row in enumerate(sample_rows(task)):
                writer.writerow([7 * number, f"{task}{number:03}", *(row[name] for name in names)])
    return folder


def test_every_task_is_written_in_the_form_of_the_course(run_copy: Path, course: Path) -> None:
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


def test_the_plain_form_has_ids_and_answers_as_predict_gives_them(run_copy: Path, course: Path, tmp_path: Path) -> None:
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
    assert again.code == 2 and "exists already" in again.err and "--force" in again.err
    assert cli("submit", run_copy, "--test", course, "--task", "sst", "--force").code == 0
    assert "expected one folder, found 2" in cli("submit", run_copy, "--test", course, "--test", course.parent).err


def test_dev_files_have_names_of_their_own(run_copy: Path) -> None:
    done = palbert.submit(run_copy, split="dev", tasks=["sts"])  # those of the run's own recipe
    assert [path.name for path in done.files["sts"]] == ["sts-dev.csv", "sts-dev-output.csv"]
    assert done.rows["sts"] == (SAMPLES_FOLDER / "sts-dev.tsv").read_text("utf-8").count("\n") - 1


def test_a_checkpoint_alone_answers_too(run_copy: Path, course: Path, tmp_path: Path) -> None:
    best = run_copy / "checkpoints" / "best"
    palbert.submit(best, test=course, out=tmp_path / "one")
    palbert.submit(run_copy, test=course, out=tmp_path / "two")
    for file in ("sst-test-output.csv", "predictions/sts.csv"):
        assert (tmp_path / "one" / file).read_bytes() == (tmp_path / "two" / file).read_bytes()
    with pytest.raises(CheckpointError, match="nor by which recipe"):
        palbert.submit(best, test=course, with_dev=True)


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


# What is refused


def test_all_missing_files_are_named_at_once(run_copy: Path, course: Path) -> None:
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


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("sentence\nA film.\n", "no column 'id', and a submission needs an id for every row"),
        ("id,text\n1,A film.\n", "no column 'sentence'"),
        ("id,sentence\n1,A film.\n,Another.\n", "line 3: the id is empty"),
        ("id,sentence\n1,A film.\n2,Another.\n1,A third.\n", r"line 4: the id 1 came before, in .*, line 2"),
        ("id,sentence\n", "no rows for sst"),
    ],
)
def test_a_test_file_that_cannot_be_answered_row_by_row_is_refused(
    run_copy: Path, tmp_path: Path, text: str, message: str
) -> None:
    (tmp_path / "t.csv").write_text(text, "utf-8")
    with pytest.raises(DataError, match=message):
        palbert.submit(run_copy, files={"sst": tmp_path / "t.csv"}, tasks=["sst"])


def test_an_empty_text_is_answered_all_the_same(
    run_copy: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "t.csv").write_text('id,sentence\n1,A film.\n2,""\n', "utf-8")
    assert palbert.submit(run_copy, files={"sst": tmp_path / "t.csv"}, tasks=["sst"]).rows == {"sst": 2}
    assert "sst: 1 of 2 rows have an empty text" in caplog.text


# Trained on dev too


def test_a_recipe_with_dev_has_the_rows_and_the_epochs() -> None:
    phases = [{"training": {"epochs": 2}}, {"training": {"epochs": 3}}, {"training": {"epochs": 1}}]
    tasks = {"sst": {"drop_overlap": ["dev"]}, "sts": {}}
    recipe = make_recipe({"data": "samples", "tasks": tasks, "training": {"epochs": 9}})
    changed = with_dev(recipe, epochs=4)
    assert changed.training.epochs == 4 and changed.tasks["sst"].drop_overlap == ()
    assert changed.tasks["sst"].train == recipe.tasks["sst"].train + recipe.tasks["sst"].dev
    assert has_dev(changed) and not has_dev(recipe)
    staged = make_recipe({"data": "samples", "tasks": tasks, "phases": phases})
    for epochs, kept in ((1, [1]), (2, [2]), (4, [2, 2]), (6, [2, 3, 1])):
        assert [phase.training.epochs for phase in with_dev(staged, epochs=epochs).phases] == kept


def test_the_last_run_learns_dev_too_and_its_last_checkpoint_answers(
    run_copy: Path, course: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "palbert")
    description = run_copy / "checkpoints" / "best" / "palbert.json"
    described = json.loads(description.read_text("utf-8"))
    described["scores"]["epoch"] = 2
    description.unlink()  # a link to that of `last`
    description.write_text(json.dumps(described), "utf-8")
    done = palbert.submit(run_copy, test=course, with_dev=True)
    trained = run_copy.with_name("copied-run-with-dev")
    assert done.run == trained and (trained / "submission" / "sst-test-output.csv").is_file()
    assert "2 epochs, as many as best took" in caplog.text
    assert "in dev too" not in caplog.text  # that is what was asked for
    before, after = load_recipe(run_copy / "recipe.toml"), load_recipe(trained / "recipe.toml")
    assert (before.training.epochs, after.training.epochs) == (3, 2)
    assert "Trained on train and dev together for 2 epochs" in after.description
    report = json.loads((trained / "report.json").read_text("utf-8"))
    rows = json.loads((run_copy / "report.json").read_text("utf-8"))["rows"]
    assert {task: each["train"] for task, each in report["rows"].items()} == {
        task: each["train"] + each["dev"] for task, each in rows.items()
    }
    assert "sst: its dev rows are among its training rows; their score says nothing of others." in report["notes"]
    shutil.rmtree(trained / "checkpoints" / "best")
    palbert.submit(trained, test=course, force=True)  # of such a run, the last one answers unasked
    with pytest.raises(RecipeError, match="has been trained on dev already"):
        palbert.submit(trained, test=course, with_dev=True, force=True)
    with pytest.raises(RunFolderError, match="exists already"):
        palbert.submit(run_copy, test=course, with_dev=True)
    with pytest.raises(RunFolderError, match="trained on train and dev already") as refused:
        palbert.submit(run_copy, test=course, with_dev=True, out=run_copy.with_name("elsewhere"))
    assert f"palbert submit {trained}" in (refused.value.hint or "")


def test_a_last_run_that_was_stopped_is_not_handed_in_and_goes_on(
    run_copy: Path, course: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "palbert")
    step_of = Trainer.step

    def stop(self: Trainer, *arguments: Any) -> Any:
        self.stopping = True
        return step_of(self, *arguments)

    trained = run_copy.with_name("copied-run-with-dev")
    with monkeypatch.context() as patch, pytest.raises(palbert.StoppedError) as caught:
        patch.setattr(Trainer, "step", stop)
        palbert.submit(run_copy, test=course, with_dev=True)
    assert (caught.value.folder, caught.value.verb) == (trained, "submit")
    palbert.evaluate(trained)  # a report does not make it finished
    with pytest.raises(RunFolderError, match="is not finished"):
        palbert.submit(trained, test=course)
    assert not (trained / "submission").exists()
    done = palbert.submit(run_copy, test=course, with_dev=True)
    assert done.run == trained and "resuming at step 1 of" in caplog.text
