"""`demo`: the life of a BERT on built-in text, as far as it is built; each step prints real numbers."""

import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.markup import escape

from glassbert.cli.output import print_json
from glassbert.errors import UserError

if TYPE_CHECKING:
    from glassbert.inference.model import Model
    from glassbert.text.tokenizer import Tokenizer

VOCAB_SIZE = 4000
SEED = 0
ENGLISH = "A generator function returns an iterator."
CHINESE = "生成器函数返回一个迭代器。"
MASKED = "A generator [MASK] returns an iterator."
# Written for this demo: the manual that every Python carries is English only.
CHINESE_TEXT = (
    "函数是一段可以重复使用的代码。",
    "生成器函数每次返回一个值，然后在同一个地方继续。",
    "迭代器一次给出一个元素，用完之后就结束。",
    "类把数据和处理数据的函数放在一起。",
    "列表可以修改，元组不能修改。",
    "字典用键来查找值，查找的速度很快。",
    "异常说明程序在哪里出了错。",
    "模块是一个文件，里面有函数、类和变量。",
)


def demo(*, out: Path | None = None, json: bool = False) -> None:
    """Walk through all that exists: vocabulary, tokens, parameters, a model, its inside, its folder.

    Parameters
    ----------
    out:
        Keep what is made in this folder; otherwise it is thrown away at the end.
    json:
        Print the numbers of all steps as one JSON object instead of the story.
    """
    if out is not None and out.exists() and any(out.iterdir()):
        raise UserError(f"{out} is not empty; name a new folder for the demo")
    with tempfile.TemporaryDirectory() as scratch:
        story = Story(is_silent=json)
        folder = out or Path(scratch)
        folder.mkdir(parents=True, exist_ok=True)
        _run(story, folder)
        if json:
            print_json(story.numbers)
        elif out is not None:
            print(f"\nEverything is in {out}")


class Story:
    """What the demo tells, and the numbers behind it."""

    def __init__(self, *, is_silent: bool) -> None:
        self.console = Console(quiet=is_silent, highlight=False)
        self.numbers: dict[str, Any] = {}
        self.num_steps = 0

    @contextmanager
    def step(self, title: str, verb: str) -> Iterator[None]:
        """Announce a step and the verb that does it, and tell how long it took."""
        self.num_steps += 1
        self.console.print(
            f"\n[bold]{self.num_steps}. {title}[/bold]   [dim]{escape(verb)}[/dim]", soft_wrap=True
        )
        started_at = time.perf_counter()
        yield
        elapsed_s = time.perf_counter() - started_at
        self.console.print(f"   [dim]{elapsed_s:.1f} s[/dim]")

    def tell(self, text: str, **numbers: Any) -> None:
        """Print a line; keep its numbers."""
        self.console.print(f"   {escape(text)}", soft_wrap=True)
        self.numbers |= numbers


def _run(story: Story, folder: Path) -> None:
    with story.step(
        "Learn a vocabulary from text that every Python has", "glassbert vocab train text.txt ..."
    ):
        tokenizer = _learn(story, folder)
    with story.step("Cut text into pieces, with offsets into the original", "glassbert tokenize model ..."):
        _tokenize(story, tokenizer)
    with story.step("Make a new BERT for this vocabulary and count it", "glassbert params model"):
        model = _make(story, folder / "model", tokenizer)
    with story.step("Look inside: the fast path and the formula agree", "glassbert.load(...)"):
        _look_inside(story, model)
    with story.step("Use it (untrained: its answers are chance)", "glassbert fill model ..."):
        _use(story, model)
    with story.step("Hand it on: a folder that transformers loads", "glassbert convert model copy"):
        _hand_on(story, folder)


