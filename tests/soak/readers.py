"""What is fuzzed: every kind of file that palbert reads, and how a right answer is known."""

from __future__ import annotations

import csv
import io
import json
import math
import re
from datetime import date, time, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any
from unittest.mock import patch

from tests.soak.fuzz import Fuzz
from tests.soak.jobs import build_cache, predict, write_for_prediction, write_run
from tests.soak.material import columns, files, recipe, write_encoder, write_inputs

from palbert.runtime.checksums import RECORD

KINDS = (str, int, float, bool, list, dict, bytes, date, time, timedelta, Decimal)
"""What a cell may be; the last five are those of Parquet, and become texts when they are used as such."""
ROWS = [
    {"text": "good one", "label": "yes", "score": "1.5"},
    {"text": 'a "quoted", text\nof two lines', "label": "no", "score": "2"},
    {"text": "äöü 漢字 😀", "label": "", "score": "-3e2"},
]


def write_csv(folder: Path) -> str:
    """Write the rows as separated text."""
    with (folder / "rows.csv").open("w", encoding="utf-8", newline="") as stream:
        writer = csv.DictWriter(stream, list(ROWS[0]))
        writer.writeheader()
        writer.writerows(ROWS)
    return "rows.csv"


def write_tsv(folder: Path) -> str:
    """Write rows without quotes."""
    lines = ["\t".join(ROWS[0])] + ["\t".join(row.values()).replace("\n", " ") for row in ROWS]
    (folder / "rows.tsv").write_text("\n".join(lines) + "\n", "utf-8")
    return "rows.tsv"


def write_json(folder: Path) -> str:
    """Write the rows as a list of objects."""
    (folder / "rows.json").write_text(json.dumps(ROWS, ensure_ascii=False), "utf-8")
    return "rows.json"


def write_jsonl(folder: Path) -> str:
    """Write the rows as an object per line."""
    (folder / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in ROWS), "utf-8")
    return "rows.jsonl"


def write_parquet(folder: Path) -> str:
    """Write the rows as Parquet."""
    import pyarrow
    import pyarrow.parquet

    pyarrow.parquet.write_table(pyarrow.Table.from_pylist(ROWS), folder / "rows.parquet")
    return "rows.parquet"


def write_excel(folder: Path) -> str:
    """Write the rows as a workbook."""
    import openpyxl

    book = openpyxl.Workbook()
    for row in [list(ROWS[0]), *(list(row.values()) for row in ROWS)]:
        book.active.append(row)
    book.save(folder / "rows.xlsx")
    return "rows.xlsx"


def read(folder: Path, known: Any) -> dict[str, list[Any]]:
    """Read the file; check that all columns have as many rows."""
    found = columns(folder / known)
    lengths = {len(column) for column in found.values()}
    assert len(lengths) <= 1, f"columns of different lengths: {lengths}"
    for column in found.values():
        for cell in column:
            assert cell is None or isinstance(cell, KINDS), f"a cell is {cell!r}"
    return found


def read_jsonl(folder: Path, known: Any) -> None:
    """Read JSON lines, and compare them with what the standard library reads."""
    found = read(folder, known)
    lines = (folder / "rows.jsonl").read_bytes().decode("utf-8-sig").split("\n")
    rows = [json.loads(line.strip()) for line in lines if line.strip()]  # what Unicode takes for spaces, too
    for name, column in found.items():
        for row, cell in zip(rows, column, strict=True):
            value = row.get(name)
            if isinstance(value, str):
                assert cell == value, f"{cell!r} was read for {value!r}"
            elif value is None:
                assert cell is None, f"{cell!r} was read for null"


def read_csv(folder: Path, known: Any) -> None:
    """Read commas, and compare the rows with what the standard library reads."""
    found = read(folder, known)
    content = (folder / "rows.csv").read_bytes()
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError:
        return  # other encodings are allowed, and are a guess
    header = re.split("[\r\n]", text)[0]  # a carriage return ends a line, too
    if "," not in header or "\t" in header:
        return  # another separator
    table = csv.DictReader(io.StringIO(text, newline=""), strict=False)
    rows, names = list(table), list(table.fieldnames or ())
    for name, column in found.items():
        if names.count(name) > 1:
            continue  # only columns without a name may be several, of which palbert keeps one that has values
        wanted = [row.get(name) for row in rows]
        assert len(column) == len(wanted), f"{len(column)} rows were read, and there are {len(wanted)}"
        for cell, value in zip(column, wanted, strict=True):
            assert (cell or "") == (value or ""), f"{cell!r} was read for {value!r}"


