"""Reproduction: tables of runs, claims about them and course submissions, built on the verbs."""
