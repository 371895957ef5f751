"""Explanations: which words of a text led to a model's answer."""
