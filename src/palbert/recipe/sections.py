"""Sections of a recipe: frozen values with a docstring under every field."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import Field, field_validator, model_validator
from pydantic_core import PydanticCustomError

from palbert.registry import ADAPTERS, AVERAGES, BALANCES, GRADIENTS, OBJECTIVES, RELATIONS, SAMPLERS, SCHEDULES
from palbert.runtime.durations import seconds_of
from palbert.tasks.choices import Component, component
from palbert.tasks.sources import Value

Beta = Annotated[float, Field(ge=0, lt=1)]


class AdapterSection(Component):
    """Adapters inside the encoder: `"pal"`, or `{name = "pal", size = 204, heads = 12}`."""

    per_task: bool = True
    """One adapter per task, or one that all tasks share."""
    tasks: tuple[str, ...] = ()
    """The tasks that have one; all of them unless given."""


class RelationSection(Component):
    """A layer that related tasks share before their heads: `{name = "linear", tasks = ["quora", "sts"]}`."""

    tasks: tuple[str, ...] = Field(min_length=2)
    """The tasks that share it; all with the same pair input."""


class ObjectiveSection(Component):
    """A term added to the supervised losses: `"smart"`, or `{name = "smart", weight = 0.02, tasks = ["sst"]}`."""

    tasks: tuple[str, ...] = ()
    """The tasks that have it; all of them unless given."""


if TYPE_CHECKING:
    RelationChoice = RelationSection
    AdapterChoice = AdapterSection
    SamplerChoice = Component
    ScheduleChoice = Component
    GradientsChoice = Component
    BalanceChoice = Component
    AverageChoice = Component
    ObjectiveChoice = ObjectiveSection
else:
    RelationChoice = component(RELATIONS, section=RelationSection)
    AdapterChoice = component(ADAPTERS, section=AdapterSection)
    SamplerChoice = component(SAMPLERS)
    ScheduleChoice = component(SCHEDULES)
    GradientsChoice = component(GRADIENTS)
    AverageChoice = component(AVERAGES)
    BalanceChoice = component(BALANCES)
    ObjectiveChoice = component(OBJECTIVES, section=ObjectiveSection)


class EncoderSection(Value):
    """The pretrained encoder that all tasks share."""

    name: str = "minilm"
    """A local folder in the Hugging Face layout, a Hub id, "minilm", or the folder of a run."""
    keep: tuple[Literal["heads", "adapters"], ...] = ()
    """What tasks of the same name take over from the run that is the encoder; new weights unless given."""
    frozen: bool = False
    """Train everything but the encoder."""
    dropout: float | None = Field(default=None, ge=0, lt=1)
    """Dropout on hidden states; the checkpoint's own unless given."""
    attention_dropout: float | None = Field(default=None, ge=0, lt=1)
    """Dropout on attention probabilities; the checkpoint's own unless given."""
    mixout: float = Field(default=0.0, ge=0, lt=1)
    """Share of the linear layers' inputs for which a training pass uses the pretrained weights; 0 is off."""
    recompute: bool = False
    """Keep only the input of each layer and run the layer again in the backward pass, to save memory."""

    @model_validator(mode="before")
    @classmethod
    def _accept_bare_name(cls, value: Any) -> Any:
        return {"name": value} if isinstance(value, str) else value


class TrainingSection(Value):
    """How long to train, on what, in which order."""

    auto: bool = False
    """Choose what this section and `[optimizer]` leave open for the number of training rows."""
    epochs: int = Field(default=3, ge=1, le=1_000_000)
    """Number of epochs; an evaluation follows each."""
    steps_per_epoch: int | None = Field(default=None, ge=1, le=10_000_000)
    """Optimizer steps per epoch; unless given, as many as the sampler needs for one pass."""
    batch_size: int = Field(default=32, ge=1, le=1_000_000)
    """Examples per step, for tasks that do not set their own."""
    accumulation: int = Field(default=1, ge=1, le=1_000_000)
    """Pieces that each step's batch is split into, to save memory; the update stays the same."""
    sampler: SamplerChoice = Component(name="annealed")
    """Which task the next batch comes from."""
    gradients: GradientsChoice = Component(name="sum")
    """How the tasks' gradients are combined."""
    balance: BalanceChoice = Component(name="fixed")
    """How the tasks' losses are scaled in addition to their weights: fixed (not at all), normalised or uncertainty."""
    trains: tuple[Literal["encoder", "adapters", "heads"], ...] = ()
    """Which parts are trained; poolings and the relational layer belong to the heads. All of them unless given."""
    clip: float = Field(default=1.0, gt=0)
    """The largest Euclidean norm of a gradient; longer gradients are scaled down to it. `inf` turns clipping off."""
    non_finite: Literal["stop", "skip"] = "stop"
    """What happens to a step whose loss or gradient is NaN or infinite: it stops the run, or is skipped."""
    most_skips: int = Field(default=10, ge=1)
    """Skipped steps in a row after which the run stops."""
    average: AverageChoice = Component(name="none")
    """Which weights are evaluated and saved: those under training (none), or their average, ema or swa."""
    log_every: int = Field(default=10, ge=1)
    """Steps between lines in metrics.jsonl."""
    save_every: int = Field(default=1000, ge=1)
    """Steps between `last` checkpoints; one is written after each evaluation in any case."""
    evaluate_every: int | None = Field(default=None, ge=1)
    """Steps between evaluations within epochs; unless given, there is one after each epoch only."""
    patience: int | None = Field(default=None, ge=1)
    """Evaluations without a better overall score after which the run finishes; with phases, in the last one."""
    time_limit: float | None = Field(default=None, gt=0, allow_inf_nan=False)
    """Seconds of training and evaluations after which the run finishes, or text such as "30 min" or "2h"."""

    @field_validator("time_limit", mode="before")
    @classmethod
    def _read_duration(cls, value: Any) -> Any:
        try:
            return seconds_of(value) if isinstance(value, str) else value
        except ValueError as error:
            raise PydanticCustomError("duration", "{expected}", {"expected": str(error)}) from None

    @model_validator(mode="before")
    @classmethod
    def _accept_auto(cls, value: Any) -> Any:
        return {"auto": True} if value == "auto" else value


