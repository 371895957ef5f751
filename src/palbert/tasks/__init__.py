"""Tasks: what the model is asked, as plain values."""
