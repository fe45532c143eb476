"""Trained models at work: loading, packed encoding, fill-mask, embeddings."""
