"""Evaluations as tables on a terminal, and as one self-contained page of HTML."""
