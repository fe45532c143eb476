"""The dialects: one file for each family of clients."""