def read_parquet(folder: Path, known: Any) -> None:
    """Read Parquet, and compare the rows with what pyarrow reads."""
    import pyarrow.parquet

    found = read(folder, known)
    table = pyarrow.parquet.read_table(folder / "rows.parquet").to_pydict()
    for name, column in found.items():
        for cell, value in zip(column, table[name], strict=True):
            assert (cell or "") == (value or ""), f"{cell!r} was read for {value!r}"


def write_checkpoint(folder: Path) -> Any:
    """Write a run; return its answers, and the hashes of its best checkpoint's files."""
    write_run(folder)
    return [answers(folder / "run"), files(folder / "run" / "checkpoints" / "best")]


def answers(run: Path) -> list[Any]:
    """Return what a run predicts for two texts."""
    import palbert

    return [prediction.answer for prediction in palbert.load(run).predict("score", ["good one", "two three bad"])]


def load_run(folder: Path, known: Any) -> None:
    """Load the run; its answers must be the same, and a file that was changed must not have been read."""
    found, (expected, hashes) = answers(folder / "run"), known
    assert found == expected, f"the answers are {found}, and were {expected}"
    now = files(folder / "run" / "checkpoints" / "best")
    changed = [name for name, value in hashes.items() if name != RECORD and now.get(name) != value]
    assert not changed, f"{changed[0]} was changed, and the run answers"


def load_foreign(folder: Path, known: Any) -> None:
    """Load a run whose hashes fit its changed files, as a stranger's may; its answers must be numbers."""
    from palbert.runtime.checksums import record_folder

    record_folder(folder / "run" / "checkpoints" / "best")
    assert all(math.isfinite(float(answer)) for answer in answers(folder / "run")), "answers are not numbers"


def load_foreign_last(folder: Path, known: Any) -> None:
    """Read a trainer's state whose hashes fit."""
    from palbert.runtime.checksums import record_folder

    record_folder(folder / "run" / "checkpoints" / "last")
    load_last(folder, known)


def load_last(folder: Path, known: Any) -> None:
    """Read the trainer's state and load it."""
    from palbert.recipe.load import make_recipe
    from palbert.runtime.run_folder import RunFolder
    from palbert.verbs.train import TrainingJob

    job = TrainingJob(make_recipe(recipe(folder)), RunFolder(folder / "run"), resume=True).prepare()
    state = job.open_folder()
    assert state is not None
    job._restore(state)
    for number, group in enumerate(job.trainer.optimizer.state_dict()["state"].values()):
        assert all(math.isfinite(float(value.sum())) for value in group.values()), f"parameter {number}"


def load_encoder(folder: Path, known: Any) -> None:
    """Load an encoder of unknown origin, and embed texts."""
    import palbert

    vectors = palbert.load(folder / "encoder").embed(["good one", "bad", ""])
    assert vectors.shape[0] == 3
    assert bool((vectors == vectors).all()), "vectors are not numbers"


def write_vocabulary(folder: Path) -> None:
    """Write an encoder whose tokenizer is described by vocab.txt and the settings files of BERT's relatives."""
    encoder = write_encoder(folder / "encoder")
    found = json.loads((encoder / "tokenizer.json").read_text("utf-8"))["model"]["vocab"]
    tokens = sorted(found, key=found.__getitem__)
    (encoder / "tokenizer.json").unlink()
    (encoder / "vocab.txt").write_text("".join(f"{token}\n" for token in tokens), "utf-8")
    roles = {f"{name.lower()}_token": f"[{name}]" for name in ("UNK", "SEP", "PAD", "CLS", "MASK")}
    settings: dict[str, Any] = {"tokenizer_class": "BertTokenizer", "do_lower_case": True, "strip_accents": None}
    settings |= {"tokenize_chinese_chars": True, "model_max_length": 32, **roles}
    mask = {"content": "[MASK]", "lstrip": False, "normalized": False, "rstrip": False, "single_word": False}
    for name, values in {
        "tokenizer_config.json": settings,
        "special_tokens_map.json": {**roles, "mask_token": mask, "additional_special_tokens": ["five"]},
        "added_tokens.json": {"four": tokens.index("four")},
    }.items():
        (encoder / name).write_text(json.dumps(values), "utf-8")


