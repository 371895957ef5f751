"""A recipe in Python: the settings as typed dicts, which editors complete and type checkers check.

Each is a plain dict, as TOML would give it. `python tools/typed_recipe.py` writes this file from the schema.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from os import PathLike
from typing import Any, Literal, TypedDict

Choice = str | Mapping[str, Any]
"""The name of a part, or its name and options: `"pal"`, or `{"name": "pal", "size": 204}`."""


class Encoder(TypedDict, total=False):
    """The pretrained encoder that all tasks share."""

    name: str | PathLike[str]
    """A local folder in the Hugging Face layout, a Hub id, "minilm", or the folder of a run."""
    keep: Sequence[Literal["heads", "adapters"]]
    """What tasks of the same name take over from the run that is the encoder; new weights unless given."""
    frozen: bool
    """Train everything but the encoder."""
    dropout: float | None
    """Dropout on hidden states; the checkpoint's own unless given."""
    attention_dropout: float | None
    """Dropout on attention probabilities; the checkpoint's own unless given."""
    mixout: float
    """Share of the linear layers' inputs for which a training pass uses the pretrained weights; 0 is off."""
    recompute: bool
    """Keep only the input of each layer and run the layer again in the backward pass, to save memory."""


class FileSettings(TypedDict, total=False):
    """How files write their rows: the settings that a task, an extra set and a single file can give."""

    quoting: Literal["auto", "on", "off"] | None
    """Whether fields may be quoted; the task's unless given."""
    separator: str | None
    """The sign between fields, such as ";", or "" for files of one column; recognised unless given."""
    encoding: str | None
    """How letters are written, such as "windows-1252"; UTF-8, or as the file's byte order mark says, unless given."""
    header: bool | Sequence[str] | None
    """Whether the first line names the columns, which is so unless given, or names for columns that have none."""
    sheet: str | None
    """The sheet of Excel workbooks; the first one unless given."""
    decimal: Literal[".", ","] | None
    """The decimal sign of labels that are numbers; recognised unless given."""


class Source(FileSettings, total=False):
    """One file, or one Hub data set, with the settings that differ from its task's."""

    path: str | PathLike[str]
    """A CSV, TSV, JSON, JSONL, Excel or Parquet file, a pattern, a URL, or `hf:owner/name[/config]:split`."""
    text: str | Sequence[str]
    """Text columns of this file; the task's unless given."""
    label: str | None
    """Label column of this file; the task's unless given."""
    labels: Mapping[str, int | float | str] | str | None
    """Label mapping of this file; the task's unless given."""


File = str | PathLike[str] | Source
Files = File | Sequence[File]
"""A file or several, each a path or a `Source`."""


class HeldOut(TypedDict, total=False):
    """Training rows that are set aside as dev: a share, a number of rows, or one of several equal parts."""

    share: float | None
    """Share of the training rows; `dev = "10%"` and `dev = 0.1` stand for 0.1."""
    rows: int | None
    """Number of rows; `dev = 500` stands for 500."""
    fold: int | None
    """The fold that is set aside, from 1; `dev = "fold 1 of 5"`."""
    folds: int | None
    """The number of equal parts that the rows are divided into."""
    seed: int
    """Seed of the random choice; not the recipe's, so that runs with several seeds have the same dev rows."""


class ExtraSet(FileSettings, total=False):
    """A further training set of a task, sampled separately: `[tasks.quora.extra.snli]`."""

    train: Files
    """Training files, read as one set; the task's own for `form = "identity-swaps"` unless given."""
    form: Literal["rows", "triplets", "identity-swaps"]
    """Rows as the task has them, triplets to contrast, or rows with copies that name another group of people."""
    text: str | Sequence[str]
    """Text columns; the task's unless given. Triplets: three, or premise and hypothesis, which is the default."""
    label: str | None
    """Label column; the task's unless given. Triplets of two columns: "label"; of three columns: none is read."""
    labels: Mapping[str, int | float | str] | str | None
    """Label mapping onto the task's labels; the task's unless given. Triplets: onto entailment and contradiction."""
    bad_rows: Literal["error", "drop"] | None
    """What to do with rows that lack a text or a label; as for the task unless given."""
    row_weight: str | None
    """Column of row weights; the task's unless given, and none if empty."""
    factor: float
    """Factor on how often the set is drawn, with samplers that draw; 0.1 is a tenth of what its size gives."""
    batch_size: int | None
    """Examples of this set per step; the task's unless given."""
    max_length: int | None
    """Tokens per sequence; the task's unless given."""


