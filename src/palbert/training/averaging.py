"""Weight averages: a model to evaluate and save in place of the one under training."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping

from torch import Tensor, nn
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn, get_swa_multi_avg_fn

from palbert.options import check_number


class Average(ABC):
    """Average the weights of a model under training.

    Args:
        model: The model under training.
    """

    def __init__(self, model: nn.Module) -> None:
        self.trained = model

    @property
    @abstractmethod
    def model(self) -> nn.Module:
        """The model to evaluate and save."""

    @abstractmethod
    def update(self, step: int, total: int) -> None:
        """Include the weights after a step of the optimizer, counted from 1, of `total` steps."""

    def state(self) -> dict[str, Tensor]:
        """Return what resuming needs in addition to the weights of `model`."""
        return {}

    def restore(self, state: Mapping[str, Tensor]) -> None:
        """Restore the state, after the weights of `model` have been loaded into the model under training."""

    def finish(self) -> None:
        """Copy the weights of `model` to the model under training, for the next phase."""


class NoAverage(Average):
    """No average: the model under training is evaluated and saved."""

    @property
    def model(self) -> nn.Module:
        """The model under training."""
        return self.trained

    def update(self, step: int, total: int) -> None:
        """No-op."""


class _Averaged(Average):
    """A second copy of the model with torch's average of its parameters, and the buffers of the model itself.

    Until the first update, the model under training is evaluated. Frozen parameters stay the same, bit for bit.
    """

    def __init__(self, model: nn.Module, formula: Callable[..., None]) -> None:
        super().__init__(model)
        self.average = AveragedModel(model, multi_avg_fn=formula)
        self.average.n_averaged = self.average.n_averaged.cpu()  # read in every step, so kept on the host

    @property
    def model(self) -> nn.Module:
        """The averaged model, once there is one."""
        return self.average.module if self.average.n_averaged else self.trained

    def update(self, step: int, total: int) -> None:
        """Include the weights in the average."""
        self.average.update_parameters(self.trained)

    def state(self) -> dict[str, Tensor]:
        """Return the weights under training, and the number of updates."""
        return {**self.trained.state_dict(), "n_averaged": self.average.n_averaged}

    def restore(self, state: Mapping[str, Tensor]) -> None:
        """Move the loaded weights to the average, and restore those under training."""
        self.average.module.load_state_dict(self.trained.state_dict())
        self.average.n_averaged.copy_(state["n_averaged"])
        self.trained.load_state_dict({name: value for name, value in state.items() if name != "n_averaged"})

    def finish(self) -> None:
        """Copy the average to the model under training: the next phase starts from what was evaluated."""
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
    """Stochastic weight averaging: the plain mean of all weights after a point of the run.

    Izmailov et al. 2018, arXiv:1803.05407. The paper includes the weights once per cycle or epoch; here they are
    included after every step: more points, which lie closer together. The paper continues with a constant or cyclical
    rate; here the rate follows the recipe's schedule. Its pass for batch norms is left out: encoders have layer norms.

    Args:
        model: The model under training.
        start: The share of the run or phase after which the mean begins; before that, there is no average.
    """

    def __init__(self, model: nn.Module, *, start: float = 0.5) -> None:
        self.start = check_number("start", start, least=0, below=1)
        super().__init__(model, get_swa_multi_avg_fn())  # type: ignore[no-untyped-call]

    def update(self, step: int, total: int) -> None:
        """Include the weights in the mean, after the start."""
        if step > self.start * total:
            super().update(step, total)
