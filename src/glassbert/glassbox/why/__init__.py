"""Explanations: which parts of a text, or of the model, an answer depends on."""
