"""How good a model is on labelled rows, sentence pairs or a corpus."""
