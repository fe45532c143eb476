"""The first part of the demo: from raw text to a small pre-trained BERT, seen from all sides."""

import signal
from pathlib import Path
from typing import Any

import glassbert as gb
from glassbert.demo.story import SEED, Story, finished

VOCAB_SIZE = 4000
MAX_LENGTH = 64
STEPS = 240
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


def show_pretraining(story: Story, folder: Path) -> None:
    """Learn a vocabulary, pre-train, count parameters, look inside, use the model and export it."""
    with story.step(
        "Learn a vocabulary from text that every Python has", "glassbert vocab train text.txt ..."
    ):
        tokenizer = _learn(story, folder)
    with story.step("Split text into pieces, with offsets into the original", "glassbert tokenize model ..."):
        _tokenize(story, tokenizer)
    with story.step("Turn the text into shards that training reads", "glassbert corpus build text.txt ..."):
        _build(story, folder, tokenizer)
    with story.step("Pre-train a small BERT, stop it, resume", "glassbert pretrain recipe.toml ..."):
        model = _pretrain(story, folder)
    with story.step("Count its parameters", "glassbert params run/last"):
        _count(story, folder / "run" / "last")
    with story.step("Look inside: the fast path and the formula agree", "gb.load(...).network(...)"):
        _look_inside(story, model)
    with story.step(
        "Use it (after seconds of training: it knows frequent words)", "glassbert fill run/last ..."
    ):
        _use(story, model)
    with story.step("Export it: a folder that transformers loads", "glassbert convert run/last copy"):
        _export(story, folder)


def _learn(story: Story, folder: Path) -> "gb.Tokenizer":
    from pydoc_data.topics import topics

    # One paragraph a line, a blank line after each topic.
    pages = [_paragraphs(topics[name]) for name in sorted(topics)]
    text = folder / "text.txt"
    for path, documents in (
        (text, [*(page for index, page in enumerate(pages) if index % 10), list(CHINESE_TEXT)]),
        (folder / "held_out.txt", pages[::10]),
    ):
        joined = "\n\n".join("\n".join(document) for document in documents)
        path.write_text(joined + "\n", encoding="utf-8")
    # Rare Chinese characters matter here, and the text is small: keep every character.
    learned = gb.learn_vocabulary(text, size=VOCAB_SIZE, alphabet_coverage=1.0)
    story.log(
        f"{text.stat().st_size:,} bytes of text -> {len(learned.vocabulary):,} pieces, "
        f"sha256 {learned.vocabulary.sha256[:12]}...",
        vocab_size=len(learned.vocabulary),
        vocab_sha256=learned.vocabulary.sha256,
    )
    return gb.Tokenizer(learned.vocabulary, max_length=MAX_LENGTH)


def _paragraphs(topic: str) -> list[str]:
    """Return the paragraphs of a manual page, each on one line."""
    return [" ".join(paragraph.split()) for paragraph in topic.split("\n\n") if paragraph.strip()]


def _tokenize(story: Story, tokenizer: "gb.Tokenizer") -> None:
    for text in (ENGLISH, CHINESE):
        encoding = tokenizer.encode(text)
        story.log(f"{text}  ->  {' '.join(encoding.pieces)}")
        story.numbers.setdefault("pieces", []).append(encoding.pieces)


def _build(story: Story, folder: Path, tokenizer: "gb.Tokenizer") -> None:
    for name, out in (("text", "corpus"), ("held_out", "held_out")):
        text = folder / f"{name}.txt"
        manifest = gb.build_corpus(text, tokenizer=tokenizer, out=folder / out, form="paragraphs").manifest
        story.log(
            f"{name:<9} {manifest.num_documents:>4,} documents, {manifest.num_sentences:>5,} sentences, "
            f"{manifest.num_tokens:>7,} tokens"
        )
        story.numbers |= {f"{name}_tokens": manifest.num_tokens}


def _pretrain(story: Story, folder: Path) -> "gb.Model":
    recipe: dict[str, dict[str, Any]] = {
        "data": {
            "corpus": str(folder / "corpus"),
            "held_out": str(folder / "held_out"),
            "held_out_tokens": 20_000,
        },
        "model": {
            "preset": "tiny",
            "max_position_embeddings": MAX_LENGTH,
            "hidden_dropout_prob": 0.0,
            "attention_probs_dropout_prob": 0.0,
        },
        "objective": {"max_length": MAX_LENGTH},
        "train": {
            "steps": STEPS,
            "batch_tokens": 2048,
            "learning_rate": 1e-3,
            "log_every": STEPS // 4,
            "seed": SEED,
        },
    }

    def log_and_stop(line: str) -> None:
        story.log(line)
        if line.startswith(f"step {STEPS // 2} "):
            story.log("... a signal asks it to stop")
            signal.raise_signal(signal.SIGTERM)

    stopped = gb.pretrain(recipe, out=folder / "run", log=log_and_stop)
    if stopped.step <= STEPS // 2:
        finished(stopped)  # the signal was not ours
    result = finished(gb.pretrain(recipe, out=folder / "run", log=story.log))
    story.numbers |= {"stopped_at": stopped.step, "steps": result.step, "metrics": dict(result.metrics)}
    return gb.load(folder / "run" / "last")


def _count(story: Story, model: Path) -> None:
    accounting = gb.params(model)
    for group in accounting.groups:
        story.log(f"{group.name:<12} {group.count:>9,}")
    story.log(
        f"{'total':<12} {accounting.total:>9,}  = every tensor in the file", parameters=accounting.total
    )


def _look_inside(story: Story, model: "gb.Model") -> None:
    import torch

    seen: dict[str, torch.Tensor] = {}
    encoding = model.tokenize([ENGLISH])[0]
    batch = gb.Batch.from_lists([encoding.ids], [encoding.segments])
    with torch.inference_mode():
        fast = model.engine.network(batch).hidden
        glass = model.network(batch, tap=gb.Tap(lambda name, value: seen.setdefault(name, value))).hidden
    difference = (fast - glass).abs().max().item()
    story.log(f"{len(seen)} named tensors; largest difference of the two paths {difference:.1e}")
    story.numbers |= {"tensors_seen": len(seen), "largest_difference": difference}
    query = encoding.pieces.index("function")
    story.log("block 0, head 0: how much 'function' looks at each piece")
    probs = seen["enc.0.attn.probs"][0, 0, query].tolist()
    for piece, prob in zip(encoding.pieces, probs, strict=True):
        story.log(f"  {piece:<12} {prob:.4f} {'#' * round(prob * 200)}")


def _use(story: Story, model: "gb.Model") -> None:
    for candidate in model.fill(MASKED, top=3)[0]:
        story.log(f"{MASKED}  {candidate.token}  {candidate.score:.5f}")
    embeddings = model.embed([ENGLISH, CHINESE])
    story.log(f"two texts as vectors of {embeddings.shape[1]} numbers, from {embeddings.tokens} tokens")


def _export(story: Story, folder: Path) -> None:
    gb.convert(folder / "run" / "last", folder / "copy")
    names = sorted(path.name for path in (folder / "copy").iterdir())
    weights = [folder / "run" / "last" / "model.safetensors", folder / "copy" / "model.safetensors"]
    same = weights[0].read_bytes() == weights[1].read_bytes()
    story.log(f"{' '.join(names)}")
    story.log(
        f"weights after the round trip: {'the same bytes' if same else 'CHANGED'}", is_round_trip_exact=same
    )
