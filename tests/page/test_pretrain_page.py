"""The page Pre-train: dice, coin, labels, predictions and draws on screen, against integers and NumPy."""

import re
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load_file

from glassbert.model_names import model_folder
from glassbert.storage import read_json
from helpers import dice, numpy_networks
from helpers.browsing import LANGUAGES, misprints, needs_browser, printed_by, scale_of_shares, show, texts

pytestmark = needs_browser
CORPUS = (
    "The cat sat on the mat. It looked at the bird in the garden. The bird flew away.\n\n"
    "Paris is the capital of France. The city lies on the river Seine.\n\n"
    "北京是中国的首都。这座城市有三千年的历史。"
)
SEED, EPOCH = 3, 1
FATES = {"mask": 0.8, "random": 0.9, "kept": 1.0}


def fate_of(value: float) -> str:
    return next(name for name, limit in FATES.items() if value < limit)


CARDS = """all => all.map((card) => {
    const said = (selector) => card.querySelector(selector).innerText;
    return { token: said('b'), roll: said('.roll'), fate: said('.fate'), read: said('.read'),
        label: said('small.label'), kind: card.classList[0], is_b: card.classList.contains('text-b'),
        is_inner: card.classList.contains('inner') } })"""


def cards(tab: Any) -> list[dict[str, Any]]:
    """Return what the card of each token says."""
    found: list[dict[str, Any]] = tab.eval_on_selector_all(".dice li", CARDS)
    return found


def look(tab: Any, address: str, language: str, **params: Any) -> list[dict[str, Any]]:
    show(tab, address, "pretrain", language, corpus=CORPUS, seed=SEED, epoch=EPOCH, **params)
    tab.wait_for_selector(".dice li")
    return cards(tab)


def heads_of(tokens: list[dict[str, Any]]) -> list[int]:
    """Return the position whose dice count for each token: the first of its word."""
    heads: list[int] = []
    for place, token in enumerate(tokens):
        heads.append(heads[-1] if token["is_inner"] else place)
    return heads


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize("words", [0, 1])
def test_every_roll_and_label_is_right(tab: Any, address: str, language: str, words: int) -> None:
    example = 3
    tokens = look(tab, address, language, example=example, words=words)
    heads = heads_of(tokens) if words else list(range(len(tokens)))
    pieces = (model_folder("demo") / "vocab.txt").read_text(encoding="utf-8").splitlines()
    num_chosen = 0
    for place, token in enumerate(tokens):
        if token["token"] in ("[CLS]", "[SEP]"):
            assert (token["roll"], token["label"]) == ("–", "−100")
            continue
        choice = dice.roll(SEED, dice.CHOICE, EPOCH, example, heads[place])
        assert misprints([token["roll"]], choice) == []
        if choice >= 0.15:
            assert (token["kind"], token["fate"], token["label"]) == ("left", "", "−100")
            continue
        num_chosen += 1
        fate = dice.roll(SEED, dice.FATE, EPOCH, example, heads[place])
        assert misprints([token["fate"]], fate) == []
        assert token["kind"] == fate_of(fate)
        assert token["label"] == str(pieces.index(token["token"]))
        assert token["read"] == "[MASK]" or fate_of(fate) != "mask"
        assert token["read"] == "" or fate_of(fate) != "kept"
    assert num_chosen >= 2


@pytest.mark.parametrize("language", LANGUAGES)
def test_predictions_and_verdict_are_those_of_numpy(tab: Any, address: str, language: str) -> None:
    tokens = look(tab, address, language, example=0)
    folder = model_folder("demo")
    weights = {name: one.astype(np.float64) for name, one in load_file(folder / "model.safetensors").items()}
    pieces = (folder / "vocab.txt").read_text(encoding="utf-8").splitlines()
    ids = [pieces.index(one["read"] or one["token"]) for one in tokens]
    chosen = [place for place, one in enumerate(tokens) if one["label"] != "−100"]
    labels = [int(tokens[place]["label"]) for place in chosen]
    config, segments = read_json(folder / "config.json"), [int(one["is_b"]) for one in tokens]
    is_flipped = tab.inner_text(".coin b.label") == "NotNext"
    exact = numpy_networks.bert(weights, config, ids, segments, chosen, labels, int(is_flipped))
    logits = exact["head.mlm.logits"]
    shares, largest = numpy_networks.softmax(logits), np.abs(logits).max()
    rows = tab.query_selector_all(".predictions tbody tr")
    assert [int(row.get_attribute("data-place")) for row in rows] == chosen
    for row, label, of_pieces in zip(rows, labels, shares, strict=True):
        cells = texts(row, "td")
        assert cells[0] == pieces[label]
        assert cells[2] == pieces[int(of_pieces.argmax())]
        assert misprints(cells[3:4], of_pieces[label], scale_of_shares(of_pieces[label], largest)) == []
        assert misprints(cells[4:5], -np.log(of_pieces[label]), largest) == []
    mean = exact["mlm_loss"] / len(chosen)
    assert misprints([tab.inner_text(".predictions tfoot td")], mean, largest) == []
    scores = exact["head.nsp.logits"]
    pair = 100 * numpy_networks.softmax(scores)[0]
    bars = texts(tab, ".verdict .score")
    assert misprints(bars, pair, scale_of_shares(pair, scores), places=1) == []
    # A small loss is about the share of the wrong answer.
    scale = scale_of_shares(min(1.0, exact["nsp_loss"]), scores)
    assert misprints([tab.inner_text(".verdict p b")], exact["nsp_loss"], scale) == []


