"""The answer to a question as a span of a text."""
