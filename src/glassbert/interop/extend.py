"""`glassbert.extend_vocabulary`: new pieces for a model, or for a vocabulary without one."""

from collections.abc import Sequence
from pathlib import Path

from glassbert.arguments import checked
from glassbert.interop.families import encoder_folder
from glassbert.outputs import check_folder
from glassbert.text.extend import ExtensionPlan, extend_tokenizer, plan_extension
from glassbert.text.wordpiece.folder import holds_model
from glassbert.text.wordpiece.tokenizer import Tokenizer


@checked
def extend_vocabulary(
    source: Tokenizer | str | Path,
    words: str | Path | Sequence[str],
    out: str | Path,
    *,
    overwrite: bool = False,
) -> ExtensionPlan:
    """Write a model or a tokenizer with new pieces to the folder ``out`` and return what was added.

    Free [unusedN] rows are taken first. A model's new row starts as the mean of the word's old pieces.

    Args:
        source: A model folder, a folder with a vocabulary only, or a tokenizer.
        words: A file with one word per line, or a list of words.
        overwrite: Replace what ``out`` holds.
    """
    if isinstance(source, Tokenizer):
        return extend_tokenizer(source, words, out, overwrite=overwrite)
    folder = encoder_folder(source)
    if not holds_model(folder):
        return extend_tokenizer(folder, words, out, overwrite=overwrite)
    from glassbert.interop.extend_rows import extend_rows  # torch, which a vocabulary alone does not need

    check_folder(out, [folder, *([words] if isinstance(words, str | Path) else [])])
    plan = plan_extension(Tokenizer.load(folder), words)
    extend_rows(folder, out, plan, overwrite=overwrite)
    return plan
