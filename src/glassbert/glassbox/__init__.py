"""The open box: where every parameter is, and what a pass costs."""
