"""Train a small Transformer to translate, write with it in two ways that agree, and hand it on.

Purpose:   chapter 7 of the handbook as one script.
Data:      none; sentences about animals with their Chinese translations, in a temporary folder.
Prints:    the pieces of a pair, whether teacher forcing and the cache agree, translations, scores.
Run time:  some ten seconds.
"""

import random
import tempfile
from pathlib import Path

import torch

import glassbert as gb

WORDS = (
    {"one": "一只", "two": "两只", "three": "三只"},
    {"white": "白", "black": "黑", "small": "小", "old": "老"},
    {"cat": "猫", "dog": "狗", "bird": "鸟", "rabbit": "兔", "duck": "鸭", "monkey": "猴"},
    {"slept": "睡觉", "walked": "散步", "sang": "唱歌", "danced": "跳舞", "rested": "休息", "drank": "喝水"},
    {"garden": "花园", "forest": "森林", "house": "屋子", "market": "市场", "school": "学校"},
)
TEXT, TRANSLATION = "Two white cats slept in the forest.", "两只白猫在森林里睡觉。"
NUM_TRAINED_ON = 900


def write_pairs(folder: Path) -> None:
    """Write different sentences with their translations; the last hundred, and ours, are not trained on."""
    chance, pairs = random.Random(0), dict[str, str]()
    while len(pairs) < NUM_TRAINED_ON + 100:
        words = [chance.choice(list(table)) for table in WORDS]
        number, kind, animal, verb, place = (table[word] for table, word in zip(WORDS, words, strict=True))
        plural = "" if words[0] == "one" else "s"
        english = "{} {} {}{} {} in the {}.".format(*words[:3], plural, *words[3:]).capitalize()
        if english != TEXT:
            pairs[english] = f"{number}{kind}{animal}在{place}里{verb}。"
    lines = [f"{source}\t{target}\n" for source, target in pairs.items()]
    for name, part in (("train", lines[:NUM_TRAINED_ON]), ("dev", lines[NUM_TRAINED_ON:])):
        (folder / f"{name}.tsv").write_text("".join(part), encoding="utf-8")


def train(folder: Path) -> gb.Translator:
    """Train for a few seconds and return the best model."""
    lines: list[str] = []
    gb.train(
        "translate",
        model="transformer-tiny",
        train=folder / "train.tsv",
        dev=folder / "dev.tsv",
        out=folder / "run",
        log=lines.append,
        num_hidden_layers=1,
        hidden_dropout_prob=0.0,
        vocabulary_size=460,
        average_last=3,
        steps=200,
        batch_tokens=512,
        learning_rate=4e-3,
        save_every=20,
    )
    print(lines[1])
    return gb.load(folder / "run", gb.Translator)


def compare_both_ways(translator: gb.Translator) -> None:
    """Compute the logits of a target in one pass, and token by token with the cache."""
    network, tokenizer = translator.network, translator.tokenizer
    assert isinstance(network, gb.Transformer)
    source = gb.Batch.from_lists([[*tokenizer.ids_of(TEXT), tokenizer.end_id]])
    target = gb.Batch.from_lists([[tokenizer.pad_id, *tokenizer.ids_of(TRANSLATION)]])
    print("source ", *tokenizer.shown(source.ids.tolist()))
    print("decoder", *tokenizer.shown(target.ids.tolist()))
    with torch.inference_mode():
        at_once = network.output(network(source, target))
        state = network.start(source)
        steps = [network.output(network.step(state, token.view(1, 1)))[0] for token in target.ids]
    is_same = torch.allclose(at_once, torch.stack(steps), atol=1e-4)
    print(f"teacher forcing and {len(steps)} steps with the cache agree: {is_same}")


def main() -> None:
    """Run the chapter."""
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        write_pairs(folder)
        translator = train(folder)
        compare_both_ways(translator)
        for name, settings in (
            ("greedy", translator.usual_settings(method="greedy")),
            ("beam 4", translator.usual_settings(beam_size=4)),
        ):
            found = translator.translate([TEXT], settings)[0]
            print(f"{name}: {found.text} (finished: {found.finished})")
        scores = translator.evaluate(folder / "dev.tsv").metrics
        print(f"BLEU {scores['bleu']:.2f}, chrF {scores['chrf']:.2f}")


if __name__ == "__main__":
    main()
