"""Labelled spans in a text."""
