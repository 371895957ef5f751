"""Task: one question put to the model, with its data, head, loss and metrics. A value, no torch."""

from __future__ import annotations

from collections.abc import Iterator
from math import isfinite
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import Field, ValidationInfo, field_validator, model_validator
from pydantic_core import PydanticCustomError

from palbert.readers import PLAIN, Dialect, Quoting
from palbert.registry import HEADS, LOSSES, POOLINGS
from palbert.targets import Target
from palbert.tasks.choices import Component, component, target_class, target_field
from palbert.tasks.held_out import HeldOut, read_held_out
from palbert.tasks.sources import ExtraSet, FileSettings, Labels, Sources, with_lists

if TYPE_CHECKING:
    HeadChoice = Component
    LossChoice = Component
    PoolingChoice = Component
    TargetChoice = Target
else:
    HeadChoice = component(HEADS)
    LossChoice = component(LOSSES, bare=True)
    PoolingChoice = component(POOLINGS, bare=True)
    TargetChoice = target_field()

Overlap = Literal["dev", "test", "dev-texts", "test-texts"]
NAME = r"^[A-Za-z0-9][A-Za-z0-9_-]*$"
LONGEST_NAME = 100
"""Characters of a name: file systems allow 255 bytes, and files are named after a task, an extra set and more."""


