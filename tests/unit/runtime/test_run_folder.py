"""RunFolder: nothing is overwritten, and checkpoints are found."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import pytest

from palbert.errors import CheckpointError, RunFolderError
from palbert.runtime.files import is_temporary
from palbert.runtime.ownership import mark
from palbert.runtime.run_folder import Resume, RunFolder


@pytest.fixture
def run(tmp_path: Path) -> RunFolder:
    """Make a folder that holds a run with its best and last checkpoints."""
    folder = RunFolder(tmp_path / "run")
    for name in ("best", "best-sst", "last"):
        (folder.checkpoints / name).mkdir(parents=True)
    folder.claim()
    for file in (folder.recipe, folder.metrics, folder.report("json"), folder.report("html", split="test")):
        file.touch()
    return folder


def test_all_files_of_lines_are_logs(run: RunFolder) -> None:
    named = [getattr(run, name) for name, value in vars(RunFolder).items() if isinstance(value, property)]
    lines = {path for path in named if isinstance(path, Path) and path.suffix == ".jsonl"}
    assert lines == set(run.logs)


def test_a_missing_or_empty_folder_is_free(tmp_path: Path) -> None:
    RunFolder(tmp_path / "absent").check_free(resume=False, force=False)
    RunFolder(tmp_path).check_free(resume=False, force=False)


RECIPE = '[encoder]\nname = "minilm"\n[provenance.versions]\npalbert = "0.9"\n'


@pytest.mark.parametrize(("left", "content"), [("recipe.toml", RECIPE), ("claimed", "")])
def test_a_run_is_overwritten_only_with_force(tmp_path: Path, left: str, content: str) -> None:
    (tmp_path / left).write_text(content)
    if left == "claimed":
        RunFolder(tmp_path).claim()
    with pytest.raises(RunFolderError, match=r"already holds a run.*--resume.*--force"):
        RunFolder(tmp_path).check_free(resume=False, force=False)
    RunFolder(tmp_path).check_free(resume=False, force=True)


@pytest.mark.parametrize("force", [False, True])
def test_other_files_are_never_mixed_with_a_run(tmp_path: Path, force: bool) -> None:
    (tmp_path / "thesis.tex").touch()
    with pytest.raises(RunFolderError, match="holds other files"):
        RunFolder(tmp_path).check_free(resume=False, force=force)


@pytest.mark.parametrize("resume", [False, True])
def test_a_file_is_not_accepted_as_a_folder(tmp_path: Path, resume: bool) -> None:
    (tmp_path / "run").touch()
    with pytest.raises(RunFolderError, match="expected a folder, found a file"):
        RunFolder(tmp_path / "run").check_free(resume=resume, force=True)


def test_auto_resumes_what_is_there_begins_in_an_empty_folder_and_refuses_other_files(
    run: RunFolder, tmp_path: Path
) -> None:
    run.check_free(resume="auto", force=False)
    RunFolder(tmp_path / "none").check_free(resume="auto", force=False)
    other = RunFolder(tmp_path / "other")
    other.path.mkdir()
    other.check_free(resume="auto", force=False)
    (other.path / "letter.txt").touch()
    with pytest.raises(RunFolderError, match="holds other files"):
        other.check_free(resume="auto", force=False)


def test_a_folder_without_a_run_cannot_be_resumed(tmp_path: Path) -> None:
    with pytest.raises(RunFolderError, match="nothing to resume"):
        RunFolder(tmp_path).check_free(resume=True, force=False)


def test_a_run_that_was_stopped_before_its_first_checkpoint_can_be_resumed(tmp_path: Path) -> None:
    (tmp_path / "recipe.toml").write_text(RECIPE)
    RunFolder(tmp_path).check_free(resume=True, force=False)


@pytest.mark.parametrize("name", ["recipe.toml", "pretrained/model.safetensors", "checkpoints/last/model.safetensors"])
@pytest.mark.parametrize("resume", [True, "auto"])
def test_resuming_does_not_take_a_folder_of_somebody_else_for_a_run(resume: Resume, name: str, tmp_path: Path) -> None:
    (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
    (tmp_path / name).write_text('description = "mine"\n')
    with pytest.raises(RunFolderError, match="nothing to resume" if resume is True else "holds other files"):
        RunFolder(tmp_path).check_free(resume=resume, force=False)


def test_looking_at_a_folder_changes_nothing_in_it(tmp_path: Path) -> None:
    (tmp_path / "checkpoints" / ".last.old").mkdir(parents=True)
    with pytest.raises(RunFolderError, match="holds other files"):
        RunFolder(tmp_path).check_free(resume=False, force=False)
    assert (tmp_path / "checkpoints" / ".last.old").is_dir()


@pytest.mark.skipif(sys.platform == "win32", reason="has no such locks")
def test_a_folder_is_locked_against_a_second_process(tmp_path: Path) -> None:
    with (
        RunFolder(tmp_path / "run").locked(),
        pytest.raises(RunFolderError, match=r"cannot start evaluating: another process is (training|working) here"),
        RunFolder(tmp_path / "run").locked("evaluating"),
    ):
        pass
    with RunFolder(tmp_path / "run").locked():
        assert not any((tmp_path / "run").iterdir())


def test_a_run_with_a_last_checkpoint_can_be_resumed(run: RunFolder) -> None:
    run.check_free(resume=True, force=False)


def test_a_run_killed_while_saving_can_be_resumed(run: RunFolder) -> None:
    (run.checkpoints / "last").rename(run.checkpoints / ".last.old")
    run.check_free(resume=True, force=False)
    assert run.checkpoint("last").is_dir()


def test_clearing_removes_a_run_and_nothing_else(run: RunFolder) -> None:
    (run.path / "notes.txt").write_text("mine")
    run.clear()
    assert sorted(path.name for path in run.path.iterdir()) == [".palbert-run.json", "notes.txt"]


def test_clearing_creates_a_missing_folder(tmp_path: Path) -> None:
    RunFolder(tmp_path / "a" / "b").clear()
    assert (tmp_path / "a" / "b").is_dir()


def test_clearing_a_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a").touch()
    with pytest.raises(RunFolderError, match="cannot be written"):
        RunFolder(tmp_path / "a" / "b").clear()


@pytest.mark.parametrize(("name", "expected"), [(None, "best"), ("last", "last"), ("best-sst", "best-sst")])
def test_a_checkpoint_is_found_by_name_or_the_best(run: RunFolder, name: str | None, expected: str) -> None:
    assert run.checkpoint(name) == run.checkpoints / expected


def test_before_the_first_evaluation_the_last_checkpoint_is_taken(run: RunFolder) -> None:
    (run.checkpoints / "best").rmdir()
    assert run.checkpoint() == run.checkpoints / "last"


def test_a_checkpoint_folder_may_be_given_directly(run: RunFolder) -> None:
    (run.checkpoints / "best" / "palbert.json").touch()
    assert RunFolder(run.checkpoints / "best").checkpoint() == run.checkpoints / "best"


def test_an_unknown_checkpoint_is_refused_with_the_existing_ones(run: RunFolder) -> None:
    (run.checkpoints / ".last.tmp").mkdir()
    with pytest.raises(CheckpointError, match=r"no checkpoint 'worst'\. There are: best, best-sst, last\."):
        run.checkpoint("worst")


def test_a_folder_without_checkpoints_is_refused(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match="holds no checkpoint"):
        RunFolder(tmp_path).checkpoint()
    with pytest.raises(CheckpointError, match="no such folder"):
        RunFolder(tmp_path / "absent").checkpoint()


def test_reports_of_other_splits_have_their_own_names(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path)
    assert folder.report("json").name == "report.json"
    assert folder.report("html", split="test").name == "report-test.html"


def test_clearing_removes_the_pretrained_encoder_unless_it_is_kept(run: RunFolder) -> None:
    run.pretrained.mkdir()
    run.clear(keep_pretrained=True)
    assert run.pretrained.is_dir() and not run.checkpoints.exists()
    run.clear()
    assert not run.pretrained.exists()


def test_a_run_that_has_only_pretrained_so_far_can_be_resumed(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path)
    with pytest.raises(RunFolderError, match="nothing to resume"):
        folder.check_free(resume=True, force=False)
    folder.claim()
    folder.pretrained.mkdir()
    folder.check_free(resume=True, force=False)
    assert not folder.has_begun


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("metrics.jsonl", '{"loss": 0.5}\n'),
        ("recipe.toml", 'flour = "500 g"\n'),
        ("recipe.toml", '[encoder]\nname = "a"\n'),
    ],
)
def test_force_refuses_a_folder_with_files_of_somebody_else(tmp_path: Path, name: str, content: str) -> None:
    (tmp_path / name).write_text(content)
    (tmp_path / "predictions").mkdir()
    (tmp_path / "predictions" / "mine.csv").write_text("precious")
    with pytest.raises(RunFolderError, match="holds other files"):
        RunFolder(tmp_path).check_free(resume=False, force=True)


@pytest.mark.parametrize("left", [".palbert-run.json", ".recipe.toml.0123456789ab.part"])
@pytest.mark.parametrize(("resume", "force"), [(False, False), (False, True), (True, False)])
def test_a_run_killed_at_its_first_write_can_be_started_again_in_every_way(
    tmp_path: Path, left: str, resume: bool, force: bool
) -> None:
    (tmp_path / left).touch()
    RunFolder(tmp_path).check_free(resume=resume, force=force)


MARKED, HALF = ".palbert-run.json", ".recipe.toml.0123456789ab.part"
KILLED = {
    "nothing": (),
    "half a marker": (".palbert-run.json.0123456789ab.part",),
    "marker": (MARKED,),
    "half a recipe": (MARKED, HALF),
    "recipe": (MARKED, "recipe.toml"),
}


@pytest.mark.parametrize("left", KILLED.values(), ids=KILLED)
@pytest.mark.parametrize("options", [{}, {"force": True}, {"resume": True}], ids=["plain", "force", "resume"])
def test_a_folder_whose_run_was_killed_at_its_very_start_can_be_trained_into(
    tmp_path: Path, left: tuple[str, ...], options: dict[str, bool]
) -> None:
    run = RunFolder(tmp_path)
    for name in left:
        (tmp_path / name).write_text(mark() if name == MARKED else RECIPE)
    if options.get("resume") and not left:
        pytest.skip("nothing has been there")
    run.check_free(**{"resume": False, "force": False, **options})
    run.clear()
    assert [path.name for path in tmp_path.iterdir() if not is_temporary(path.name)] == [MARKED]


@pytest.mark.parametrize(
    "name",
    ["checkpoints/notes.txt", "checkpoints/best/notes.txt", "checkpoints/mine/model.safetensors",
     "predictions/own.ipynb", "submission/plan.md", "tensorboard/notes.txt", "evaluations/other/table.tex",
     "pretrained/thesis.tex", "pretrained/checkpoints/last/notes.txt"],
)  # fmt: skip
def test_force_removes_no_file_that_palbert_did_not_write(run: RunFolder, name: str) -> None:
    foreign = run.path / name
    foreign.parent.mkdir(parents=True, exist_ok=True)
    foreign.write_text("mine")
    before = sorted(run.path.rglob("*"))
    for remove in (lambda: run.check_free(resume=False, force=True), run.clear):
        with pytest.raises(RunFolderError, match=rf"{foreign}: was not written by palbert.*Move it out.*--out"):
            remove()
    assert sorted(run.path.rglob("*")) == before and foreign.read_text() == "mine"


@pytest.mark.parametrize("name", ["checkpoints", "predictions", "checkpoints/best", "evaluations/x", "pretrained"])
def test_force_follows_no_link(run: RunFolder, tmp_path: Path, name: str) -> None:
    outside, link = tmp_path / "outside", run.path / name
    outside.mkdir()
    (outside / "model.safetensors").write_text("precious")
    if link.is_dir():
        shutil.rmtree(link)
    link.parent.mkdir(parents=True, exist_ok=True)
    link.symlink_to(outside)
    for remove in (lambda: run.check_free(resume=False, force=True), run.clear):
        with pytest.raises(RunFolderError, match=rf"{link}: was not written by palbert"):
            remove()
    assert link.is_symlink() and (outside / "model.safetensors").read_text() == "precious"


@pytest.mark.parametrize("linked", [False, True])
def test_force_removes_only_rows_that_the_recipe_names(run: RunFolder, tmp_path: Path, linked: bool) -> None:
    rows = tmp_path / "outside" if linked else run.path / "data"
    rows.mkdir()
    if linked:
        (run.path / "data").symlink_to(rows)
    (rows / "sst-train.jsonl").write_text("{}")
    (rows / "mine.jsonl").write_text("{}")
    run.recipe.write_text(RECIPE + '[[tasks.sst.train]]\npath = "data/sst-train.jsonl"\n')
    run.clear()
    left = ["mine.jsonl", "sst-train.jsonl"] if linked else ["mine.jsonl"]
    assert sorted(file.name for file in rows.iterdir()) == left


def test_sweeping_leaves_hidden_files_of_others(run: RunFolder) -> None:
    for name in (".git", ".best.k7x2", ".last.0123456789ab.part"):
        (run.checkpoints / name).mkdir()
    run.sweep()
    assert sorted(path.name for path in run.checkpoints.glob(".*")) == [".git"]


def test_removing_a_run_leaves_other_files(run: RunFolder) -> None:
    (run.path / "notes.txt").write_text("mine")
    run.remove()
    assert [path.name for path in run.path.iterdir()] == ["notes.txt"]
    (run.path / "notes.txt").unlink()
    run.claim()
    run.remove()
    assert not run.path.exists()


@pytest.mark.parametrize("name", ["last", "previous"])
def test_a_crash_between_the_renames_of_a_checkpoint_leaves_last_and_previous(tmp_path: Path, name: str) -> None:
    run = RunFolder(tmp_path)
    for each in ("last", "previous"):
        (run.checkpoints / each).mkdir(parents=True)
        (run.checkpoints / each / "palbert.json").write_text(each)
    run.previous.rename(run.checkpoints / ".previous.0123456789ab.old")
    if name == "last":  # the crash came one rename later
        run.last.rename(run.previous)
    assert run.has_begun and run.checkpoint("last") == run.last
    run.sweep()
    assert [(each / "palbert.json").read_text() for each in (run.last, run.previous)] == ["last", "previous"]
    assert len(list(run.checkpoints.iterdir())) == 2
