"""The shape of a recipe: frozen values with a docstring under every field."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from pydantic import Field, field_validator, model_validator
from pydantic_core import PydanticCustomError

from palbert.tasks.choices import Component, component
from palbert.tasks.spec import Task, Value


class AdapterSection(Component):
    """Parts of the tasks' own inside the encoder: `"pal"`, or `{name = "pal", size = 204, heads = 12}`."""

    per_task: bool = True
    """One adapter for each task, or one that all tasks share."""
    tasks: tuple[str, ...] = ()
    """Which tasks have one; all of them unless given."""


class RelationSection(Component):
    """A layer that related tasks share before their heads: `{name = "linear", tasks = ["quora", "sts"]}`."""

    tasks: tuple[str, ...] = Field(min_length=2)
    """The tasks that share it; all of one pair input."""


class ObjectiveSection(Component):
    """A term beside the supervised losses: `"smart"`, or `{name = "smart", weight = 0.02, tasks = ["sst"]}`."""

    tasks: tuple[str, ...] = ()
    """Which tasks have it; all of them unless given."""


if TYPE_CHECKING:
    RelationChoice = RelationSection
    AdapterChoice = AdapterSection
    SamplerChoice = Component
    ScheduleChoice = Component
    GradientsChoice = Component
    ObjectiveChoice = ObjectiveSection
else:
    RelationChoice = component("linear", "mlp", kind=RelationSection)
    AdapterChoice = component("pal", "low-rank", "houlsby", "lora", kind=AdapterSection)
    SamplerChoice = component(
        "adaptive-round-robin",
        "annealed",
        "mixed",
        "proportional",
        "round-robin",
        "sequential",
        "square-root",
        "temperature",
    )
    ScheduleChoice = component("constant", "cosine", "slanted-triangle", "stlr")
    GradientsChoice = component("aligned-mtl", "cagrad", "fairgrad", "imtl-g", "mgda", "pcgrad", "sum", "upgrad")
    ObjectiveChoice = component("proximal", "rdrop", "simcse", "smart", kind=ObjectiveSection)


class EncoderSection(Value):
    """The pretrained encoder that all tasks share."""

    name: str = "minilm"
    """A local folder in the Hugging Face layout, a Hub id, or "minilm"."""
    frozen: bool = False
    """Train the heads only."""
    dropout: float | None = Field(default=None, ge=0, lt=1)
    """Dropout on hidden states; the checkpoint's own unless given."""
    attention_dropout: float | None = Field(default=None, ge=0, lt=1)
    """Dropout on attention probabilities; the checkpoint's own unless given."""

    @model_validator(mode="before")
    @classmethod
    def _accept_bare_name(cls, value: Any) -> Any:
        return {"name": value} if isinstance(value, str) else value


class TrainingSection(Value):
    """How long to train, on what, in which order."""

    epochs: int = Field(default=3, ge=1)
    """Stretches of training with an evaluation after each."""
    steps_per_epoch: int | None = Field(default=None, ge=1)
    """Optimizer steps per epoch; unless given, as many as the sampler needs for one pass."""
    batch_size: int = Field(default=32, ge=1)
    """Examples per step, for tasks that do not set their own."""
    accumulation: int = Field(default=1, ge=1)
    """Pieces each step's batch is cut into, to save memory; the update stays the same."""
    sampler: SamplerChoice = Component(name="annealed")
    """Which task the next batch comes from."""
    gradients: GradientsChoice = Component(name="sum")
    """How the tasks' gradients become one."""
    clip: float = Field(default=1.0, gt=0)
    """Longest gradient, by Euclidean norm; longer ones are scaled down, with `inf` none is."""
    log_every: int = Field(default=10, ge=1)
    """Steps between lines in metrics.jsonl."""
    save_every: int = Field(default=1000, ge=1)
    """Steps between `last` checkpoints; one is written after each epoch in any case."""


class OptimizerSection(Value):
    """AdamW and its rates."""

    learning_rate: float = Field(default=3e-5, gt=0)
    """Peak rate of the encoder, and of all that has no rate of its own."""
    head_learning_rate: float | None = Field(default=None, gt=0)
    """Peak rate of the heads."""
    adapter_learning_rate: float | None = Field(default=None, gt=0)
    """Peak rate of adapters."""
    layer_decay: float = Field(default=1.0, gt=0, le=1)
    """Factor on the encoder's rate from each layer to the one below; the embeddings have the lowest, 1 is off."""
    weight_decay: float = Field(default=0.01, ge=0)
    """Decoupled weight decay; biases and norms have none."""
    betas: tuple[float, float] = (0.9, 0.999)
    """Decay of the moving averages of gradient and squared gradient."""
    epsilon: float = Field(default=1e-8, gt=0)
    """Added to the denominator."""
    schedule: ScheduleChoice = Component(name="constant")
    """How the rates change over the run."""


