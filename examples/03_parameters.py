"""Count BERT-large-zh by hand and by `glassbert.params`, and see what a pass costs.

Purpose:   chapter 3 of the handbook as one script.
Data:      none.
Prints:    the count of each part to 324,472,832, the published ways to count, memory, operations per token.
Run time:  under a second; torch is not needed.
"""

import glassbert as gb


def main() -> None:
    """Run the chapter."""
    accounting = gb.params("bert-large-zh")
    for group in accounting.groups[:2]:
        print(group.name)
        for row in group.rows:
            print(f"  {row.name:18} {row.formula:28} {row.count:>12,}")
        print(f"  {'= ' + group.name:47} {group.count:>12,}")

    shape = gb.preset("bert-large-zh")
    width, inner = shape.hidden_size, shape.intermediate_size
    embeddings = (
        shape.vocab_size + shape.type_vocab_size + shape.max_position_embeddings
    ) * width + 2 * width
    block = 4 * (width * width + width) + 2 * width + (2 * width * inner + inner + width) + 2 * width
    print(f"by hand: {embeddings + shape.num_hidden_layers * block:,}; counted: {accounting.total:,}")

    for name, total in accounting.totals.items():
        print(f"  {name:32} {total:>12,}")
    memory = accounting.memory
    print(f"weights {memory.float32:,} bytes; training adds {memory.gradients + memory.optimiser:,}")
    for length in (128, 512):
        print(f"{length} tokens: {accounting.cost(length).forward_flops_per_token:,} operations a token")


if __name__ == "__main__":
    main()
