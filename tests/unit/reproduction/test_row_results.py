"""Row results: reading them by setting and row, and the scores in them."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from palbert.errors import DataError, RunFolderError
from palbert.reproduction.row_results import read_folders, read_row, read_row_result, score, score_names, scores

MakeResult = Callable[..., dict[str, Any]]


def write(folder: Path, result: dict[str, Any]) -> Path:
    path: Path = folder / result["table"] / result["row"] / f"seed-{result['seed']}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(result), "utf-8")
    return path


def test_results_are_grouped_by_setting_and_row_in_the_order_of_seeds(tmp_path: Path, make_result: MakeResult) -> None:
    other = {"name": "bge-large", "sha256": "1" * 64}
    for result in (make_result(seed=10), make_result(seed=9), make_result("frozen"), make_result(encoder=other)):
        write(tmp_path / result["encoder"]["name"], result)
    found = read_folders([tmp_path])
    seeds = {(setting, row): [each["seed"] for each in own] for setting in found for row, own in found[setting].items()}
    assert seeds == {
        ("tiny-bert, data samples", "mine/one:plain"): [9, 10],
        ("tiny-bert, data samples", "mine/one:frozen"): [0],
        ("bge-large, data samples", "mine/one:plain"): [0],
    }
    assert [each["seed"] for each in read_row(tmp_path / "tiny-bert" / "mine/one/plain")] == [9, 10]


def test_smoke_runs_are_skipped(tmp_path: Path, make_result: MakeResult) -> None:
    write(tmp_path, make_result(smoke=True))
    assert read_folders([tmp_path]) == {}


def test_a_result_that_occurs_twice_counts_once(tmp_path: Path, make_result: MakeResult) -> None:
    for folder in ("a", "b"):
        write(tmp_path / folder, make_result())
    assert read_folders([tmp_path / "a", tmp_path / "b"]) == read_folders([tmp_path / "a"])


def test_results_of_one_row_with_different_settings_are_refused(tmp_path: Path, make_result: MakeResult) -> None:
    write(tmp_path / "a", make_result())
    other = write(tmp_path / "b", make_result(seed=1, fingerprint="other"))
    with pytest.raises(DataError, match=r"other settings, data or weights than .* for the same row") as caught:
        read_folders([tmp_path])
    assert str(other) in str(caught.value)
    with pytest.raises(DataError, match="nowhere: no such folder"):
        read_folders([tmp_path / "nowhere"])


@pytest.mark.parametrize("content", ['{"table": ', "[]", '"text"', '{"table": "mine/one"}'])
def test_a_file_that_is_not_a_result_is_refused_with_its_name(tmp_path: Path, content: str) -> None:
    path = tmp_path / "seed-0.json"
    path.write_text(content, "utf-8")
    with pytest.raises(RunFolderError, match=r"seed-0\.json: not the result of a row"):
        read_row_result(path)


def test_scores_are_found_by_name(make_result: MakeResult) -> None:
    result = make_result(sst=0.5, sts=0.8)
    assert score(result, "overall") == result["overall"]
    assert (score(result, "sst"), score(result, "sst.macro_f1"), score(result, "sts.pearson")) == (0.5, 0.25, 0.8)
    assert score(result, "quora") is None and score(result, "sst.f1") is None
    assert set(score_names(result)) == {"overall", "sst", "sst.accuracy", "sst.macro_f1", "sts", "sts.pearson"}
    assert all(score(result, name) is not None for name in score_names(result))


def test_one_task_has_no_overall_score(make_result: MakeResult) -> None:
    alone = make_result(tasks={"sst": {"accuracy": 0.5}})
    assert score(alone, "overall") is None and "overall" not in score_names(alone)
    assert scores([alone, make_result(sst=0.7)], "overall") == [make_result(sst=0.7)["overall"]]
    assert scores([alone, make_result(sst=0.7)], "sst") == [0.5, 0.7]
