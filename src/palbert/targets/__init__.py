"""Targets: what an answer is, one class per kind of answer."""

from palbert.targets.target import Decoded, Target

__all__ = ["Decoded", "Target"]
