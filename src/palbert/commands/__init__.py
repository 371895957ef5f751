"""The verbs of the command line, one file per group: each parses its options, calls palbert and prints."""
