"""The networks: packed tokens, attention, one block, BERT and its heads. No loss, no files."""
