"""Attention by hand: take q, k and v out of a model and compute what it computed.

Purpose:   chapter 2 of the handbook as one script.
Data:      none; a new BERT of 4 features and 2 heads, the same for everyone by its seed.
Prints:    attention of each token to each other, by hand and as the tap saw it; both paths compared.
Run time:  a few seconds, nearly all of it importing torch.
"""

import math

import torch
from torch import Tensor

import glassbert as gb

SHAPE = gb.BertConfig(
    vocab_size=9,
    hidden_size=4,
    num_hidden_layers=1,
    num_attention_heads=2,
    intermediate_size=8,
    max_position_embeddings=8,
    initializer_range=0.5,
)
IDS = [2, 5, 6, 3]


def softmax_by_hand(scores: list[float]) -> list[float]:
    """Return the softmax by nothing but exp and a division."""
    weights = [math.exp(score) for score in scores]
    return [weight / sum(weights) for weight in weights]


def main() -> None:
    """Run the chapter."""
    network = gb.new_bert(gb.ModelConfig(encoder=SHAPE, head="pretraining"), seed=3).eval()
    batch = gb.Batch.from_lists([IDS])
    seen: dict[str, Tensor] = {}
    with torch.inference_mode():
        fast = network(batch).hidden
        glass = network(batch, tap=gb.Tap(seen.setdefault)).hidden

    head_size = SHAPE.head_size
    for head in range(SHAPE.num_attention_heads):
        features = slice(head * head_size, (head + 1) * head_size)
        queries = seen["enc.0.attn.q"][:, features].tolist()
        keys = seen["enc.0.attn.k"][:, features].tolist()
        print(f"head {head}: by hand, and seen by the tap")
        for token, query in enumerate(queries):
            scores = [
                sum(q * k for q, k in zip(query, key, strict=True)) / math.sqrt(head_size) for key in keys
            ]
            by_hand = " ".join(f"{prob:.4f}" for prob in softmax_by_hand(scores))
            tapped = " ".join(f"{prob:.4f}" for prob in seen["enc.0.attn.probs"][0, head, token].tolist())
            print(f"  {by_hand}   {tapped}")
    print(f"fast and glass path agree: {torch.allclose(fast, glass, atol=1e-6)}")


if __name__ == "__main__":
    main()
