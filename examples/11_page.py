"""What the page shows, in Python: two texts side by side, neighbours of a piece, a trace as one HTML file.

Purpose:   chapter 11 of the handbook as one script; `glassbert open` shows the same in the browser.
Data:      none; the model that comes with the package.
Prints:    where two passes part and how far, the nearest pieces, and the size of the page that was written.
Run time:  a few seconds, nearly all of it importing torch.
"""

import tempfile
from pathlib import Path

import glassbert as gb


def main() -> None:
    """Compare, look up, write."""
    model = gb.load("demo")
    first, second = (model.trace(f"The {animal} [MASK] on the mat.") for animal in ("cat", "dog"))
    found = first.diff(second)
    assert found.first is not None
    print(f"they diverge at {found.first.name}")
    for name in ("emb.out", "enc.0.out", "enc.out"):
        print(f"{name:9} {found[name].relative:.4f}")
    pieces = model.tokenizer.vocabulary.pieces
    vector = model.network.encoder.embeddings.token.weight[pieces.index("the")].detach()
    near = gb.nearest_tokens(model, vector, top=4)
    print("nearest to the:", ", ".join(f"{one.token} {one.score:.4f}" for one in near[1:]))
    with tempfile.TemporaryDirectory() as folder:
        first.to_html(Path(folder) / "trace.html")
        size = (Path(folder) / "trace.html").stat().st_size
    print(f"one HTML file of at most 5 MB: {size <= 5_000_000}")


if __name__ == "__main__":
    main()