class Task(FileSettings, total=False):
    """One question put to the model."""

    kind: Literal["single", "pair"]
    """One sentence, or two."""
    classes: Sequence[str]
    """Class names in index order; the data may hold names or indices. Binary: ("no", "yes") unless given."""
    range: Sequence[float] | None
    """Lowest and highest number; predictions are clipped to it, labels outside it are errors."""
    target: Choice
    """What is predicted: one of several classes, yes or no, a number, or any number of classes."""
    train: Files
    """Training files, read as one set."""
    dev: Files | float
    """Files to evaluate on. A share such as "10%" or a number of rows is held out from train, as without dev files."""
    held_out: HeldOut | None
    """The training rows that are set aside as dev, if there are no dev files; `dev = "10%"` sets it."""
    test: Files
    """Files to predict or evaluate on after training; they may lack the label column."""
    split: str
    """A column of the training files that says where each row belongs: train, dev or test."""
    train_on_dev: bool
    """Train on the dev rows too, for a final run when everything has been chosen; `submit --with-dev` sets it."""
    text: str | Sequence[str]
    """Text columns: one, or two for pairs."""
    label: str
    """Label column."""
    id: str
    """Row id column; without it, rows are numbered."""
    labels: Mapping[str, int | float | str] | str | None
    """Label mapping, `{entailment = 1, contradiction = 0, neutral = "drop"}`, or a factor such as `"x4"`."""
    bad_rows: Literal["error", "drop"]
    """What to do with rows that lack a text or a label: stop, or drop and count them."""
    extra: Mapping[str, ExtraSet] | Sequence[str]
    """Further training sets by name, each with its own mapping, factor and batch size."""
    drop_overlap: Sequence[Literal["dev", "test", "dev-texts", "test-texts"]]
    """Training rows to leave out: rows of "dev" or "test", or rows with a text of theirs, "dev-texts", "test-texts"."""
    batch_size: int | None
    """Examples of this task per step; the recipe's `training.batch_size` unless given."""
    max_length: int
    """Tokens per sequence, special tokens included; longer ones are truncated and counted."""
    pair_input: Literal["joint", "siamese"]
    """Pairs as one sequence `[CLS] a [SEP] b [SEP]`, or as two sequences."""
    pooling: Choice
    """How token states become one vector: first token, tanh pooler, mean or weighted mean over all tokens."""
    head: Choice
    """How vectors become outputs: linear, mlp; for siamese pairs concat, concat-difference, compare, cosine."""
    head_start: Literal["random", "mean", "probe"]
    """How the head starts: at random, with the mean label as its bias, or as a linear probe of mean vectors."""
    dropout: float
    """Dropout in front of the head."""
    loss: Choice
    """Training loss; the target's default unless given."""
    label_smoothing: float
    """Share of every label that is spread evenly over the classes; for cross-entropies."""
    prior: float | Sequence[float] | Mapping[str, float]
    """Share of each class where the model will be used, if it differs from the training rows; binary: share of yes."""
    calibration: Literal["none", "temperature", "platt"]
    """How probabilities are adjusted on dev after training: one temperature, or scale and shift per decision."""
    threshold: float | Literal["f1", "accuracy", "balanced"] | None
    """The probability above which the answer is yes, or the score on dev that chooses it; the target's unless given."""
    metrics: Sequence[str]
    """What is measured; the first one represents the task in the overall score."""
    row_weight: str | None
    """Column of row weights, numbers from 0: how much each training row counts in the task's loss."""
    class_weights: Literal["balanced"] | Sequence[float] | Mapping[str, float]
    """How much the training rows of each class count; "balanced": all classes alike."""
    weight: float
    """Factor of this task's loss."""
    teachers: str | PathLike[str] | Sequence[str | PathLike[str]]
    """Run folders of models whose outputs the objective `distillation` learns from."""


class Pretraining(TypedDict, total=False):
    """Masked-language-model training of the encoder on the tasks' own text and on plain text, before the tasks."""

    text: str | PathLike[str] | Sequence[str | PathLike[str]]
    """Plain text files, .txt, one text per line, in addition to the texts of the tasks' training files."""
    epochs: int
    """Number of epochs; the held-out loss is computed after each."""
    steps_per_epoch: int | None
    """Optimizer steps per epoch; unless given, as many as one pass over the texts takes."""
    batch_size: int
    """Texts, or pieces of long ones, per step."""
    max_length: int
    """Tokens per sequence, special tokens included; longer texts are split into several."""
    mask: float
    """Share of the tokens that are masked and predicted."""
    learning_rate: float
    """Peak rate of the encoder and of the head that predicts the words."""
    schedule: Choice
    """How the rate changes over the steps."""
    held_out: float
    """Share of the texts that are not trained on; the loss on them is reported."""


