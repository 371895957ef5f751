"""The registry: every entry loads, derives from its base class, and packages can add entries."""

from __future__ import annotations

import json
import subprocess
import sys
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any

import pytest
from torch import nn

from palbert import registry
from palbert.errors import RecipeError
from palbert.gradients import GradientMethod
from palbert.registry import GRADIENTS, HEADS, LOSSES, METRICS, REQUIRED, SAMPLERS, Description, Registry
from palbert.training.samplers import Plan, Sampler, Settings

pytestmark = pytest.mark.usefixtures("trusted")

REGISTRIES = {name: value for name, value in vars(registry).items() if isinstance(value, Registry)}


class Stranger:
    """A class that derives from nothing."""


@pytest.mark.parametrize(
    ("table", "name"), [(table, name) for table, parts in REGISTRIES.items() for name in parts.paths]
)
def test_every_entry_loads_and_derives_from_its_base(table: str, name: str) -> None:
    found = REGISTRIES[table].find(name)
    assert callable(found) is (table != "FAMILIES")


def test_each_kind_of_part_has_its_own_entry_point_group() -> None:
    groups = [table.group for table in REGISTRIES.values()]
    assert len(set(groups)) == len(groups) and all(group.startswith("palbert.") for group in groups)


def test_names_are_known_without_torch() -> None:
    code = "import sys; from palbert.registry import SAMPLERS; sys.exit('torch' in sys.modules or len(SAMPLERS) < 8)"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_a_package_adds_a_part_by_an_entry_point(monkeypatch: pytest.MonkeyPatch) -> None:
    point = EntryPoint("identity", "torch.nn:Identity", "palbert.heads")
    monkeypatch.setattr(
        "palbert.registry.registry.entry_points", lambda group: [point] if group == "palbert.heads" else []
    )
    heads = Registry("head", group="heads", base="torch.nn:Module", paths={"linear": HEADS.paths["linear"]})
    assert list(heads) == ["linear", "identity"] and len(heads) == 2 and "identity" in heads
    assert heads.find("identity") is nn.Identity


def test_a_package_cannot_replace_a_part_of_palbert(monkeypatch: pytest.MonkeyPatch) -> None:
    point = EntryPoint("linear", "torch.nn:Identity", "palbert.heads")
    monkeypatch.setattr("palbert.registry.registry.entry_points", lambda group: [point])
    heads = Registry("head", group="heads", base="torch.nn:Module", paths={"linear": HEADS.paths["linear"]})
    assert heads.find("linear").__module__ == "palbert.model.heads" and list(heads) == ["linear"]


def test_a_class_of_another_kind_is_refused_before_it_is_called() -> None:
    with pytest.raises(RecipeError, match=r"training\.sampler: '.*:Stranger' is not a sampler\. Derive its class from"):
        SAMPLERS.find(f"{__name__}:Stranger", "training.sampler")
    with pytest.raises(RecipeError, match="is not a sampler"):
        SAMPLERS.find("os:system")


class Partial(Sampler):
    """A sampler that lacks a method."""

    def planned(self, epoch: int) -> dict[str, float]:
        return {}


def test_a_class_that_lacks_a_method_is_refused_with_its_name() -> None:
    with pytest.raises(RecipeError, match=r"training\.sampler: '.*:Partial' does not implement epoch\."):
        SAMPLERS.find(f"{__name__}:Partial", "training.sampler")


class Every(Sampler):
    """Take every set in turn.

    Not the first line.
    """

    def __init__(self, run: Settings, start: int, *, step: int = 2, **more: int) -> None:
        super().__init__(run)

    def planned(self, epoch: int) -> dict[str, float]:
        return {}

    def epoch(self, epoch: int) -> Plan:
        return []


def test_a_part_is_described_by_its_options_its_extra_and_the_first_line_of_its_docstring() -> None:
    found = SAMPLERS.describe(f"{__name__}:Every")
    assert (found.options, found.extra) == ({"start": REQUIRED, "step": 2}, "")
    assert found.summary == "Take every set in turn."
    assert GRADIENTS.describe("cagrad").extra == "gradients"


