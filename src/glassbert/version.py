"""The version of this package: everybody may import it, and the build reads it here."""

__version__ = "0.1.0"
