"""Sources: where rows come from: one file of a task, and its extra training sets. Values, no torch."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Annotated, Any, Literal, get_args

from pydantic import BaseModel, ConfigDict, Field, StrictBool, ValidationInfo, field_validator, model_validator
from pydantic_core import PydanticCustomError

from palbert.options import IN_FLOAT32, MOST, fits_float32
from palbert.readers import Decimal, Dialect, Quoting, check_encoding, check_header, check_separator

LabelValue = int | float | str
Labels = dict[str, LabelValue] | Annotated[str, Field(pattern=r"^[×x*]\s*\d+(\.\d+)?$")]
Split = Literal["train", "dev", "test"]
SPLIT_NAMES: dict[str, Split] = {
    **dict.fromkeys(("train", "training"), "train"),
    **dict.fromkeys(("dev", "development", "valid", "validation", "val", "eval", "evaluation"), "dev"),
    **dict.fromkeys(("test", "testing"), "test"),
}
"""What the cells of a `split` column may hold, in any case."""
LARGEST_SEED = 2**63 - 1
PAIR_COLUMNS = ("premise", "hypothesis")
"""The text columns of a set of triplets, unless given."""


class Value(BaseModel):
    """A frozen value whose unknown keys are errors."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)

    @field_validator("*", mode="before")
    @classmethod
    def _check_number(cls, value: Any, info: ValidationInfo) -> Any:
        """Refuse true and false as numbers, and whole numbers beyond any use, which overflow somewhere."""
        field = cls.model_fields[str(info.field_name)]
        kinds = {field.annotation, *get_args(field.annotation)}
        if isinstance(value, bool) and kinds & {int, float} and not kinds & {bool, StrictBool}:
            raise PydanticCustomError("number_type", "Expected a number")
        if isinstance(value, int) and int in kinds and value > MOST and info.field_name != "seed":
            raise PydanticCustomError("too_large", "Expected a whole number up to {most}", {"most": f"{MOST:,}"})
        return value

    @field_validator("*")
    @classmethod
    def _check_float32(cls, value: Any) -> Any:
        """Refuse numbers that become 0 or infinite where models compute with them."""
        for number in value if isinstance(value, tuple) else (value,):
            if isinstance(number, float) and not fits_float32(number):
                raise PydanticCustomError("float32", "Expected a number {range}", {"range": IN_FLOAT32})
        return value


class FileSettings(Value):
    """How files write their rows: the settings that a task, an extra set and a single file can give."""

    quoting: Quoting | None = None
    """Whether fields may be quoted; the task's unless given."""
    separator: str | None = None
    """The sign between fields, such as ";", or "" for files of one column; recognised unless given."""
    encoding: str | None = None
    """How letters are written, such as "windows-1252"; UTF-8, or as the file's byte order mark says, unless given."""
    header: StrictBool | tuple[str, ...] | None = None
    """Whether the first line names the columns, which is so unless given, or names for columns that have none."""
    sheet: str | None = None
    """The sheet of Excel workbooks; the first one unless given."""
    decimal: Decimal | None = None
    """The decimal sign of labels that are numbers; recognised unless given."""

    @field_validator("separator", "encoding", "header", mode="before")
    @classmethod
    def _check_dialect(cls, value: Any, info: ValidationInfo) -> Any:
        if value is None:
            return None
        check: Any = {"separator": check_separator, "encoding": check_encoding, "header": check_header}[
            str(info.field_name)
        ]
        try:
            return check(value)
        except ValueError as error:
            raise PydanticCustomError("contradiction", "{problem}", {"problem": str(error)}) from None

    def dialect_over(self, general: Dialect) -> Dialect:
        """Return a dialect with what is given here in place of what is general."""
        given = {field.name: getattr(self, field.name) for field in fields(Dialect)}
        return replace(general, **{name: value for name, value in given.items() if value is not None})


class Source(FileSettings):
    """One file, or one Hub data set, with the settings that differ from its task's."""

    path: str
    """A CSV, TSV, JSON, JSONL, Excel or Parquet file, a pattern, a URL, or `hf:owner/name[/config]:split`."""
    text: tuple[str, ...] | None = None
    """Text columns of this file; the task's unless given."""
    label: str | None = None
    """Label column of this file; the task's unless given."""
    labels: Labels | None = None
    """Label mapping of this file; the task's unless given."""

    @model_validator(mode="before")
    @classmethod
    def _accept_bare_path(cls, value: Any) -> Any:
        return {"path": value} if isinstance(value, str) else with_lists(value)


Sources = tuple[Source, ...]


class ExtraSet(FileSettings):
    """A further training set of a task, sampled separately: `[tasks.quora.extra.snli]`."""

    train: Sources = Field(min_length=1)
    """Training files, read as one set; the task's own for `form = "identity-swaps"` unless given."""
    form: Literal["rows", "triplets", "identity-swaps"] = "rows"
    """Rows as the task has them, triplets to contrast, or rows with copies that name another group of people."""
    text: tuple[str, ...] | None = None
    """Text columns; the task's unless given. Triplets: three, or premise and hypothesis, which is the default."""
    label: str | None = None
    """Label column; the task's unless given. Triplets of two columns: "label"; of three columns: none is read."""
    labels: Labels | None = None
    """Label mapping onto the task's labels; the task's unless given. Triplets: onto entailment and contradiction."""
    bad_rows: Literal["error", "drop"] | None = None
    """What to do with rows that lack a text or a label; as for the task unless given."""
    row_weight: str | None = None
    """Column of row weights; the task's unless given, and none if empty."""
    factor: float = Field(default=1.0, ge=0, allow_inf_nan=False)
    """Factor on how often the set is drawn, with samplers that draw; 0.1 is a tenth of what its size gives."""
    batch_size: int | None = Field(default=None, ge=1, le=1_000_000)
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
