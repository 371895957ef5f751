"""The table of families, by the `model_type` in config.json."""

from __future__ import annotations

from palbert.model.families.bert import BERT, DISTILBERT, ELECTRA, MPNET, ROBERTA
from palbert.model.families.family import Family
from palbert.model.families.modernbert import MODERNBERT

FAMILIES: dict[str, Family] = {
    "bert": BERT,
    "camembert": ROBERTA,
    "distilbert": DISTILBERT,
    "electra": ELECTRA,
    "modernbert": MODERNBERT,
    "mpnet": MPNET,
    "roberta": ROBERTA,
    "xlm-roberta": ROBERTA,
}
