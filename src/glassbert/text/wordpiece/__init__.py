"""BERT's tokenizer: WordPiece."""
