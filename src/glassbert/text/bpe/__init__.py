"""The reversible byte-pair tokenizer of the translators."""
