"""Locks: of files and folders that one process at a time may use; a lock ends with its process, however that ends."""

from __future__ import annotations

import sys

if sys.platform == "win32":
    fcntl = None
else:
    import fcntl

AVAILABLE = fcntl is not None
"""Whether this system has such locks; Windows, which cannot open folders either, does not."""


def take_lock(opened: int, *, wait: bool = False) -> bool:
    """Lock an open file or folder; return False on a file system without locks, such as a mounted cloud drive.

    Args:
        opened: The file descriptor; closing it ends the lock.
        wait: Wait until no other process holds the lock.

    Raises:
        BlockingIOError: Another process holds the lock.
    """
    try:
        fcntl.flock(opened, fcntl.LOCK_EX if wait else fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise
    except OSError:
        return False
    return True
