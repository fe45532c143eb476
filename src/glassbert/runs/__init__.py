"""A recipe becomes a finished folder."""
