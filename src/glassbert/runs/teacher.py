"""A teacher: a loaded model that answers each input once; its answers are kept for every student."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from glassbert.data.teacher_outputs import TeacherOutputs, outputs_key
from glassbert.errors import ModelError, UserError
from glassbert.inference.loading import load
from glassbert.inference.model import Model
from glassbert.interop.folder import EncoderFolder
from glassbert.messages import Log
from glassbert.model.bert import Bert
from glassbert.model.student import check_number, chosen_blocks, parsed_keep, with_blocks
from glassbert.storage import read_json, sha256_of, write_json
from glassbert.tasks.forward import raw_outputs
from glassbert.tasks.task import Input, Task
from glassbert.text.wordpiece.tokenizer import Tokenizer
from glassbert.typed import typed

TEACHER = "teacher"
"""Folder of a run with the teacher's answers."""
CHOSEN = "student.json"
"""The file of a run that says which blocks its student began as."""
_CHUNK = 512
"""Inputs that the teacher answers before their answers are written."""
Answers = Callable[[Sequence[Input]], Sequence[NDArray[Any]]]


@dataclass(frozen=True)
class Teacher:
    """A model whose answers a student learns."""

    model: Model
    folder: Path
    sha256: tuple[str, ...]
    """Of the files that hold its weights."""
    answers: Answers
    """Returns its answers to some inputs: rows of numbers for each."""

    @classmethod
    def of_vectors(cls, name: str | Path) -> "Teacher":
        """Open a teacher of vectors: it answers with the last state of every token."""
        model, folder, sha256 = _opened(name)

        def answers(inputs: Sequence[Input]) -> Sequence[NDArray[Any]]:
            return model.engine.map(
                inputs,
                lambda output, batch, _: [one.cpu().numpy() for one in batch.layout.split(output.hidden)],
            )

        return cls(model, folder, sha256, answers)

    @classmethod
    def of_task(cls, name: str | Path, task: Task[Any, Any]) -> "Teacher":
        """Open a teacher of a task: it answers with the logits; another task is refused.

        Args:
            task: The student's.
        """
        model, folder, sha256 = _opened(name)
        theirs, order = model.task, _label_order(model, folder, task)
        check_vocabulary(folder, model.tokenizer, task.tokenizer)
        if model.max_length < task.max_length:
            raise UserError(
                f"{folder}: the teacher reads {model.max_length} tokens, the student {task.max_length}; set "
                f"task.max_length={model.max_length}"
            )

        def answers(inputs: Sequence[Input]) -> Sequence[NDArray[Any]]:
            network = partial(model.engine, heads_only=True)
            raw = raw_outputs(theirs, network, [inputs], each=model.engine.each)[0]
            return [logits[..., order] for logits in raw]

        return cls(model, folder, sha256, answers)

    def outputs(self, inputs: Sequence[Input], folder: Path, log: Log) -> TeacherOutputs:
        """Return the teacher's answers, one for each input; compute them if the folder lacks them."""
        key = outputs_key(self.sha256, (one.ids for one in inputs))
        found = TeacherOutputs.find(folder, key)
        if found is not None and len(found) == len(inputs):
            return found
        log(f"the teacher answers {len(inputs):,} inputs, once; its answers are kept in {folder}")
        return TeacherOutputs.write(folder, key, self._in_chunks(inputs))

    def _in_chunks(self, inputs: Sequence[Input]) -> Iterator[NDArray[Any]]:
        for start in range(0, len(inputs), _CHUNK):
            yield from self.answers(inputs[start : start + _CHUNK])


def check_vocabulary(folder: Path, theirs: Tokenizer, ours: Tokenizer) -> None:
    """Refuse a teacher that would read other ids than its student."""
    if (theirs.vocabulary.sha256, theirs.settings.rules) != (ours.vocabulary.sha256, ours.settings.rules):
        raise ModelError(
            f"{folder}: the teacher has another vocabulary ({len(theirs.vocabulary):,} pieces, the student "
            f"{len(ours.vocabulary):,}), so they would not read the same tokens; start the student from the "
            "teacher or from a model with its vocabulary"
        )


