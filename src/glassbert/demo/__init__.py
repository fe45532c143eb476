"""`glassbert demo`: a walk through the package, from raw text to a translator."""
