"""What the page's server answers: the model's own numbers, to its own page alone."""

import gc
import io
import re

import numpy as np
import pytest
import torch
from safetensors.numpy import load

import glassbert as gb
from glassbert.glassbox.trace import api
from glassbert.glassbox.trace.trace import fingerprint
from glassbert.page.app import Page, in_shell
from glassbert.page.examples import MASKED
from glassbert.page.workbench import Workbench
from glassbert.sentence import Language
from glassbert.serve.http.log import Log
from helpers.asgi import Client
from page.conftest import TOKEN, PageClient

TEXT = "The capital of France is [MASK]."


def is_chinese(text: str) -> bool:
    return re.search("[\u4e00-\u9fff]", text) is not None


def test_tensors_are_those_of_the_trace(page: PageClient) -> None:
    key, expected = page.trace(TEXT), gb.load("demo").trace(TEXT)
    whole = load(page.get(f"api/trace/{key}/tensor?name=enc.1.mlp.act").body)["enc.1.mlp.act"]
    assert np.array_equal(whole, expected["enc.1.mlp.act"])
    head = load(page.get(f"api/trace/{key}/tensor?name=enc.1.attn.probs&slice=0,2").body)["enc.1.attn.probs"]
    assert np.array_equal(head, expected["enc.1.attn.probs", 0, 2])
    rows = load(page.get(f"api/trace/{key}/rows?token=3").body)
    assert np.array_equal(rows["enc.2.mlp.norm"], expected["enc.2.mlp.norm", 3])


def test_thumbnails_show_every_head_of_every_block(page: PageClient) -> None:
    key, expected = page.trace(TEXT), gb.load("demo").trace(TEXT)
    pictures = load(page.get(f"api/trace/{key}/heads").body)["enc.attn.probs"]
    config = gb.load("demo").config.encoder
    size = len(expected.tokens)
    assert pictures.shape == (config.num_hidden_layers, config.num_attention_heads, size, size)
    assert np.allclose(pictures[1] / 255, expected["enc.1.attn.probs"][0], atol=0.5 / 255 + 1e-6)


def test_thumbnails_of_a_long_text_stay_small(page: PageClient) -> None:
    key = page.trace("word " * 300)
    pictures = load(page.get(f"api/trace/{key}/heads").body)["enc.attn.probs"]
    assert max(pictures.shape[2:]) <= 64
    assert pictures.max() > 0


def test_a_cell_comes_with_its_terms_and_its_python(page: PageClient) -> None:
    key = page.trace(TEXT)
    cell = page.get(f"api/trace/{key}/cell?name=enc.0.attn.q&index=6,3").json()
    assert cell["value"] == pytest.approx(sum(term["values"][-1] for term in cell["terms"]), rel=1e-5)
    assert "gb.load('demo')" in cell["python"]
    assert cell["terms"][0]["source"]["name"] == "emb.out"


def test_the_answer_is_that_of_fill(page: PageClient) -> None:
    places = page.post("api/trace", {"text": TEXT}).json()["places"]
    filled = gb.load("demo").fill(TEXT)[0]
    assert [bar["label"] for bar in places[0]["bars"]] == [one.token for one in filled]
    assert [bar["score"] for bar in places[0]["bars"]] == pytest.approx(
        [one.score for one in filled], rel=1e-4
    )


@pytest.mark.parametrize(("language", "piece"), [("en", "states"), ("zh", "国")])
def test_the_built_in_model_completes_the_first_sentence(language: Language, piece: str) -> None:
    [[best]] = gb.load("demo", gb.Model).fill(MASKED[language].text, top=1)
    assert best.token == piece


def test_the_parameters_of_bert_large_for_chinese_close(page: PageClient) -> None:
    found = page.get("api/params?source=bert-large-zh").json()
    assert found["total"] == 324_472_832
    assert sum(group["count"] for group in found["groups"]) == found["total"]
    thinner = page.get("api/params?source=bert-large-zh&num_hidden_layers=12").json()
    assert found["total"] - thinner["total"] == 12 * 12_596_224


