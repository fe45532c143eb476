"""Inside a model: trace one pass, check a gradient by hand, ask for reasons, have the model examined.

Purpose:   chapter 8 of the handbook as one script.
Data:      none; a new BERT of 8 features and 2 heads, the same for everyone by its seed; the demo model.
Prints:    the steps of a block with their formulas, a gradient beside its slope, the first difference; what
           an answer rests on, the answer after each block, the number of faults.
Run time:  a few seconds, most of it importing torch.
"""

import tempfile
from pathlib import Path

import numpy as np
import torch

import glassbert as gb

WORDS = ("the", "cat", "dog", "sat", "ran", "on", "mat", "warm", "cold", ".")
SHAPE = gb.BertConfig(
    vocab_size=15,
    hidden_size=8,
    num_hidden_layers=2,
    num_attention_heads=2,
    intermediate_size=16,
    max_position_embeddings=16,
    initializer_range=0.4,
)
TEXT, TRUTH = "The cat [MASK] on the mat.", "the cat sat on the mat."
INNER = "encoder.blocks.0.mlp.inner.weight"


def slope(model: gb.Model, row: int, column: int, distance: float = 0.01) -> float:
    """Return how fast the loss changes when one weight of the first feed-forward is moved."""
    weight = model.network.get_parameter(INNER)
    losses = []
    for step in (distance, -2 * distance, distance):
        with torch.no_grad():
            weight[row, column] += step
        losses.append(float(model.trace(TEXT, target=TRUTH)["loss"]))
    return (losses[0] - losses[1]) / (2 * distance)


def reasons(text: str) -> None:
    """Print what the demo model's answer rests on, and whether the model is sound."""
    model = gb.load("demo", gb.Model)
    found = model.why(text)
    print(found)
    first, second = found.ranked(1)[0].name, model.why(text, method="occlusion").ranked(1)[0].name
    print(f"ranked first by gradients: {first}, by occlusion: {second}")
    for part in model.why(text, method="lens").parts:
        print(f"  {part.name:16} {part.candidates[0].token}")
    print(f"faults: {len(gb.doctor(model).faults)}")


def main() -> None:
    """Run the chapter."""
    tokenizer = gb.Tokenizer(gb.Vocabulary((*gb.SPECIALS, *WORDS)))
    network = gb.new_bert(gb.ModelConfig(encoder=SHAPE, head="mlm"), seed=1).eval()
    model = gb.Model(network, tokenizer)
    trace = model.trace(TEXT, target=TRUTH, grad=True)
    print(trace)
    for name in trace.names("enc.0.*"):
        print(f"  {name:18} {trace.step(name).formula}")

    gradient = trace[f"grad.{INNER}"]
    row, column = map(int, np.unravel_index(np.abs(gradient).argmax(), gradient.shape))
    print(f"gradient {gradient[row, column]:.3f}, slope {slope(model, row, column):.3f}")

    cat, dog = (model.trace(f"the {animal} sat on the mat.") for animal in ("cat", "dog"))
    print(next(cat.diff(dog).lines()))

    with tempfile.TemporaryDirectory() as folder:
        trace.save(Path(folder) / "cat.safetensors")
        trace.to_html(Path(folder) / "cat.html")
        print("written:", *sorted(path.name for path in Path(folder).iterdir()))

    reasons("The United [MASK] of America.")


if __name__ == "__main__":
    main()
