"""Find metrics by name: palbert's own, those of installed packages, and a user's own functions."""

from __future__ import annotations

import inspect
from typing import Any

from palbert.errors import PalbertError, did_you_mean
from palbert.metrics.definition import Metric
from palbert.registry import METRICS, OWN_CLASS


def is_metric(name: str) -> bool:
    """Return whether a name is that of a metric, or "module:function"."""
    return name in METRICS or OWN_CLASS.match(name) is not None


def find_metric(name: str) -> Metric:
    """Return the metric of a name, or a user's own "module:function", which takes gold and predicted values."""
    if not is_metric(name):
        raise PalbertError(f"Unknown metric '{name}'.", hint=did_you_mean(name, METRICS))
    found = METRICS.find(name)
    if isinstance(found, Metric):
        return found
    if not _takes_two(found):
        raise PalbertError(
            f"'{name}' is not a metric: expected a function of two arguments, gold and predicted values.",
            hint="Write def my_metric(gold, predicted), which returns a number.",
        )
    return Metric(name, found)


def _takes_two(found: Any) -> bool:
    """Whether something can be called as a metric is; a function written in C may not say."""
    if isinstance(found, type):
        return False
    try:
        inspect.signature(found).bind(None, None)
    except TypeError:
        return False
    except ValueError:
        return True
    return True