class Task(FileSettings):
    """One question put to the model."""

    name: str = Field(pattern=NAME, max_length=LONGEST_NAME)
    """Names the task in reports, files and predictions."""
    kind: Literal["single", "pair"]
    """One sentence, or two."""
    classes: tuple[str, ...] = ()
    """Class names in index order; the data may hold names or indices. Binary: ("no", "yes") unless given."""
    range: tuple[float, float] | None = None
    """Lowest and highest number; predictions are clipped to it, labels outside it are errors."""
    target: TargetChoice
    """What is predicted: one of several classes, yes or no, a number, or any number of classes."""

    train: Sources = ()
    """Training files, read as one set."""
    dev: Sources = ()
    """Files to evaluate on. A share such as "10%" or a number of rows is held out from train, as without dev files."""
    held_out: HeldOut | None = None
    """The training rows that are set aside as dev, if there are no dev files; `dev = "10%"` sets it."""
    test: Sources = ()
    """Files to predict or evaluate on after training; they may lack the label column."""
    split: str = ""
    """A column of the training files that says where each row belongs: train, dev or test."""
    train_on_dev: bool = False
    """Train on the dev rows too, for a final run when everything has been chosen; `submit --with-dev` sets it."""
    text: tuple[str, ...]
    """Text columns: one, or two for pairs."""
    label: str = "label"
    """Label column."""
    id: str = "id"
    """Row id column; without it, rows are numbered."""
    labels: Labels | None = None
    """Label mapping, `{entailment = 1, contradiction = 0, neutral = "drop"}`, or a factor such as `"x4"`."""
    quoting: Quoting = "auto"
    """Whether fields may be quoted; "auto" reads .csv with quotes and .tsv without."""
    bad_rows: Literal["error", "drop"] = "error"
    """What to do with rows that lack a text or a label: stop, or drop and count them."""
    extra: dict[Annotated[str, Field(pattern=NAME, max_length=LONGEST_NAME)], ExtraSet] = Field(default_factory=dict)
    """Further training sets by name, each with its own mapping, factor and batch size."""
    drop_overlap: tuple[Overlap, ...] = ()
    """Training rows to leave out: rows of "dev" or "test", or rows with a text of theirs, "dev-texts", "test-texts"."""

    batch_size: int | None = Field(default=None, ge=1, le=1_000_000)
    """Examples of this task per step; the recipe's `training.batch_size` unless given."""
    max_length: int = Field(default=128, ge=3)
    """Tokens per sequence, special tokens included; longer ones are truncated and counted."""
    pair_input: Literal["joint", "siamese"] = "joint"
    """Pairs as one sequence `[CLS] a [SEP] b [SEP]`, or as two sequences."""
    pooling: PoolingChoice = Component(name="cls")
    """How token states become one vector: first token, tanh pooler, mean or weighted mean over all tokens."""
    head: HeadChoice = Component(name="linear")
    """How vectors become outputs: linear, mlp; for siamese pairs concat, concat-difference, compare, cosine."""
    head_start: Literal["random", "mean", "probe"] = "random"
    """How the head starts: at random, with the mean label as its bias, or as a linear probe of mean vectors."""
    dropout: float = Field(default=0.1, ge=0, lt=1)
    """Dropout in front of the head."""
    loss: LossChoice = Component(name="")
    """Training loss; the target's default unless given."""
    label_smoothing: float = Field(default=0.0, ge=0, lt=1)
    """Share of every label that is spread evenly over the classes; for cross-entropies."""
    prior: tuple[float, ...] = ()
    """Share of each class where the model will be used, if it differs from the training rows; binary: share of yes."""
    calibration: Literal["none", "temperature", "platt"] = "none"
    """How probabilities are adjusted on dev after training: one temperature, or scale and shift per decision."""
    threshold: Annotated[float, Field(gt=0, lt=1)] | Literal["f1", "accuracy", "balanced"] | None = None
    """The probability above which the answer is yes, or the score on dev that chooses it; the target's unless given."""
    metrics: tuple[str, ...] = ()
    """What is measured; the first one represents the task in the overall score."""
    row_weight: str | None = None
    """Column of row weights, numbers from 0: how much each training row counts in the task's loss."""
    class_weights: Literal["balanced"] | tuple[float, ...] = ()
    """How much the training rows of each class count; "balanced": all classes alike."""
    weight: float = Field(default=1.0, ge=0, allow_inf_nan=False)
    """Factor of this task's loss."""
    teachers: tuple[str, ...] = ()
    """Run folders of models whose outputs the objective `distillation` learns from."""

    @model_validator(mode="before")
    @classmethod
    def _fill_in(cls, values: Any) -> Any:
        if not isinstance(values, dict):
            return values
        values = _with_held_out(with_lists(values, "train", "dev", "test", "teachers", "drop_overlap"))
        values = _with_own_files(values)
        target = target_class(values.get("target"))
        if target is not None:
            values.setdefault("loss", target.losses[0] if target.losses else Component(name=""))
            values.setdefault("metrics", target.metrics)
            values.setdefault("classes", target.default_classes)
        return values

    @field_validator("prior", "class_weights", mode="before")
    @classmethod
    def _read_by_target(cls, value: Any, info: ValidationInfo) -> Any:
        """Let the target read what is given by class."""
        target = info.data.get("target")
        if target is None or value in ((), []):  # an unknown target is an error of its own
            return ()
        try:
            return target.read_prior(value) if info.field_name == "prior" else target.read_class_weights(value)
        except ValueError as error:
            raise PydanticCustomError("contradiction", "{problem}", {"problem": str(error)}) from None

    @model_validator(mode="after")
    def _check(self) -> Task:
        problems = self._problems()
        if problems:
            text = "; ".join(problems)
            raise PydanticCustomError("contradiction", "{text}", {"text": text, "problems": problems})
        return self

    def _problems(self) -> list[str]:
        problems = []
        columns = {"single": 1, "pair": 2}[self.kind]
        if len(self.text) != columns:
            problems.append(
                f"a {self.kind} task needs {columns} text column{'s' * (columns > 1)}, "
                f"found {len(self.text)}: {', '.join(self.text) or 'none'}. Set text = "
                + ('"column"' if columns == 1 else '["first", "second"]')
            )
        if self.held_out and self.dev:
            problems.append("dev names files, so held_out has no rows to hold out. Leave one of them out")
        problems += self.target.problems()
        problems += self._loss_problems()
        if self.decimal is not None and not self.target.numeric:
            problems.append(
                f"decimal is the decimal sign of labels that are numbers; target '{self.target.name}' has none"
            )
        if self.range is not None and not all(map(isfinite, self.range)):
            problems.append(
                f"range must have two finite numbers, found {list(self.range)}. Leave it out if there is none"
            )
        elif self.range is not None and self.range[0] >= self.range[1]:
            problems.append(f"range must go from low to high, found {list(self.range)}")
        problems += self._decision_problems()
        if not self.metrics:
            problems.append("metrics must name at least one metric")
        problems += [
            f"{place}: text names {len(text)} column{'s' * (len(text) != 1)}, the task has {columns}"
            for place, text in self._own_texts()
            if len(text) != columns
        ]
        problems += [
            f"extra.{name}: triplets take three text columns (anchor, positive, hard negative) or two (premise, "
            f"hypothesis) with a label, in all files alike; found {' and '.join(map(str, counts))}"
            for name, extra in self.extra.items()
            if extra.form == "triplets" and (counts := sorted(set(map(len, extra.triplet_columns)))) not in ([2], [3])
        ]
        problems += [
            f"extra.{name}: triplets have no row weights. Leave row_weight out"
            for name, extra in self.extra.items()
            if extra.form == "triplets" and extra.row_weight
        ]
        return problems

    def _loss_problems(self) -> list[str]:
        problems = []
        loss = self.loss.name
        if not loss:
            problems.append(f"target '{self.target.name}' has no default loss. Set loss = \"my_module:my_loss\"")
        if loss not in self.target.losses and loss in LOSSES.paths:
            fitting = ", ".join(f"'{name}'" for name in self.target.losses)
            problems.append(f"loss '{loss}' does not fit target '{self.target.name}', which takes {fitting}")
        if self.label_smoothing and loss not in self.target.smoothed_losses:
            smoothed = " and ".join(self.target.smoothed_losses)
            problems.append(
                f"label_smoothing does not fit the loss '{loss}'. "
                + (f"Take {smoothed}" if smoothed else f"No loss of target '{self.target.name}' takes it")
            )
        return problems

    def _decision_problems(self) -> list[str]:
        """Return what is wrong with the settings of class weights, probabilities and thresholds."""
        problems, target = [], self.target
        if self.class_weights and self.prior:
            problems.append(
                "class_weights and prior both change the class shares that the model is trained for. Keep one of them: "
                "class_weights to find rare classes, prior where the shares of use are known"
            )
        remedy = '. Set target = "binary"' if target.calibrations and len(target.classes) == 2 else ""
        if self.calibration not in ("none", *target.calibrations):
            fitting = " and ".join(f'"{name}"' for name in target.calibrations)
            problems.append(
                f"calibration '{self.calibration}' does not fit target '{target.name}', which "
                + (f"takes {fitting}{remedy}" if fitting else "has no probabilities to calibrate")
            )
        if self.threshold is not None and not target.yes_or_no:
            problems.append(
                f"threshold is for yes-or-no decisions (binary, multilabel), not for target '{target.name}'{remedy}"
            )
        elif self.threshold is not None and isinstance(target.choice, dict) and "threshold" in target.choice:
            problems.append("threshold is set twice, in the task and in its target. Keep one of them")
        return problems

    def _own_texts(self) -> Iterator[tuple[str, tuple[str, ...]]]:
        """Yield the text columns that files and extra sets have in place of the task's, by their place."""
        files = {split: getattr(self, split) for split in ("train", "dev", "test")}
        for name, extra in self.extra.items():
            if extra.form != "triplets":
                files[f"extra.{name}.train"] = extra.train
                if extra.text is not None:
                    yield f"extra.{name}", extra.text
        for place, sources in files.items():
            yield from ((f"{place}: {source.path}", source.text) for source in sources if source.text is not None)

    @property
    def dialect(self) -> Dialect:
        """How the files write their rows."""
        return self.dialect_over(PLAIN)

    @property
    def siamese(self) -> bool:
        """Whether an example takes two sequences."""
        return self.kind == "pair" and self.pair_input == "siamese"

    @property
    def outputs(self) -> int:
        """The number of outputs of the head."""
        return self.target.outputs

    @property
    def metric(self) -> str:
        """The metric that stands for the task in the overall score."""
        return self.metrics[0]


def _with_own_files(values: dict[str, Any]) -> dict[str, Any]:
    """Let extra sets of swaps be made from the task's own training files, where they name no others."""
    extra = values.get("extra")
    if not isinstance(extra, dict) or not values.get("train"):
        return values
    own = {
        name: {**each, "train": values["train"]}
        for name, each in extra.items()
        if isinstance(each, dict) and each.get("form") == "identity-swaps" and not each.get("train")
    }
    return {**values, "extra": {**extra, **own}} if own else values


def _with_held_out(values: dict[str, Any]) -> dict[str, Any]:
    """Read `dev = "10%"`, and hold rows out where nothing else says what dev is."""
    [dev] = values["dev"] if isinstance(values.get("dev"), list) and len(values["dev"]) == 1 else [values.get("dev")]
    settings = read_held_out(dev)
    if settings is not None:
        return {**values, "dev": (), "held_out": settings}
    if values.get("train") and not (values.get("dev") or values.get("split")) and values.get("held_out") is None:
        return {**values, "held_out": {}}
    return values
