"""Loss balancing: how much each task's loss counts compared with the others."""

from __future__ import annotations

from palbert.objectives.balance.balance import Balance
from palbert.objectives.balance.fixed import Fixed
from palbert.objectives.balance.normalised import Normalised
from palbert.objectives.balance.uncertainty import Uncertainty

__all__ = ["Balance", "Fixed", "Normalised", "Uncertainty"]
