"""Adapters: a task's own parameters inside the shared encoder."""

from palbert.model.adapters.branches import PLAIN, Adapter, AdapterBranches, Additions, Branches
from palbert.model.adapters.houlsby import Houlsby
from palbert.model.adapters.lora import LoRA
from palbert.model.adapters.low_rank import LowRank
from palbert.model.adapters.pal import PAL

__all__ = ["PAL", "PLAIN", "Adapter", "AdapterBranches", "Additions", "Branches", "Houlsby", "LoRA", "LowRank"]
