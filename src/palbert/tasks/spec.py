"""Task: one question put to the model, with its data, head, loss and metrics. A value, no torch."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import Field, model_validator
from pydantic_core import PydanticCustomError

from palbert.registry import HEADS, LOSSES, POOLINGS
from palbert.tasks.choices import Component, Target, component, one_of
from palbert.tasks.prior import in_order, problems_of
from palbert.tasks.sources import ExtraSet, Labels, Quoting, Sources, Value, with_lists

if TYPE_CHECKING:
    HeadChoice = Component
    PoolingChoice = Component
else:
    HeadChoice = component(HEADS)
    PoolingChoice = component(POOLINGS, bare=True)

Overlap = Literal["dev", "test", "dev-texts", "test-texts"]
NAME = r"^[A-Za-z0-9][A-Za-z0-9_-]*$"
LOSS_OF_TARGET = {"classes": "cross-entropy", "binary": "binary-cross-entropy", "number": "mse"}
SMOOTHED_LOSSES = ("cross-entropy", "binary-cross-entropy")
METRICS_OF_TARGET = {
    "classes": ("accuracy", "macro_f1"),
    "binary": ("accuracy", "precision", "recall", "f1"),
    "number": ("pearson", "spearman", "mse"),
}


class Task(Value):
    """One question put to the model."""

    name: str = Field(pattern=NAME)
    """Names the task in reports, files and predictions."""
    kind: Literal["single", "pair"]
    """One sentence, or two."""
    target: Target
    """What is predicted: one of several classes, yes or no, or a number."""
    classes: tuple[str, ...] = ()
    """Class names in index order; the data may hold names or indices. Binary: ("no", "yes") unless given."""
    range: tuple[float, float] | None = None
    """Lowest and highest number; predictions are clipped to it, labels outside it are errors."""

    train: Sources = ()
    """Training files, read as one set."""
    dev: Sources = ()
    """Files to evaluate on."""
    test: Sources = ()
    """Files to predict or evaluate on after training; they may lack the label column."""
    text: tuple[str, ...]
    """Text columns: one, or two for pairs."""
    label: str = "label"
    """Label column."""
    id: str = "id"
    """Row id column; rows are numbered where it is absent."""
    labels: Labels | None = None
    """Label mapping, `{entailment = 1, contradiction = 0, neutral = "drop"}`, or a factor such as `"x4"`."""
    quoting: Quoting = "auto"
    """Whether fields may be quoted; "auto" reads .csv with quotes and .tsv without."""
    bad_rows: Literal["error", "drop"] = "error"
    """What to do with rows that lack a text or a label: stop, or drop and count them."""
    extra: dict[Annotated[str, Field(pattern=NAME)], ExtraSet] = Field(default_factory=dict)
    """Further training sets by name, each with its own mapping, factor and batch size."""
    drop_overlap: tuple[Overlap, ...] = ()
    """Training rows to leave out: those in "dev" or "test" too, or with a text of theirs, "dev-texts", "test-texts"."""

    batch_size: int | None = Field(default=None, ge=1)
    """Examples of this task per step; the recipe's `training.batch_size` unless given."""
    max_length: int = Field(default=128, ge=3)
    """Tokens per sequence, special tokens included; longer ones are cut and counted."""
    pair_input: Literal["joint", "siamese"] = "joint"
    """Pairs as one sequence `[CLS] a [SEP] b [SEP]`, or as two sequences."""
    pooling: PoolingChoice = Component(name="cls")
    """How token states become one vector: first token, tanh pooler, mean or weighted mean over all tokens."""
    head: HeadChoice = Component(name="linear")
    """What turns vectors into the answer: linear, mlp; for siamese pairs concat, concat-difference, cosine."""
    dropout: float = Field(default=0.1, ge=0, lt=1)
    """Dropout in front of the head."""
    loss: Annotated[str, one_of(LOSSES)] = ""
    """Training loss; the target's usual one unless given."""
    label_smoothing: float = Field(default=0.0, ge=0, lt=1)
    """Share of every label that is spread evenly over the classes; for classes and binary."""
    prior: tuple[float, ...] = ()
    """Share of each class where the model will be used, if it is not that of the training rows; binary: of yes."""
    metrics: tuple[str, ...] = ()
    """What is measured; the first one stands for the task in the overall score."""
    weight: float = Field(default=1.0, ge=0, allow_inf_nan=False)
    """Factor of this task's loss."""
    teachers: tuple[str, ...] = ()
    """Runs of models trained before, whose answers the objective `distillation` takes for soft targets."""

    @model_validator(mode="before")
    @classmethod
    def _fill_in(cls, values: Any) -> Any:
        if not isinstance(values, dict):
            return values
        values = with_lists(values, "train", "dev", "test", "teachers", "drop_overlap")
        target = values.get("target")
        if target in LOSS_OF_TARGET:
            values.setdefault("loss", LOSS_OF_TARGET[target])
            values.setdefault("metrics", METRICS_OF_TARGET[target])
        if target == "binary":
            values.setdefault("classes", ("no", "yes"))
        if "prior" in values:
            values["prior"] = in_order(values["prior"], target=target, classes=values.get("classes"))
        return values

    @model_validator(mode="after")
    def _check(self) -> Task:
        problems = self._problems()
        if problems:
            raise PydanticCustomError("contradiction", "{problems}", {"problems": "; ".join(problems)})
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
        if self.target == "classes" and len(self.classes) < 2:
            problems.append('target "classes" needs two or more names in classes = [...]')
        if self.target == "binary" and len(self.classes) != 2:
            problems.append(f"a binary task has two classes, found {len(self.classes)}")
        if len(set(self.classes)) != len(self.classes):
            problems.append("a class is named twice")
        if LOSS_OF_TARGET[self.target] != self.loss and ":" not in self.loss:
            problems.append(
                f"loss '{self.loss}' does not fit target '{self.target}', which takes '{LOSS_OF_TARGET[self.target]}'"
            )
        if self.label_smoothing and self.loss not in SMOOTHED_LOSSES:
            problems.append(
                f"label_smoothing is for the losses {' and '.join(SMOOTHED_LOSSES)}; this one is '{self.loss}'"
            )
        if self.range is not None and self.range[0] >= self.range[1]:
            problems.append(f"range must go from low to high, found {list(self.range)}")
        problems += problems_of(self.prior, classes=() if self.target == "number" else self.classes)
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
        return problems

    def _own_texts(self) -> Iterator[tuple[str, tuple[str, ...]]]:
        """Yield the text columns that files and extra sets have in place of the task's, by their place."""
        files = {split: getattr(self, split) for split in ("train", "dev", "test")}
        for name, extra in self.extra.items():
            if extra.form == "rows":
                files[f"extra.{name}.train"] = extra.train
                if extra.text is not None:
                    yield f"extra.{name}", extra.text
        for place, sources in files.items():
            yield from ((f"{place}: {source.path}", source.text) for source in sources if source.text is not None)

    @property
    def siamese(self) -> bool:
        """Whether an example takes two sequences."""
        return self.kind == "pair" and self.pair_input == "siamese"

    @property
    def outputs(self) -> int:
        """Width of the head's answer: one logit a class, or one number."""
        return len(self.classes) if self.target == "classes" else 1

    @property
    def metric(self) -> str:
        """The metric that stands for the task in the overall score."""
        return self.metrics[0]
