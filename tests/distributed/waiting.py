"""One of two processes: the first works for long, while the second waits."""

import sys
import time
from datetime import timedelta

import torch

from palbert.runtime import distributed

distributed.TIMEOUT = timedelta(seconds=10)
ranks = distributed.find_ranks()
with ranks.connected(torch.device("cpu")):
    sys.stdout.write("connected\n")
    sys.stdout.flush()
    if ranks.is_first:
        time.sleep(600)
    ranks.wait()
