"""The walk through all of it."""
