import pytest
import torch

from helpers.oracles import VOCAB_SIZE


@pytest.fixture
def padded_input() -> dict[str, torch.Tensor]:
    """Three sequences of 7, 12 and 1 tokens, padded on the right."""
    generator = torch.Generator().manual_seed(1)
    ids = torch.randint(5, VOCAB_SIZE, (3, 12), generator=generator)
    mask = (torch.arange(12) < torch.tensor([7, 12, 1])[:, None]).long()
    segments = (torch.arange(12) > 4).long().expand(3, -1)
    return {"input_ids": ids * mask, "attention_mask": mask, "token_type_ids": segments * mask}
