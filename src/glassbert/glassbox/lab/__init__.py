"""Experiments that test claims about BERT and the Transformer, and arithmetic by hand."""
