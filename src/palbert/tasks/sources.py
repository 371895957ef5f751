"""Sources: where rows come from: one file of a task, and its extra training sets. Values, no torch."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

LabelValue = int | float | str
Labels = dict[str, LabelValue] | Annotated[str, Field(pattern=r"^[×x*]\s*\d+(\.\d+)?$")]
Quoting = Literal["auto", "on", "off"]
Split = Literal["train", "dev", "test"]
PAIR_COLUMNS = ("premise", "hypothesis")
"""The text columns of a set of triplets, unless given."""


class Value(BaseModel):
    """A frozen value whose unknown keys are errors."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)


class Source(Value):
    """One file, or one Hub data set, with the settings that differ from its task's."""

    path: str
    """A CSV, TSV, JSONL or Parquet file, or `hf:owner/name[/config]:split`."""
    text: tuple[str, ...] | None = None
    """Text columns of this file; the task's unless given."""
    label: str | None = None
    """Label column of this file; the task's unless given."""
    labels: Labels | None = None
    """Label mapping of this file; the task's unless given."""
    quoting: Quoting | None = None
    """Quoting of this file; the task's unless given."""

    @model_validator(mode="before")
    @classmethod
    def _accept_bare_path(cls, value: Any) -> Any:
        return {"path": value} if isinstance(value, str) else with_lists(value)


Sources = tuple[Source, ...]


class ExtraSet(Value):
    """A further training set of a task, sampled separately: `[tasks.quora.extra.snli]`."""

    train: Sources = Field(min_length=1)
    """Training files, read as one set."""
    form: Literal["rows", "triplets"] = "rows"
    """Rows as the task has them, or triplets (anchor, positive, hard negative) for objectives that contrast them."""
    text: tuple[str, ...] | None = None
    """Text columns; the task's unless given. Triplets: three, or premise and hypothesis, which is the default."""
    label: str | None = None
    """Label column; the task's unless given. Triplets of two columns: "label"; of three columns: none is read."""
    labels: Labels | None = None
    """Label mapping onto the task's labels; the task's unless given. Triplets: onto entailment and contradiction."""
    quoting: Quoting | None = None
    """Quoting of the files; the task's unless given."""
    bad_rows: Literal["error", "drop"] | None = None
    """What to do with rows that lack a text or a label; as for the task unless given."""
    factor: float = Field(default=1.0, ge=0, allow_inf_nan=False)
    """Factor on how often the set is drawn, with samplers that draw; 0.1 is a tenth of what its size gives."""
    batch_size: int | None = Field(default=None, ge=1)
    """Examples of this set per step; the task's unless given."""
    max_length: int | None = Field(default=None, ge=3)
    """Tokens per sequence; the task's unless given."""

    @model_validator(mode="before")
    @classmethod
    def _fill_in(cls, values: Any) -> Any:
        return with_lists(values, "train")

    @property
    def triplet_columns(self) -> list[tuple[str, ...]]:
        """The text columns of every file of a set of triplets."""
        own = PAIR_COLUMNS if self.text is None else self.text
        return [own if source.text is None else source.text for source in self.train]


def with_lists(values: Any, *files: str) -> Any:
    """Turn a single file, or a single text column, into a list of one."""
    if not isinstance(values, dict):
        return values
    values = dict(values)
    for key in files:
        if isinstance(values.get(key), str | dict):
            values[key] = [values[key]]
    if isinstance(values.get("text"), str):
        values["text"] = [values["text"]]
    return values
