"""The shape of a recipe: frozen values with a docstring under every field."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from pydantic import Field, model_validator
from pydantic_core import PydanticCustomError

from palbert.errors import did_you_mean
from palbert.tasks.choices import Component, component
from palbert.tasks.sources import Value
from palbert.tasks.spec import Task


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
    BalanceChoice = Component
    AverageChoice = Component
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
    AverageChoice = component("ema", "none", "swa")
    BalanceChoice = component("fixed", "normalised", "uncertainty")
    ObjectiveChoice = component(
        "distillation", "proximal", "rdrop", "simcse", "smart", "supervised-simcse", kind=ObjectiveSection
    )


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
    mixout: float = Field(default=0.0, ge=0, lt=1)
    """Share of the linear layers' inputs whose weights a training pass takes as pretrained; 0 is off."""

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
    balance: BalanceChoice = Component(name="fixed")
    """How the tasks' losses are scaled beside their weights: fixed (not at all), normalised or uncertainty."""
    trains: tuple[Literal["encoder", "adapters", "heads"], ...] = ()
    """Which parts are trained, the relational layer with the heads; all of them unless given."""
    clip: float = Field(default=1.0, gt=0)
    """Longest gradient, by Euclidean norm; longer ones are scaled down, with `inf` none is."""
    average: AverageChoice = Component(name="none")
    """Which weights are evaluated and kept: those under training (none), or their average, ema or swa."""
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


class Phase(Value):
    """A stretch of the run with its own tasks, length, sampler and rates; the recipe's unless given."""

    name: str = ""
    """Shown in the log."""
    tasks: tuple[str, ...] = ()
    """Which tasks are trained; all of them unless given. All are evaluated."""
    objectives: tuple[ObjectiveChoice, ...] | None = None
    """Terms beside the supervised losses; the recipe's, for this phase's tasks, unless given."""
    training: TrainingSection
    """How long to train, on what, in which order; what is not said is as in the recipe's own section."""
    optimizer: OptimizerSection
    """AdamW, anew, and its rates; what is not said is as in the recipe's own section."""


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
    teachers_sha256: dict[str, str] = Field(default_factory=dict)
    """Hash of each teacher's weights."""


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
    objectives: tuple[ObjectiveChoice, ...] = ()
    """Terms beside the supervised losses: distillation, proximal, rdrop, simcse, smart, supervised-simcse."""
    training: TrainingSection = TrainingSection()
    """How long to train, on what, in which order."""
    optimizer: OptimizerSection = OptimizerSection()
    """AdamW and its rates."""
    phases: tuple[Phase, ...] = ()
    """Stretches of the run, one after the other; one with the settings above unless given."""
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

    @model_validator(mode="before")
    @classmethod
    def _complete_phases(cls, values: Any) -> Any:
        """Put the recipe's sections under those of each phase."""
        if not isinstance(values, dict) or not isinstance(values.get("phases"), list | tuple):
            return values
        phases = [
            {**phase, **{name: _over(values.get(name), phase.get(name)) for name in ("training", "optimizer")}}
            if isinstance(phase, dict)
            else phase
            for phase in values["phases"]
        ]
        return {**values, "phases": phases}

    @model_validator(mode="after")
    def _check_phases(self) -> Recipe:
        problems = []
        for number, phase in enumerate(self.phases):
            place = f"phases.{number}"
            problems += [
                f"{place}.tasks: unknown task '{name}'. {did_you_mean(name, self.tasks)}"
                for name in phase.tasks
                if name not in self.tasks
            ]
            problems += [
                f"{place}.training.{name}: this is set for the whole run, in [training]"
                for name in ("log_every", "save_every")
                if getattr(phase.training, name) != getattr(self.training, name)
            ]
        own = {f"phases.{number}.": phase.training for number, phase in enumerate(self.phases)}
        for place, training in {"": self.training, **own}.items():
            if self.encoder.frozen and "encoder" in training.trains:
                problems.append(f"{place}training.trains: names the encoder, and encoder.frozen is true")
            if training.trains == ("adapters",) and self.adapters is None:
                problems.append(f"{place}training.trains: only adapters, and the recipe has none")
        if problems:
            raise PydanticCustomError("contradiction", "{problems}", {"problems": "; ".join(problems)})
        return self

    @model_validator(mode="after")
    def _check_mixout(self) -> Recipe:
        sections = [phase.training for phase in self.phases] or [self.training]
        still = self.encoder.frozen or all(section.trains and "encoder" not in section.trains for section in sections)
        if self.encoder.mixout and still:
            raise PydanticCustomError(
                "contradiction",
                "encoder.mixout: goes back to pretrained weights, which an encoder that is not trained never leaves. "
                "Train the encoder, or leave mixout out",
            )
        return self

    @model_validator(mode="after")
    def _check_dropout(self) -> Recipe:
        if self.encoder.dropout != 0 or self.encoder.attention_dropout != 0:
            return self
        for number, objective in enumerate(self.objectives):
            still = any(name in self.tasks and not self.tasks[name].dropout for name in objective.tasks or self.tasks)
            without = objective.name == "simcse" and objective.options.get("dropout") is None
            lacks = without or (objective.name == "rdrop" and still)
            if lacks and objective.options.get("weight") != 0:
                raise PydanticCustomError(
                    "contradiction",
                    "objectives.{number}: {name} compares two passes with different dropout, and there is none. "
                    "Set encoder.dropout above 0{or_own}",
                    {
                        "number": number,
                        "name": objective.name,
                        "or_own": ", or give the term a dropout of its own" * without,
                    },
                )
        return self

    @property
    def stages(self) -> tuple[Recipe, ...]:
        """One recipe without phases for each phase; this one, if it has none."""
        return tuple(self._stage(phase) for phase in self.phases) or (self,)

    def _stage(self, phase: Phase) -> Recipe:
        tasks = {name: task for name, task in self.tasks.items() if name in (phase.tasks or self.tasks)}
        objectives = phase.objectives
        if objectives is None:
            kept = [(each, tuple(name for name in each.tasks if name in tasks)) for each in self.objectives]
            objectives = tuple(each.model_copy(update={"tasks": own}) for each, own in kept if own or not each.tasks)
        own = {"tasks": tasks, "objectives": objectives, "training": phase.training, "optimizer": phase.optimizer}
        return self.model_copy(update={**own, "phases": ()})

    @property
    def sets(self) -> dict[str, Task]:
        """The training sets of all tasks by name, each as the task that reads it."""
        return {name: view for task in self.tasks.values() for name, view in task.sets.items()}

    @property
    def task_of(self) -> dict[str, str]:
        """The task of every training set."""
        return {name: view.name for name, view in self.sets.items()}

    @property
    def factors(self) -> dict[str, float]:
        """How much more or less often than by its size each extra set is drawn, where that differs from 1."""
        return {
            f"{task.name}+{name}": extra.factor
            for task in self.tasks.values()
            for name, extra in task.extra.items()
            if extra.factor != 1
        }

    def batch_size(self, task: Task) -> int:
        """Examples of a task per step."""
        return task.batch_size or self.training.batch_size


def _over(section: Any, phase: Any) -> Any:
    """Put a recipe's section under that of a phase; what is no table is left to the schema's check."""
    if not isinstance(section or {}, dict) or not isinstance(phase or {}, dict):
        return phase
    return {**(section or {}), **{key: value for key, value in (phase or {}).items() if value is not None}}
