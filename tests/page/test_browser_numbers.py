"""Every digit of the newer pages on screen, in both languages, against float64 NumPy; copied Python runs."""

from collections.abc import Iterator
from itertools import product
from math import isclose
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import glassbert as gb
from glassbert.model_names import model_folder
from glassbert.page.examples import MASKED
from glassbert.storage import read_json
from helpers.browsing import (
    LANGUAGES,
    TEXT,
    axe_faults,
    misprints,
    needs_browser,
    opened,
    output_of,
    printed_by,
    rows_of_flow,
    scale_of_shares,
    settle,
    show,
    shown,
    texts,
)
from helpers.exact import (
    exact_ids,
    exact_loss,
    exact_pass,
    exact_pass_of_ids,
    exact_row,
    pieces_of,
    scale_of,
    weights_of,
)
from helpers.numpy_networks import softmax
from helpers.small_served import write_small
from page.conftest import PageClient

pytestmark = needs_browser
CONFIG = read_json(model_folder("demo") / "config.json")
LAYERS, HEADS = range(CONFIG["num_hidden_layers"]), range(CONFIG["num_attention_heads"])
OTHER = "The dog [MASK] on the mat."
TOKEN = 3
"""Where the [MASK] is."""
# The worked network of the documents, to ten digits.
WORKED = """0.3775 0.3925 0.5932699921 0.5968843783 1.1059059671 1.2249214041 0.7513650696 0.7729284653
0.2983711088 0.0821670406 0.0826676278 -0.0226025405 -0.0227402422 0.1384985616 -0.0380982365
0.0363503064 0.0413703226
0.0004385677 0.0008771355 0.0004977127 0.0009954255 0.0087713547 0.0099542547 0.3589164797 0.4086661861
0.5113012702 0.5613701211 0.5307507192 0.6190491183 0.1497807161 0.1995614323 0.2497511436 0.2995022873
0.3456143227 0.3450228726 0.2804714468"""
COUNTED = "21,635,072 2,048 524,288 22,163,456 4,198,400 4,195,328 12,596,224 302,309,376 324,472,832"
LABELS = ("bad", "good", "so-so")
ROWS = [("a b c", "good"), ("x y", "bad"), ("今 天 好", "so-so"), ("d e f g", "bad")]


