"""Bad input to training: exit code 2, one message with the place and the remedy, and no file changed."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

import palbert
from palbert.registry import SAMPLERS
from palbert.runtime.run_folder import RunFolder

pytestmark = pytest.mark.usefixtures("on_cpu", "no_plots")

Cli = Callable[..., Any]
Snapshot = Callable[[Path], dict[str, bytes]]
Values = dict[str, Any]

ROWS = (
    "id,text,label\n1,a quiet little triumph,good\n2,dull and loud,bad\n3,the soup was cold,bad\n4,great guitar,good\n"
)
PAIRS = "left,right,label\na man plays,someone plays,1\nrain,sun,0\na b,c d,1\n"


def mood(**changes: Any) -> Values:
    return {
        "kind": "single",
        "target": "binary",
        "classes": ["bad", "good"],
        "text": "text",
        "train": "train.csv",
        "dev": "dev.csv",
        **changes,
    }


def same(**changes: Any) -> Values:
    return {"kind": "pair", "target": "binary", "text": ["left", "right"],
            "train": "pairs.csv", "dev": "pairs.csv", **changes}  # fmt: skip


@dataclass
class Case:
    """A mistake: changed files, recipe or arguments, and what the message must say."""

    says: list[str]
    """Parts of the message; {here} is the folder of the recipe."""
    files: dict[str, bytes | str] = field(default_factory=dict)
    tasks: Values | list[str] = field(default_factory=lambda: {"mood": mood()})
    settings: Values = field(default_factory=dict)
    arguments: list[str] = field(default_factory=list)


CASES = {
    "an unknown key": Case(
        ["{here}/mine.toml: training.epoch: unknown key.", "Did you mean training.epochs?"],
        settings={"training": {"epoch": 3}},
    ),
    "an unknown key of a task": Case(
        ["{here}/mine.toml: tasks.mood.colums: unknown key.", "Known: bad_rows"],
        tasks={"mood": mood(colums="x")},
    ),
    "an unknown section": Case(
        ["{here}/mine.toml: optimiser: unknown key.", "Did you mean optimizer?"],
        settings={"optimiser": {"learning_rate": 1e-3}},
    ),
    "a value of the wrong type": Case(
        ["{here}/mine.toml: training.epochs:", "integer", "found 'many'"],
        settings={"training": {"epochs": "many"}},
    ),
    "a value out of bounds": Case(
        ["{here}/mine.toml: training.batch_size:", "greater than or equal to 1", "found 0"],
        settings={"training": {"batch_size": 0}},
    ),
    "several mistakes at once": Case(
        ["training.epochs:", "optimizer.lr: unknown key", "tasks.mood.kind:"],
        tasks={"mood": mood(kind="triple")},
        settings={"training": {"epochs": 0}, "optimizer": {"lr": 1}},
    ),
    "an unknown name of a method": Case(
        ["{here}/mine.toml: training.sampler:", "unknown name 'aneal'", f"Known: {', '.join(sorted(SAMPLERS))}."],
        settings={"training": {"sampler": "aneal"}},
    ),
    "a missing data file": Case(
        ["{here}/mine.toml: tasks.mood.dev: no such file: {here}/nowhere.csv"], tasks={"mood": mood(dev="nowhere.csv")}
    ),
    "no data file": Case(
        ["{here}/mine.toml: tasks.mood.train: no file given.", 'Set tasks.mood.train = "file.csv"'],
        tasks={"mood": mood(train=[])},
    ),
    "a missing text column": Case(
        ["{here}/train.csv: no column 'txt'.", "Known: id, label, text. Did you mean 'text'?"],
        tasks={"mood": mood(text="txt")},
    ),
    "a missing label column": Case(
        ["{here}/train.csv: no column 'lable'.", "Did you mean 'label'?"], tasks={"mood": mood(label="lable")}
    ),
    "a label outside the classes": Case(
        ['{here}/dev.csv, line 6: expected a label from 0 to 1 or one of bad, good, found "ugly".', "labels = {"],
        files={"dev.csv": ROWS + "5,new,ugly\n"},
    ),
    "a label outside the map": Case(
        ['{here}/train.csv, line 3: expected one of good, found "bad".', 'the value "drop"'],
        tasks={"mood": mood(labels={"good": 1})},
    ),
    "a number outside the range": Case(
        ['{here}/train.csv, line 3: expected a number from 0 to 5, found "7".'],
        files={"train.csv": "text,label\na,1\nb,7\n"},
        tasks={"mood": mood(target="number", classes=[], range=[0, 5])},
    ),
    "an empty text": Case(
        ["{here}/train.csv, line 6: the column 'text' is empty.", 'bad_rows = "drop"'],
        files={"train.csv": ROWS + "5,  ,good\n"},
    ),
    "an empty label": Case(
        ["{here}/train.csv, line 6: the column 'label' is empty.", 'bad_rows = "drop"'],
        files={"train.csv": ROWS + "5,fine,\n"},
    ),
    "bytes that are not UTF-8": Case(
        ["{here}/train.csv, line 6: expected UTF-8, found byte 0xe9.", 'encoding = "windows-1252"', "café"],
        files={"train.csv": ROWS.encode() + "5,café,good\n".encode("latin1")},
    ),
    "a file without rows": Case(
        ["{here}/dev.csv: no rows for mood dev."], files={"dev.csv": "id,text,label\n"}
    ),
    "a file whose rows are all dropped": Case(
        ["{here}/dev.csv: no rows for mood dev (2 were dropped)."],
        files={"dev.csv": "id,text,label\n1,,good\n2,,bad\n"},
        tasks={"mood": mood(bad_rows="drop")},
    ),
    "an empty file": Case(
        ["{here}/dev.csv, line 1: expected a header with column names, found none."], files={"dev.csv": ""}
    ),
    "a file of unknown kind": Case(
        ["{here}/dev.docx: unknown kind of file.", ".parquet"],
        files={"dev.docx": "?"},
        tasks={"mood": mood(dev="dev.docx")},
    ),
    "rows without a header": Case(
        ["{here}/train.csv: no column 'text'.", "The first line looks like data", "header = false"],
        files={"train.csv": ROWS.partition("\n")[2]},
    ),
    "a workbook that is none": Case(
        ["{here}/dev.xlsx: not an Excel workbook", "save it as .xlsx"],
        files={"dev.xlsx": "?"},
        tasks={"mood": mood(dev="dev.xlsx")},
    ),
    "an unknown encoding": Case(
        ["{here}/mine.toml: tasks.mood.encoding: expected an encoding such as", "found 'utf-9'"],
        tasks={"mood": mood(encoding="utf-9")},
    ),
    "a pair task with one column": Case(
        ["{here}/mine.toml: tasks.same: a pair task needs 2 text columns, found 1: left.", '["first", "second"]'],
        tasks={"same": same(text="left")},
    ),
    "a single task with two columns": Case(
        ["tasks.mood: a single task needs 1 text column, found 2: text, id."], tasks={"mood": mood(text=["text", "id"])}
    ),
    "two tasks of one name": Case(["tasks: named twice: sst."], tasks=["sst", "sts", "sst"]),
    "no tasks": Case(["{here}/mine.toml: tasks:", "expected at least one task"], tasks={}),
    "a head that does not fit": Case(
        ["tasks.mood.head: 'cosine' takes two vectors, and this task gives one vector.", 'pair_input = "siamese"'],
        tasks={"mood": mood(head="cosine")},
    ),
    "an unknown option of a head": Case(
        ["tasks.mood.head:", "'widht'", "Known: dropout."],
        tasks={"mood": mood(head={"name": "mlp", "widht": 3})},
    ),
    "an unknown option of a sampler": Case(
        ["training.sampler:", "'dekay'", "Did you mean 'decay'?"],
        settings={"training": {"sampler": {"name": "annealed", "dekay": 0.1}}},
    ),
    "an option of an adapter without a meaning": Case(
        ["adapters: heads: expected a whole number from 1, found 0."],
        settings={"adapters": {"name": "pal", "heads": 0}},
    ),
    "an option of a head without a meaning": Case(
        ["tasks.mood.head: dropout: expected a number from 0 and below 1, found 2."],
        tasks={"mood": mood(head={"name": "mlp", "dropout": 2})},
    ),
    "betas that AdamW does not take": Case(
        ["{here}/mine.toml: optimizer.betas.0:", "less than 1", "found 1.5"],
        settings={"optimizer": {"betas": [1.5, 0.9]}},
    ),
    "an unknown metric": Case(
        ["tasks.mood.metrics: Unknown metric 'acuracy'.", "Did you mean 'accuracy'?"],
        tasks={"mood": mood(metrics=["acuracy"])},
    ),
    "a metric that does not fit": Case(
        ["tasks.mood.metrics: The metric 'pearson' does not fit a binary task.", "Use one of: accuracy"],
        tasks={"mood": mood(metrics=["pearson"])},
    ),
    "an encoder that is nowhere": Case(["Encoder './nowhere': no such folder.", "a Hub id"],
                                       settings={"encoder": {"name": "./nowhere"}}),
    "a folder without weights": Case(
        ["{here}/bare: no weights.", "Looked for model.safetensors"], settings={"encoder": {"name": "{here}/bare"}}
    ),
    "a folder without a tokenizer": Case(
        ["{here}/mute: no tokenizer.json and no vocab.txt."], settings={"encoder": {"name": "{here}/mute"}}
    ),
    "texts longer than the encoder can read": Case(
        ["tasks.mood.max_length: 512 is more than the encoder's 128."], tasks={"mood": mood(max_length=512)}
    ),
    "a CUDA device that is not there": Case(
        ["The device is set to 'cuda'", 'Set run.device = "cpu"'], settings={"run": {"device": "cuda"}}
    ),
    "an unknown device": Case(["{here}/mine.toml: run.device:", "found 'gpu'"], settings={"run": {"device": "gpu"}}),
    "fp16 on a CPU": Case(["run.precision is 'fp16'", 'Set run.precision = "fp32"'],
                          settings={"run": {"device": "cpu", "precision": "fp16"}}),
    "--set without =": Case(
        ["override training.epochs: expected key=value, such as training.epochs=5."],
        arguments=["--set", "training.epochs"],
    ),
    "--set of an unknown key": Case(
        ["{here}/mine.toml: training.epcohs: unknown key.", "Did you mean training.epochs?"],
        arguments=["--set", "training.epcohs=3"],
    ),
    "--set below a value": Case(
        ["override training.epochs.x=1: 'epochs' is not a table."], arguments=["--set", "training.epochs.x=1"]
    ),
}  # fmt: skip


@pytest.fixture
def here(tmp_path: Path, tiny_encoder: Path) -> Iterator[Path]:
    """Make a folder with good data, incomplete encoders, and a run that must not change."""
    for name, text in {"train.csv": ROWS, "dev.csv": ROWS, "pairs.csv": PAIRS}.items():
        (tmp_path / name).write_text(text, "utf-8")
    for folder, lacks in (("bare", "model.safetensors"), ("mute", "tokenizer.json")):
        shutil.copytree(tiny_encoder, tmp_path / folder, ignore=shutil.ignore_patterns(lacks))
    run = tmp_path / "run"
    (run / "checkpoints" / "best").mkdir(parents=True)
    (run / "checkpoints" / "best" / "model.safetensors").write_bytes(b"weights of last week")
    RunFolder(run).claim()
    (run / "recipe.toml").write_text("seed = 1\n")
    (run / "report.html").write_text("<h1>precious</h1>")
    yield tmp_path


def recipe_of(case: Case, here: Path, encoder: Path) -> Values:
    settings = json.loads(json.dumps(case.settings).replace("{here}", str(here)))
    training = {"epochs": 1, "steps_per_epoch": 1, "batch_size": 2}
    values = {"encoder": {"name": str(encoder)}, "run": {"device": "cpu", "tensorboard": False}, **settings}
    values["training"] = {**training, **settings.get("training", {})}
    if isinstance(case.tasks, list):
        values["data"] = "samples"
    return {**values, "tasks": case.tasks}


def assert_refused_with(result: Any, says: list[str]) -> None:
    """Check that a command refused its input with this message."""
    assert (result.code, result.out) == (2, "")
    assert "Traceback" not in result.err
    messages = [line for line in result.err.splitlines() if line.startswith("error: ")]
    assert len(messages) == 1
    for part in says:
        assert part in result.err


@pytest.mark.parametrize("case", [pytest.param(case, id=name) for name, case in CASES.items()])
def test_bad_input_is_reported_and_changes_no_file(
    case: Case,
    here: Path,
    tiny_encoder: Path,
    cli: Cli,
    snapshot: Snapshot,
    write_recipe: Callable[..., Path],
) -> None:
    for name, content in case.files.items():
        (here / name).write_bytes(content.encode() if isinstance(content, str) else content)
    recipe = write_recipe(recipe_of(case, here, tiny_encoder))
    before = snapshot(here)
    says = [part.replace("{here}", str(here)) for part in case.says]
    # The old run is kept even with --force: everything is checked before anything is removed.
    assert_refused_with(cli("train", recipe, "--out", here / "run", "--force", *case.arguments), says)
    assert_refused_with(cli("train", recipe, "--out", here / "new", *case.arguments), says)
    assert snapshot(here) == before
    assert not (here / "new").exists()


def test_the_recipe_of_the_bad_cases_trains_when_unchanged(
    here: Path, tiny_encoder: Path, cli: Cli, write_recipe: Callable[..., Path]
) -> None:
    case = Case([], tasks={"mood": mood(), "same": same()})
    assert cli("train", write_recipe(recipe_of(case, here, tiny_encoder)), "--out", here / "new").code == 0


# Recipes that cannot be read


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"[training\nepochs = 3\n", ["mine.toml: not valid TOML:", "line 1"]),
        (b"epochs = \n", ["mine.toml: not valid TOML:", "line 1"]),
        (b"seed = 1\nseed = 2\n", ["mine.toml: not valid TOML:", "line 2"]),
        (b"[tasks.sst]\n[tasks.sts]\n[tasks.sst]\n", ["mine.toml: not valid TOML:", "line 3"]),
        (b"description = 'caf\xe9'\n", ["mine.toml: not valid TOML:", "0xe9"]),
        (b"\x89PNG\r\n\x1a\n\x00\x00", ["mine.toml: not valid TOML:"]),
    ],
)
def test_invalid_toml_is_refused_with_its_position(content: bytes, says: list[str], tmp_path: Path, cli: Cli) -> None:
    (tmp_path / "mine.toml").write_bytes(content)
    assert_refused_with(cli("train", tmp_path / "mine.toml", "--out", tmp_path / "run"), says)
    assert not (tmp_path / "run").exists()


def test_a_missing_recipe_error_suggests_the_nearest_builtin(cli: Cli, tmp_path: Path) -> None:
    result = cli("train", "dmeo", "--out", tmp_path / "run")
    assert_refused_with(result, ["No recipe file 'dmeo', and no built-in recipe of that name.", "Did you mean 'demo'?"])
    assert not (tmp_path / "run").exists()


def test_an_encoder_that_is_not_cached_is_refused_offline(
    here: Path, tiny_encoder: Path, cli: Cli, write_recipe: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(here / "empty-cache"))
    values = {**recipe_of(Case([]), here, tiny_encoder), "encoder": {"name": "nobody/no-such-encoder"}}
    result = cli("train", write_recipe(values), "--out", here / "new")
    assert_refused_with(result, ["Encoder 'nobody/no-such-encoder' cannot be fetched: ", "not in the cache"])
    assert not (here / "new").exists()


# Where to write


def test_an_existing_run_folder_is_refused_with_the_options_to_proceed(
    here: Path, tiny_encoder: Path, cli: Cli, snapshot: Snapshot, write_recipe: Callable[..., Path]
) -> None:
    recipe = write_recipe(recipe_of(Case([]), here, tiny_encoder))
    before = snapshot(here)
    result = cli("train", recipe, "--out", here / "run")
    assert_refused_with(result, [f"{here / 'run'}: already holds a run.", "--force", "--out"])
    assert snapshot(here) == before


@pytest.mark.parametrize("force", [[], ["--force"]])
def test_a_folder_with_foreign_files_is_refused_even_with_force(
    force: list[str],
    here: Path,
    tiny_encoder: Path,
    cli: Cli,
    snapshot: Snapshot,
    write_recipe: Callable[..., Path],
) -> None:
    recipe = write_recipe(recipe_of(Case([]), here, tiny_encoder))
    (here / "thesis").mkdir()
    (here / "thesis" / "chapter1.tex").write_text("precious")
    before = snapshot(here)
    result = cli("train", recipe, "--out", here / "thesis", *force)
    assert_refused_with(result, [f"{here / 'thesis'}: holds other files", "--out"])
    result = cli("train", recipe, "--out", here / "train.csv", *force)
    assert_refused_with(result, [f"{here / 'train.csv'}: expected a folder, found a file."])
    assert snapshot(here) == before


def test_force_replaces_only_the_files_of_a_run(
    here: Path, tiny_encoder: Path, cli: Cli, snapshot: Snapshot, write_recipe: Callable[..., Path]
) -> None:
    recipe = write_recipe(recipe_of(Case([]), here, tiny_encoder))
    (here / "run" / "notes.txt").write_text("precious")
    (here / "run" / "checkpoints" / "best-other").mkdir()
    assert cli("train", recipe, "--out", here / "run", "--force").code == 0
    after = snapshot(here / "run")
    assert after["notes.txt"] == b"precious"
    assert after["checkpoints/best/model.safetensors"] != b"weights of last week"
    assert not (here / "run" / "checkpoints" / "best-other").exists()


# Resuming


def test_resuming_without_a_run_is_refused(
    here: Path, tiny_encoder: Path, cli: Cli, snapshot: Snapshot, write_recipe: Callable[..., Path]
) -> None:
    recipe = write_recipe(recipe_of(Case([]), here, tiny_encoder))
    before = snapshot(here)
    result = cli("train", recipe, "--out", here / "new", "--resume")
    assert_refused_with(result, [f"{here / 'new'}: nothing to resume", "Train without --resume."])
    assert snapshot(here) == before
    assert not (here / "new").exists()


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ("seed=7", "seed"),
        ("optimizer.learning_rate=0.5", "optimizer.learning_rate"),
        ("training.sampler=annealed", "training.sampler.name"),
        ('tasks.extra={kind="single",target="number",text="sentence",label="sentiment",'
         'train="sst-train.tsv",dev="sst-dev.tsv"}', "tasks.extra.kind"),
        ("tasks.sst.dev=sst-train.tsv", "tasks.sst.dev"),
    ],
)  # fmt: skip
def test_resuming_with_changed_settings_is_refused_and_names_them(
    change: str, named: str, run_copy: Path, trained: Path, cli: Cli, snapshot: Snapshot
) -> None:
    before = snapshot(run_copy)
    result = cli("train", trained.parent / "given.toml", "--out", run_copy, "--resume", "--set", change)
    assert_refused_with(result, [f"{run_copy}: cannot resume with other settings than the run began with:", named,
                         "recipe.toml"])  # fmt: skip
    assert snapshot(run_copy) == before


def test_resuming_without_one_of_the_tasks_is_refused_and_names_it(
    run_copy: Path, trained: Path, cli: Cli, snapshot: Snapshot
) -> None:
    before = snapshot(run_copy)
    fewer = 'tasks={sst={pooling="mean",head="mlp"},quora={pooling="mean"}}'
    result = cli("train", trained.parent / "given.toml", "--out", run_copy, "--resume", "--set", fewer)
    assert_refused_with(result, ["cannot resume with other settings", "tasks.sts.kind"])
    assert snapshot(run_copy) == before


def test_resuming_a_finished_run_changes_neither_weights_nor_scores(run_copy: Path, trained: Path, cli: Cli) -> None:
    assert cli("train", trained.parent / "given.toml", "--out", run_copy, "--resume").code == 0
    for name in ("checkpoints/last/model.safetensors", "checkpoints/best/model.safetensors", "metrics.jsonl"):
        assert (run_copy / name).read_bytes() == (trained / name).read_bytes()
    first, second = (json.loads((run / "report.json").read_text("utf-8")) for run in (trained, run_copy))
    assert first["tasks"] == second["tasks"]


# Checkpoints


@pytest.mark.parametrize(
    ("name", "content", "says"),
    [
        ("palbert.json", b'{"format": 99, "palbert": "9.9"}',
         ["written in checkpoint format 99 by palbert 9.9; this palbert reads format 1.", "train again"]),
        ("palbert.json", b'{"format": 1', ["palbert.json: not valid JSON"]),
        ("palbert.json", b'{"format": 1}', ["palbert.json: damaged"]),
        ("palbert.json", b'{"format": 1, "tasks": ' + b"[" * 990 + b"]" * 990 + b"}", ["nested too deeply"]),
        ("decisions.json", b"[" * 9999, ["decisions.json: ", "nested too deeply", "Remove it"]),
        ("model.safetensors", b"x" * 100, ["model.safetensors: cannot be read"]),
        ("tokenizer.json", None, ["no tokenizer.json"]),
        ("model.safetensors", None, ["model.safetensors: cannot be read"]),
        ("palbert.json", None, ["no checkpoint here (palbert.json is missing)"]),
    ],
)  # fmt: skip
def test_a_damaged_checkpoint_or_one_of_another_version_is_refused(
    name: str, content: bytes | None, says: list[str], run_copy: Path, cli: Cli, snapshot: Snapshot
) -> None:
    file = run_copy / "checkpoints" / "best" / name
    (file.parent / "palbert.sha256").unlink()  # as in earlier versions
    file.unlink(missing_ok=True)
    if content is not None:
        file.write_bytes(content)
    before = snapshot(run_copy)
    assert_refused_with(
        cli("predict", run_copy, "--task", "sst", "--text", "a"), [f"{run_copy}/checkpoints/best", *says]
    )
    assert_refused_with(cli("evaluate", run_copy), [f"{run_copy}/checkpoints/best", *says])
    assert snapshot(run_copy) == before


def test_damaged_baselines_and_reports_are_refused_with_their_file(run_copy: Path, cli: Cli) -> None:
    for name in ("baselines.json", "report.json"):
        (run_copy / name).write_text('{"sst": ')
    assert_refused_with(cli("evaluate", run_copy), ["baselines.json: not valid JSON", "Remove it"])
    with pytest.raises(palbert.PalbertError, match=r"report\.json: not valid JSON .*Make it with: palbert.evaluate"):
        _ = palbert.Run(run_copy).report


def test_a_last_checkpoint_of_another_version_is_not_resumed(
    run_copy: Path, trained: Path, cli: Cli, snapshot: Snapshot
) -> None:
    path = run_copy / "checkpoints" / "last" / "palbert.json"
    described = json.loads(path.read_text("utf-8"))
    path.write_text(json.dumps({**described, "format": 2}), "utf-8")
    (path.parent / "palbert.sha256").unlink()
    shutil.rmtree(run_copy / "checkpoints" / "previous")
    before = snapshot(run_copy)
    result = cli("train", trained.parent / "given.toml", "--out", run_copy, "--resume")
    assert_refused_with(result, ["written in checkpoint format 2", "this palbert reads format 1"])
    assert snapshot(run_copy) == before
