"""The one training engine: loop, step, optimiser, schedule, checkpoints, processes."""
