"""Verbs: what palbert does, one file each."""
