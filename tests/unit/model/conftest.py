"""What tests of kernels share: Triton's interpreter, which runs them on the CPU."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest


@pytest.fixture(scope="session")
def interpreter() -> Iterator[None]:
    """Let interpreted loops have bounds: NumPy 2.4 refuses int() of an array of one, as Triton 3.6 still writes it."""
    module = pytest.importorskip("triton.runtime.interpreter", reason="needs Triton")
    original = module._patch_lang_tensor

    def patched(tensor: Any, scope: Any) -> None:
        original(tensor, scope)
        scope.set_attr(tensor, "__index__", lambda self: self.handle.data.item())

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "_patch_lang_tensor", patched)
        yield