def test_copied_python_computes_every_kind_of_figure(
    page: PageClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = gb.load("demo")
    monkeypatch.setattr(gb, "load", lambda _: model)
    answer = page.post("api/trace", {"text": TEXT, "pair": "It slept."}).json()
    steps = [
        step
        for step in answer["graph"]
        if step["formula"] and not step["name"].startswith(tuple(f"enc.{layer}." for layer in LAYERS[2:]))
    ]
    num_run = 0
    for step in steps:
        place = ",".join(str(size - 1) for size in step["shape"])
        cell = page.get(f"api/trace/{answer['id']}/cell?name={step['name']}&index={place}").json()
        by_hand, recorded = printed_by(cell["python"])
        assert isclose(by_hand, recorded, rel_tol=1e-3, abs_tol=1e-5), step["name"]
        assert isclose(recorded, cell["value"], rel_tol=1e-6), step["name"]
        num_run += 1
    assert num_run >= 45


def test_copied_python_computes_reasons_costs_experiments_and_verdicts(page: PageClient) -> None:
    for method in ("gradients", "occlusion", "rollout", "heads", "layers", "lens"):
        found = page.post("api/why", {"text": TEXT, "method": method}).json()
        assert printed_by(found["python"]) == pytest.approx([part["value"] for part in found["parts"]]), (
            method
        )
    for changes in ("", "&hidden_size=384&num_hidden_layers=2"):
        found = page.get(f"api/params?source=bert-base{changes}").json()
        costs = [
            number
            for one in found["costs"]
            for number in (one["forward_flops_per_token"], one["length"] * one["training_bytes_per_token"])
        ]
        assert printed_by(found["python"]) == [found["total"], *costs]
    found = page.post("api/lab", {"name": "saturation", "settings": {"scales": [1.0, 10.0]}}).json()
    cells = [str(cell) for table in found["tables"] for row in table["rows"] for cell in row]
    assert output_of(found["python"]).split() == cells
    found = page.post("api/health", {}).json()
    lines = [f"{one['state']} {one['check']} {one['finding']['en']}" for one in found["verdicts"]]
    assert output_of(found["python"]).splitlines() == lines


@pytest.fixture(scope="module")
def exact() -> dict[str, np.ndarray]:
    return exact_pass(TEXT)


def numbers(tab: Any, selector: str) -> list[str]:
    tab.wait_for_selector(selector)
    return texts(tab, selector)


def check_answers(tab: Any, exact: dict[str, np.ndarray]) -> None:
    """The likeliest pieces in the place of the [MASK], as percent."""
    logits = exact["head.mlm.logits"][0]
    best = 100 * np.sort(softmax(logits))[::-1][:5]
    assert misprints(numbers(tab, ".places .score"), best, scale_of_shares(best, logits), places=1) == []


@pytest.mark.parametrize("language", LANGUAGES)
def test_every_digit_of_the_first_minute_is_right(
    tab: Any, address: str, language: str, exact: dict[str, np.ndarray]
) -> None:
    size = len(exact["emb.sum"])
    show(tab, address, "start", language, step=0)
    last = exact[f"enc.{LAYERS[-1]}.attn.probs"][0].mean(axis=0)[TOKEN]
    assert misprints(numbers(tab, "[data-tour=looked] small"), last, places=3) == []
    check_answers(tab, exact)
    show(tab, address, "start", language, step=1)
    parts = ("emb.token", "emb.segment", "emb.position", "emb.sum")
    rows = [exact[name][TOKEN, column] for name in parts for column in range(8)]
    assert misprints(numbers(tab, "[data-tour=added] td"), rows) == []
    show(tab, address, "start", language, step=2)
    raw, scores, probs = (exact[f"enc.0.attn.{kind}"][0, 0, TOKEN] for kind in ("raw", "scores", "probs"))
    value = exact["enc.0.attn.v"][:, 0]
    found = numbers(tab, "[data-tour=met] tbody td")
    for place, column in enumerate((raw, scores, probs, value, probs * value)):
        is_share = place in (2, 4)
        scale = scale_of_shares(np.abs(column), scores) if is_share else None
        assert misprints(found[place::5], column, scale) == [], place
    context = exact["enc.0.attn.context"][TOKEN, :1]
    scale = np.abs(value).max()
    assert misprints(numbers(tab, "[data-tour=met] tfoot td"), context, scale) == []
    show(tab, address, "start", language, step=3)
    hidden = np.where(np.arange(size) > TOKEN, -np.inf, scores)
    found = numbers(tab, "[data-tour=hidden] tbody td")
    for place, column in enumerate((probs, hidden, softmax(hidden[None])[0])):
        scale = None if place == 1 else scale_of_shares(column, scores)
        assert misprints(found[place::3], column, scale) == [], place
    assert "324,472,832" in tab.inner_text(".tour")


@pytest.mark.parametrize("language", LANGUAGES)
def test_every_distance_of_two_texts_is_right(
    tab: Any, address: str, language: str, exact: dict[str, np.ndarray]
) -> None:
    show(tab, address, "compare", language, other=OTHER, all=1, tensor="enc.1.attn.probs", head=2)
    tab.wait_for_selector(".bars.named .score")
    second, num_compared = exact_pass(OTHER), 0
    for bar in tab.query_selector_all(".bars.named li"):
        name = bar.query_selector(".label").inner_text()
        if name not in exact:
            continue
        norm = max(np.linalg.norm(exact[name]), np.linalg.norm(second[name]))
        expected = np.linalg.norm(exact[name] - second[name]) / norm if norm else 0.0
        # A difference of two passes: each number of both may be off.
        scale = (
            np.sqrt(exact[name].size)
            * max(np.abs(exact[name]).max(), np.abs(second[name]).max())
            / (norm or 1.0)
        )
        assert misprints([bar.query_selector(".score").inner_text()], expected, scale) == [], name
        num_compared += 1
    assert num_compared > 60
    tab.click("figure.matrix button")
    heads = [one["enc.1.attn.probs"][0, 2] for one in (exact, second)]
    same = [place for place in range(len(heads[0])) if place != 2]  # all tokens but the animal
    expected = (heads[1] - heads[0])[np.ix_(same, same)]
    scale = scale_of_shares(np.maximum(*heads)[np.ix_(same, same)], exact["enc.1.attn.scores"])
    assert misprints(numbers(tab, "figure.matrix tbody td"), expected, scale) == []


@pytest.mark.parametrize("language", LANGUAGES)
def test_every_cosine_of_the_neighbours_is_right(tab: Any, address: str, language: str) -> None:
    number = pieces_of(model_folder("demo")).index("river")
    show(tab, address, "words", language, piece=number)
    table = weights_of(model_folder("demo"))["bert.embeddings.word_embeddings.weight"]
    cosines = table @ table[number] / np.linalg.norm(table, axis=1) / np.linalg.norm(table[number])
    cosines[[number, *range(5)]] = -1
    assert misprints(numbers(tab, "aside .score"), np.sort(cosines)[::-1][:20]) == []
    found = printed_by(tab.text_content("aside details.python pre"))
    assert found == [pytest.approx(cosines.max())]


@pytest.mark.parametrize("language", LANGUAGES)
def test_the_gradients_on_screen_are_slopes_of_the_loss(
    tab: Any, address: str, language: str, exact: dict[str, np.ndarray]
) -> None:
    show(tab, address, "backprop", language, weight="encoder.blocks.1.attention.value.weight")
    right = pieces_of(model_folder("demo"))[int(exact["head.mlm.logits"][0].argmax())]
    loss = float(exact_pass(TEXT, right)["mlm_loss"])
    scale = np.abs(exact["head.mlm.logits"]).max()
    assert misprints(numbers(tab, ".gradients .total b"), loss, scale, places=6) == []
    tab.wait_for_selector(".gradients td .slope")
    rows, columns = (
        [int(one.inner_text()) for one in tab.query_selector_all(f".gradients {part}")]
        for part in ("tbody th", "thead th")
    )
    weights, name = weights_of(model_folder("demo")), "bert.encoder.layer.1.attention.self.value.weight"
    part = np.ix_(rows, columns)
    assert misprints(numbers(tab, ".gradients td span:not(.slope)"), weights[name][part], 0.0) == []
    slopes = np.reshape([shown(one) for one in numbers(tab, ".gradients td .slope")], (8, 8))
    for i in range(0, 8, 3):
        found = []
        for step in (1e-5, -1e-5):
            weights[name][rows[i], columns[i]] += step
            found.append(float(exact_pass(TEXT, right, weights)["mlm_loss"]))
            weights[name][rows[i], columns[i]] -= step
        assert isclose((found[0] - found[1]) / 2e-5, slopes[i, i], rel_tol=5e-3, abs_tol=6e-5)


@pytest.mark.parametrize("language", LANGUAGES)
def test_the_tables_of_the_documents_are_on_screen(tab: Any, address: str, language: str) -> None:
    show(tab, address, "backprop", language)
    tab.wait_for_selector("pre.arithmetic .newest")
    tab.click(".tools button:nth-of-type(4)")
    reported = tab.inner_text("main")
    assert [figure for figure in WORKED.split() if figure not in reported] == []
    drawn = tab.text_content("svg.network")
    assert "0.7284" in drawn  # output 1 after the step
    assert "0.0822" in drawn  # the slope at w5
    show(tab, address, "anatomy", language, source="bert-large-zh")
    tab.wait_for_selector("tfoot")
    reported = tab.inner_text("main")
    assert [figure for figure in COUNTED.split() if figure not in reported] == []


def test_play_shows_one_line_after_the_other(tab: Any, address: str) -> None:
    tab.clock.install()
    show(tab, address, "backprop")
    tab.wait_for_selector("pre.arithmetic .newest")
    tab.click(".tools button:nth-of-type(5)")
    tab.wait_for_selector("pre.arithmetic div:nth-of-type(3).newest")
    tab.click(".tools button:nth-of-type(5)")
    tab.wait_for_selector(".tools button:nth-of-type(5)[aria-pressed=false]")
    count = len(tab.query_selector_all("pre.arithmetic div"))
    tab.clock.run_for(10_000)
    assert len(tab.query_selector_all("pre.arithmetic div")) == count


@pytest.mark.parametrize("language", LANGUAGES)
def test_attention_between_words_adds_up_their_tokens(tab: Any, address: str, language: str) -> None:
    text = "我喜欢北京大学的[MASK]。"
    show(tab, address, "attention", language, text=text, layer=1, head=0, words=1)
    tab.wait_for_selector("figure.matrix button")
    tab.click("figure.matrix button")
    groups = [[0], [1], [2, 3], [4, 5, 6, 7], [8], [9], [10], [11]]
    exact = exact_pass(text)
    shares = exact["enc.1.attn.probs"][0, 0]
    expected = [shares[np.ix_(a, b)].sum() / len(a) for a in groups for b in groups]
    scale = scale_of_shares(expected, exact["enc.1.attn.scores"])
    assert misprints(numbers(tab, "figure.matrix tbody td"), expected, scale) == []


def test_the_page_is_saved_as_one_file(tab: Any, address: str, tmp_path: Path) -> None:
    show(tab, address, "flow")
    tab.wait_for_selector("a[download]")
    with tab.expect_download() as saved:
        tab.click("a[download]")
    saved.value.save_as(tmp_path / "one.html")
    written = (tmp_path / "one.html").read_text(encoding="utf-8")
    assert len(written) <= 5_000_000
    assert "[MASK]" in written


@pytest.fixture(scope="module")
def data_address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, Path]]:
    folder = tmp_path_factory.mktemp("data")
    write_small("classify", folder / "model")
    lines = "".join(f"{text}\t{label}\n" for text, label in ROWS)
    (folder / "dev.tsv").write_text(f"text\tlabel\n{lines}", encoding="utf-8")
    with opened(folder / "model", "--data", folder / "dev.tsv", "--compare", folder / "model") as found:
        yield found, folder / "model"


