"""Families: how checkpoints of each model type are read and written."""

from palbert.model.families.family import Family, Names
from palbert.model.families.settings import family_of, read_config, write_config
from palbert.model.families.weights import checkpoint_names, convert, current_name, export, plain_names, prefix_in

__all__ = [
    "Family",
    "Names",
    "checkpoint_names",
    "convert",
    "current_name",
    "export",
    "family_of",
    "plain_names",
    "prefix_in",
    "read_config",
    "write_config",
]
