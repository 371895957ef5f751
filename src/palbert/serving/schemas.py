"""Schemas: what requests may contain."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator
from pydantic_core import PydanticCustomError

from palbert.serving.problems import Problem

Method = Literal["gradient-input", "integrated-gradients", "occlusion"]
_PAIR = {"type": "array", "items": {"type": "string"}, "minItems": 2, "maxItems": 2}
Item = Annotated[Any, Field(json_schema_extra={"anyOf": [{"type": "string"}, _PAIR]})]
"""A text, or a pair as two texts; each is checked by itself, so that a bad one fails alone."""


class Body(BaseModel):
    """A request's body; unknown names in it are errors."""

    model_config = ConfigDict(extra="forbid", frozen=True, use_attribute_docstrings=True)

    run: str | None = None
    """The name of the run; the first one unless given."""


class PredictBody(Body):
    """The body of /v1/predict."""

    texts: list[Item]
    """Texts, and pairs as two-element lists."""
    task: str | None = None
    """The task to ask."""
    tasks: list[str] | Literal["all"] | None = None
    """Several tasks to ask, or "all": each text is answered by every task that takes it."""
    min_confidence: float | None = Field(default=None, ge=0, le=1)
    """Abstain where an answer is less likely to be right."""
    explain: bool | Method = False
    """Add which words led to each answer; true takes gradient-input, which is the fastest."""

    @model_validator(mode="after")
    def _one_question(self) -> PredictBody:
        if self.task is not None and self.tasks is not None:
            raise PydanticCustomError("task", 'give either "task" or "tasks"')
        return self


class EmbedBody(Body):
    """The body of /v1/embed."""

    texts: list[Annotated[Any, Field(json_schema_extra={"type": "string"})]]
    """Single texts."""
    pooling: str = "mean"
    """mean, cls or pooler."""
    normalise: bool = False
    """Divide each vector by its length."""
    task: str | None = None
    """The task whose adapter and length are used."""


class EmbeddingsBody(BaseModel):
    """The body of /v1/embeddings, as clients of OpenAI's API send it."""

    model_config = ConfigDict(extra="ignore", frozen=True, use_attribute_docstrings=True)

    input: str | list[str]
    """A text, or several."""
    model: str | None = None
    """The name of the run."""
    encoding_format: Literal["float", "base64"] = "float"
    """base64: the vectors' 32-bit floats, little-endian."""
    dimensions: int | None = None
    """The vectors have the encoder's width; another number is an error."""


class ExplainBody(Body):
    """The body of /v1/explain."""

    task: str
    """The task to ask."""
    texts: list[Item]
    """Texts, or pairs as two-element lists."""
    method: Method = "integrated-gradients"
    """integrated-gradients adds up to the answer, gradient-input is the fastest, occlusion masks one word at a time."""
    target: str | None = None
    """The class to explain; the answer's own unless given."""
    interactions: bool = False
    """Add which words of the one text answer to which of the other, for pairs."""
    similar: int = Field(default=0, ge=0, le=50)
    """How many of the training rows most like each text to add."""


def parse(schema: type[Body] | type[EmbeddingsBody], body: bytes) -> Any:
    """Read a body; raise Problem with everything that is wrong with it."""
    try:
        return schema.model_validate_json(body)
    except ValidationError as error:
        found = error.errors(include_url=False, include_input=False)
        if found[0]["type"] == "json_invalid":
            raise Problem(400, f"The body is not JSON: {found[0]['ctx']['error']}.") from None
        problems = [f"{'.'.join(map(str, each['loc'])) or 'body'}: {each['msg']}" for each in found[:8]]
        raise Problem(422, "; ".join(problems) + ".", hint="See /docs.") from None
