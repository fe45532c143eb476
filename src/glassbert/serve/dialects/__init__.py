"""The ways to ask: one file for each family of clients."""
