"""Bias: texts about one group rewritten for another, and how far a model's answers change with that."""
