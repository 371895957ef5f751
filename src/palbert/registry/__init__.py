"""Everything that a recipe or a checkpoint can name, in one table per kind of part. No torch."""

from __future__ import annotations

from palbert.registry.registry import REQUIRED, Description, Registry
from palbert.registry.trust import OWN_CLASS

HEADS = Registry(
    "head",
    group="heads",
    base="palbert.model.heads:Head",
    given=("hidden_size", "outputs", "label_range"),
    paths={
        "linear": "palbert.model.heads:Linear",
        "mlp": "palbert.model.heads:MLP",
        "concat": "palbert.model.heads:Concat",
        "concat-difference": "palbert.model.heads:ConcatDifference",
        "compare": "palbert.model.heads:Compare",
        "cosine": "palbert.model.heads:Cosine",
    },
)
POOLINGS = Registry(
    "pooling",
    group="poolings",
    base="palbert.model.pooling:Pooling",
    given=("hidden_size",),
    paths={
        "attention": "palbert.model.pooling:Attention",
        "cls": "palbert.model.pooling:Cls",
        "mean": "palbert.model.pooling:Mean",
        "pooler": "palbert.model.pooling:Pooler",
    },
)
ADAPTERS = Registry(
    "adapter",
    group="adapters",
    base="palbert.model.adapters:Adapter",
    given=("hidden_size", "layers"),
    paths={
        "pal": "palbert.model.adapters.pal:PAL",
        "low-rank": "palbert.model.adapters.low_rank:LowRank",
        "houlsby": "palbert.model.adapters.houlsby:Houlsby",
        "lora": "palbert.model.adapters.lora:LoRA",
    },
    renamed={"beside": "parallel"},
)
RELATIONS = Registry(
    "relational layer",
    group="relations",
    base="palbert.model.relational:Relation",
    given=("hidden_size",),
    paths={"linear": "palbert.model.relational:LinearRelation", "mlp": "palbert.model.relational:MLPRelation"},
)
TARGETS = Registry(
    "target",
    group="targets",
    base="palbert.targets:Target",
    given=("classes", "range"),
    paths={
        "classes": "palbert.targets.classes:Classes",
        "binary": "palbert.targets.binary:Binary",
        "number": "palbert.targets.number:Number",
        "multilabel": "palbert.targets.multilabel:Multilabel",
    },
)
METRICS = Registry(
    "metric",
    group="metrics",
    base="",
    given=("gold", "predicted"),
    paths={
        "accuracy": "palbert.metrics:accuracy",
        "balanced_accuracy": "palbert.metrics:balanced_accuracy",
        "precision": "palbert.metrics:precision",
        "recall": "palbert.metrics:recall",
        "f1": "palbert.metrics:f1",
        "macro_precision": "palbert.metrics:macro_precision",
        "macro_recall": "palbert.metrics:macro_recall",
        "macro_f1": "palbert.metrics:macro_f1",
        "weighted_f1": "palbert.metrics:weighted_f1",
        "micro_precision": "palbert.metrics:micro_precision",
        "micro_recall": "palbert.metrics:micro_recall",
        "micro_f1": "palbert.metrics:micro_f1",
        "jaccard": "palbert.metrics:jaccard",
        "subset_accuracy": "palbert.metrics:subset_accuracy",
        "hamming_loss": "palbert.metrics:hamming_loss",
        "mcc": "palbert.metrics:mcc",
        "kappa": "palbert.metrics:kappa",
        "quadratic_kappa": "palbert.metrics:quadratic_kappa",
        "roc_auc": "palbert.metrics:roc_auc",
        "average_precision": "palbert.metrics:average_precision",
        "log_loss": "palbert.metrics:log_loss",
        "brier": "palbert.metrics:brier",
        "ece": "palbert.metrics.calibration:ece",
        "pearson": "palbert.metrics:pearson",
        "spearman": "palbert.metrics:spearman",
        "r2": "palbert.metrics:r2",
        "explained_variance": "palbert.metrics:explained_variance",
        "mse": "palbert.metrics:mean_squared_error",
        "rmse": "palbert.metrics:root_mean_squared_error",
        "mae": "palbert.metrics:mean_absolute_error",
        "median_absolute_error": "palbert.metrics:median_absolute_error",
    },
)
LOSSES = Registry(
    "loss",
    group="losses",
    base="",
    given=("outputs", "labels", "label_smoothing", "reduction"),
    paths={
        "cross-entropy": "palbert.objectives.losses:cross_entropy",
        "focal": "palbert.objectives.losses:focal",
        "binary-cross-entropy": "palbert.objectives.losses:binary_cross_entropy",
        "binary-focal": "palbert.objectives.losses:binary_focal",
        "mse": "palbert.objectives.losses:mean_squared_error",
        "mae": "palbert.objectives.losses:mean_absolute_error",
        "huber": "palbert.objectives.losses:huber",
    },
)
OBJECTIVES = Registry(
    "objective",
    group="objectives",
    base="palbert.objectives:Term",
    given=("goals",),
    paths={
        "distillation": "palbert.objectives.distillation:Distillation",
        "proximal": "palbert.objectives.proximal:Proximal",
        "rdrop": "palbert.objectives.rdrop:RDrop",
        "simcse": "palbert.objectives.simcse:SimCSE",
        "smart": "palbert.objectives.smart:SMART",
        "supervised-simcse": "palbert.objectives.supervised_simcse:SupervisedSimCSE",
        "swap-invariance": "palbert.objectives.swap_invariance:SwapInvariance",
    },
)
BALANCES = Registry(
    "balance",
    group="balances",
    base="palbert.objectives.balance:Balance",
    given=("goals",),
    paths={
        "fixed": "palbert.objectives.balance.fixed:Fixed",
        "normalised": "palbert.objectives.balance.normalised:Normalised",
        "uncertainty": "palbert.objectives.balance.uncertainty:Uncertainty",
    },
)
GRADIENTS = Registry(
    "gradient method",
    group="gradients",
    base="palbert.gradients:GradientMethod",
    other_base="palbert.gradients:Weighting",
    given=("weights", "parameters"),
    paths={
        "aligned-mtl": "palbert.gradients.aligned_mtl:AlignedMTL",
        "cagrad": "palbert.gradients.cagrad:CAGrad",
        "fairgrad": "palbert.gradients.fairgrad:FairGrad",
        "imtl-g": "palbert.gradients.imtl_g:IMTLG",
        "mgda": "palbert.gradients.mgda:MGDA",
        "pcgrad": "palbert.gradients.pcgrad:PCGrad",
        "sum": "palbert.gradients.sum:Sum",
        "upgrad": "palbert.gradients.upgrad:UPGrad",
    },
    extra=dict.fromkeys(("aligned-mtl", "cagrad", "fairgrad", "imtl-g", "mgda", "pcgrad", "upgrad"), "gradients"),
    renamed={"watch": "forward_context"},
)
SAMPLERS = Registry(
    "sampler",
    group="samplers",
    base="palbert.training.samplers:Sampler",
    given=("settings",),
    paths={
        "adaptive-round-robin": "palbert.training.samplers.adaptive_round_robin:AdaptiveRoundRobin",
        "annealed": "palbert.training.samplers.annealed:Annealed",
        "mixed": "palbert.training.samplers.mixed:Mixed",
        "proportional": "palbert.training.samplers.proportional:Proportional",
        "round-robin": "palbert.training.samplers.round_robin:RoundRobin",
        "sequential": "palbert.training.samplers.sequential:Sequential",
        "square-root": "palbert.training.samplers.square_root:SquareRoot",
        "temperature": "palbert.training.samplers.temperature:Temperature",
    },
)
SCHEDULES = Registry(
    "schedule",
    group="schedules",
    base="palbert.training.schedule:Schedule",
    paths={
        "constant": "palbert.training.schedule:Constant",
        "cosine": "palbert.training.schedule:CosineDecay",
        "slanted-triangle": "palbert.training.schedule:SlantedTriangle",
        "stlr": "palbert.training.schedule:STLR",
    },
)
AVERAGES = Registry(
    "average",
    group="averages",
    base="palbert.training.averaging:Average",
    given=("model",),
    paths={
        "ema": "palbert.training.averaging:EMA",
        "none": "palbert.training.averaging:NoAverage",
        "swa": "palbert.training.averaging:SWA",
    },
)
FAMILIES = Registry(
    "encoder family",
    group="families",
    base="palbert.model.families:Family",
    values=True,
    paths={
        "bert": "palbert.model.families.bert:BERT",
        "camembert": "palbert.model.families.bert:ROBERTA",
        "distilbert": "palbert.model.families.bert:DISTILBERT",
        "electra": "palbert.model.families.bert:ELECTRA",
        "modernbert": "palbert.model.families.modernbert:MODERNBERT",
        "mpnet": "palbert.model.families.bert:MPNET",
        "roberta": "palbert.model.families.bert:ROBERTA",
        "xlm-roberta": "palbert.model.families.bert:ROBERTA",
    },
)
"""By the `model_type` in config.json."""
REGISTRIES = {
    table.group.removeprefix("palbert."): table for table in list(globals().values()) if isinstance(table, Registry)
}
"""All registries of what a recipe can name, by kind of part: "heads", "samplers", …"""

PANELS = Registry(
    "set of panels",
    group="panels",
    base="palbert.reporting.panels:Panels",
    given=("target",),
    paths={
        "plain": "palbert.reporting.panels.plain:PlainPanels",
        "classes": "palbert.reporting.panels.classes:ClassPanels",
        "binary": "palbert.reporting.panels.classes:BinaryPanels",
        "number": "palbert.reporting.panels.number:NumberPanels",
        "multilabel": "palbert.reporting.panels.multilabel:MultilabelPanels",
    },
)
"""What reports show of a target; a target names its panels, a recipe does not."""

__all__ = [
    "ADAPTERS",
    "AVERAGES",
    "BALANCES",
    "FAMILIES",
    "GRADIENTS",
    "HEADS",
    "LOSSES",
    "METRICS",
    "OBJECTIVES",
    "OWN_CLASS",
    "PANELS",
    "POOLINGS",
    "REGISTRIES",
    "RELATIONS",
    "REQUIRED",
    "SAMPLERS",
    "SCHEDULES",
    "TARGETS",
    "Description",
    "Registry",
]
