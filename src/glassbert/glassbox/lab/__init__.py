"""Experiments that put what is said about BERT and the Transformer to the test, and arithmetic by hand."""
