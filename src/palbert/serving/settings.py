"""Settings of the service: what it loads, where it listens, and its limits."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from palbert.errors import PalbertError

Precision = Literal["auto", "fp32", "bf16", "int8"]
LOOPBACK = ("127.0.0.1", "::1", "localhost")

LARGEST = 1_000_000
"""The largest time in seconds or rate: what no service needs is a slip, and infinity cannot be counted down."""


@dataclass(frozen=True)
class Settings:
    """Everything that `palbert serve` can be told."""

    runs: tuple[tuple[str, Path], ...]
    """The runs to serve, each with the name that requests use."""
    host: str = "127.0.0.1"
    port: int = 8000
    """0 takes any free port."""
    checkpoint: str | None = None
    """The best one unless given."""
    device: str = "auto"
    precision: Precision = "auto"
    trust: bool = False
    """Import code from outside palbert that a run names."""
    workers: int = 1
    """Processes; each has the models and an equal share of the cores."""
    watch: float = 0.0
    """Seconds between looks for a new checkpoint; 0 for never."""
    proxies: str = ""
    """Addresses of balancers whose X-Forwarded-For names the client, separated by commas."""

    keys: Path | None = None
    """The file of API keys; without one, only this machine may ask."""
    rate: float = 0.0
    """Texts per second that each client may ask for, over all workers; 0 for any number."""
    burst: float = 0.0
    """Texts that a client may ask for at once after a pause; ten seconds' worth unless given."""

    max_items: int = 256
    """Texts per request."""
    max_characters: int = 20_000
    """Characters per text."""
    max_body: int = 4_000_000
    """Bytes per request."""
    max_explained: int = 16
    """Texts per request that asks for explanations."""
    queue: int = 2048
    """Texts that may wait; when as many wait, further requests are answered with 503."""
    explain_queue: int = 64
    """Texts that may wait for an explanation."""
    wait: float = 0.002
    """Seconds that the oldest request waits at most for others to share its batch."""
    read_timeout: float = 30.0
    """Seconds in which the head of a request and its body have to arrive each, and its answer has to be read."""
    drain: float = 30.0
    """Seconds that requests have to end after SIGTERM."""

    audit: Literal["texts", "hashes", "off"] = "texts"
    """What the audit log keeps of inputs."""
    audit_log: Path | None = None
    """The audit log of all runs; unless given, each run has one next to its folder."""
    audit_days: int = 0
    """Days after which rows of the audit log are deleted; 0 keeps them."""
    audit_full: Literal["serve", "refuse"] = "serve"
    """Whether requests are answered while the audit log cannot be written."""

    def __post_init__(self) -> None:
        if not self.runs:
            raise PalbertError("No run to serve.", hint="Give the folder of one: palbert serve runs/mine")
        names = [name for name, _ in self.runs]
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            raise PalbertError(
                f"Two runs have the name '{twice[0]}'.", hint="Name them apart: palbert serve a=runs/one b=other/one"
            )
        if self.keys is None and self.host not in LOOPBACK:
            raise PalbertError(
                f"Without API keys, the service listens on this machine only, not on {self.host}.",
                hint="Add one first: palbert serve key add NAME",
            )
        for name in ("wait", "rate", "burst", "watch", "drain", "read_timeout"):
            if not 0 <= getattr(self, name) <= LARGEST:
                raise PalbertError(f"{name}: expected a number from 0 to {LARGEST:,}, found {getattr(self, name)}.")
        for name in ("max_items", "max_characters", "max_body", "max_explained", "queue", "explain_queue", "workers"):
            if getattr(self, name) < 1:
                raise PalbertError(f"{name}: expected a number from 1, found {getattr(self, name)}.")
        for name in ("read_timeout", "drain"):
            if getattr(self, name) == 0:
                raise PalbertError(f"{name}: expected seconds above 0.")

    @property
    def is_open(self) -> bool:
        """Whether anybody on this machine may ask, without a key."""
        return self.keys is None


def name_runs(given: Sequence[str | Path]) -> tuple[tuple[str, Path], ...]:
    """Read runs as "name=folder" or as a folder, which gives its own name, as a run of the Hub does."""
    named = []
    for run in given:
        name, equals, folder = str(run).partition("=")
        if not equals or Path(str(run)).exists():  # a folder may have an equals sign in its name
            name, folder = Path(run).resolve().name, str(run)
            name = name if Path(run).exists() else name.partition("@")[0]
        if not name or not folder or "/" in name:
            raise PalbertError(f"Expected a run folder or name=folder, found '{run}'.")
        named.append((name, Path(folder)))
    return tuple(named)