def test_health_is_what_the_doctor_says(page: PageClient) -> None:
    found, expected = page.post("api/health", {}).json(), gb.doctor("demo")
    english = [
        {**one, **{name: one[name]["en"] for name in ("finding", "advice")}} for one in found["verdicts"]
    ]
    assert english == expected.to_json()["verdicts"]
    for one, verdict in zip(found["verdicts"], expected.verdicts, strict=True):
        assert one["finding"]["zh"] == verdict.finding.in_language("zh")
        assert one["check"] == "special ids" or is_chinese(one["finding"]["zh"])
        assert is_chinese(one["advice"]["zh"]) or not verdict.advice
    assert found["model"] == "demo"


def test_reasons_are_those_of_why(page: PageClient) -> None:
    found = page.post("api/why", {"text": TEXT, "method": "occlusion"}).json()
    model = gb.load("demo", gb.Model)
    expected = model.why(TEXT, method="occlusion").to_json()
    assert {name: found[name] for name in expected} == {
        **expected,
        "unit": {"en": "log-odds", "zh": "对数几率"},
    }
    assert found["attention"] == model.why(TEXT, method="rollout").to_json()["parts"]


def test_bytes_that_have_not_changed_are_not_sent_again(page: PageClient) -> None:
    key = page.trace(TEXT)
    first = page.get(f"api/trace/{key}/heads")
    second = page.get(f"api/trace/{key}/heads", if_none_match=first.headers["etag"])
    assert (second.status, second.body) == (304, b"")


def test_only_the_token_opens_the_page(page: PageClient) -> None:
    for path in ("/", "/wrong/", "/wrong/api/meta", f"/{TOKEN[:-1]}/", "*"):
        assert page.client.get(path).status == 403
    assert page.get("").status == 200


def test_another_origin_or_host_is_refused(page: PageClient) -> None:
    assert page.get("api/meta", origin="http://evil.example").status == 403
    assert page.get("api/meta", host="evil.example").status == 403
    assert page.get("api/meta", origin="http://localhost").status == 200


@pytest.mark.parametrize(
    "path", ["../../pyproject.toml", "assets/../../x", "%2e%2e/x", "api/nothing", "etc/passwd"]
)
def test_nothing_else_of_the_disk_can_be_asked_for(page: PageClient, path: str) -> None:
    assert page.get(path).status == 404


def test_no_answer_names_a_folder_of_the_disk(page: PageClient, workbench: Workbench) -> None:
    folder = str(workbench.model.folder)
    answers = [page.get("api/meta").body, page.post("api/trace", {"text": TEXT}).body]
    assert all(folder.encode() not in answer for answer in answers)


def test_an_experiment_looks_into_no_other_model(page: PageClient) -> None:
    response = page.post("api/lab", {"name": "norm", "settings": {"model": "/etc"}})
    assert response.status == 200
    assert response.json()["settings"]["model"] == "demo"


@pytest.mark.parametrize(
    ("content", "says"),
    [
        ({"text": ""}, "blank"),
        ({"text": "   "}, "blank"),
        ({"text": "a" * 10_001}, "10,001 characters"),
        ({"text": 3}, "expected"),
        ({}, "text"),
        (b"{", "not valid JSON"),
        (b'{"text": "\xff"}', "not valid JSON"),
    ],
)
def test_bad_text_gets_one_clear_line(page: PageClient, content: object, says: str) -> None:
    response = page.post("api/trace", content)
    assert response.status in (400, 422)
    message = response.json()["error"]
    assert says in message
    assert "\n" not in message


@pytest.mark.parametrize("text", ["👩‍👩‍👧 emoji", "שלום עולם", "a" * 10_000, "\u200b.", "[MASK] [MASK]"])
def test_odd_text_is_shown(page: PageClient, text: str) -> None:
    assert page.get(f"api/trace/{page.trace(text)}/heads").status == 200


