"""Bridges to the formats people have."""