@pytest.mark.parametrize(
    ("table", "name", "options"),
    [
        (HEADS, "linear", {"dropout": REQUIRED}),
        (HEADS, "cosine", {"dropout": REQUIRED, "scale": None}),
        (registry.POOLINGS, "mean", {}),
        (registry.POOLINGS, "attention", {"dropout": 0.0}),
        (registry.SCHEDULES, "stlr", {"warmup": 0.1}),
        (registry.LOSSES, "mse", {}),
        (GRADIENTS, "sum", {}),
        (GRADIENTS, "pcgrad", {"memory": "keep"}),
    ],
)
def test_the_options_of_a_part_are_the_arguments_that_palbert_does_not_set(
    table: Registry, name: str, options: dict[str, Any]
) -> None:
    assert table.describe(name).options == options


@pytest.mark.parametrize(
    ("table", "name"), [(table, name) for table, parts in REGISTRIES.items() for name in parts.paths]
)
def test_every_part_of_palbert_has_a_summary_and_no_option_that_palbert_sets(table: str, name: str) -> None:
    found = REGISTRIES[table].describe(name)
    assert found.summary and not REGISTRIES[table].given & set(found.options)


def test_a_part_inside_a_class_is_found_and_the_extras_of_its_package_are_ignored(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    points = [EntryPoint("inner", "torch:nn.Identity [more]", "palbert.heads")]
    monkeypatch.setattr("palbert.registry.registry.entry_points", lambda group: points)
    heads = Registry("head", group="heads", base="torch.nn:Module", paths={})
    assert heads.find("inner") is nn.Identity and heads.describe("inner").name == "inner"


def test_only_functions_are_accepted_as_metrics() -> None:
    with pytest.raises(RecipeError, match="'numpy:pi' is not a metric: it cannot be called"):
        METRICS.find("numpy:pi")


def test_a_function_without_a_signature_has_no_options() -> None:
    assert METRICS.describe("torch:dot").options == {}


def test_a_module_that_exits_or_prints_when_imported_does_no_harm(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "exiting_parts.py").write_text("print('loud')\nraise SystemExit(3)")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(RecipeError, match="'exiting_parts:Head' cannot be imported: SystemExit: 3"):
        HEADS.find("exiting_parts:Head")
    assert capsys.readouterr() == ("", "loud\n")


def test_a_default_that_json_cannot_hold_is_written_as_text() -> None:
    described = Description("mine", {"folder": Path("here"), "end": "\n"}, "", "")
    assert json.loads(json.dumps(described.as_json()))["options"]["folder"] == {"default": "here"}
    assert described.written_options == 'folder = here, end = "\\n"'


def test_a_part_that_cannot_be_imported_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "unfinished_parts.py").write_text("class Head(:")
    monkeypatch.syspath_prepend(tmp_path)
    for name, kind in {"unfinished_parts:Head": "SyntaxError", "no_such_parts:Head": "ModuleNotFoundError"}.items():
        with pytest.raises(RecipeError, match=f"tasks.a.head: '{name}' cannot be imported: {kind}.*PYTHONPATH"):
            HEADS.find(name, "tasks.a.head")


def test_a_method_under_its_former_name_is_refused_and_not_ignored() -> None:
    class Former(GradientMethod):
        def backward(self, losses: object) -> None: ...

        def watch(self) -> None: ...

    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(globals(), "Former", Former)
        with pytest.raises(RecipeError, match=r"has a method 'watch'\. Rename it to 'forward_context'"):
            GRADIENTS.find(f"{__name__}:Former", "training.gradients")


@pytest.mark.parametrize("kind", REGISTRIES)
@pytest.mark.parametrize("name", ["os:system", "subprocess:run", "builtins:eval", "antigravity:geohash"])
def test_nothing_of_python_itself_is_a_part_and_its_module_is_not_imported(kind: str, name: str) -> None:
    table = REGISTRIES[kind]
    with pytest.raises(RecipeError, match=r"belongs to Python itself|unknown encoder family"):
        table.find(name)
    assert "antigravity" not in sys.modules


@pytest.mark.parametrize("table", [METRICS, LOSSES])
def test_a_function_of_python_is_refused_under_another_module_name(
    table: Registry, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "borrowed_functions.py").write_text(
        "import functools\nfrom os import system\nlater = functools.partial(system, 'true')\n", encoding="utf-8"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    for name in ("system", "later"):
        with pytest.raises(RecipeError, match="belongs to Python itself"):
            table.find(f"borrowed_functions:{name}")


def test_a_line_break_behind_a_class_does_not_make_it_another_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.import_module", lambda name: pytest.fail(f"{name} was imported"))
    with pytest.raises(RecipeError, match=r"unknown metric 'numpy:mean\n'"):
        METRICS.find("numpy:mean\n")