@pytest.mark.parametrize("language", LANGUAGES)
def test_every_loss_of_your_data_is_right_and_opens_the_text(
    browser: Any, data_address: tuple[str, Path], language: str
) -> None:
    address, folder = data_address
    tab = browser.new_page()
    show(tab, address, "data", language)
    tab.wait_for_selector(".judged li")
    expected = {
        text: exact_loss(folder, ["[CLS]", *text.split(), "[SEP]"], LABELS.index(label))
        for text, label in ROWS
    }
    found = {}
    for row in tab.query_selector_all(".judged li"):
        text = row.query_selector("q").inner_text().strip("“”")
        found[text] = row.query_selector(".judgement b").inner_text().split()[-1]
    assert misprints(found.values(), [expected[text] for text in found]) == []
    assert list(found) == sorted(expected, key=lambda text: -expected[text])
    worst = max(expected, key=lambda text: expected[text])
    tab.click(".judged li:first-child a >> nth=0")
    tab.wait_for_selector(".stage .digits")
    assert worst.split()[0] in tab.inner_text(".tokens")
    tab.go_back()
    tab.wait_for_selector(".judged li")
    tab.click(".judged li:first-child a >> nth=2")  # its gradients, with the right label
    loss = tab.wait_for_selector(".gradients .total b").inner_text()
    assert misprints([loss], expected[worst], places=6) == []
    tab.close()


