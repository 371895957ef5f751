"""The table of families, by the `model_type` in config.json."""

from __future__ import annotations

from palbert.model.families.bert import BERT, DISTILBERT, ELECTRA, MPNET, ROBERTA
from palbert.model.families.family import Family

FAMILIES: dict[str, Family] = {
    "bert": BERT,
    "camembert": ROBERTA,
    "distilbert": DISTILBERT,
    "electra": ELECTRA,
    "mpnet": MPNET,
    "roberta": ROBERTA,
    "xlm-roberta": ROBERTA,
}
