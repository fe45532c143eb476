"""Two passes side by side, the map of the vocabulary, gradients beside weights: all of it the model's own."""

import io
import re
import sys
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load

import glassbert as gb
from glassbert.model_names import model_folder
from glassbert.page.app import Page, in_shell
from glassbert.page.workbench import Workbench
from glassbert.serve.http.log import Log
from helpers.asgi import Client
from helpers.browsing import printed_by
from helpers.exact import exact_pass, pieces_of, weights_of
from helpers.small_served import write_small
from page.conftest import TOKEN, PageClient

TEXT, OTHER = "The cat [MASK] on the mat.", "The dog [MASK] on the mat."


def test_distances_of_two_texts_are_those_of_float64(page: PageClient) -> None:
    found = page.post("api/compare", {"text": TEXT, "other_text": OTHER}).json()
    assert found["first"] == "emb.token"
    first, second = exact_pass(TEXT), exact_pass(OTHER)
    num_compared = 0
    for one in found["distances"]:
        if one["name"] not in first:
            continue
        a, b = first[one["name"]], second[one["name"]]
        norm = max(np.linalg.norm(a), np.linalg.norm(b))
        expected = np.linalg.norm(a - b) / norm if norm else 0.0
        assert one["relative"] == pytest.approx(expected, rel=1e-3, abs=1e-6), one["name"]
        num_compared += 1
    assert num_compared > 60


def test_the_same_text_is_nowhere_apart(page: PageClient) -> None:
    found = page.post("api/compare", {"text": TEXT, "other_text": TEXT}).json()
    assert found["first"] is None
    assert max(one["relative"] for one in found["distances"]) == 0.0


def test_texts_of_other_lengths_are_compared_where_they_have_the_same_tokens(page: PageClient) -> None:
    found = page.post("api/compare", {"text": TEXT, "other_text": "The very cat [MASK] on the mat."}).json()
    mine, theirs = (side["tokens"] for side in found["sides"])
    assert [mine[place] for place in found["matched"][0]] == [theirs[place] for place in found["matched"][1]]
    assert len(found["matched"][0]) == len(mine)


def test_another_model_reads_the_second_text(tmp_path: Path) -> None:
    for seed in (0, 1):
        write_small("classify", tmp_path / str(seed), seed=seed)
    bench = Workbench(tmp_path / "0", other=tmp_path / "1")
    client = PageClient(Client(in_shell(Page(bench, token=TOKEN), Log(io.StringIO()))))
    assert client.get("api/meta").json()["other"] == "1"
    found = client.post("api/compare", {"text": "a b", "other_text": "a b"}).json()
    expected = gb.load(tmp_path / "0").trace("a b").diff(gb.load(tmp_path / "1").trace("a b"))
    assert {one["name"]: one["relative"] for one in found["distances"]} == pytest.approx(
        {one.name: one.relative for one in expected.distances}
    )
    # A cell of the second pass opens with the weights of the second model.
    cell = client.get(f"api/trace/{found['sides'][1]['id']}/cell?name=enc.0.attn.q&index=0,0").json()
    assert cell["value"] == pytest.approx(sum(term["values"][-1] for term in cell["terms"]), rel=1e-4)
    assert str(tmp_path / "1") in cell["python"]


def test_copied_python_prints_the_distances(page: PageClient) -> None:
    found = page.post("api/compare", {"text": TEXT, "other_text": OTHER}).json()
    numbers = printed_by(re.sub(r"one\.name, ", "", found["python"]))
    assert numbers == pytest.approx([one["relative"] for one in found["distances"]])


def test_the_map_shows_the_two_main_directions(page: PageClient) -> None:
    about, drawn = page.get("api/vocabulary").json(), load(page.get("api/vocabulary/map").body)
    table = weights_of(model_folder("demo"))["bert.embeddings.word_embeddings.weight"][drawn["ids"]]
    centred = table - table.mean(axis=0)
    left, sizes, _ = np.linalg.svd(centred, full_matrices=False)
    expected = left[:, :2] * sizes[:2]
    assert np.allclose(np.abs(drawn["places"]), np.abs(expected), atol=1e-4)
    assert about["explained"] == pytest.approx((sizes[:2] ** 2 / (sizes**2).sum()).tolist(), rel=1e-6)
    specials = [number for number, piece in enumerate(about["pieces"]) if piece.startswith("[")]
    assert 4 in specials  # [MASK]
    assert not {*drawn["ids"].tolist()} & {0, 1, 2, 3, 4}


