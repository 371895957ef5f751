"""Row losses: the mean loss of a part of a batch, each row times its weight."""

from __future__ import annotations

import inspect

from torch import Tensor, nn

from palbert.batch import Part
from palbert.errors import RecipeError
from palbert.objectives import Loss


def part_loss(loss: Loss, outputs: Tensor, part: Part, *, name: str) -> Tensor:
    """Return Σ w · l / rows, with the loss l and the weight w of each row; without weights, the loss as it is.

    Weights have mean 1 over their training set, so this is an estimate of the weighted mean over the set, without
    bias. Dividing by the sum of the batch's own weights instead would count a row more among light rows than among
    heavy ones.

    Args:
        loss: The supervised loss; with weights, one that takes `reduction="none"`.
        outputs: The head's outputs, (rows, outputs).
        part: The rows, with labels.
        name: The training set, for errors.
    """
    assert part.labels is not None, f"{name}: a training batch has labels"
    if part.weights is None:
        return loss(outputs, part.labels)
    losses = loss(outputs, part.labels, reduction="none")
    if not isinstance(losses, Tensor) or losses.shape != part.weights.shape:
        found = f"a tensor of shape {tuple(losses.shape)}" if isinstance(losses, Tensor) else repr(losses)
        raise RecipeError(
            f"The loss gives {found} for '{name}' with reduction=\"none\"; expected one number for each of "
            f"{len(part.weights)} rows."
        )
    return (losses * part.weights).mean()


def gives_row_losses(loss: Loss) -> bool:
    """Whether a loss has the argument `reduction`, as those of torch do, and so can return the loss of each row."""
    called = loss.forward if isinstance(loss, nn.Module) else loss
    try:
        return "reduction" in inspect.signature(called).parameters
    except (TypeError, ValueError):  # a function written in C may not have a signature
        return False
