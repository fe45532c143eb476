"""The open box: accounting of every parameter."""
