"""Inference: a trained model answers, and its answers are scored."""
