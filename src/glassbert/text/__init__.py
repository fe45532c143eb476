"""Text: normalisation, WordPiece with offsets, vocabulary learning, Chinese words."""
