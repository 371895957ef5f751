"""FairQueue: which waiting rows share the next batch, so that no client waits for another's long request."""

from __future__ import annotations

from collections import deque
from itertools import islice

from palbert.serving.jobs import Job, Piece


class FairQueue:
    """Jobs whose rows wait to be computed by one model, by client.

    Clients take turns: each gets the same share of a batch's tokens, and what one does not need goes to the others. The
    client that was served first goes to the end. Only one thread may use it.
    """

    def __init__(self) -> None:
        self._clients: dict[str, deque[Job]] = {}
        """In the order of their turns."""

    def __len__(self) -> int:
        """The jobs that have rows left."""
        return sum(map(len, self._clients.values()))

    def add(self, job: Job) -> None:
        """Let the rows of a job wait."""
        self._clients.setdefault(job.call.client, deque()).append(job)

    def waiting(self, most: int) -> int:
        """Count the tokens that wait, up to about `most`."""
        total = 0
        for job in self._jobs():
            total += int(job.ends[-1]) - (int(job.ends[job.taken - 1]) if job.taken else 0)
            if total >= most:
                break
        return total

    def oldest(self) -> float:
        """Return when the oldest of the waiting requests came."""
        return min(jobs[0].call.arrived for jobs in self._clients.values() if jobs)

    def drop_cancelled(self) -> int:
        """Remove jobs that nobody waits for; return how many rows they had left."""
        dropped = 0
        for client in list(self._clients):
            jobs = self._clients[client]
            if any(job.call.is_cancelled for job in jobs):
                dropped += sum(job.left for job in jobs if job.call.is_cancelled)
                self._clients[client] = deque(job for job in jobs if not job.call.is_cancelled)
            if not self._clients[client]:
                del self._clients[client]
        return dropped

    def take(self, budget: int) -> list[Piece]:
        """Take rows of at most `budget` tokens; the first client gets a row in any case, also a longer one."""
        turns = list(islice(self._clients, budget))
        if not turns:
            return []
        pieces = [self._first(turns[0]).take_one()]
        room = budget - pieces[0].tokens
        for number, client in enumerate(turns):
            room -= self._take_from(client, room // (len(turns) - number), pieces)
        for client in turns:  # what the others left
            room -= self._take_from(client, room, pieces)
        self._tidy(turns, {piece.job for piece in pieces if not piece.job.left})
        return pieces

    def _first(self, client: str) -> Job:
        return next(job for job in self._clients[client] if job.left)

    def _take_from(self, client: str, tokens: int, pieces: list[Piece]) -> int:
        """Take rows of a client's jobs in turn; return how many tokens they have."""
        taken = 0
        for job in self._clients[client]:
            if not job.left:
                continue
            piece = job.take(tokens - taken)
            if piece is None:
                break
            pieces.append(piece)
            taken += piece.tokens
        return taken

    def _tidy(self, turns: list[str], done: set[Job]) -> None:
        """Forget jobs without rows left; the first client goes to the end."""
        for job in done:
            self._clients[job.call.client].remove(job)
        for number, client in enumerate(turns):
            jobs = self._clients[client]
            if number == 0 or not jobs:
                del self._clients[client]
                if jobs:
                    self._clients[client] = jobs

    def _jobs(self) -> list[Job]:
        return [job for jobs in self._clients.values() for job in jobs]
