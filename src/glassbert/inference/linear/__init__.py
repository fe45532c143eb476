"""Backends of the linear layer: one file each, chosen by `inference/prepare.py`."""
