"""Data: from files to packed batches."""
