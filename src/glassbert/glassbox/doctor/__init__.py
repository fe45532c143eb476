"""What is wrong with a model before anyone blames the data."""
