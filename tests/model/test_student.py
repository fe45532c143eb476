from itertools import combinations

import pytest
import torch

from glassbert.config import ModelConfig, preset
from glassbert.errors import UserError
from glassbert.model.init import new_bert
from glassbert.model.layout import Batch
from glassbert.model.student import MAX_CHOICES, check_number, chosen_blocks, parsed_keep, with_blocks


def deep(num_blocks: int, head: str = "pretraining") -> ModelConfig:
    shape = preset("tiny", vocab_size=30, num_hidden_layers=num_blocks, hidden_size=16, intermediate_size=32)
    return ModelConfig(encoder=shape, head=head)  # type: ignore[arg-type]


def test_a_student_computes_what_the_blocks_that_it_kept_compute() -> None:
    teacher = new_bert(deep(4), seed=0).eval()
    batch = Batch.from_lists([[2, 7, 9, 3]], [[0, 0, 0, 0]])
    student = with_blocks(teacher, (1, 3)).eval()
    hidden = teacher.encoder.embeddings(batch)
    for number in (1, 3):
        hidden = teacher.encoder.blocks[number](hidden, batch.layout)
    torch.testing.assert_close(student.encoder(batch), hidden, rtol=0, atol=0)
    assert student.config.encoder.num_hidden_layers == 2
    assert student.mlm is not None
    assert student.mlm.decoder.weight is student.encoder.embeddings.token.weight


def test_a_student_does_not_change_its_teacher() -> None:
    teacher = new_bert(deep(3), seed=0)
    before = teacher.encoder.blocks[2].mlp.outer.weight.clone()  # type: ignore[union-attr]
    student = with_blocks(teacher, (0, 2))
    with torch.no_grad():
        student.encoder.blocks[1].mlp.outer.weight.zero_()  # type: ignore[union-attr]
    assert torch.equal(teacher.encoder.blocks[2].mlp.outer.weight, before)  # type: ignore[union-attr]


def test_all_choices_with_the_last_block_are_tried_where_there_are_few() -> None:
    tried: list[tuple[int, ...]] = []

    def cost(keep: tuple[int, ...]) -> float:
        tried.append(keep)
        return abs(keep[0] - 1) + abs(keep[1] - 3)

    assert chosen_blocks(6, 3, cost) == (1, 3, 5)
    assert sorted(tried) == [(*two, 5) for two in combinations(range(5), 2)]


def test_many_choices_are_searched_by_dropping_the_least_needed_block() -> None:
    tried: list[tuple[int, ...]] = []

    def cost(keep: tuple[int, ...]) -> float:
        tried.append(keep)
        return -sum(3**-block for block in keep)  # the first ones matter most

    assert chosen_blocks(12, 6, cost) == (0, 1, 2, 3, 4, 11)
    assert len(tried) == 11 + 10 + 9 + 8 + 7 + 6 <= MAX_CHOICES
    assert all(keep[-1] == 11 for keep in tried), "the last block is always kept"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("0,2,6", "the teacher has 6 blocks, 0 to 5"),
        ("0,x", "expected auto, or blocks counted from 0"),
        ("", "expected auto, or blocks"),
        ("-1,5", "expected auto, or blocks"),
        pytest.param("9" * 5000, "expected auto, or blocks", id="many digits"),
        ("2,0,5", "ascending order"),
        ("0,0,5", "each block once"),
        ("0,2", "the last block, 5, is missing"),
    ],
)
def test_a_choice_that_makes_no_student_is_refused(text: str, message: str) -> None:
    with pytest.raises(UserError, match=message):
        parsed_keep(text, 6)


def test_a_choice_is_read_as_written() -> None:
    assert parsed_keep("0, 2,5", 6) == (0, 2, 5)


@pytest.mark.parametrize("number", [0, 6, 7])
def test_a_student_as_deep_as_its_teacher_is_refused(number: int) -> None:
    with pytest.raises(UserError, match="fewer blocks than its teacher"):
        check_number(number, 6)
