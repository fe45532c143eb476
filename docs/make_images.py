"""Make the pictures of the README: `python docs/make_images.py` (needs chromium; two minutes on 2 cores)."""

import contextlib
import subprocess
import sys
import tempfile
from pathlib import Path

from glassbert.demo.story import Story
from glassbert.demo.tasks import show_tasks

IMAGES = Path(__file__).resolve().parent / "images"
BROWSER = ("chromium", "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars")


def main() -> None:
    """Train the demo's classifier and photograph the top of its report."""
    picture = IMAGES / "report.png"
    with tempfile.TemporaryDirectory() as name, contextlib.chdir(name):
        show_tasks(Story(is_silent=True), Path("."), is_kept=True)
        page = f"file://{name}/report.html"
        size = "--window-size=1000,1240"
        subprocess.run([*BROWSER, size, f"--screenshot={picture}", page], check=True, capture_output=True)
    print(picture)


if __name__ == "__main__":
    sys.exit(main())