class PretrainingSection(Value):
    """Masked-language-model training of the encoder on the tasks' own text and on plain text, before the tasks."""

    text: tuple[str, ...] = ()
    """Plain text files, .txt, one text a line, beside the texts of the tasks' training files."""
    epochs: int = Field(default=1, ge=1)
    """Stretches of training with a held-out loss after each."""
    steps_per_epoch: int | None = Field(default=None, ge=1)
    """Optimizer steps per epoch; unless given, as many as one pass over the texts takes."""
    batch_size: int = Field(default=32, ge=1)
    """Texts, or pieces of long ones, per step."""
    max_length: int = Field(default=128, ge=3)
    """Tokens per sequence, special tokens included; longer texts are cut into several."""
    mask: float = Field(default=0.15, gt=0, lt=1)
    """Share of the tokens that are asked for."""
    learning_rate: float = Field(default=5e-5, gt=0)
    """Peak rate of the encoder and of the head that names the words."""
    schedule: ScheduleChoice = Component(name="stlr")
    """How the rate changes over the steps."""
    held_out: float = Field(default=0.02, gt=0, lt=1)
    """Share of the texts that are not trained on; the loss on them is reported."""

    @field_validator("text", mode="before")
    @classmethod
    def _accept_one_file(cls, value: Any) -> Any:
        return [value] if isinstance(value, str) else value


class RunSection(Value):
    """Where and how exactly to compute."""

    device: str = Field(default="auto", pattern=r"^(auto|cpu|mps|cuda(:\d+)?)$")
    """auto, cpu, cuda, cuda:N or mps."""
    precision: Literal["auto", "fp32", "bf16"] = "auto"
    """fp32 or bf16 arithmetic; auto is bf16 on CUDA cards that have it, fp32 elsewhere."""
    tensorboard: bool = True
    """Write TensorBoard files beside metrics.jsonl, where tensorboard is installed."""


class Provenance(Value):
    """What a run was made from; palbert writes it, and compares when a recipe is run again."""

    versions: dict[str, str] = Field(default_factory=dict)
    """palbert, python, torch, numpy, tokenizers."""
    encoder_sha256: str = ""
    """Hash over the encoder's weight files."""
    data_sha256: dict[str, str] = Field(default_factory=dict)
    """Hash of each data file."""


class Recipe(Value):
    """One run: an encoder, tasks with their files, and the methods."""

    description: str = ""
    """One line, shown by `palbert recipes`."""
    seed: int = Field(default=0, ge=0)
    """Starts every random choice; same seed, same machine: same run."""
    data: str | None = None
    """A folder that file names are relative to, "samples" (inside the package) or "hub"."""
    overall: Literal["scaled-mean", "mean"] = "scaled-mean"
    """Overall score: mean over tasks with correlations mapped to 0…1 by (r + 1) / 2, or the plain mean."""
    encoder: EncoderSection = EncoderSection()
    """The pretrained encoder that all tasks share."""
    adapters: AdapterChoice | None = None
    """Parts of the tasks' own inside the encoder: pal, low-rank, houlsby or lora; none unless given."""
    relation: RelationChoice | None = None
    """A layer that related tasks share between pooling and heads; none unless given."""
    tasks: dict[str, Task] = Field(min_length=1)
    """The tasks by name; a name from the catalog brings its settings along."""
    pretraining: PretrainingSection | None = None
    """Masked-language-model training of the encoder before the tasks; none unless given."""
    objectives: tuple[ObjectiveChoice, ...] = ()
    """Terms beside the supervised losses: proximal, rdrop, simcse, smart; none unless given."""
    training: TrainingSection = TrainingSection()
    """How long to train, on what, in which order."""
    optimizer: OptimizerSection = OptimizerSection()
    """AdamW and its rates."""
    run: RunSection = RunSection()
    """Where and how exactly to compute."""
    provenance: Provenance | None = None
    """What a run was made from; written by palbert."""

    @model_validator(mode="before")
    @classmethod
    def _name_tasks(cls, values: Any) -> Any:
        if not isinstance(values, dict) or not isinstance(values.get("tasks"), dict):
            return values
        tasks = {
            name: {"name": name, **task} if isinstance(task, dict) else task for name, task in values["tasks"].items()
        }
        return {**values, "tasks": tasks}

    @model_validator(mode="after")
    def _check_dropout(self) -> Recipe:
        if self.encoder.dropout != 0 or self.encoder.attention_dropout != 0:
            return self
        for number, objective in enumerate(self.objectives):
            still = any(name in self.tasks and not self.tasks[name].dropout for name in objective.tasks or self.tasks)
            lacks = objective.name == "simcse" or (objective.name == "rdrop" and still)
            if lacks and objective.options.get("weight") != 0:
                raise PydanticCustomError(
                    "contradiction",
                    "objectives.{number}: {name} compares two passes with different dropout, and there is none. "
                    "Set encoder.dropout above 0",
                    {"number": number, "name": objective.name},
                )
        return self

    def batch_size(self, task: Task) -> int:
        """Examples of a task per step."""
        return task.batch_size or self.training.batch_size
