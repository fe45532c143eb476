"""Traces: every number of one pass through a model, by name, with the formula that made it."""
