"""The page Decoder: both ways of running a decoder and its beams on screen, against NumPy."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

import glassbert as gb
from helpers import numpy_networks
from helpers.browsing import (
    LANGUAGES,
    axe_faults,
    misprints,
    needs_browser,
    opened,
    printed_by,
    scale_of_shares,
    show,
    shown,
    texts,
)
from helpers.sentence_pairs import VOCAB_SIZE, small_tokenizer
from helpers.small_translators import END, START, small_transformer

pytestmark = needs_browser
TEXT = "three one four."
LONGEST = 16
TARGET = "¡tres uno cuatro!"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A Transformer with random weights: it writes nonsense, but always the same."""
    folder = tmp_path_factory.mktemp("translator") / "model"
    shape = {"vocab_size": VOCAB_SIZE, "max_position_embeddings": LONGEST, "tie_word_embeddings": False}
    network = small_transformer(seed=1, **shape)
    with torch.no_grad():
        network.output.weight.mul_(10)  # or all tokens are about as likely
        network.output.bias[END] = 5.0
    gb.Translator(network, small_tokenizer()).save(folder)
    return folder


@pytest.fixture(scope="module")
def address(folder: Path) -> Iterator[str]:
    with opened(folder) as found:
        yield found


class Exact:
    """The translator in float64."""

    def __init__(self, folder: Path) -> None:
        self.model = gb.load(folder, gb.Translator)
        self.weights = {
            name: value.detach().double().numpy() for name, value in self.model.network.named_parameters()
        }
        self.source = self.model.tokenize([TEXT])[0].ids

    def logits(self, fed: list[int]) -> NDArray[np.float64]:
        """Return the logits behind each token of a target that is fed as a whole, (T, V)."""
        return numpy_networks.transformer(
            self.weights,
            num_blocks=(2, 2),
            num_heads=4,
            eps=1e-5,
            source=self.source,
            target=fed,
            labels=[0] * len(fed),
        )["head.logits"]

    def greedy(self, forced: tuple[int, int] | None = None, most: int = LONGEST) -> list[int]:
        """Return what the decoder reads when it follows itself, and its last token."""
        read = [START]
        while True:
            row = self.logits(read)[-1]
            row[START] = -np.inf
            place = len(read) - 1
            token = forced[1] if forced and forced[0] == place else int(row.argmax())
            if token == END or len(read) == min(most, LONGEST):
                return [*read, token]
            read.append(token)

    def beam(self, width: int) -> tuple[list[list[tuple[tuple[int, ...], float]]], list[float]]:
        """Return the hypotheses that go on or end after each step, and the scores that are found."""
        alive: list[tuple[tuple[int, ...], float]] = [((), 0.0)]
        steps, found = [], []
        for step in range(LONGEST):
            candidates = []
            for tokens, score in alive:
                row = self.logits([START, *tokens])[-1]
                row[START] = -np.inf
                log_probs = row - row.max() - np.log(np.exp(row - row.max()).sum())
                candidates += [((*tokens, token), score + value) for token, value in enumerate(log_probs)]
            best = sorted(candidates, key=lambda one: -one[1])[: 2 * width]
            ended = [one for one in best[:width] if one[0][-1] == END or step == LONGEST - 1]
            alive = [one for one in best if one[0][-1] != END][:width]
            found += [score / len(tokens) for tokens, score in ended]
            steps.append([one for one in best if one in ended or one in alive])
            if len(found) >= width:
                break
        return steps, sorted(found, reverse=True)[:width]


@pytest.fixture(scope="module")
def exact(folder: Path) -> Exact:
    return Exact(folder)


def cells(row: Any) -> list[str]:
    return texts(row, "td")


def probability(logits: NDArray[np.float64], token: int) -> float:
    return float(numpy_networks.softmax(logits)[token])


@pytest.mark.parametrize("language", LANGUAGES)
def test_teacher_forcing_shows_every_probability_and_loss(
    tab: Any, address: str, language: str, exact: Exact
) -> None:
    show(tab, address, "decoder", language, text=TEXT, target=TARGET)
    tab.wait_for_selector(".decoder tbody tr")
    written = [*exact.model.tokenizer.ids_of(TARGET), END]
    fed = [START, *written[:-1]]
    logits, pieces = exact.logits(fed), exact.model.tokenizer.shown
    rows = tab.query_selector_all(".decoder tbody tr")
    total = 0.0
    for place, token in enumerate(written):
        found = cells(rows[place])
        chance = probability(logits[place], token)
        total -= np.log(chance)
        assert found[:2] == pieces([fed[place], token])
        assert misprints(found[2:3], chance, scale_of_shares(chance, logits)) == []
        assert misprints(found[3:4], -np.log(chance), np.abs(logits).max()) == []
    scale = len(written) * np.abs(logits).max()
    assert misprints([tab.inner_text(".decoder tfoot td >> nth=0")], total, scale) == []


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize("forced", [None, (1, 7)])
def test_inference_shows_what_it_reads_writes_and_how_likely(
    tab: Any, address: str, language: str, forced: tuple[int, int] | None, exact: Exact
) -> None:
    params = {} if forced is None else {"place": forced[0], "forced": forced[1]}
    show(tab, address, "decoder", language, text=TEXT, **params)
    tab.wait_for_selector(".decoder tbody tr")
    most = max(len(exact.greedy()) - 1, 2 * len(exact.source) + 10)
    own = exact.greedy(forced, most)
    logits, pieces = exact.logits(own[:-1]), exact.model.tokenizer.shown
    rows = tab.query_selector_all(".decoder tbody tr")
    for place in range(len(own) - 1):
        read, writes, chance, _ = cells(rows[place])[-4:]
        assert [read, writes] == pieces(own[place : place + 2])
        expected = probability(logits[place], own[place + 1])
        assert misprints([chance], expected, scale_of_shares(expected, logits)) == []
    # Rows agree as long as both have read the same: the given target follows the free translation.
    fed = [START, *exact.greedy()[1:-1]]
    if forced:
        fed[forced[0] + 1] = forced[1]
    same = [row < len(own) - 1 and fed[: row + 1] == own[: row + 1] for row in range(len(fed))]
    kinds = [row.get_attribute("class") for row in rows]
    assert [kind == "agrees" for kind in kinds[: len(same)]] == same
    assert (False in same) == (forced is not None)
    largest = shown(tab.inner_text(".agreement b"))
    differences = [shown(cells(row)[-1]) for row in rows if row.get_attribute("class") == "agrees"]
    assert largest == max(differences) < 1e-4


