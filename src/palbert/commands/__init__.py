"""Commands: verbs of the command line that have files of their own — parse, call, print."""
