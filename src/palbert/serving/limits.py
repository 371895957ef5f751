"""Limits: how many texts a client may send per second, and at once."""

from __future__ import annotations

import math
import time
from collections import OrderedDict
from threading import Lock

from palbert.errors import PalbertError

MOST_CLIENTS = 100_000
"""Clients whose buckets are kept, about 150 bytes each."""
FEWEST_SWEPT = 1_000
SWEEP_EVERY = 1.0
"""Seconds between two searches for full buckets among the most clients."""


class TooManyTextsError(PalbertError):
    """A request with more texts than a full bucket holds, which no waiting would let pass."""

    def __init__(self, texts: int, most: int) -> None:
        super().__init__(
            f"Expected at most {most:,} texts per request, found {texts:,}.", hint="Send them in several requests."
        )
        self.most = most


class RateLimits:
    """A token bucket per client: it holds `burst` texts, and `rate` texts per second flow in.

    Of each bucket, only the time at which it is full again is kept; a bucket that is full is not kept at all. Beyond
    `most_clients`, the bucket that was used longest ago is forgotten, and its client begins with a full one. Any
    thread may ask.

    Args:
        rate: Texts per second that a client may send in the long run.
        burst: Texts that a client may send at once, at least 1.
        most_clients: Buckets that are kept at most.
    """

    def __init__(self, rate: float, burst: int, *, most_clients: int = MOST_CLIENTS) -> None:
        if not (rate > 0.0 and math.isfinite(rate)):
            raise PalbertError(f"A rate is a number of texts per second above 0, found {rate}.")
        if burst < 1:
            raise PalbertError(f"A burst is at least 1 text, found {burst}.")
        self.rate, self.burst = rate, burst
        self._full_at: OrderedDict[str, float] = OrderedDict()  # by last use, the oldest first
        self._lock = Lock()
        self._most = most_clients
        self._sweep_at = min(FEWEST_SWEPT, most_clients)
        self._swept = -math.inf

    def take(self, client: str, texts: int, now: float | None = None) -> float:
        """Return 0 if a request may pass, or else the seconds to wait, for which nothing is taken.

        Args:
            client: The name of the API key, or the address.
            texts: How many texts the request has; one without texts counts as one.
            now: Seconds of any clock that never goes back. None: the system's.

        Raises:
            TooManyTextsError: The request will never pass.
        """
        texts = max(texts, 1)
        if texts > self.burst:
            raise TooManyTextsError(texts, self.burst)
        now = time.monotonic() if now is None else now
        with self._lock:
            full_at = max(self._full_at.get(client, now), now) + texts / self.rate
            # The bucket lacks (full_at - now) * rate texts, of which it cannot lack more than it holds. Rounding must
            # not make a client wait for a time that is too small to be waited for.
            if (wait := full_at - now - self.burst / self.rate) > 1e-9 * (1.0 + abs(now)):
                return wait
            self._full_at[client] = full_at
            self._full_at.move_to_end(client)
            if len(self._full_at) > self._sweep_at:
                self._sweep(now)
        return 0.0

    def __len__(self) -> int:
        return len(self._full_at)

    def _sweep(self, now: float) -> None:
        """Forget full buckets, whenever there are twice as many, and the oldest ones where there are too many."""
        if len(self._full_at) <= self._most or now - self._swept >= SWEEP_EVERY:
            self._swept = now
            for client in [client for client, full_at in self._full_at.items() if full_at <= now]:
                del self._full_at[client]
            self._sweep_at = min(max(2 * len(self._full_at), FEWEST_SWEPT), self._most)
        while len(self._full_at) > self._most:
            self._full_at.popitem(last=False)
