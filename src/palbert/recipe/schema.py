"""The shape of a recipe: frozen values with a docstring under every field."""

from __future__ import annotations

from html import escape
from typing import Any, Literal

from pydantic import Field, ValidationInfo, model_validator
from pydantic_core import PydanticCustomError

from palbert.recipe.auto import is_open
from palbert.recipe.contradictions import contradictions
from palbert.recipe.sections import (
    AdapterChoice,
    EncoderSection,
    ObjectiveChoice,
    OptimizerSection,
    Phase,
    PretrainingSection,
    Provenance,
    RelationChoice,
    RunSection,
    TrainingSection,
)
from palbert.tasks.sets import SetSpec, sets_of
from palbert.tasks.sources import LARGEST_SEED, Value
from palbert.tasks.spec import Task


class Recipe(Value):
    """One run: an encoder, tasks with their files, and the methods."""

    description: str = ""
    """One line, shown by `palbert recipes`."""
    seed: int = Field(default=0, ge=0, le=LARGEST_SEED)
    """Seed of all random choices; the same seed on the same machine gives the same run."""
    data: str | None = None
    """A folder that file names are relative to, "samples" (inside the package) or "hub"."""
    overall: Literal["scaled-mean", "mean"] = "scaled-mean"
    """Overall score: the mean over tasks of metrics mapped to 0…1 (correlations by (r + 1) / 2), or of plain ones."""
    encoder: EncoderSection = EncoderSection()
    """The pretrained encoder that all tasks share."""
    adapters: AdapterChoice | None = None
    """Task-specific layers inside the encoder: pal, low-rank, houlsby or lora; none unless given."""
    relation: RelationChoice | None = None
    """A layer that related tasks share between pooling and heads; none unless given."""
    tasks: dict[str, Task]
    """The tasks by name; a task of the catalog has default settings."""
    pretraining: PretrainingSection | None = None
    """Masked-language-model training of the encoder before the tasks; none unless given."""
    objectives: tuple[ObjectiveChoice, ...] = ()
    """Terms added to the supervised losses: distillation, proximal, rdrop, simcse, smart, supervised-simcse."""
    training: TrainingSection = TrainingSection()
    """How long to train, on what, in which order."""
    optimizer: OptimizerSection = OptimizerSection()
    """AdamW and its rates."""
    phases: tuple[Phase, ...] = ()
    """Phases of the run, in order; one phase with the settings above unless given."""
    run: RunSection = RunSection()
    """Device, precision, and where the numbers of the run are sent."""
    provenance: Provenance | None = None
    """What a run was made from; written by palbert."""

    def _repr_html_(self) -> str:
        from palbert.recipe.load import dump_recipe  # which reads recipes, so it needs this class

        return f"<pre>{escape(dump_recipe(self))}</pre>"

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
    def _leave_open(cls, values: Any) -> Any:
        """Make training automatic where nothing is said about it."""
        if not isinstance(values, dict) or not is_open(values):
            return values
        return {**values, "training": {**(values.get("training") or {}), "auto": True}}

    @model_validator(mode="before")
    @classmethod
    def _complete_phases(cls, values: Any) -> Any:
        """Use the recipe's sections as defaults of those of each phase."""
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
    def _check_contradictions(self, info: ValidationInfo) -> Recipe:
        problems = [] if (info.context or {}).get("partial") else contradictions(self)
        if problems:
            raise PydanticCustomError("contradiction", "contradictory settings", {"problems": problems})
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
    def sets(self) -> dict[str, SetSpec]:
        """The training sets of all tasks by name, in the order of the tasks."""
        return {name: spec for task in self.tasks.values() for name, spec in sets_of(task).items()}

    @property
    def factors(self) -> dict[str, float]:
        """The factors on how often sets are drawn, by the name of the set, where they differ from 1."""
        return {name: spec.factor for name, spec in self.sets.items() if spec.factor != 1}

    def batch_size(self, spec: SetSpec) -> int:
        """Return the examples of a set per step; an even number where rows come with copies."""
        size = spec.batch_size or self.training.batch_size
        return size + size % 2 if spec.swapped else size


def _over(section: Any, phase: Any) -> Any:
    """Return a phase's section with the recipe's settings as defaults; anything but a table is left to validation."""
    if not isinstance(section or {}, dict) or not isinstance(phase or {}, dict):
        return phase
    return {**(section or {}), **{key: value for key, value in (phase or {}).items() if value is not None}}