def test_neighbours_are_the_largest_cosines(page: PageClient) -> None:
    pieces = pieces_of(model_folder("demo"))
    number = pieces.index("river")
    found = page.get(f"api/vocabulary/near?id={number}").json()
    table = weights_of(model_folder("demo"))["bert.embeddings.word_embeddings.weight"]
    cosines = table @ table[number] / np.linalg.norm(table, axis=1) / np.linalg.norm(table[number])
    cosines[[number, *range(5)]] = -1
    best = np.argsort(-cosines)[:20]
    assert [one["id"] for one in found["neighbours"]] == best.tolist()
    assert [one["score"] for one in found["neighbours"]] == pytest.approx(cosines[best].tolist(), abs=1e-6)
    assert printed_by(found["python"]) == [pytest.approx(cosines[best[0]])]


def test_a_translator_has_a_map_too(tmp_path: Path) -> None:
    write_small("translate", tmp_path)
    client = PageClient(Client(in_shell(Page(Workbench(tmp_path), token=TOKEN), Log(io.StringIO()))))
    about = client.get("api/vocabulary").json()
    assert len(load(client.get("api/vocabulary/map").body)["ids"]) <= len(about["pieces"])
    assert client.get("api/vocabulary/near?id=300").status == 200


def test_gradients_are_those_of_the_trace(page: PageClient) -> None:
    found = page.post("api/gradients", {"text": TEXT}).json()
    trace = gb.load("demo").trace(TEXT, grad=True)
    assert found["loss"] == pytest.approx(float(trace["loss"]))
    sizes = {one["name"]: one["gradient"] for one in found["weights"]}
    name = "encoder.blocks.2.mlp.outer.weight"
    assert sizes[name] == pytest.approx(float(np.linalg.norm(trace[f"grad.{name}"])), rel=1e-5)
    part = load(page.get(f"api/trace/{found['id']}/weight?name={name}").body)
    where = np.ix_(part["rows"], part["columns"])
    assert np.array_equal(part["gradient"], trace[f"grad.{name}"][where])
    weight = weights_of(model_folder("demo"))["bert.encoder.layer.2.output.dense.weight"]
    assert np.allclose(part["weight"], weight[where], atol=1e-7)
    largest = np.unravel_index(np.abs(trace[f"grad.{name}"]).argmax(), weight.shape)
    assert largest[0] in part["rows"]
    code = page.get(f"api/trace/{found['id']}/slope?name={name}").json()["python"]
    slope, gradient = printed_by(code)
    assert slope == pytest.approx(gradient, rel=0.02)


def test_a_gradient_of_nothing_is_refused(page: PageClient) -> None:
    key = page.trace(TEXT)
    for name in ("nothing", "encoder.blocks.0.mlp.inner.weight"):
        for asked in ("weight", "slope"):
            assert page.get(f"api/trace/{key}/{asked}?name={name}").status == 422


def test_chinese_characters_come_as_words(page: PageClient) -> None:
    key = page.trace("我喜欢北京大学[MASK]。", "他们不知道答案。")
    words = page.get(f"api/trace/{key}/words").json()["words"]
    names = [one["name"] for one in words]
    assert names[:5] == ["[CLS]", "我", "喜欢", "北京大学", "[MASK]"]
    assert sorted(place for one in words for place in one["tokens"]) == list(range(20))


def test_a_reader_learns_in_both_languages_that_words_could_not_be_found(
    page: PageClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "rjieba", None)
    found = page.get(f"api/trace/{page.trace('我喜欢北京[MASK]。')}/words").json()
    assert {"喜", "欢"} <= {one["name"] for one in found["words"]}
    (note,) = found["notes"]
    assert note["en"].startswith("no rjieba")
    assert note["zh"].startswith("没有安装 rjieba")


def test_a_trace_is_shared_as_one_page_of_at_most_five_megabytes(page: PageClient) -> None:
    response = page.get(f"api/trace/{page.trace('word ' * 300)}/share?language=zh")
    assert response.headers["content-disposition"].startswith("attachment")
    assert len(response.body) <= 5_000_000
    text = response.body.decode()
    assert 'lang="zh' in text
    assert not re.search(r"<script|https?://|src=\"(?!data:)", text)


@pytest.mark.parametrize(
    ("path", "content"),
    [
        ("api/compare", {"text": TEXT}),
        ("api/compare", {"text": TEXT, "other_text": "  "}),
        ("api/compare", {"text": TEXT, "other_text": "a" * 10_001}),
        ("api/gradients", {"text": ""}),
        ("api/gradients", {"text": TEXT, "target": {"mlm": 3}}),
    ],
)
def test_a_bad_question_gets_one_line(page: PageClient, path: str, content: object) -> None:
    response = page.post(path, content)
    assert response.status in (400, 422)
    assert "\n" not in response.json()["error"]


@pytest.mark.parametrize("path", ["vocabulary/near?id=x", "vocabulary/near?id=99999999", "vocabulary/near"])
def test_a_piece_that_is_not_there_is_refused(page: PageClient, path: str) -> None:
    assert page.get(f"api/{path}").status == 422
