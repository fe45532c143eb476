"""What can be trained: each task is a module with losses, its data by step, its evaluation."""
