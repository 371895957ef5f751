"""The command line, with less patience for a silent network."""

from datetime import timedelta

from palbert.cli import main
from palbert.runtime import distributed

distributed.TIMEOUT = timedelta(seconds=20)
main()
