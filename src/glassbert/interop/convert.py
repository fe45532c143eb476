"""`glassbert.convert`: any model that we can read, as a plain folder of safetensors."""

from dataclasses import replace
from pathlib import Path

from glassbert.interop.build import LoadReport
from glassbert.interop.companions import read_companions, write_companions
from glassbert.interop.folder import ModelFolder, write_model
from glassbert.interop.sentence_transformers import read_sentence_settings
from glassbert.outputs import check_folder
from glassbert.storage import new_folder, sha256_of
from glassbert.text.wordpiece.tokenizer import Tokenizer


def convert(
    source: str | Path, out: str | Path, *, dtype: str | None = None, overwrite: bool = False
) -> LoadReport:
    """Rewrite a model as a plain folder of safetensors; return what became of its tensors.

    Args:
        source: A folder with safetensors, with pytorch_model.bin, or with Google's bert_model.ckpt files.
        dtype: How to store the numbers; as the source does when not given.
        overwrite: Replace ``out`` if it is not empty.
    """
    found = ModelFolder.open(source, may_unpickle=True)
    check_folder(out, [found.path])
    network, report = found.build()
    tokenizer = found.tokenizer()
    if isinstance(tokenizer, Tokenizer):
        assumed = tuple(f"assumed: {assumption}" for assumption in tokenizer.assumptions)
        report = replace(report, notes=(*report.notes, *assumed))
        # Refuses now what `load` would refuse later.
        read_sentence_settings(found.path, tokenizer.settings.lowercase)
    hashes = {path.name: sha256_of(path) for path in found.stored.files}
    run = {**found.run, "converted_from": {"kind": found.stored.kind, "sha256": hashes}}
    with new_folder(Path(out), overwrite=overwrite) as folder:
        write_model(network, tokenizer, folder, dtype=dtype or report.dtype, run=run)
        write_companions(read_companions(found.path), folder)
    return report
