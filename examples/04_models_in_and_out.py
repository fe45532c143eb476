"""Save a new model, load it, convert it to half precision, and be refused a pickle.

Purpose:   chapter 4 of the handbook as one script.
Data:      none; a new bert-tiny over a vocabulary of a few words, in a temporary folder.
Prints:    the files of the folder, the load reports, the sizes of the weights, the refusal.
Run time:  a few seconds, nearly all of it importing torch.
"""

import tempfile
from pathlib import Path

import torch

import glassbert as gb

WORDS = ("the", "cat", "dog", "sat", "ran", "on", "mat", "##s", ".", "猫", "狗", "跑", "了")


def new_model() -> gb.Model:
    """Return an untrained model with a vocabulary of `WORDS`."""
    tokenizer = gb.Tokenizer(gb.Vocabulary((*gb.SPECIALS, *WORDS)), max_length=32)
    shape = gb.preset("tiny", vocab_size=len(tokenizer.vocabulary), max_position_embeddings=32)
    network = gb.new_bert(gb.ModelConfig(encoder=shape, head="pretraining"), seed=0)
    return gb.Model(network, tokenizer, run={"seed": 0}, device="cpu")


def main() -> None:
    """Run the chapter."""
    model = new_model()
    print(model)
    with tempfile.TemporaryDirectory() as scratch:
        ours, half = Path(scratch, "ours"), Path(scratch, "half")
        model.save(ours)
        print("files:", *sorted(path.name for path in ours.iterdir()))

        gb.convert(ours, half, dtype="float16")
        for folder in (ours, half):
            print(f"{folder.name}: {'; '.join(gb.load(folder).report.lines())}")
            print(f"  {(folder / 'model.safetensors').stat().st_size:,} bytes of weights")
        vectors = gb.load(ours).embed(["The cats sat.", "猫跑了"])
        print(f"two texts as vectors: {vectors.shape}, from {vectors.tokens} tokens")
        print(f"similarities: {(vectors @ vectors.T).shape}")

        torch.save({"weight": torch.zeros(1)}, ours / "pytorch_model.bin")
        (ours / "model.safetensors").unlink()
        try:
            gb.load(ours)
        except gb.ModelError as error:
            print(f"refused: {str(error).replace(scratch, '.')}")


if __name__ == "__main__":
    main()