class Training(TypedDict, total=False):
    """How long to train, on what, in which order."""

    auto: bool
    """Choose what this section and `[optimizer]` leave open for the number of training rows."""
    epochs: int
    """Number of epochs; an evaluation follows each."""
    steps_per_epoch: int | None
    """Optimizer steps per epoch; unless given, as many as the sampler needs for one pass."""
    batch_size: int
    """Examples per step, for tasks that do not set their own."""
    accumulation: int
    """Pieces that each step's batch is split into, to save memory; the update stays the same."""
    sampler: Choice
    """Which task the next batch comes from."""
    gradients: Choice
    """How the tasks' gradients are combined."""
    balance: Choice
    """How the tasks' losses are scaled in addition to their weights: fixed (not at all), normalised or uncertainty."""
    trains: Sequence[Literal["encoder", "adapters", "heads"]]
    """Which parts are trained; poolings and the relational layer belong to the heads. All of them unless given."""
    clip: float
    """The largest Euclidean norm of a gradient; longer gradients are scaled down to it. `inf` turns clipping off."""
    non_finite: Literal["stop", "skip"]
    """What happens to a step whose loss or gradient is NaN or infinite: it stops the run, or is skipped."""
    most_skips: int
    """Skipped steps in a row after which the run stops."""
    average: Choice
    """Which weights are evaluated and saved: those under training (none), or their average, ema or swa."""
    log_every: int
    """Steps between lines in metrics.jsonl."""
    save_every: int
    """Steps between `last` checkpoints; one is written after each evaluation in any case."""
    evaluate_every: int | None
    """Steps between evaluations within epochs; unless given, there is one after each epoch only."""
    patience: int | None
    """Evaluations without a better overall score after which the run finishes; with phases, in the last one."""
    time_limit: float | str | None
    """Seconds of training and evaluations after which the run finishes, or text such as "30 min" or "2h"."""


class Optimizer(TypedDict, total=False):
    """AdamW and its rates."""

    learning_rate: float
    """Peak rate of the encoder, and of everything without a rate of its own."""
    head_learning_rate: float | None
    """Peak rate of heads, poolings, relational layer, and the parameters of objectives and balance."""
    adapter_learning_rate: float | None
    """Peak rate of adapters."""
    layer_decay: float
    """Factor of the encoder's rate from each layer to the one below; the embeddings have the lowest rate, 1 is off."""
    weight_decay: float
    """Decoupled weight decay; biases and norms have none."""
    betas: Sequence[float]
    """Decay of the moving averages of gradient and squared gradient."""
    epsilon: float
    """Added to the denominator."""
    schedule: Choice
    """How the rates change over the run."""


class Phase(TypedDict, total=False):
    """A part of the run with its own tasks, length, sampler and rates; the recipe's unless given."""

    name: str
    """Shown in the log."""
    tasks: Sequence[str]
    """The tasks that are trained; all of them unless given. All are evaluated."""
    objectives: Sequence[Choice] | None
    """Terms added to the supervised losses; the recipe's, for this phase's tasks, unless given."""
    training: Training
    """How long to train, on what, in which order; what is missing is taken from the recipe's own section."""
    optimizer: Optimizer
    """A new AdamW and its rates; what is missing is taken from the recipe's own section."""


class Machine(TypedDict, total=False):
    """Device, precision, CUDA graphs and TensorBoard."""

    device: str
    """auto, cpu, cuda, cuda:N or mps."""
    precision: Literal["auto", "fp32", "tf32", "bf16", "fp16"]
    """Number format of matrix products; auto is bf16 on CUDA, or fp16 on cards without it, and fp32 elsewhere."""
    capture: Literal["auto", "off"]
    """Whether training steps are captured as CUDA graphs where possible: auto, or off."""
    deterministic: bool
    """Let torch refuse operations whose result may differ from run to run, and take slower ones where it has them."""
    tensorboard: bool
    """Write TensorBoard files next to metrics.jsonl, if tensorboard is installed."""
    wandb: str
    """The project of Weights & Biases that the run is sent to; none unless given."""
    mlflow: str
    """The experiment of MLflow that the run is written to; none unless given."""


class Recipe(TypedDict, total=False):
    """One run: an encoder, tasks with their files, and the methods."""

    description: str
    """One line, shown by `palbert recipes`."""
    seed: int
    """Seed of all random choices; the same seed on the same machine gives the same run."""
    data: str | PathLike[str] | None
    """A folder that file names are relative to, "samples" (inside the package) or "hub"."""
    overall: Literal["scaled-mean", "mean"]
    """Overall score: the mean over tasks of metrics mapped to 0…1 (correlations by (r + 1) / 2), or of plain ones."""
    encoder: str | PathLike[str] | Encoder
    """The pretrained encoder that all tasks share."""
    adapters: Choice | None
    """Task-specific layers inside the encoder: pal, low-rank, houlsby or lora; none unless given."""
    relation: Choice | None
    """A layer that related tasks share between pooling and heads; none unless given."""
    tasks: Mapping[str, Task] | Sequence[str]
    """The tasks by name; a task of the catalog has default settings."""
    pretraining: Pretraining | None
    """Masked-language-model training of the encoder before the tasks; none unless given."""
    objectives: Sequence[Choice]
    """Terms added to the supervised losses: distillation, proximal, rdrop, simcse, smart, supervised-simcse."""
    training: Training | Literal["auto"]
    """How long to train, on what, in which order."""
    optimizer: Optimizer
    """AdamW and its rates."""
    phases: Sequence[Phase]
    """Phases of the run, in order; one phase with the settings above unless given."""
    run: Machine
    """Device, precision, and where the numbers of the run are sent."""
