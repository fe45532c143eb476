"""A corpus to masked examples and batches."""
