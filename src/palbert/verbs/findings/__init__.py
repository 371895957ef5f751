"""Findings: what may be wrong with a run, one function each, as sentences with a remedy."""
