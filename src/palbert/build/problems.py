"""Problems: what is wrong with a recipe, collected so that all of it is reported together."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from palbert.errors import PalbertError, RecipeError


class Problems:
    """The errors of several checks."""

    def __init__(self) -> None:
        self.errors: list[PalbertError] = []

    @contextmanager
    def collect(self, place: str = "") -> Iterator[None]:
        """Keep an error that the block raises, and continue after the block.

        Args:
            place: Put in front of each line of a recipe error, such as "phases.0.".
        """
        try:
            yield
        except RecipeError as error:
            message = "\n".join(f"{place}{line}" for line in error.message.splitlines())
            self.errors.append(RecipeError(message, hint=error.hint))
        except PalbertError as error:  # such as a missing extra
            self.errors.append(error)

    def report(self) -> None:
        """Raise what was collected: one error as it is, several as one RecipeError with one problem per line."""
        messages = dict.fromkeys(map(str, self.errors))
        if len(messages) == 1:
            raise self.errors[0]
        if messages:
            raise RecipeError("\n".join(messages))