@pytest.mark.parametrize("language", LANGUAGES)
def test_the_tree_shows_every_hypothesis_of_the_search(
    tab: Any, address: str, language: str, exact: Exact
) -> None:
    show(tab, address, "decoder", language, text=TEXT, beam=3)
    tab.wait_for_selector(".tree .node")
    steps, scores = exact.beam(3)
    pieces = exact.model.tokenizer.shown
    for step, nodes in enumerate(steps[:-1]):
        found = tab.query_selector_all(f'.tree .node[data-step="{step}"]')
        assert len(found) == len(nodes)
        for one, (tokens, score) in zip(found, nodes, strict=True):
            token, log_prob = (text.text_content() for text in one.query_selector_all("text"))
            (piece,) = pieces(tokens[-1:])
            assert token.startswith(piece[:8])
            assert misprints([log_prob], score) == []
            before = [written for written, _ in steps[step - 1]] if step else [()]
            assert int(one.get_attribute("data-from")) == before.index(tokens[:-1])
    found = texts(tab, ".found tbody td:last-child")
    assert misprints(found, scores) == []
    assert np.allclose(
        printed_by(tab.text_content(".found >> xpath=../following-sibling::details >> pre")),
        scores,
        atol=1e-4,
    )


def test_a_token_can_be_forced_and_freed_by_hand(tab: Any, address: str) -> None:
    show(tab, address, "decoder", text=TEXT)
    tab.click(".decoder tbody tr:nth-child(3) th button")
    token = tab.inner_text(".choices [data-side=inference] li:nth-child(2) button")
    tab.click(".choices [data-side=inference] li:nth-child(2) button")
    assert tab.wait_for_selector(".decoder .forced").inner_text() == token
    assert "place=2" in tab.url
    tab.click(".warning button")
    tab.wait_for_selector(".decoder .forced", state="detached")
    assert tab.query_selector(".decoder tr.apart") is None


def test_copied_python_gives_the_row(tab: Any, address: str) -> None:
    show(tab, address, "decoder", text=TEXT, target=TARGET)
    tab.click(".decoder tbody tr:nth-child(1) th button")
    difference, chance = printed_by(tab.text_content(".choices details.python pre"))
    found = cells(tab.query_selector(".decoder tbody tr:nth-child(1)"))
    assert difference < 1e-5
    assert misprints(found[-2:-1], chance, 0.0) == []  # of the same machine


@pytest.mark.parametrize("language", LANGUAGES)
def test_the_page_fits_wide_and_narrow_windows(tab: Any, address: str, language: str) -> None:
    show(tab, address, "decoder", language, text=TEXT)
    tab.wait_for_selector(".tree .node")
    for width in (1280, 360):
        tab.set_viewport_size({"width": width, "height": 800})
        tab.wait_for_timeout(50)
        assert tab.evaluate("document.documentElement.scrollWidth") <= width


@pytest.mark.parametrize("text", ["   ", "x" * 9_000, "👩‍👩‍👧 🎉", "שלום עולם"])
def test_odd_texts_leave_the_page_alive(tab: Any, address: str, text: str) -> None:
    show(tab, address, "decoder", text=text)
    tab.wait_for_selector(".decoder tbody tr, [role=alert]")
    show(tab, address, "decoder", text=TEXT)
    tab.wait_for_selector(".decoder tbody tr")


@pytest.mark.parametrize(("language", "theme"), [("en", "dark"), ("zh", "light")])
def test_the_page_is_accessible(tab: Any, address: str, language: str, theme: str) -> None:
    tab.goto(address)
    tab.evaluate(f"localStorage.setItem('theme', '{theme}')")
    show(tab, address, "decoder", language, text=TEXT, place=1, forced=7)
    tab.wait_for_selector(".tree .node")
    assert axe_faults(tab) == []
