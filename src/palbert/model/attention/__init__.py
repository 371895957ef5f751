"""Attention over packed tokens: the only place that knows where a sequence starts and ends."""

from palbert.model.attention.backends import attend
from palbert.model.attention.sequences import Sequences

__all__ = ["Sequences", "attend"]
