"""Weight averages: the model that is evaluated and kept, where it is not the one under training."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from torch import Tensor, nn
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn, get_swa_multi_avg_fn

from palbert.options import check_number


class NoAverage:
    """No average: the model under training is the one that is evaluated and kept. Averages derive from it."""

    def __init__(self, model: nn.Module) -> None:
        self.trained = model

    @property
    def model(self) -> nn.Module:
        """The model to evaluate and to keep."""
        return self.trained

    def update(self, step: int, total: int) -> None:
        """Look at the weights after a step of the optimizer, counted from 1, of `total` steps."""

    def state(self) -> dict[str, Tensor]:
        """Return what resuming needs beside the weights of `model`; nothing where those are all there is."""
        return {}

    def restore(self, state: Mapping[str, Tensor]) -> None:
        """Take the state back, when the model under training has been filled with the weights of `model`."""

    def finish(self) -> None:
        """Fill the model under training with the weights of `model`, for what comes after."""


class _Averaged(NoAverage):
    """A second copy of the model with torch's average of its parameters; buffers are the model's own.

    Until the first update the model under training is the one to evaluate. Frozen parameters stay as they
    are: their average is their value, to the bit.
    """

    def __init__(self, model: nn.Module, formula: Callable[..., None]) -> None:
        super().__init__(model)
        self.average = AveragedModel(model, multi_avg_fn=formula)
        self.average.n_averaged = self.average.n_averaged.cpu()  # read in every step: on the host nobody waits for it

    @property
    def model(self) -> nn.Module:
        """The averaged model, as soon as there is one."""
        return self.average.module if self.average.n_averaged else self.trained

    def update(self, step: int, total: int) -> None:
        """Take the weights into the average."""
        self.average.update_parameters(self.trained)

    def state(self) -> dict[str, Tensor]:
        """Return the weights under training, and how many were averaged."""
        return {**self.trained.state_dict(), "n_averaged": self.average.n_averaged}

    def restore(self, state: Mapping[str, Tensor]) -> None:
        """Move the weights that were loaded over to the average, and take those under training."""
        self.average.module.load_state_dict(self.trained.state_dict())
        self.average.n_averaged.copy_(state["n_averaged"])
        self.trained.load_state_dict({name: value for name, value in state.items() if name != "n_averaged"})

    def finish(self) -> None:
        """Let the model under training take the average: what was evaluated is what a next phase begins with."""
        self.trained.load_state_dict(self.model.state_dict())


class EMA(_Averaged):
    """θ̄ ← d θ̄ + (1 − d) θ after every step; θ̄ starts at the weights after the first.

    Args:
        model: The model under training.
        decay: d; the average looks back over about 1 / (1 − d) steps.
    """

    def __init__(self, model: nn.Module, *, decay: float = 0.999) -> None:
        check_number("decay", decay, least=0, below=1)
        super().__init__(model, get_ema_multi_avg_fn(decay))  # type: ignore[no-untyped-call]


class SWA(_Averaged):
    """Stochastic weight averaging: the plain mean of all weights from a point of the run on.

    Izmailov et al. 2018, arXiv:1803.05407. The paper takes in the weights once a cycle or epoch, here they are taken in
    after every step: more points, which lie closer together. It trains on with a constant or cyclical rate; here the
    recipe's schedule says what the rate does. Its pass for batch norms falls away: encoders have layer norms.

    Args:
        model: The model under training.
        start: The share of the run, or phase, after which the mean begins; before it, there is no average.
    """

    def __init__(self, model: nn.Module, *, start: float = 0.5) -> None:
        self.start = check_number("start", start, least=0, below=1)
        super().__init__(model, get_swa_multi_avg_fn())  # type: ignore[no-untyped-call]

    def update(self, step: int, total: int) -> None:
        """Take the weights into the mean, after the start."""
        if step > self.start * total:
            super().update(step, total)