TABLE = """() => [...document.querySelectorAll('figure.matrix tbody td')].map((one) => one.textContent)"""


@pytest.mark.parametrize(("language", "theme"), [("en", "dark"), ("zh", "light")])
def test_rows_are_accessible_and_fit_every_window(
    browser: Any, data_address: tuple[str, Path], language: str, theme: str
) -> None:
    tab = browser.new_page()
    tab.goto(data_address[0])
    tab.evaluate(f"localStorage.setItem('theme', '{theme}')")
    show(tab, data_address[0], "data", language)
    tab.wait_for_selector(".judged li")
    assert axe_faults(tab) == []
    for width in (1280, 640, 360):
        tab.set_viewport_size({"width": width, "height": 800})
        tab.wait_for_timeout(50)
        assert tab.evaluate("document.documentElement.scrollWidth") <= width
    tab.close()


def turn(tab: Any, place: str) -> None:
    """Show another place of the page that is open, and wait for its numbers."""
    tab.evaluate("(hash) => { location.hash = hash }", place)
    settle(tab)


@pytest.mark.parametrize("language", LANGUAGES)
def test_every_digit_of_the_first_sentence_is_right(tab: Any, address: str, language: str) -> None:
    text = MASKED[language].text
    exact, ids = exact_pass(text), exact_ids(text)
    tab.goto(address)
    tab.evaluate(f"localStorage.setItem('language', '{language}')")
    tab.reload()
    check_answers(tab, exact)
    num_compared = 0
    for token in range(len(ids)):
        turn(tab, f"#/flow?token={token}")
        for name, row in rows_of_flow(tab):
            if name in exact:
                expected, count = exact_row(exact, name, token), len(row)
                scale = scale_of(exact, name, expected)
                assert misprints(row, expected[:count], scale[:count]) == [], name
                num_compared += count
    assert num_compared >= len(ids) * 8 * 40
    for layer, head in product(LAYERS, HEADS):
        turn(tab, f"#/attention?layer={layer}&head={head}")
        tab.click("figure.matrix button")  # numbers instead of colours
        name = f"enc.{layer}.attn.probs"
        expected = exact[name][0, head]
        assert misprints(tab.evaluate(TABLE), expected, scale_of(exact, name, expected)) == []


