"""Corpora: text to shards of token ids, and shards to batches of examples."""
