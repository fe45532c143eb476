"""What a user may write where a MODEL is asked for."""

from pathlib import Path

DEMO = "demo"
"""The model that comes with the package; a folder of that name is written ./demo."""
ASSETS = Path(__file__).parent / "assets"


def model_folder(name: str | Path) -> Path:
    """Return the folder that ``name`` means: the demo model, a model folder, or the best model of a run."""
    if str(name) == DEMO:
        return ASSETS / DEMO
    folder = Path(name)
    if not (folder / "config.json").is_file() and (folder / "best" / "config.json").is_file():
        return folder / "best"
    return folder
