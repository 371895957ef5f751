"""Family: the parts and weight names of one model type."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

Names = tuple[str, ...]
"""Where a parameter comes from: one checkpoint name, or several whose rows are concatenated."""


def get(values: Mapping[str, Any], key: str, default: Any) -> Any:
    """Return a value of config.json; the default if it is missing or null."""
    return default if values.get(key) is None else values[key]


@dataclass(frozen=True)
class Family:
    """Which parts the encoders of one model type have, and how their checkpoints are written."""

    prefix: str
    """Precedes every encoder weight when the checkpoint has a head as well."""
    settings: Mapping[str, str]
    """Our configuration field → key in config.json."""
    modules: Mapping[str, Names]
    """Our module outside of the layers → the checkpoint's."""
    layer: str
    """Precedes the modules of layer `{}`."""
    layer_modules: Mapping[str, Names]
    """Our module inside of a layer → the checkpoint's."""
    defaults: Mapping[str, Any] = field(default_factory=dict)
    """Configuration fields whose key config.json may leave out, where the default differs from EncoderConfig's."""
    fixed: Mapping[str, Any] = field(default_factory=dict)
    """Configuration fields that config.json has no key for: block, positions, feed-forward, norm and the like."""
    read_more: Callable[[Mapping[str, Any]], Mapping[str, Any]] = lambda values: {}
    """Reads the configuration fields that take more than one key of config.json."""
    write_more: Callable[[Any], Mapping[str, Any]] = lambda config: {}
    """Returns the keys that `read_more` reads, for an EncoderConfig."""
    positions_after_padding: bool = False
    """Whether the first position has the row after the padding token's id, as in RoBERTa."""
    masked_head: Mapping[str, str] = field(default_factory=dict)
    """Our parameter or module of the masked-word head → the checkpoint's."""
    masked_options: Mapping[str, Any] = field(default_factory=dict)
    """Options of `MaskedHead`, where they are not its defaults."""
    masked_settings: Mapping[str, str] = field(default_factory=dict)
    """Option of `MaskedHead` → key in config.json."""
