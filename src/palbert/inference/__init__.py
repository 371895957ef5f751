"""Inference: predict with a trained model, and score its predictions."""
