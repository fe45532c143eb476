"""How deep a parameter lies, and what training on a token costs."""

from glassbert.model.bert import Encoder


def depth_in_bert(name: str, num_blocks: int) -> int:
    """Return how deep a parameter of a module that holds a BERT lies: embeddings, blocks, heads."""
    if ".encoder.embeddings." in name:
        return 0
    if ".encoder.blocks." in name:
        return 1 + int(name.split(".encoder.blocks.")[1].split(".")[0])
    return 1 + num_blocks


def flops_in_blocks(encoder: Encoder, length: float, share_read: float = 1.0) -> float:
    """Return the operations of training a BERT's blocks on one token of a sequence of ``length``.

    Args:
        share_read: Part of the tokens that a head reads; of the others, the last block computes nothing but
            keys and values.
    """
    width = encoder.embeddings.norm.normalized_shape[0]
    in_all = sum(p.numel() for p in encoder.blocks.parameters() if p.dim() > 1)
    in_last = sum(p.numel() for p in encoder.blocks[-1].parameters() if p.dim() > 1)
    unread = in_last - 2 * width**2
    in_scores = 2 * length * width * (len(encoder.blocks) - (1 - share_read))
    # Two operations a number going forward, twice that going back.
    return 6.0 * (in_all - (1 - share_read) * unread + in_scores)