def write_shards(folder: Path) -> None:
    """Write an encoder whose weights are in two files with an index."""
    from safetensors.torch import load_file, save_file

    encoder = write_encoder(folder / "encoder")
    weights = load_file(encoder / "model.safetensors")
    (encoder / "model.safetensors").unlink()
    names = sorted(weights)
    places: dict[str, str] = {}
    for number in (0, 1):
        file = f"model-{number + 1:05}-of-00002.safetensors"
        save_file({name: weights[name] for name in names[number::2]}, encoder / file)
        places |= dict.fromkeys(names[number::2], file)
    listing = {"metadata": {"total_size": 1}, "weight_map": places}
    (encoder / "model.safetensors.index.json").write_text(json.dumps(listing), "utf-8")


def write_pickled(folder: Path) -> None:
    """Write an encoder whose weights are pickled."""
    import torch
    from safetensors.torch import load_file

    encoder = write_encoder(folder / "encoder")
    torch.save(load_file(encoder / "model.safetensors"), encoder / "pytorch_model.bin")
    (encoder / "model.safetensors").unlink()


def write_cache(folder: Path) -> Any:
    """Build a token cache inside of the folder; return what it holds."""
    write_inputs(folder)
    return _cached(folder)


def _cached(folder: Path) -> Any:
    import os

    with patch.dict(os.environ, {"PALBERT_CACHE": str(folder / "cache")}):
        return build_cache(folder)


def load_cache(folder: Path, known: Any) -> None:
    """Load data whose cache was changed; they must be the same."""
    found = _cached(folder)
    assert found == known, "the rows are others"


def predict_all(folder: Path, known: Any) -> None:
    """Predict an input that was changed; the outputs have a row for each of its rows."""
    predict(folder)
    given = columns(folder / "in.csv")
    found = columns(folder / "answers.jsonl.gz")
    for name, column in given.items():
        answered = found.get(name, [])  # JSON lines without a line have no columns
        assert [cell or "" for cell in answered] == [cell or "" for cell in column], f"the column {name} differs"


def write_recipe(folder: Path) -> None:
    """Write a recipe file and its data."""
    import tomli_w

    write_inputs(folder)
    (folder / "mine.toml").write_text(tomli_w.dumps(recipe(folder)), "utf-8")


def load_recipe(folder: Path, known: Any) -> None:
    """Load a recipe; what it says again as a file must be the same recipe."""
    from palbert.recipe.load import dump_recipe, load_recipe

    loaded = load_recipe(folder / "mine.toml")
    (folder / "again.toml").write_text(dump_recipe(loaded), "utf-8")
    again = load_recipe(folder / "again.toml")
    assert again.model_dump() == loaded.model_dump(), "the recipe reads back as another one"


FUZZED: dict[str, Fuzz] = {
    "csv": Fuzz(write_csv, ["rows.csv"], read_csv),
    "tsv": Fuzz(write_tsv, ["rows.tsv"], read),
    "json": Fuzz(write_json, ["rows.json"], read),
    "jsonl": Fuzz(write_jsonl, ["rows.jsonl"], read_jsonl),
    "parquet": Fuzz(write_parquet, ["rows.parquet"], read_parquet),
    "xlsx": Fuzz(write_excel, ["rows.xlsx"], read),
    "recipe": Fuzz(write_recipe, ["mine.toml"], load_recipe, place=False),
    "training data": Fuzz(write_inputs, ["train.csv"], lambda folder, known: build_cache(folder)),
    "token cache": Fuzz(write_cache, ["cache/*/*"], load_cache),
    "encoder folder": Fuzz(lambda folder: write_encoder(folder / "encoder") and None, ["encoder/*"], load_encoder),
    "tokenizer folder": Fuzz(write_vocabulary, ["encoder/*.json", "encoder/vocab.txt"], load_encoder),
    "weights in shards": Fuzz(write_shards, ["encoder/model*"], load_encoder),
    "pickled weights": Fuzz(write_pickled, ["encoder/pytorch_model.bin"], load_encoder),
    "checkpoint": Fuzz(write_checkpoint, ["run/checkpoints/best/*"], load_run),
    "trainer state": Fuzz(write_run, ["run/checkpoints/last/*"], load_last),
    "foreign checkpoint": Fuzz(write_checkpoint, ["run/checkpoints/best/*"], load_foreign),
    "foreign trainer state": Fuzz(write_run, ["run/checkpoints/last/*"], load_foreign_last),
    "predict input": Fuzz(write_for_prediction, ["in.csv"], predict_all),
}
"""All that is fuzzed, by name."""
