"""Google's TF1 checkpoints, read with numpy alone."""
