"""`glassbert.trim_vocabulary`: a model without the rows that some text never uses."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import nn

from glassbert.arguments import checked
from glassbert.interop.companions import further_models, read_companions, write_companions
from glassbert.interop.folder import EncoderFolder, write_model
from glassbert.messages import Log, to_stderr
from glassbert.model.bert import Bert
from glassbert.model.init import materialised
from glassbert.outputs import check_folder
from glassbert.storage import new_folder
from glassbert.text.documents import Form
from glassbert.text.vocabulary import Vocabulary
from glassbert.text.word_counts import count_words
from glassbert.text.wordpiece.tokenizer import Tokenizer

_MAX_WORDS = 10_000_000
_TABLES = ("encoder.embeddings.token.weight", "mlm.decoder.weight", "mlm.decoder.bias")


@dataclass(frozen=True)
class Trimmed:
    """What `trim_vocabulary` did."""

    rows_before: int
    rows_after: int
    parameters_before: int
    parameters_after: int
    words: int
    """Distinct words of the text; every one of them is cut as before."""
    dropped: tuple[str, ...]
    """Pieces that were dropped, in their order."""

    def to_json(self) -> dict[str, Any]:
        """Return what `vocab trim --json` prints."""
        return {**asdict(self), "dropped": list(self.dropped)}


@checked
def trim_vocabulary(
    source: str | Path,
    text: str | Path | Sequence[str | Path],
    out: str | Path,
    *,
    form: Form | None = None,
    characters: bool = False,
    overwrite: bool = False,
    log: Log = to_stderr,
) -> Trimmed:
    """Write a model without the rows that a text never uses; for that text it computes the same.

    A word of the text is cut into the longest pieces that fit, all of which stay: so it is cut as before,
    and each of its numbers stays the same. Other text may become [UNK].

    Args:
        source: A model folder.
        text: Raw text, files or folders: what the model will be used for.
        out: Folder to write.
        form: Of the text; detected when not given.
        characters: Also keep every single character, so that few words of other text become [UNK].
        overwrite: Replace what ``out`` holds.
        log: Receives lines for the user.
    """
    folder = EncoderFolder.open(source)
    files = [text] if isinstance(text, str | Path) else list(text)
    check_folder(out, [folder.path, *files])
    tokenizer = folder.tokenizer()
    words = list(count_words(files, tokenizer.settings, max_words=_MAX_WORDS, form=form, log=log).words)
    kept = kept_rows(tokenizer, words, characters=characters)
    pieces = tokenizer.vocabulary.pieces
    with new_folder(Path(out), overwrite=overwrite) as new:
        before, after = _write_trimmed(folder, new, kept)
    is_kept = set(kept)
    return Trimmed(
        rows_before=folder.config.encoder.vocab_size,
        rows_after=len(kept),
        parameters_before=before,
        parameters_after=after,
        words=len(words),
        dropped=tuple(piece for id_, piece in enumerate(pieces) if id_ not in is_kept),
    )


def kept_rows(tokenizer: Tokenizer, words: Sequence[str], *, characters: bool) -> list[int]:
    """Return the rows that the words use, and the special ones, ascending."""
    used = {id_ for ids in tokenizer.ids_of_batch(words) for id_ in ids}
    used |= set(tokenizer.vocabulary.special_ids)
    if characters:
        pieces = tokenizer.vocabulary.pieces
        used |= {id_ for id_, piece in enumerate(pieces) if len(piece.removeprefix("##")) == 1}
    return sorted(used)


def without_rows(network: Bert, kept: Sequence[int]) -> Bert:
    """Return a copy of ``network`` with these rows of its token table alone."""
    shape = network.config.encoder
    pad_id = list(kept).index(shape.pad_token_id) if shape.pad_token_id in kept else 0
    config = replace(network.config, encoder=replace(shape, vocab_size=len(kept), pad_token_id=pad_id))
    state = dict(network.state_dict())
    rows = torch.tensor(kept)
    for name in _TABLES:
        if name in state:
            state[name] = nn.Parameter(state[name][rows])
    return materialised(Bert, config, state=state).eval()


def _write_trimmed(folder: EncoderFolder, new: Path, kept: Sequence[int]) -> tuple[int, int]:
    """Write the model of ``folder``, and those of its objective; return the parameters before and after."""
    network, report = folder.build()
    tokenizer = folder.tokenizer()
    vocabulary = Vocabulary(tuple(tokenizer.vocabulary.pieces[id_] for id_ in kept))
    trimmed = without_rows(network, kept)
    run = {**folder.run, "trimmed": {"rows_before": network.config.encoder.vocab_size}}
    write_model(
        trimmed, Tokenizer(vocabulary, **asdict(tokenizer.settings)), new, dtype=report.dtype, run=run
    )
    write_companions(read_companions(folder.path), new, without_models=True)
    for name in further_models(folder.run):
        (new / name).mkdir()
        _write_trimmed(EncoderFolder.open(folder.path / name), new / name, kept)
    before, after = (sum(one.numel() for one in each.parameters()) for each in (network, trimmed))
    return before, after
