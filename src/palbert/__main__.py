"""`python -m palbert`, where the command is not on the path."""

from palbert.cli import main

main()