@pytest.mark.parametrize("language", LANGUAGES)
def test_every_reason_on_screen_is_right(tab: Any, address: str, language: str) -> None:
    text = MASKED[language].text
    ids, mask = exact_ids(text), pieces_of(model_folder("demo")).index("[MASK]")
    place = ids.index(mask)
    exact = exact_pass(text)
    target = int(exact["head.mlm.logits"][0].argmax())

    def score(changed: list[int]) -> float:
        share = softmax(exact_pass_of_ids(changed, place)["head.mlm.logits"][0])[target]
        return float(np.log(share / (1 - share)))

    show(tab, address, "why", language, text=text, method="occlusion")
    hidden = [[*ids[:at], mask, *ids[at + 1 :]] for at in range(1, len(ids) - 1) if at != place]
    expected = [score(ids) - score(one) for one in hidden]
    largest = np.abs(exact["head.mlm.logits"]).max()
    assert misprints(numbers(tab, ".worth .score"), expected, largest) == []
    assert misprints(tab.inner_text(".total").split()[-1:], score(ids), largest) == []
    flow = np.eye(len(ids))
    for layer in LAYERS:
        shares = exact[f"enc.{layer}.attn.probs"][0].mean(axis=0)
        flow = (shares / 2 + np.eye(len(ids)) / 2) @ flow
    assert misprints(numbers(tab, ".looked .score"), flow[place], scale_of_shares(flow[place], largest)) == []
    assert tab.query_selector(".looked .caution")


@pytest.mark.parametrize("language", LANGUAGES)
def test_costs_experiments_and_health_on_screen_are_right(tab: Any, address: str, language: str) -> None:
    show(tab, address, "anatomy", language, source="bert-large-zh")
    tab.wait_for_selector(".costs li")
    blocks, width, inner, heads = 24, 1024, 4096, 16
    for line, length in zip(tab.query_selector_all(".costs li"), (128, 512), strict=True):
        flops = blocks * (8 * width**2 + 4 * length * width + 4 * width * inner)
        kept = blocks * (10 * width + 2 * inner + 3 * heads * length + 4) + 2 * width + 8
        size = 4 * length * kept
        written = f"{size / 1e9:.2f} GB" if size >= 1e9 else f"{size / 1e6:.1f} MB"
        reported = line.inner_text()
        assert [part in reported for part in (str(length), f"{flops / 1e6:.1f}", written)] == [True] * 3
    assert f"{4 * 324_472_832 / 1e9:.2f} GB" in tab.inner_text(".total")

    show(tab, address, "lab", language, experiment="saturation")
    tab.click(".guess button[type=button]")
    tab.click(".run p > .primary")
    tab.wait_for_selector("article table")
    assert axe_faults(tab) == []
    first, *jacobians = tab.query_selector_all("article table")
    cells = texts(first, "tbody td")
    scales = (1, 5, 10, 100)
    assert [float(one) for one in cells[::5]] == list(scales)
    assert [cells[1], cells[11], cells[16]] == [
        "0.5761168847658291",
        "0.9999092083843410",
        "1.0000000000000000",
    ]
    for table, scale in zip(jacobians, scales, strict=True):
        y = softmax(scale * np.array([1.0, 1.0, 2.0]))
        found = [shown(one.inner_text()) for one in table.query_selector_all("tbody td:not(:first-child)")]
        expected = np.diag(y) - np.outer(y, y)
        assert found == pytest.approx(expected.flatten().tolist(), rel=1e-3, abs=1e-12)

    show(tab, address, "health", language)
    tab.wait_for_selector(".verdicts li")
    reported = tab.inner_text(".verdicts")
    weights, pieces = weights_of(model_folder("demo")), pieces_of(model_folder("demo"))
    largest = max(float(np.abs(one).max()) for one in weights.values())
    specials = ", ".join(
        f"{one} {pieces.index(one)}" for one in ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
    )
    for figure in (f"{len(weights)} ", f"{largest:.3g}", f"{len(pieces):,}", specials):
        assert figure in reported