@pytest.mark.parametrize(
    "path",
    [
        "tensor?name=nothing",
        "tensor?name=emb.out&slice=0,0,0",
        "rows?token=99",
        "rows?token=x",
        "cell?name=emb.out",
    ],
)
def test_a_question_that_does_not_fit_the_trace_is_refused(page: PageClient, path: str) -> None:
    assert page.get(f"api/trace/{page.trace(TEXT)}/{path}").status == 422


def test_a_trace_that_is_gone_says_so(page: PageClient) -> None:
    response = page.get("api/trace/0123456789abcdef/heads")
    assert response.status == 410
    assert "send the text again" in response.json()["error"]


def test_old_traces_make_room_for_new_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("glassbert.page.workbench.CACHE_BYTES", 3_000_000)
    client = PageClient(Client(in_shell(Page(bench := Workbench("demo"), token=TOKEN), Log(io.StringIO()))))
    keys = [client.trace(f"text number {number}") for number in range(8)]
    assert client.get(f"api/trace/{keys[0]}/heads").status == 410
    assert client.get(f"api/trace/{keys[-1]}/heads").status == 200
    assert sum(trace.nbytes for trace in bench._traces.values()) <= 3_000_000


def test_the_weights_are_hashed_for_the_first_text_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    hashed: list[object] = []
    monkeypatch.setattr(api, "fingerprint", lambda weights: hashed.append(weights) or fingerprint(weights))
    bench = Workbench("demo")
    found = [bench.record(text, None)["model"]["sha256"] for text in ("One text.", "Another text.")]
    assert found == 2 * [gb.load("demo").trace("A third.").model_sha256]
    assert len(hashed) == 2  # by the page, and by the trace beside it


def test_gradients_never_push_out_the_text_on_the_page(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("glassbert.page.workbench.CACHE_BYTES", 3_000_000)  # far less than a gradient takes
    client = PageClient(Client(in_shell(Page(bench := Workbench("demo"), token=TOKEN), Log(io.StringIO()))))
    key = client.trace(TEXT)
    first, second = (
        client.post("api/gradients", {"text": text}).json()["id"] for text in (TEXT, "A [MASK].")
    )
    assert client.get(f"api/trace/{key}/heads").status == 200
    name = "weight?name=encoder.blocks.0.mlp.inner.weight"
    assert client.get(f"api/trace/{second}/{name}").status == 200
    assert client.get(f"api/trace/{first}/{name}").status == 410
    assert sum(trace.nbytes for trace in bench._traces.values()) <= 3_000_000


@pytest.mark.parametrize(
    ("content", "code"),
    [({"text": " "}, "blank"), ({"text": "a", "pair": " "}, "blank"), ({"text": "a" * 10_001}, "too_long")],
)
def test_common_refusals_have_a_code_for_the_readers_language(
    page: PageClient, content: object, code: str
) -> None:
    assert page.post("api/trace", content).json()["code"] == code
    assert (
        b'"code":"%s"' % code.encode()
        in page.post("api/compare", {"other_text": "b", **content}, accept="text/event-stream").body
    )


def test_the_page_is_there_before_its_model() -> None:
    client = PageClient(Client(in_shell(Page(token=TOKEN), Log(io.StringIO()))))
    assert client.get("").status == 200
    early = client.get("api/meta")
    assert (early.status, early.headers["retry-after"]) == (503, "1")


def test_gradients_of_old_texts_are_freed(workbench: Workbench) -> None:
    def num_tensors() -> int:
        gc.collect()
        return sum(issubclass(type(one), torch.Tensor) for one in gc.get_objects())

    workbench.gradients("The first [MASK].", None, None)
    before = num_tensors()
    for number in range(3):
        workbench.gradients(f"Text {number} [MASK].", None, None)
    assert num_tensors() <= before + 10
