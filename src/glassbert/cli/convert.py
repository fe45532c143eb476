"""`convert`: any model that we can read, as a plain folder, in int8, for ONNX or for CTranslate2."""

from pathlib import Path
from typing import Literal

from glassbert.cli.output import print_json, print_lines, remark
from glassbert.model_names import model_folder
from glassbert.outputs import check_folder


def convert(
    source: str,
    destination: Path,
    /,
    *,
    to: Literal["hf", "transformers", "int8", "onnx", "ctranslate2"] = "hf",
    dtype: Literal["float32", "float16", "bfloat16", "int8"] | None = None,
    force: bool = False,
    json: bool = False,
) -> None:
    """Rewrite a model as a plain folder of safetensors, with 8 bits a weight, for ONNX or for CTranslate2.

    Args:
        source: Folder with safetensors, pytorch_model.bin, or Google's bert_model.ckpt files.
        destination: Folder to write; it must be new or empty.
        to: hf, or transformers: config.json, model.safetensors and tokenizer files. int8: the same with 8
            bits a weight in the blocks; transformers reads it with the package compressed-tensors. onnx:
            model.onnx of an encoder and its heads; needs the package onnx. ctranslate2: a folder that
            `ctranslate2.Translator` loads; needs a translator and the package ctranslate2.
        dtype: How a plain folder or CTranslate2 stores the numbers, int8 for CTranslate2 only; as in the
            source when not given, float32 for CTranslate2.
        force: Replace a destination that is not empty.
        json: Print what was done with the model as JSON.
    """
    folder = model_folder(source)
    if to == "ctranslate2":
        _export(folder, destination, dtype, force, json)
        return
    from glassbert.interop.convert import Form
    from glassbert.interop.convert import convert as convert_folder

    form: Form = "hf" if to == "transformers" else to
    report = convert_folder(folder, destination, to=form, dtype=dtype, overwrite=force)
    stored = {"int8": "int8", "onnx": "float32"}.get(form, dtype or report.dtype)
    if json:
        print_json(
            {
                "destination": str(destination),
                "to": to,
                "kept": len(report.kept),
                "unexpected": list(report.unexpected),
                "dtype": stored,
                "notes": list(report.notes),
            }
        )
        return
    for line in report.lines():
        remark(line)
    print_lines([destination])


def _export(folder: Path, destination: Path, dtype: str | None, force: bool, json: bool) -> None:
    from glassbert.inference.loading import load
    from glassbert.inference.translator import Translator

    check_folder(destination, [folder])
    load(folder, Translator).export_ctranslate2(destination, quantization=dtype, overwrite=force)
    if json:
        print_json({"destination": str(destination), "to": "ctranslate2", "dtype": dtype or "float32"})
    else:
        print_lines([destination])
