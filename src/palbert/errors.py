"""The errors palbert raises for its users; each says what is wrong, where, and what to do."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Literal

MOST_SHOWN, MOST_COMPARED, LONGEST_NAME = 60, 5_000, 100
"""Names that a message lists, names that are compared with a wrong one, and characters of a name."""
LONGEST_REASON = 200
"""Characters of another library's error in a message."""


class PalbertError(ValueError):
    """The message says what was expected, what was found and where; `hint` says what to do about it.

    `details` are longer than most readers need, such as all keys that a table of a recipe may have; the command line
    shows them with `--debug`.
    """

    exit_code = 2

    def __init__(self, message: str, *, hint: str | None = None, details: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        self.details = details

    def __str__(self) -> str:
        return self.message if self.hint is None else f"{self.message} {self.hint}"


class RecipeError(PalbertError):
    """A recipe that cannot be run; the message lists every problem, one per line."""


class DataError(PalbertError):
    """A data file, row or label that cannot be used."""


class EncoderError(PalbertError):
    """An encoder that cannot be found or loaded."""


class CheckpointError(PalbertError):
    """A checkpoint that is absent, damaged or of another version."""


class TrustError(PalbertError):
    """A run or checkpoint that names code from outside palbert, which the user has not allowed."""


class HubError(PalbertError):
    """The Hugging Face Hub, which refuses something or cannot be reached."""

    exit_code = 1


class HubRefusalError(HubError):
    """The Hugging Face Hub, which does not accept what the user gave: the token or the model card."""

    exit_code = 2


class RunFolderError(PalbertError):
    """A run folder that would be written over, or cannot be written."""


class DeviceError(PalbertError):
    """A device or a precision that this machine does not have."""


class TrainingError(PalbertError):
    """A run that failed, for example because a loss is no longer a number."""

    exit_code = 1


class AnswerError(PalbertError):
    """A model that computed NaN or infinity for a row.

    Args:
        what: The answer, as a message calls it.
        row: The number of the row, from 0.
        hint: What to do about it.
    """

    exit_code = 1

    def __init__(self, what: str, row: int, hint: str | None = None) -> None:
        super().__init__(f"{what} of row {row + 1:,} is not a number.", hint=hint)
        self.args = (what, row, hint)  # from which another process makes it again
        self.what = what
        self.row = row

    def after(self, rows: int, file: Path) -> AnswerError:
        """Return the same error for a row that comes after others in a file."""
        return AnswerError(f"{file}: {self.what}", rows + self.row, self.hint)


class ConnectionLostError(TrainingError):
    """Another process of the same training ended, or cannot be reached any more."""


class StoppedError(KeyboardInterrupt):
    """Ctrl-C during training: the run stopped after a complete step and can be resumed.

    It derives from KeyboardInterrupt alone. A stop is not a failure, so `except Exception` and `except PalbertError`
    let it pass, and code that catches KeyboardInterrupt catches it.

    Args:
        folder: Where the work was stopped: a run folder, or the output folder of `reproduce` or `tune`.
        verb: The function that was stopped. "train", "pretrain", "add-task" and "tune" continue with `resume=True`,
            "reproduce" and "submit" when they are called again.
    """

    def __init__(
        self, folder: Path, *, verb: Literal["train", "pretrain", "add-task", "reproduce", "submit", "tune"]
    ) -> None:
        super().__init__(f"{verb} was stopped; {folder} holds what is needed to continue.")
        self.folder = folder
        self.verb = verb


class MissingExtraError(PalbertError):
    """An optional dependency that a feature needs and that is not installed."""

    def __init__(self, feature: str, *, package: str, extra: str) -> None:
        super().__init__(f"{feature} {package}.", hint=f"Install it with: pip install 'palbert[{extra}]'")


def first_line(error: BaseException) -> str:
    """Return what another library's error says first, without its full stop; its class if it says nothing."""
    return (str(error).strip() or type(error).__name__).splitlines()[0].rstrip(".")[:LONGEST_REASON]


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Return the known names, and the nearest one if any is near, as the end of an error message."""
    names = sorted(known)
    comparable = [each for each in names[:MOST_COMPARED] if len(each) <= LONGEST_NAME]
    near = difflib.get_close_matches(name, comparable, n=1) if len(name) <= LONGEST_NAME else []
    suggestion = f" Did you mean '{near[0]}'?" if near else ""
    return f"Known: {listed(names)}.{suggestion}"


def listed(names: Sequence[str]) -> str:
    """Return names for a message: not more than a reader can use, and each cut where it is long."""
    shown = [name if len(name) <= LONGEST_NAME else f"{name[:LONGEST_NAME]}…" for name in names[:MOST_SHOWN]]
    more = len(names) - len(shown)
    return ", ".join([*shown, *([f"and {more:,} more"] if more else [])])
