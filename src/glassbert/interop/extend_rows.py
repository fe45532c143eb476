"""Rows for new pieces: what `vocab extend` does to the model."""

from dataclasses import asdict, replace
from pathlib import Path

import torch
from torch import Tensor, nn

from glassbert.interop.companions import further_models, read_companions, write_companions
from glassbert.interop.folder import EncoderFolder, write_model
from glassbert.model.bert import Bert
from glassbert.model.init import materialised
from glassbert.storage import new_folder
from glassbert.text.extend import ExtensionPlan
from glassbert.text.wordpiece.tokenizer import Tokenizer


def extend_rows(source: str | Path, out: str | Path, plan: ExtensionPlan, *, overwrite: bool = False) -> None:
    """Write the model of ``source`` with the plan's vocabulary; a new row is the mean of its old pieces."""
    with new_folder(Path(out), overwrite=overwrite) as folder:
        _write_extended(Path(source), folder, plan)


def extended_tokenizer(before: Tokenizer, plan: ExtensionPlan) -> Tokenizer:
    """Return a tokenizer with the plan's vocabulary and the rules of another."""
    return Tokenizer(plan.vocabulary, **asdict(before.settings))


def _write_extended(source: Path, folder: Path, plan: ExtensionPlan) -> None:
    """Write the model of ``source``, and those of its objective, into ``folder``, which exists."""
    before = EncoderFolder.open(source)
    network, report = before.build()
    tokenizer = extended_tokenizer(before.tokenizer(), plan)
    extended = with_rows(network, plan)
    run = {**before.run, "extended": {"pieces": [row.piece for row in plan.rows]}}
    write_model(extended, tokenizer, folder, dtype=report.dtype, run=run)
    write_companions(read_companions(before.path), folder, without_models=True)
    for name in further_models(before.run):
        (folder / name).mkdir()
        _write_extended(before.path / name, folder / name, plan)


def with_rows(network: Bert, plan: ExtensionPlan) -> Bert:
    """Return a copy of ``network`` with room for the plan's vocabulary and its new rows set."""
    shape = network.config.encoder
    num_rows = max(shape.vocab_size, len(plan.vocabulary))
    config = replace(network.config, encoder=replace(shape, vocab_size=num_rows))
    state = dict(network.state_dict())
    for name in ("encoder.embeddings.token.weight", "mlm.decoder.weight", "mlm.decoder.bias"):
        if name in state:
            state[name] = _grown(state[name], num_rows, plan)
    return materialised(Bert, config, state=state).eval()


def _grown(table: Tensor, num_rows: int, plan: ExtensionPlan) -> Tensor:
    grown = torch.cat([table, table.new_zeros(num_rows - len(table), *table.shape[1:])])
    for row in plan.rows:
        grown[row.id] = table[list(row.old_ids)].mean(dim=0)
    return nn.Parameter(grown)
