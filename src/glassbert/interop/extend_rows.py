"""New rows for new pieces: the model's side of `vocab extend`."""

from dataclasses import replace
from pathlib import Path

import torch
from torch import Tensor, nn

from glassbert.interop.folder import check_vocabulary, copy_companions, read_run, write_model
from glassbert.interop.huggingface import build
from glassbert.interop.stored import read_stored
from glassbert.model.bert import Bert
from glassbert.storage import new_folder
from glassbert.text.extend import ExtensionPlan
from glassbert.text.wordpiece.tokenizer import Tokenizer


def extend_rows(source: Path, out: Path, plan: ExtensionPlan, *, may_replace: bool = False) -> None:
    """Write the model of ``source`` with the plan's vocabulary; a new row is the mean of its old pieces."""
    network, report = build(read_stored(source))
    before = Tokenizer.load(source)
    check_vocabulary(source, before, network.config)
    settings = before.settings
    tokenizer = Tokenizer(
        plan.vocabulary,
        lowercase=settings.lowercase,
        strip_accents=settings.strip_accents,
        tokenize_chinese_chars=settings.tokenize_chinese_chars,
        max_length=settings.max_length,
    )
    extended = with_rows(network, plan)
    run = {**read_run(source), "extended": {"pieces": [row.piece for row in plan.rows]}}
    with new_folder(out, may_replace=may_replace) as folder:
        write_model(extended, tokenizer, folder, dtype=report.dtype, run=run)
        copy_companions(source, folder)


def with_rows(network: Bert, plan: ExtensionPlan) -> Bert:
    """Return a copy of ``network`` with room for the plan's vocabulary and its new rows set."""
    shape = network.config.encoder
    num_rows = max(shape.vocab_size, len(plan.vocabulary))
    config = replace(network.config, encoder=replace(shape, vocab_size=num_rows))
    with torch.device("meta"):
        extended = Bert(config)
    state = dict(network.state_dict())
    for name in ("encoder.embeddings.token.weight", "mlm.decoder.weight", "mlm.decoder.bias"):
        if name in state:
            state[name] = _grown(state[name], num_rows, plan)
    extended.load_state_dict(state, assign=True)
    extended.tie_weights()
    return extended.eval()


def _grown(table: Tensor, num_rows: int, plan: ExtensionPlan) -> Tensor:
    grown = torch.cat([table, table.new_zeros(num_rows - len(table), *table.shape[1:])])
    for row in plan.rows:
        grown[row.id] = table[list(row.old_ids)].mean(dim=0)
    return nn.Parameter(grown)
