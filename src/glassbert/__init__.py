"""glassbert: the BERT family from raw text to a fast server, with every number inside open to view."""

__version__ = "0.1.0"
