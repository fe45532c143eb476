"""The one stack of blocks: BERT's encoder, the Transformer's encoder and its decoder.

Legend: T tokens, S memory tokens, M chosen tokens, D hidden size, B sequences, W hypotheses of each.
"""

from torch import Tensor, nn

from glassbert.config import BertConfig
from glassbert.model.block import Block, layer_norm
from glassbert.model.cache import Cache
from glassbert.model.embeddings import Embeddings
from glassbert.model.layout import Layout, SomeTokens
from glassbert.model.tap import Tap, within


class Stack(nn.Module):
    """A stack of blocks, with a last LayerNorm if the blocks are pre-norm."""

    def __init__(
        self,
        config: BertConfig,
        num_blocks: int,
        *,
        is_decoder: bool = False,
        embeddings: Embeddings | None = None,
    ) -> None:
        """Build the blocks.

        Args:
            embeddings: Those that belong to this stack alone. They come before the blocks, because fresh
                weights are drawn in the order of modules.
        """
        super().__init__()
        if embeddings is not None:
            self.embeddings = embeddings
        self.blocks = nn.ModuleList(
            Block(config, is_causal=is_decoder, has_cross_attention=is_decoder) for _ in range(num_blocks)
        )
        self.final_norm = layer_norm(config) if config.norm_position == "pre" else None

    def run(
        self,
        hidden: Tensor,
        layout: Layout,
        *,
        only: SomeTokens | None = None,
        memory: Tensor | None = None,
        memory_layout: Layout | None = None,
        is_causal: bool = False,
        tap: Tap | None = None,
    ) -> Tensor:
        """Map (T, D) to (T, D); a decoder also reads ``memory``, (S, D).

        Args:
            only: Tokens whose last states are wanted, (M, D). The last block then leaves out the others,
                unless a tap wants to see them.
            is_causal: Let a token see only itself and those before it; a decoder always does.
        """
        last = len(self.blocks) - 1
        for index, block in enumerate(self.blocks):
            hidden = block(
                hidden,
                layout,
                only=None if tap or index < last else only,
                memory=memory,
                memory_layout=memory_layout,
                is_causal=is_causal,
                tap=within(tap, f"{index}"),
            )
        hidden = self._finish(hidden)
        if tap:
            hidden = tap("out", hidden)
            return hidden if only is None else hidden[only.index]
        return hidden

    def step(self, hidden: Tensor, cache: Cache) -> Tensor:
        """Map the tokens of one step, (B * W, D), to (B * W, D)."""
        for index, block in enumerate(self.blocks):
            assert isinstance(block, Block)
            hidden = block.step(hidden, cache, index)
        return self._finish(hidden)

    def _finish(self, hidden: Tensor) -> Tensor:
        return hidden if self.final_norm is None else self.final_norm(hidden)
