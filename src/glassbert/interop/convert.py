"""`glassbert.convert`: any model that we can read, as a plain folder, with 8 bits a weight, or for ONNX."""

from dataclasses import replace
from pathlib import Path
from typing import Literal

from glassbert.arguments import checked
from glassbert.errors import ModelError, UserError
from glassbert.interop.build import LoadReport
from glassbert.interop.companions import read_companions, write_companions
from glassbert.interop.folder import ModelFolder, write_model
from glassbert.interop.sentence_transformers import read_sentence_settings
from glassbert.model.bert import Bert
from glassbert.outputs import check_folder
from glassbert.storage import new_folder, sha256_of
from glassbert.text.wordpiece.tokenizer import Tokenizer

Form = Literal["hf", "int8", "onnx"]


@checked
def convert(
    source: str | Path,
    out: str | Path,
    *,
    to: Form = "hf",
    dtype: str | None = None,
    overwrite: bool = False,
) -> LoadReport:
    """Rewrite a model; return what was done with its tensors.

    Args:
        source: A folder with safetensors, with pytorch_model.bin, or with Google's bert_model.ckpt files.
        to: hf: a plain folder of safetensors. int8: the same with 8 bits a weight in the blocks, which
            `transformers` reads with the package compressed-tensors. onnx: model.onnx, of encoders.
        dtype: How a plain folder stores the numbers; as the source does when not given.
        overwrite: Replace ``out`` if it is not empty.
    """
    _check_form(to, dtype)
    found = ModelFolder.open(source, may_unpickle=True)
    check_folder(out, [found.path])
    network, report = found.build()
    tokenizer = found.tokenizer()
    sentences = None
    if isinstance(tokenizer, Tokenizer):
        assumed = tuple(f"assumed: {assumption}" for assumption in tokenizer.assumptions)
        report = replace(report, notes=(*report.notes, *assumed))
        # Refuses now what `load` would refuse later.
        sentences = read_sentence_settings(found.path, tokenizer.settings.lowercase)
    hashes = {path.name: sha256_of(path) for path in found.stored.files}
    run = {**found.run, "converted_from": {"kind": found.stored.kind, "sha256": hashes}}
    companions = read_companions(found.path)
    if to == "onnx":
        if not isinstance(network, Bert) or not isinstance(tokenizer, Tokenizer):
            raise ModelError(
                f"{source} is a translator, which is not exported to ONNX; use ctranslate2 instead"
            )
        from glassbert.interop.onnx_export import export_onnx

        with new_folder(Path(out), overwrite=overwrite) as folder:
            notes = export_onnx(
                network, tokenizer, folder, sentences=sentences, companions=companions, run=run
            )
        return replace(report, notes=(*report.notes, *notes))
    with new_folder(Path(out), overwrite=overwrite) as folder:
        write_model(
            network, tokenizer, folder, dtype="int8" if to == "int8" else dtype or report.dtype, run=run
        )
        write_companions(companions, folder)
    return report


def _check_form(to: str, dtype: str | None) -> None:
    if to != "hf" and dtype is not None:
        raise UserError(f"dtype={dtype!r} is for plain folders and CTranslate2; {to} has its own")
    if dtype == "int8":
        raise UserError("dtype='int8'; expected one of float32, float16, bfloat16; 8 bits are to='int8'")
