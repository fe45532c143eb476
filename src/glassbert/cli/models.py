"""What a user may write where a verb asks for MODEL."""

from pathlib import Path


def model_folder(model: str) -> Path:
    """Return the folder that ``model`` names."""
    return Path(model)