@pytest.mark.parametrize("language", LANGUAGES)
def test_the_coin_is_that_of_the_pair(tab: Any, address: str, language: str) -> None:
    # The sentences that examples begin with: a coin that is flipped puts those of B back.
    for example, first in ((0, 0), (1, 1)):
        look(tab, address, language, example=example)
        coin = dice.roll(SEED, dice.FLIP, EPOCH, first)
        assert misprints([tab.inner_text(".coin p b >> nth=0")], coin) == []
        assert tab.inner_text(".coin b.label") == ("NotNext" if coin < 0.5 else "IsNext")
        documents = [
            int(re.findall(r"\d+", one.inner_text())[0]) for one in tab.query_selector_all(".coin li")
        ]
        assert (documents[0] != documents[1]) == (coin < 0.5)


@pytest.mark.parametrize("language", LANGUAGES)
def test_a_hundred_draws_are_counted_right(tab: Any, address: str, language: str) -> None:
    tokens = look(tab, address, language, example=0)
    kinds = dict.fromkeys(FATES, 0)
    times = [0] * len(tokens)
    maskable = [place for place, one in enumerate(tokens) if one["roll"] != "–"]
    for epoch in range(100):
        rolls = {place: dice.roll(SEED, dice.CHOICE, epoch, 0, place) for place in maskable}
        lowest = min(rolls.values())
        for place, value in rolls.items():
            if value < 0.15 or value == lowest:
                times[place] += 1
                kinds[fate_of(dice.roll(SEED, dice.FATE, epoch, 0, place))] += 1
    assert [int(one.inner_text()) for one in tab.query_selector_all(".times small")] == times
    counts = {"chosen": (sum(times), 100 * len(maskable))} | {
        name: (n, sum(times)) for name, n in kinds.items()
    }
    for name, (count, total) in counts.items():
        cells = texts(tab, f'.draws tr[data-kind="{name}"] td')
        assert cells[0] == f"{count:,} / {total:,}"
        assert misprints([cells[1]], 100 * count / total, places=1) == []
    rules = texts(tab, ".draws tbody td:nth-child(4)")
    assert rules == ["15.0%", "80.0%", "10.0%", "10.0%"]


def test_copied_python_gives_the_dice_and_the_losses(tab: Any, address: str) -> None:
    tokens = look(tab, address, "en", example=0, words=1)
    place = int(tab.get_attribute(".predictions tbody tr:last-child", "data-place"))
    tab.click(".predictions tbody tr:last-child button")
    tab.wait_for_selector(".predictions tbody tr:last-child.chosen")
    choice, fate, loss = printed_by(tab.text_content(".split aside details.python pre"))
    assert misprints([tokens[place]["roll"], tokens[place]["fate"]], [choice, fate]) == []
    assert misprints([tab.inner_text(".predictions tbody tr:last-child td:last-child")], loss) == []
    coin, of_pair = printed_by(tab.text_content(".coin details.python pre"))
    written = [tab.inner_text(".coin p b >> nth=0"), tab.inner_text(".verdict p b")]
    assert misprints(written, [coin, of_pair]) == []


def test_sliders_and_buttons_change_the_draw(tab: Any, address: str) -> None:
    before = look(tab, address, "en", select_prob=1.0, mask_prob=0, random_prob=1.0)
    assert {one["kind"] for one in before} == {"special", "random"}
    tab.click(".sliders .primary")
    tab.wait_for_function(f"location.hash.includes('epoch={EPOCH + 1}')")
    tab.fill(".pasted textarea", "   ")
    tab.click(".pasted button")
    assert "blank" in tab.inner_text("[role=alert]")
    tab.fill(".pasted textarea", "One document. Two sentences.")
    tab.click(".pasted button")
    tab.wait_for_selector(".dice li")
    assert tab.query_selector(".coin") is None
