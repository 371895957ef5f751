"""Samplers: which training sets each step takes a batch from."""

from __future__ import annotations

from palbert.training.samplers.adaptive_round_robin import AdaptiveRoundRobin
from palbert.training.samplers.annealed import Annealed
from palbert.training.samplers.consecutive import Consecutive
from palbert.training.samplers.drawn import Drawn
from palbert.training.samplers.mixed import Mixed
from palbert.training.samplers.proportional import Proportional
from palbert.training.samplers.round_robin import RoundRobin
from palbert.training.samplers.sampler import Deterministic, Plan, Sampler, Settings
from palbert.training.samplers.sequential import Sequential
from palbert.training.samplers.square_root import SquareRoot
from palbert.training.samplers.temperature import Temperature

__all__ = [
    "AdaptiveRoundRobin",
    "Annealed",
    "Consecutive",
    "Deterministic",
    "Drawn",
    "Mixed",
    "Plan",
    "Proportional",
    "RoundRobin",
    "Sampler",
    "Sequential",
    "Settings",
    "SquareRoot",
    "Temperature",
]
