"""The page Train: curves, log, moved weights and examples of a real run on screen, against its files."""

import json
import shutil
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import glassbert as gb
from glassbert.text.vocabulary import SPECIALS, Vocabulary
from glassbert.text.wordpiece.tokenizer import Tokenizer
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

pytestmark = needs_browser
LETTERS = "abcdefgh"


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished pre-training run of a dozen steps, with its corpus beside it."""
    root = tmp_path_factory.mktemp("runs")
    sentences = [f"{a} {b} {c} .\n" for a in LETTERS for b in LETTERS for c in LETTERS[:4]]
    documents = ["".join(sentences[start : start + 8]) for start in range(0, len(sentences), 8)]
    (root / "text.txt").write_text("\n".join(documents))
    tokenizer = Tokenizer(Vocabulary((*SPECIALS, *LETTERS, ".")), max_length=32)
    gb.build_corpus([root / "text.txt"], tokenizer=tokenizer, out=root / "corpus", held_out=0.2)
    recipe = {
        "data": {"corpus": str(root / "corpus")},
        "model": {
            "preset": "tiny",
            "hidden_size": 16,
            "intermediate_size": 32,
            "max_position_embeddings": 32,
        },
        "objective": {"max_length": 24},
        "train": {"steps": 12, "batch_tokens": 256, "save_every": 4, "log_every": 2, "evaluate_every": 6},
    }
    gb.pretrain(recipe, out=root / "run", log=lambda line: None)
    return root / "run"


@pytest.fixture(scope="module")
def run(made: Path) -> Path:
    """The run as a copied folder whose log was cut off in the middle of a line, after a damaged one."""
    copy = made.parent / "copied"
    shutil.copytree(made, copy)
    with (copy / "metrics.jsonl").open("ab") as file:
        file.write(b'not a row\n{"step": 13, "mlm_lo')
    return copy


@pytest.fixture(scope="module")
def address(run: Path) -> Iterator[str]:
    with opened(run) as found:
        yield found


CARDS = "all => all.map((one) => [one.firstChild.textContent, one.classList.contains('text-b')])"
NAMED = "all => all.map((one) => [one.dataset.name, one.innerText])"


def logged(run: Path) -> list[dict[str, Any]]:
    """Return the whole lines of the log."""
    lines = (run / "metrics.jsonl").read_bytes().split(b"\n")[:-1]
    return [json.loads(line) for line in lines if line.startswith(b"{")]


def tensors_of(folder: Path) -> dict[str, np.ndarray]:
    """Read a weight file by its format alone."""
    content = (folder / "model.safetensors").read_bytes()
    (size,) = struct.unpack("<Q", content[:8])
    header = json.loads(content[8 : 8 + size])
    found = {}
    for name, entry in header.items():
        if name != "__metadata__":
            start, stop = entry["data_offsets"]
            values = np.frombuffer(content[8 + size + start : 8 + size + stop], dtype="<f4")
            found[name] = values.reshape(entry["shape"]).astype(np.float64)
    return found


def is_written(text: str, expected: float) -> bool:
    """Return whether a number on screen is one of the log, as the page writes it."""
    return misprints([text], expected) == []


@pytest.mark.parametrize("language", LANGUAGES)
def test_the_log_and_the_last_values_are_those_of_the_file(
    tab: Any, address: str, language: str, run: Path
) -> None:
    show(tab, address, "train", language)
    tab.wait_for_selector(".log tbody tr")
    rows = logged(run)
    shown_rows = tab.query_selector_all(".log tbody tr")
    assert len(shown_rows) == len(rows[-12:])
    num_compared = 0
    for line, row in zip(shown_rows, rows[-12:], strict=True):
        numbers = row.get("evaluation", row)
        assert line.get_attribute("data-step") == str(row["step"])
        for name, text in line.eval_on_selector_all("td", NAMED):
            assert is_written(text, numbers[name]) if name in numbers else text == ""
            num_compared += name in numbers
    assert num_compared >= 40
    for key in tab.query_selector_all(".keys li"):
        name, is_held_out = key.get_attribute("data-curve"), key.get_attribute("data-held-out") == "true"
        values = [one.get("evaluation", {} if is_held_out else one).get(name) for one in rows]
        kinds = [("evaluation" in one) == is_held_out for one in rows]
        last = [value for value, fits in zip(values, kinds, strict=True) if fits and value is not None][-1]
        assert is_written(key.query_selector("b").inner_text(), last)
    assert len(tab.query_selector_all(".curves canvas")) == 4
    step, rate, norm = printed_by(_code(tab, "main > details.python pre", run))
    assert step == 12
    assert is_written(tab.inner_text('.log tr[data-step="12"] [data-name="learning_rate"]'), rate)
    assert is_written(tab.inner_text('.log tr[data-step="12"] [data-name="grad_norm"]'), norm)


def _code(tab: Any, selector: str, run: Path) -> str:
    """Return the copied script; the log is read without its damaged lines."""
    code: str = tab.text_content(selector)
    return code.replace(".splitlines()]", '.splitlines() if line.startswith("{") and line.endswith("}")]')


@pytest.mark.parametrize("language", LANGUAGES)
def test_damaged_lines_are_counted(tab: Any, address: str, language: str) -> None:
    show(tab, address, "train", language)
    tab.wait_for_selector(".log tbody tr")
    assert "1" in tab.inner_text("main > .warning")


@pytest.mark.parametrize("language", LANGUAGES)
def test_moved_weights_are_measured_right(tab: Any, address: str, language: str, run: Path) -> None:
    show(tab, address, "train", language, before="checkpoint-8", after="checkpoint-12")
    tab.wait_for_selector(".moves tbody tr")
    before, after = tensors_of(run / "checkpoint-8"), tensors_of(run / "checkpoint-12")
    rows = tab.query_selector_all(".moves tbody tr")
    assert {row.get_attribute("data-tensor") for row in rows} == set(before)
    shares = []
    for row in rows:
        name = row.get_attribute("data-tensor")
        shape, share, moved, size, largest = texts(row, "td")[:5]
        change = after[name] - before[name]
        assert shape == " × ".join(map(str, change.shape))
        assert is_written(moved, np.sqrt((change**2).sum()))
        assert is_written(size, np.sqrt((before[name] ** 2).sum()))
        assert is_written(largest, np.abs(change).max())
        assert is_written(share, np.sqrt((change**2).sum() / (before[name] ** 2).sum()))
        shares.append(shown(share))
    assert shares == sorted(shares, reverse=True)
    tab.click(".moves tbody tr:nth-child(5) button")
    tab.wait_for_selector(".moves tbody tr:nth-child(5).chosen")
    share, largest = printed_by(tab.text_content(".moves details.python pre"))
    assert is_written(tab.inner_text(".moves tbody tr:nth-child(5) td:nth-child(3)"), share)
    assert is_written(tab.inner_text(".moves tbody tr:nth-child(5) td:nth-child(6)"), largest)


@pytest.mark.parametrize("language", LANGUAGES)
def test_examples_are_predicted_as_numpy_does(tab: Any, address: str, language: str, run: Path) -> None:
    show(tab, address, "train", language, saved="checkpoint-12")
    tab.click("main > section:last-of-type > .tools button")
    tab.wait_for_selector(".example")
    weights, config = tensors_of(run / "checkpoint-12"), json.loads((run / "last/config.json").read_text())
    pieces = (run / "last" / "vocab.txt").read_text().splitlines()
    words = " ".join((run.parent / "text.txt").read_text().split())
    for example in tab.query_selector_all(".example"):
        cards = example.eval_on_selector_all(".hidden-tokens > span", CARDS)
        ids, segments = [pieces.index(card[0]) for card in cards], [int(card[1]) for card in cards]
        lines = example.query_selector_all(".predictions tbody tr")
        places = [int(line.get_attribute("data-place")) for line in lines]
        rows = [texts(line, "td") for line in lines]
        labels = [pieces.index(row[0]) for row in rows]
        whole = list(ids)
        for place, label in zip(places, labels, strict=True):
            whole[place] = label
        for text in " ".join(pieces[id_] for id_ in whole).replace("[CLS] ", "").split(" [SEP]")[:-1]:
            assert text.strip() in words  # with the labels in their places, it is text of the corpus
        exact = numpy_networks.bert(weights, config, ids, segments, places, labels, 0)
        for row, label, logits in zip(rows, labels, exact["head.mlm.logits"], strict=True):
            chance = numpy_networks.softmax(logits)[label]
            assert misprints([row[3]], chance, scale_of_shares(chance, logits)) == []
            assert misprints([row[4]], -np.log(chance), np.abs(logits).max()) == []
        scores = exact["head.nsp.logits"]
        pair = 100 * numpy_networks.softmax(scores)[0]
        bars = texts(example, ":scope > .bars .score")
        assert misprints(bars, pair, scale_of_shares(pair, scores), places=1) == []
    (loss,) = printed_by(tab.text_content(".example details.python pre"))
    assert is_written(tab.inner_text(".example .predictions tbody tr:first-child td:last-child"), loss)


def test_another_model_of_the_run_can_be_put_on_all_pages(tab: Any, address: str) -> None:
    show(tab, address, "train", saved="checkpoint-8", text="a b c .")
    tab.wait_for_selector(".moves tbody tr")
    tab.click("main > .tools button")
    tab.wait_for_selector("header .model >> text=checkpoint-8")
    tab.click('nav a[href*="#/flow"]')
    tab.wait_for_selector(".stage .digits")


def test_the_map_of_words_is_that_of_the_model_on_the_page(tab: Any, address: str) -> None:
    show(tab, address, "train")
    for saved in ("checkpoint-8", "checkpoint-12"):
        tab.select_option("main > .tools select", saved)
        tab.click("main > .tools button")
        tab.wait_for_selector(f"header .model >> text={saved}")
        tab.click('nav a[href*="#/words"]')
        tab.wait_for_selector(".projector")
        tab.click('nav a[href*="#/train"]')
    assert len([url for url in tab.asked if url.endswith("vocabulary/map")]) == 2


def test_no_examples_of_another_model_are_shown(tab: Any, address: str) -> None:
    show(tab, address, "train", saved="checkpoint-12")
    button = "main > section:last-of-type > .tools button"
    tab.click(button)
    tab.wait_for_selector(".example")
    tab.select_option("main > .tools select", "checkpoint-8")
    tab.wait_for_selector(f"{button} >> text=checkpoint-8")
    tab.route("**/run/examples", lambda route: None)
    with tab.expect_request("**/run/examples"):
        tab.click(button)
    tab.wait_for_selector(".progress")
    assert tab.query_selector(".example") is None


def test_the_page_fits_wide_and_narrow_windows(tab: Any, address: str) -> None:
    for language in LANGUAGES:
        show(tab, address, "train", language)
        tab.wait_for_selector(".moves tbody tr")
        for width in (1280, 360):
            tab.set_viewport_size({"width": width, "height": 800})
            tab.wait_for_timeout(100)
            assert tab.evaluate("document.documentElement.scrollWidth") <= width
        tab.set_viewport_size({"width": 1280, "height": 900})


def test_a_run_is_followed_from_its_first_line_to_its_deletion(
    browser: Any, made: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "live"
    folder.mkdir()
    shutil.copy(made / "recipe.toml", folder)
    lines = (made / "metrics.jsonl").read_bytes().splitlines(keepends=True)
    with opened(folder) as found:
        tab = browser.new_page()
        tab.set_default_timeout(20_000)
        tab.goto(found)
        # No model yet: only this page is there, and it says so.
        tab.wait_for_selector('nav a[aria-current="page"][href*="#/train"]')
        assert len(tab.query_selector_all("nav a")) == 1
        assert tab.query_selector(".log") is None
        with (folder / "metrics.jsonl").open("ab", buffering=0) as log:
            log.write(lines[0])
            tab.wait_for_selector(".log tbody tr")
            log.write(lines[1][:20])
            shutil.copytree(made / "checkpoint-8", folder / "checkpoint-8")
            # The first model opens the other pages; when it is seen, the log has been read again.
            tab.wait_for_selector('nav a[href*="#/flow"]')
            assert len(tab.query_selector_all(".log tbody tr")) == 1  # half a line is none
            log.write(lines[1][20:])
            tab.wait_for_selector(".log tbody tr:nth-child(2)")
        # A run that resumes replaces its log.
        (folder / "new").write_bytes(lines[0])
        (folder / "new").replace(folder / "metrics.jsonl")
        tab.wait_for_selector(".log tbody tr:nth-child(2)", state="detached")
        assert len(tab.query_selector_all(".log tbody tr")) == 1
        shutil.rmtree(folder)
        tab.wait_for_selector("main [role=alert]")
        tab.close()


@pytest.mark.parametrize(("language", "theme"), [("en", "dark"), ("zh", "light")])
def test_the_page_is_accessible(tab: Any, address: str, language: str, theme: str) -> None:
    tab.goto(address)
    tab.evaluate(f"localStorage.setItem('theme', '{theme}')")
    show(tab, address, "train", language)
    tab.wait_for_selector(".moves tbody tr")
    assert axe_faults(tab) == []
