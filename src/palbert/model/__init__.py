"""The model: a packed encoder, and what is put on and into it for each task."""
