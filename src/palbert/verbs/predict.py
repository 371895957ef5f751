"""Predict: load a run, and predict for texts or pairs."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from palbert.build import (
    Machine,
    OpenedCheckpoint,
    build_inference,
    is_encoder,
    open_checkpoint,
    open_encoder,
    prepare_for_inference,
)
from palbert.data.collate import count_truncated
from palbert.data.ragged import Ragged
from palbert.errors import DataError, did_you_mean
from palbert.explanations.explainer import check_method
from palbert.explanations.explanation import Explanations, SimilarTo
from palbert.inference.abstaining import abstentions, check_confidence
from palbert.inference.embedding import Embedder
from palbert.registry.trust import trusting
from palbert.reporting.display import answers_table, prediction_table, tasks_table
from palbert.runtime.files import AnyPath
from palbert.runtime.run_folder import RunFolder
from palbert.tasks.spec import Task
from palbert.verbs.decide import warn_of_missing
from palbert.verbs.explaining import AnswerExplainer
from palbert.verbs.hub_run import locate
from palbert.verbs.similar import SimilarRows
from palbert.verbs.texts import Text, columns_of, tasks_for

log = logging.getLogger(__name__)


@dataclass(frozen=True, repr=False)
class Prediction:
    """The prediction of a task for one text or pair."""

    answer: Any
    """As the task's target gives it: a class name, a number, or a list of class names; None if the task abstained."""
    probabilities: dict[str, float] | None = None
    """The probability of each class."""
    abstained: bool | None = None
    """Whether no answer was sure enough; None where every answer is given, as without `min_confidence`."""

    def as_dict(self) -> dict[str, Any]:
        """Return plain values, for JSON."""
        values: dict[str, Any] = {"prediction": self.answer}
        if self.abstained is not None:
            values["abstained"] = self.abstained
        return values | ({"probabilities": self.probabilities} if self.probabilities is not None else {})

    def __repr__(self) -> str:
        shares = {name: float(f"{share:.3g}") for name, share in (self.probabilities or {}).items()}
        abstained = f", abstained={self.abstained}" if self.abstained is not None else ""
        return f"Prediction(answer={self.answer!r}{f', probabilities={shares!r}' if shares else ''}{abstained})"

    def _repr_html_(self) -> str:
        return prediction_table([self]).html()


class Predictions(list[Prediction]):
    """Predictions of a task, shown in a notebook as a table next to the texts."""

    def __init__(self, predictions: Iterable[Prediction] = (), *, texts: Sequence[Text] = ()) -> None:
        super().__init__(predictions)
        self.texts = texts

    def _repr_html_(self) -> str:
        return prediction_table(self, self.texts if len(self.texts) == len(self) else ()).html()


class AllPredictions(list[dict[str, Prediction]]):
    """Predictions of several tasks for each text, shown in a notebook as a table with a column per task."""

    def __init__(self, rows: Iterable[dict[str, Prediction]] = (), *, texts: Sequence[Text] = ()) -> None:
        super().__init__(rows)
        self.texts = texts

    def _repr_html_(self) -> str:
        answers = [{name: each.answer for name, each in row.items()} for row in self]
        return answers_table(answers, self.texts if len(self.texts) == len(self) else ()).html()


def load(
    run: AnyPath,
    *,
    checkpoint: str | None = None,
    device: str = "auto",
    precision: Literal["auto", "fp32", "bf16", "int8"] = "auto",
    trust: bool = False,
) -> Predictor:
    """Load a run's best checkpoint, or the named one, for prediction.

    `owner/name`, with an optional `@revision`, is a run of the Hugging Face Hub, unless a folder here has that name.
    An encoder, "minilm" or the folder of one, is loaded too: it has no tasks, and `embed` turns texts into vectors.
    With `trust`, code from outside palbert that the checkpoint names is imported; otherwise that is a TrustError.
    """
    machine = Machine.of(device, precision)
    found = locate(run)
    if is_encoder(found):
        return Predictor(open_encoder(str(found), machine), machine)
    folder = RunFolder(found)
    with trusting(trust):
        return Predictor(open_checkpoint(folder.checkpoint(checkpoint), machine), machine, run=folder)


