"""Names of taps: those that the glossary lists, and those that a pass shows."""

import re
from collections.abc import Callable
from pathlib import Path

from torch import Tensor

from glassbert.model.tap import Tap

GLOSSARY = Path(__file__).parents[2] / "docs" / "glossary.md"
OF_LOSSES = {"loss", "mlm_loss", "nsp_loss", "head.logits"}
"""What only a training module shows."""


def listed() -> dict[str, str]:
    """Return the names and shapes that the glossary lists."""
    page = GLOSSARY.read_text(encoding="utf-8").split("## Tap names")[1]
    return dict(re.findall(r"^\| `([\w.]+)` \| (\([^|]*\)) \|", page, flags=re.MULTILINE))


def plain(name: str) -> str:
    """Return the name under which the glossary lists this one."""
    name = re.sub(r"^dec\.(?=emb\.|\d|out$|cross\.)", "enc.", name).replace("enc.emb.", "emb.")
    name = re.sub(r"^enc\.(\d+\.)?cross\.", "enc.0.attn.", name)
    return re.sub(r"^enc\.\d+\.", "enc.0.", re.sub(r"\.run\d+\.", ".", name))


def trace(run: Callable[[Tap], object]) -> dict[str, Tensor]:
    """Return all that a pass shows; a name must not come twice."""
    seen: dict[str, Tensor] = {}

    def sink(name: str, value: Tensor) -> Tensor:
        assert name not in seen, f"{name} names two things"
        seen[name] = value
        return value

    run(Tap(sink))
    return seen
