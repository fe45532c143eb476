"""How one can ask a model why it gave an answer: the choices of `Model.why` and of the verb."""

from typing import Literal

Method = Literal["gradients", "occlusion", "heads", "layers", "rollout", "lens", "tokens", "rows"]
"""Integrated gradients; a part hidden; a head or a block switched off; attention followed back; the answer
after each layer; the nearest tokens; the nearest rows of a file."""
Unit = Literal["token", "word"]
"""What is judged."""
Baseline = Literal["mask", "pad", "zero"]
"""The text without information: the vector of [MASK] or [PAD], or zeros."""