class Predictor:
    """A trained model that predicts for all of its tasks."""

    def __init__(self, opened: OpenedCheckpoint, machine: Machine, *, run: RunFolder | None = None) -> None:
        self.tasks = opened.tasks
        self.tokenizer = opened.tokenizer
        model = prepare_for_inference(opened.model, machine)
        self.inference = build_inference(model, tokenizer=opened.tokenizer, machine=machine)
        self.inference.decisions = opened.decisions
        warn_of_missing(opened.tasks, opened.decisions)
        self.explainer = AnswerExplainer(opened, self.inference, machine)
        self.similar_rows = SimilarRows(run, self.inference, opened.tokenizer)
        self.embedder = Embedder(
            self.inference,
            tokenizer=opened.tokenizer,
            tasks=opened.tasks,
            max_length=opened.description.get("max_length", opened.model.encoder.config.max_length),
        )

    def __repr__(self) -> str:
        return tasks_table(self.tasks.values()).text()

    def _repr_html_(self) -> str:
        return tasks_table(self.tasks.values()).html()

    def task(self, name: str) -> Task:
        """Return a task by name."""
        if name not in self.tasks:
            raise DataError(f"Unknown task '{name}'.", hint=did_you_mean(name, self.tasks))
        return self.tasks[name]

    def predict(self, task: str, texts: Sequence[Text], *, min_confidence: float | None = None) -> Predictions:
        """Predict for texts, or for pairs of texts if the task takes pairs.

        Args:
            task: The task to ask.
            texts: The texts or pairs.
            min_confidence: Abstain where the probability that the answer is right is lower. With several classes per
                row, that is the probability of the least certain decision about a class.
        """
        spec = self.task(task)
        check_confidence(min_confidence, spec)
        columns = columns_of(spec, texts)
        if not columns[0]:
            return Predictions()
        outputs = self.inference.outputs(spec, self._tokens([spec], columns))
        return Predictions(self.predictions(spec, outputs, min_confidence), texts=texts)

    def predict_all(
        self, texts: Sequence[Text], *, tasks: Sequence[str] | None = None, min_confidence: float | None = None
    ) -> AllPredictions:
        """Predict with all tasks that take such rows, single texts or pairs; return each row's predictions by task.

        Tasks with the same `max_length`, the same form of pairs and the same adapter, or none, share one pass of the
        encoder.

        Args:
            texts: Only single texts, or only pairs.
            tasks: The tasks to ask; all that take such rows unless given.
            min_confidence: Abstain where an answer is less likely to be right, as in `predict`; numbers are always
                given, since they have no probability.
        """
        check_confidence(min_confidence)
        asked = tasks_for(self.tasks, texts) if tasks is None else [self.task(name) for name in tasks]
        columns = [columns_of(spec, texts) for spec in asked]
        if not columns or not columns[0][0]:
            return AllPredictions(({} for _ in texts), texts=texts)
        outputs = self.inference.outputs_of(asked, self._tokens(asked, columns[0]))
        by_task = {spec.name: self.predictions(spec, outputs[spec.name], min_confidence) for spec in asked}
        rows = (dict(zip(by_task, row, strict=True)) for row in zip(*by_task.values(), strict=True))
        return AllPredictions(rows, texts=texts)

    def embed(
        self, texts: Sequence[str], *, pooling: str = "mean", normalise: bool = False, task: str | None = None
    ) -> NDArray[np.float32]:
        """Return one vector per text, (texts, hidden): the pooled token states of the trained encoder.

        Args:
            texts: Single texts.
            pooling: "mean" over all tokens, special ones included; "cls", the first token; "pooler", the first token
                through the encoder's own tanh layer.
            normalise: Divide each vector by its length.
            task: The task whose adapter and `max_length` are used. Without it, texts may have as many tokens as the
                task with the longest `max_length` allows.

        Raises:
            DataError: Tasks have adapters of their own, and no task is given.
        """
        return self.embedder(texts, pooling=pooling, normalise=normalise, task=task)

    def explain(
        self,
        task: str,
        texts: Sequence[Text],
        *,
        target: str | None = None,
        method: str = "integrated-gradients",
        interactions: bool = False,
    ) -> Explanations:
        """Return which words led to the answers, and by how much.

        What is explained is the log odds of a class, log p − log(1 − p), or a number before it is clipped. The first
        call opens a second model where the first one's layers have no gradients; see the guide "Why this answer".

        Args:
            task: The task to ask.
            texts: The texts or pairs.
            target: The class to explain; the answer's own unless given, and the most probable one where a row has any
                number of classes.
            method: "integrated-gradients", whose scores add up to the output; "gradient-input", from one step;
                "occlusion", which masks one word after the other.
            interactions: Add which words of the one text answer to which words of the other, for pairs.
        """
        spec = self.task(task)
        check_method(method)
        columns = columns_of(spec, texts)
        if not columns[0]:
            return Explanations()
        outputs = self.inference.outputs(spec, self._tokens([spec], columns))
        found = self.explainer(spec, columns, outputs, target=target, method=method, interactions=interactions)
        return Explanations(found)

    def similar(self, task: str, texts: Sequence[Text], *, count: int = 5) -> SimilarTo:
        """Return the training rows that are most like each row, by the cosine of the vectors that the head sees.

        The vector of a siamese pair is that of both texts, one after the other. The first call for a task reads its
        training files, which must be those of the training, and computes the vectors of at most 20,000 rows per set.

        Args:
            task: The task whose training rows are compared.
            texts: The texts or pairs.
            count: How many training rows to return for each.
        """
        spec = self.task(task)
        columns = columns_of(spec, texts)
        if not columns[0]:
            return SimilarTo()
        return SimilarTo(self.similar_rows(spec, self._tokens([spec], columns), count=count))

    def _tokens(self, tasks: Sequence[Task], columns: Sequence[Sequence[str]]) -> tuple[Ragged, ...]:
        """Tokenize columns; warn about rows that are too long for one of the tasks."""
        tokens = tuple(self.tokenizer(column) for column in columns)
        for length, siamese in dict.fromkeys((task.max_length, task.siamese) for task in tasks):
            cut = count_truncated(tokens, self.tokenizer.template, max_length=length, siamese=siamese)
            if cut:
                log.warning("%d of %d rows were longer than %d tokens and were truncated", cut, len(tokens[0]), length)
        return tokens

    def predictions(self, task: Task, outputs: Tensor, min_confidence: float | None) -> list[Prediction]:
        """Turn a task's outputs, (rows, outputs), into predictions."""
        decoded, target = self.inference.decode(task, outputs), task.target
        answers = [target.answer(predicted) for predicted in decoded.predicted]
        if decoded.probabilities is None:
            return [Prediction(answer) for answer in answers]
        shares = [
            {name: float(share) for name, share in zip(target.classes, row, strict=True)}
            for row in decoded.probabilities
        ]
        unsure = abstentions(target, decoded, min_confidence)
        return [
            Prediction(None if abstained else answer, row, abstained)
            for answer, row, abstained in zip(answers, shares, unsure, strict=True)
        ]