class OptimizerSection(Value):
    """AdamW and its rates."""

    learning_rate: float = Field(default=3e-5, gt=0, allow_inf_nan=False)
    """Peak rate of the encoder, and of everything without a rate of its own."""
    head_learning_rate: float | None = Field(default=None, gt=0, allow_inf_nan=False)
    """Peak rate of heads, poolings, relational layer, and the parameters of objectives and balance."""
    adapter_learning_rate: float | None = Field(default=None, gt=0, allow_inf_nan=False)
    """Peak rate of adapters."""
    layer_decay: float = Field(default=1.0, gt=0, le=1)
    """Factor of the encoder's rate from each layer to the one below; the embeddings have the lowest rate, 1 is off."""
    weight_decay: float = Field(default=0.01, ge=0, allow_inf_nan=False)
    """Decoupled weight decay; biases and norms have none."""
    betas: tuple[Beta, Beta] = (0.9, 0.999)
    """Decay of the moving averages of gradient and squared gradient."""
    epsilon: float = Field(default=1e-8, gt=0, allow_inf_nan=False)
    """Added to the denominator."""
    schedule: ScheduleChoice = Component(name="constant")
    """How the rates change over the run."""


class PretrainingSection(Value):
    """Masked-language-model training of the encoder on the tasks' own text and on plain text, before the tasks."""

    text: tuple[str, ...] = ()
    """Plain text files, .txt, one text per line, in addition to the texts of the tasks' training files."""
    epochs: int = Field(default=1, ge=1, le=1_000_000)
    """Number of epochs; the held-out loss is computed after each."""
    steps_per_epoch: int | None = Field(default=None, ge=1, le=10_000_000)
    """Optimizer steps per epoch; unless given, as many as one pass over the texts takes."""
    batch_size: int = Field(default=32, ge=1, le=1_000_000)
    """Texts, or pieces of long ones, per step."""
    max_length: int = Field(default=128, ge=3)
    """Tokens per sequence, special tokens included; longer texts are split into several."""
    mask: float = Field(default=0.15, gt=0, lt=1)
    """Share of the tokens that are masked and predicted."""
    learning_rate: float = Field(default=5e-5, gt=0, allow_inf_nan=False)
    """Peak rate of the encoder and of the head that predicts the words."""
    schedule: ScheduleChoice = Component(name="stlr")
    """How the rate changes over the steps."""
    held_out: float = Field(default=0.02, gt=0, lt=1)
    """Share of the texts that are not trained on; the loss on them is reported."""

    @field_validator("text", mode="before")
    @classmethod
    def _accept_one_file(cls, value: Any) -> Any:
        return [value] if isinstance(value, str) else value


class Phase(Value):
    """A part of the run with its own tasks, length, sampler and rates; the recipe's unless given."""

    name: str = ""
    """Shown in the log."""
    tasks: tuple[str, ...] = ()
    """The tasks that are trained; all of them unless given. All are evaluated."""
    objectives: tuple[ObjectiveChoice, ...] | None = None
    """Terms added to the supervised losses; the recipe's, for this phase's tasks, unless given."""
    training: TrainingSection
    """How long to train, on what, in which order; what is missing is taken from the recipe's own section."""
    optimizer: OptimizerSection
    """A new AdamW and its rates; what is missing is taken from the recipe's own section."""


class RunSection(Value):
    """Device, precision, CUDA graphs and TensorBoard."""

    device: str = Field(default="auto", pattern=r"^(auto|cpu|mps|cuda(:\d+)?)$")
    """auto, cpu, cuda, cuda:N or mps."""
    precision: Literal["auto", "fp32", "tf32", "bf16", "fp16"] = "auto"
    """Number format of matrix products; auto is bf16 on CUDA, or fp16 on cards without it, and fp32 elsewhere."""
    capture: Literal["auto", "off"] = "auto"
    """Whether training steps are captured as CUDA graphs where possible: auto, or off."""
    deterministic: bool = False
    """Let torch refuse operations whose result may differ from run to run, and take slower ones where it has them."""
    tensorboard: bool = True
    """Write TensorBoard files next to metrics.jsonl, if tensorboard is installed."""
    wandb: str = ""
    """The project of Weights & Biases that the run is sent to; none unless given."""
    mlflow: str = ""
    """The experiment of MLflow that the run is written to; none unless given."""


class Provenance(Value):
    """What a run was made from; palbert writes it, and compares when a recipe is run again."""

    versions: dict[str, str] = Field(default_factory=dict)
    """palbert, python, torch, numpy, tokenizers."""
    encoder_sha256: str = ""
    """Hash over the encoder's weight files."""
    data_sha256: dict[str, str] = Field(default_factory=dict)
    """Hash of each data file."""
    teachers_sha256: dict[str, str] = Field(default_factory=dict)
    """Hash of each teacher's weights."""
    threads: int | None = None
    """Threads that torch computed with, where the device is the CPU: sums are rounded differently with others."""
