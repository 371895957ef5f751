"""Build: the only place where a recipe meets classes."""

from palbert.build.alone import is_encoder, open_encoder
from palbert.build.check import check_names
from palbert.build.checkpoint import OpenedCheckpoint, open_checkpoint, open_differentiable, read_tasks
from palbert.build.data import count_overlap, has_rows, load_rows, load_split, load_training_set, load_training_sets
from palbert.build.gradients import make_gradients
from palbert.build.keep import keep_parts
from palbert.build.machine import Machine, build_inference, prepare_for_inference
from palbert.build.model import build_encoder, build_model, check_lengths
from palbert.build.objectives import make_objectives
from palbert.build.pretraining import build_pretrainer, check_pretraining, load_corpus
from palbert.build.sampling import make_sampler
from palbert.build.teachers import teach, teachers_sha256
from palbert.build.trainer import build_trainer, evaluate_now

__all__ = [
    "Machine",
    "OpenedCheckpoint",
    "build_encoder",
    "build_inference",
    "build_model",
    "build_pretrainer",
    "build_trainer",
    "check_lengths",
    "check_names",
    "check_pretraining",
    "count_overlap",
    "evaluate_now",
    "has_rows",
    "is_encoder",
    "keep_parts",
    "load_corpus",
    "load_rows",
    "load_split",
    "load_training_set",
    "load_training_sets",
    "make_gradients",
    "make_objectives",
    "make_sampler",
    "open_checkpoint",
    "open_differentiable",
    "open_encoder",
    "prepare_for_inference",
    "read_tasks",
    "teach",
    "teachers_sha256",
]
