"""Tasks, objectives and translation: losses, data by step, evaluation."""