def student_of(
    network: Bert, keep: str, num_kept: int | None, out: Path, cost: Callable[[Bert], float], log: Log
) -> tuple[Bert, tuple[int, ...]]:
    """Return the student that consists of some of a network's blocks, and which they are.

    Args:
        keep: The blocks, such as 0,2,5, or auto.
        num_kept: With auto, how many; half of them if None.
        out: Folder of the run: what an earlier session chose is taken again.
        cost: Returns the loss of an untrained student; for auto.
    """
    num_blocks = network.config.encoder.num_hidden_layers
    number = number_of_blocks(keep, num_kept, num_blocks)
    if keep != "auto":
        chosen = parsed_keep(keep, num_blocks)
        return with_blocks(network, chosen), chosen
    before = out / CHOSEN
    if before.is_file():
        found = typed(read_json(before).get("keep"), tuple[int, ...], f"{before}: keep", error=ModelError)
        try:
            chosen = parsed_keep(_shown(found), num_blocks)
        except UserError as error:
            raise ModelError(f"{before}: {error}; remove the file to choose again") from None
        return with_blocks(network, chosen), chosen
    costs: dict[tuple[int, ...], float] = {}

    def tried(blocks: tuple[int, ...]) -> float:
        costs[blocks] = cost(with_blocks(network, blocks).eval())
        return costs[blocks]

    chosen = chosen_blocks(num_blocks, number, tried)
    worst = max(costs, key=costs.__getitem__)
    log(
        f"tried {len(costs)} choices of blocks before training: {_shown(chosen)} lose least "
        f"({costs[chosen]:.4f}), {_shown(worst)} most ({costs[worst]:.4f})"
    )
    return with_blocks(network, chosen), chosen


def number_of_blocks(keep: str, num_kept: int | None, num_blocks: int) -> int:
    """Return how many of ``num_blocks`` a student keeps; a choice that makes no student is refused."""
    if keep == "auto":
        number = num_kept or -(-num_blocks // 2)
    elif num_kept is None:
        number = len(parsed_keep(keep, num_blocks))
    else:
        raise UserError(f"keep={keep} and blocks={num_kept} are both set; leave blocks out")
    check_number(number, num_blocks)
    return number


def remember_blocks(out: Path, keep: Sequence[int]) -> None:
    """Write which blocks a run's student began as."""
    if keep:
        write_json(out / CHOSEN, {"keep": list(keep)})


def _shown(blocks: Sequence[int]) -> str:
    return ",".join(map(str, blocks))


def _opened(name: str | Path) -> tuple[Model, Path, tuple[str, ...]]:
    found = EncoderFolder.open(name)
    return load(found.path, Model), found.path, tuple(sha256_of(path) for path in found.stored.files)


def _label_order(model: Model, folder: Path, task: Task[Any, Any]) -> Any:
    """Return the places of the student's labels among the teacher's logits."""
    theirs = model.task
    if (theirs.name, theirs.kind) != (task.name, task.kind) and not getattr(theirs, "takes_any", False):
        kinds = [f"{one.name}{f' ({one.kind})' if one.kind else ''}" for one in (theirs, task)]
        raise ModelError(
            f"{folder}: a teacher for {kinds[0]}, and the student learns {kinds[1]}; name another"
        )
    if theirs.extra is not None or task.extra is not None:
        raise ModelError(
            f"{folder}: a CRF judges whole paths of tags, so there are no scores of single tokens to learn; "
            "train teacher and student with task.crf=false"
        )
    known, wanted = model.config.labels, task.head().labels
    if set(known) != set(wanted):
        odd = sorted(set(known) ^ set(wanted))
        raise ModelError(
            f"{folder}: the teacher has {len(known)} labels, the training rows {len(wanted)}; "
            f"{odd[0]!r} is in one of them only"
        )
    return slice(None) if known == wanted else [known.index(label) for label in wanted]
