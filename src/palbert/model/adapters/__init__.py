"""Adapters: parts of a task's own inside the shared encoder."""

from palbert.model.adapters.branches import PLAIN, Adapter, Branches, NoBranches
from palbert.model.adapters.houlsby import Houlsby
from palbert.model.adapters.lora import LoRA
from palbert.model.adapters.low_rank import LowRank
from palbert.model.adapters.pal import PAL

__all__ = ["PAL", "PLAIN", "Adapter", "Branches", "Houlsby", "LoRA", "LowRank", "NoBranches"]
