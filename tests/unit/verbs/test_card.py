"""palbert card: everything about a run that others should know, from its own files, in metadata that the Hub reads."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from huggingface_hub import ModelCard

import palbert
from palbert.errors import DataError, RunFolderError, TrustError

pytestmark = pytest.mark.usefixtures("on_cpu", "no_plots")


def metadata(card: str) -> Any:
    return ModelCard(card).data


def report(run: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((run / "report.json").read_text("utf-8"))
    return found


def change_report(run: Path, **others: Any) -> None:
    (run / "report.json").write_text(json.dumps({**report(run), **others}))


def test_the_model_index_has_every_score_of_the_report(trained: Path) -> None:
    data = metadata(palbert.card(trained, name="owner/tiny", licence="mit"))
    assert data.license == "mit" and data.library_name == "palbert" and data.pipeline_tag == "text-classification"
    assert data.model_name == "tiny"
    found = {(each.task_name, each.metric_type): each.metric_value for each in data.eval_results}
    expected = {
        (task, name): value for task, scores in report(trained)["tasks"].items() for name, value in scores.items()
    }
    assert found == expected
    assert {each.dataset_split for each in data.eval_results} == {"dev"}


def test_scores_baselines_and_hashes_are_those_of_the_run(trained: Path) -> None:
    text, found = palbert.card(trained), report(trained)
    low, high = found["intervals"]["sst"]["low"], found["intervals"]["sst"]["high"]
    baseline = found["baselines"]["majority / mean"]["sst"]
    row = f"| sst | accuracy | {found['tasks']['sst']['accuracy']:.3f} | {low:.3f} to {high:.3f} | {baseline:.3f} |"
    assert row in text.replace("−", "-")
    recipe = palbert.Run(trained).recipe
    assert recipe.provenance is not None
    assert len(recipe.provenance.data_sha256) == 6
    assert all(sha256 in text for sha256 in recipe.provenance.data_sha256.values())
    assert recipe.provenance.encoder_sha256 in text
    assert "one of: negative, somewhat negative, neutral, somewhat positive, positive" in text
    assert "a number from 0 to 5" in text and "a pair of texts" in text


def test_every_table_has_as_many_cells_in_each_row(trained: Path) -> None:
    text = palbert.card(trained, examples=3)
    tables = re.findall(r"(?:^\|.*\|\n)+", text, re.MULTILINE)
    assert len(tables) > 8
    for table in tables:
        lines = [re.sub(r"\\\|", "", line) for line in table.splitlines()]
        assert len({line.count("|") for line in lines}) == 1, table
        assert set(lines[1]) == {"|", "-"}, table


def test_rows_of_the_data_are_quoted_only_if_asked_for(trained: Path) -> None:
    predictions = (trained / "predictions" / "sst-dev.csv").read_text("utf-8").splitlines()
    texts = [line.rpartition(",")[2] for line in predictions[1:] if '"' not in line]
    plain, quoting = palbert.card(trained), palbert.card(trained, examples=20)
    assert not [text for text in texts if len(text) > 20 and text in plain]
    assert [text for text in texts if len(text) > 20 and text in quoting]


def test_nothing_names_folders_of_this_machine(trained: Path, tiny_encoder: Path) -> None:
    text = palbert.card(trained, examples=20)
    assert str(tiny_encoder) not in text and str(trained) not in text and "/samples/" not in text
    assert "base_model" not in text  # the encoder is a folder


def test_the_estimate_follows_from_measured_seconds_and_the_assumptions(run_copy: Path) -> None:
    change_report(run_copy, seconds=7200.0, device="cuda:0")
    assumed = palbert.card(run_copy)
    assert "0.8 kWh, estimated" in assumed and "384 g CO₂ equivalents, estimated" in assumed
    assert "estimates, not measurements" in assumed and "400 W for the machine (an assumption)" in assumed
    given = palbert.card(run_copy, watts=50, grid=100)
    assert "0.1 kWh, estimated" in given and "50 W for the machine (as given by its owner)" in given
    emissions = metadata(given).to_dict()["co2_eq_emissions"]
    assert emissions["emissions"] == 10.0
    assert emissions["source"] == "estimated by palbert from 7200 s measured, 50 W given, 100 g/kWh given"


def test_without_an_audit_and_a_licence_the_card_says_so(trained: Path) -> None:
    text = palbert.card(trained)
    assert "No audit for bias was made." in text
    assert "This model was not compared with one model per task." in text
    assert "Its owner has not chosen one." in text and "license:" not in text


def test_what_an_audit_found_is_in_the_card(run_copy: Path) -> None:
    group = {"axis": "gender", "group": "women | <b>", "pairs": 120, "flip_rate": 0.05, "mean_shift": -0.12,
             "interval": [-0.2, -0.04], "p_adjusted": 0.003, "significant": True}  # fmt: skip
    calm = {**group, "group": "men", "significant": False, "mean_shift": 0.01}
    folder = run_copy / "audits" / "bias"
    folder.mkdir(parents=True)
    (folder / "bias.json").write_text(
        json.dumps({"tasks": {"sst": {"groups": [calm, group]}}, "rows_from": "templates"})
    )
    text = palbert.card(run_copy)
    row = r"| gender | women \| &lt;b&gt; | 120 | 5.0" + "\u202f% | −0.120 | −0.200 to −0.040 | 0.003 | yes |"
    assert row in text
    assert text.index("women") < text.index("| men |")
    assert "1 of 2 groups differ significantly" in text and "Rows: templates." in text
    assert "No audit" not in text


@pytest.mark.parametrize(
    "found",
    [{}, {"tasks": {}}, {"tasks": []}, {"tasks": {"sst": {}}}, {"tasks": {"sst": {"groups": [{}, 3, {"group": "x"}]}}},
     {"tasks": {"sst": {"groups": [{"mean_shift": "much", "interval": [1], "pairs": None}]}}}],
)  # fmt: skip
def test_an_audit_with_missing_parts_is_no_error(found: dict[str, Any], run_copy: Path) -> None:
    folder = run_copy / "audits" / "bias"
    folder.mkdir(parents=True)
    (folder / "bias.json").write_text(json.dumps(found))
    text = palbert.card(run_copy)
    assert "## Bias" in text and "No audit for bias was made" not in text


def test_a_run_of_one_task_is_compared_in_the_card(run_copy: Path, tmp_path: Path) -> None:
    alone = run_copy
    for name in set(palbert.Run(run_copy).report["tasks"]) - {"sst"}:
        alone = palbert.remove_task(alone, name, out=tmp_path / f"without-{name}").path
    text = palbert.card(run_copy, alone=[alone])
    score = palbert.Run(run_copy).report["tasks"]["sst"]["accuracy"]
    assert f"| sst | accuracy | {score:.3f} | {score:.3f} | 0.000 to 0.000 |" in text
    assert "not compared" not in text and "not compared" in palbert.card(run_copy)
    with pytest.raises(palbert.PalbertError, match="expected a run of one task, found"):
        palbert.card(run_copy, alone=[run_copy])


def test_scores_on_test_rows_have_a_table_and_results_of_their_own(run_copy: Path) -> None:
    found = report(run_copy)
    test = {"tasks": {"sst": {"accuracy": 0.25, "macro_f1": 0.125}}, "metrics": {"sst": "accuracy"},
            "intervals": {"sst": {"low": 0.2, "high": 0.3}}, "rows": {"sst": 77}}  # fmt: skip
    change_report(run_copy, test={**found, **test})
    text = palbert.card(run_copy)
    assert "| sst | accuracy | 0.250 | 0.200 to 0.300 |" in text.partition("On test rows")[2]
    assert "train rows | dev rows | test rows |" in text and "| 77 |" in text
    results = [each for each in metadata(text).eval_results if each.dataset_split == "test"]
    assert [(each.metric_type, each.metric_value) for each in results] == [("accuracy", 0.25), ("macro_f1", 0.125)]


def test_tasks_with_any_number_of_classes_say_so(tiny_encoder: Path, tmp_path: Path) -> None:
    classes = ["delivery", "billing", "account", "quality", "praise"]
    task = {"kind": "single", "target": "multilabel", "classes": classes,
            "text": "message", "label": "topics", "train": "topics-train.tsv", "dev": "topics-dev.tsv"}  # fmt: skip
    values = {
        "data": "samples",
        "encoder": str(tiny_encoder),
        "tasks": {"topics": task},
        "training": {"epochs": 1, "steps_per_epoch": 2},
        "run": {"device": "cpu", "tensorboard": False},
    }
    text = palbert.card(palbert.train(values, out=tmp_path / "run"), examples=1)
    assert "| topics | one text | any of: delivery, billing, account, quality, praise |" in text
    assert "| billing |" in text and "The worst errors" in text
    assert "| up to" not in text  # 20 rows are too few for thirds


def test_known_failings_come_from_the_predictions(run_copy: Path) -> None:
    text = palbert.card(run_copy)
    assert "rows right" in text and "Its most common mistake" in text and "| up to" in text
    for note in report(run_copy)["notes"]:
        assert note.split(":")[0] in text
    (run_copy / "predictions" / "sst-dev.csv").unlink()
    assert "No predictions are left of the evaluation" in palbert.card(run_copy)


def test_a_checkpoint_without_its_own_report_has_no_card(run_copy: Path) -> None:
    with pytest.raises(RunFolderError, match=r"palbert evaluate .* --checkpoint last"):
        palbert.card(run_copy, checkpoint="last")
    change_report(run_copy, step=1)
    with pytest.raises(RunFolderError, match="is about step 1, and best is of step"):
        palbert.card(run_copy)
    (run_copy / "report.json").unlink()
    with pytest.raises(RunFolderError, match="nothing says how good the checkpoint is"):
        palbert.card(run_copy)
    with pytest.raises(RunFolderError, match="is a checkpoint"):
        palbert.card(run_copy / "checkpoints" / "best")


def test_wrong_arguments_are_refused_before_anything_is_written(trained: Path, tmp_path: Path) -> None:
    for wrong in ({"licence": "Mine!"}, {"examples": -1}, {"watts": float("nan")}, {"grid": -1.0}):
        with pytest.raises(DataError):
            palbert.card(trained, out=tmp_path / "card.md", **wrong)  # type: ignore[arg-type]
    assert not (tmp_path / "card.md").exists()


def test_code_from_outside_is_named(run_copy: Path) -> None:
    recipe = run_copy / "recipe.toml"
    text = recipe.read_text("utf-8")
    recipe.write_text(text.replace('name = "round-robin"', 'name = "my_module:Mine"'), "utf-8")
    with pytest.raises(TrustError):
        palbert.card(run_copy)


def test_a_run_made_from_another_says_so_and_claims_no_training_of_its_own(trained: Path, tmp_path: Path) -> None:
    made = palbert.remove_task(trained, "quora", out=tmp_path / "made").path
    text = palbert.card(made)
    assert f"| made by | remove-task (quora), from {trained.name}/checkpoints/best |" in text
    assert "training time" not in text and "kWh" not in text
    assert "The training behind it is not in this card: see the runs that it was made from." in text
    assert str(trained.parent) not in text and "made by" not in palbert.card(trained)


def test_numbers_of_an_audit_that_no_machine_holds_are_left_out(run_copy: Path) -> None:
    audit = run_copy / "audits" / "bias"
    audit.mkdir(parents=True)
    group = {"axis": "gender", "group": "women", "pairs": 10**400, "interval": [0, 10**400]}
    (audit / "bias.json").write_text(json.dumps({"tasks": {"sst": {"groups": [group]}}}))
    assert "| gender | women | – | – | – | – | – | no |" in palbert.card(run_copy)