def _learn(story: Story, folder: Path) -> "Tokenizer":
    from pydoc_data.topics import topics

    from glassbert.text.learn import LearnSettings, learn_vocabulary
    from glassbert.text.tokenizer import Tokenizer

    lines = [line.strip() for topic in sorted(topics) for line in topics[topic].splitlines() if line.strip()]
    text = folder / "text.txt"
    text.write_text("\n".join([*lines, *CHINESE_TEXT]) + "\n", encoding="utf-8")
    # Rare Chinese characters matter here, and the text is small: keep every character.
    learned = learn_vocabulary([text], LearnSettings(size=VOCAB_SIZE, alphabet_coverage=1.0))
    tokenizer = Tokenizer(learned.vocabulary, max_length=128)
    story.tell(
        f"{text.stat().st_size:,} bytes of text -> {len(learned.vocabulary):,} pieces, "
        f"sha256 {learned.vocabulary.sha256[:12]}...",
        vocab_size=len(learned.vocabulary),
        vocab_sha256=learned.vocabulary.sha256,
    )
    return tokenizer


def _tokenize(story: Story, tokenizer: "Tokenizer") -> None:
    for text in (ENGLISH, CHINESE):
        encoding = tokenizer.encode(text)
        story.tell(f"{text}  ->  {' '.join(encoding.pieces)}")
        story.numbers.setdefault("pieces", []).append(encoding.pieces)


def _make(story: Story, folder: Path, tokenizer: "Tokenizer") -> "Model":
    from glassbert.config import ModelConfig, preset
    from glassbert.glassbox.accounting import params
    from glassbert.inference.model import load
    from glassbert.interop.folder import write_model
    from glassbert.model.init import new_bert
    from glassbert.storage import new_folder

    shape = preset("tiny", vocab_size=len(tokenizer.vocabulary), max_position_embeddings=128)
    network = new_bert(ModelConfig(encoder=shape, head="pretraining"), seed=SEED)
    with new_folder(folder) as new:
        write_model(network, tokenizer, new, run={"seed": SEED, "made_by": "glassbert demo"})
    accounting = params(folder)
    for group in accounting.groups:
        story.tell(f"{group.name:<12} {group.count:>9,}")
    story.tell(
        f"{'total':<12} {accounting.total:>9,}  = every tensor in the file", parameters=accounting.total
    )
    return load(folder)


def _look_inside(story: Story, model: "Model") -> None:
    import torch

    from glassbert.model.layout import Batch
    from glassbert.model.tap import Tap

    seen: dict[str, torch.Tensor] = {}
    encoding = model.encode([ENGLISH])[0]
    batch = Batch.from_lists([encoding.ids], [encoding.segments])
    with torch.inference_mode():
        fast = model.engine.network(batch).hidden
        glass = model.network(batch, tap=Tap(lambda name, value: seen.setdefault(name, value))).hidden
    difference = (fast - glass).abs().max().item()
    story.tell(f"{len(seen)} named tensors; largest difference of the two paths {difference:.1e}")
    story.numbers |= {"tensors_seen": len(seen), "largest_difference": difference}
    query = encoding.pieces.index("function")
    story.tell("block 0, head 0: how much 'function' looks at each piece (untrained, so nearly even)")
    probs = seen["enc.0.attn.probs"][0, 0, query].tolist()
    for piece, prob in zip(encoding.pieces, probs, strict=True):
        story.tell(f"  {piece:<12} {prob:.4f} {'#' * round(prob * 200)}")


def _use(story: Story, model: "Model") -> None:
    for candidate in model.fill(MASKED, top=3)[0]:
        story.tell(f"{MASKED}  {candidate.token}  {candidate.score:.5f}")
    embeddings = model.embed([ENGLISH, CHINESE])
    story.tell(f"two texts as vectors of {embeddings.shape[1]} numbers, from {embeddings.tokens} tokens")


def _hand_on(story: Story, folder: Path) -> None:
    from glassbert.interop.folder import convert

    convert(folder / "model", folder / "copy")
    names = sorted(path.name for path in (folder / "copy").iterdir())
    same = (folder / "model" / "model.safetensors").read_bytes() == (
        folder / "copy" / "model.safetensors"
    ).read_bytes()
    story.tell(f"{' '.join(names)}")
    story.tell(
        f"weights after the round trip: {'the same bytes' if same else 'CHANGED'}", is_round_trip_exact=same
    )
