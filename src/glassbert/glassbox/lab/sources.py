"""The sources of the claims that are tested."""

from glassbert.glassbox.lab.words import Words

THEORY = Words("theory", "理论")
OURS = Words("our question", "我们的问题")
ARTICLE = Words("article", "文章")
"""The article "Bert模型剖析", which works a small network out by hand."""


def notes(section: str) -> Words:
    """Return a section of the Chinese lecture notes on BERT and the Transformer."""
    return Words(f"notes {section}", f"讲义 {section}")
