"""What is wrong with a model, before you blame the data."""
