"""A trace as an object: names, parts, heads, files."""

from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.numpy import save_file

import glassbert as gb
from glassbert.parsing import parse_json
from helpers.traced_models import CASES, Case, bert, translator


@pytest.fixture(scope="module", params=CASES)
def case(request: pytest.FixtureRequest) -> Case:
    return CASES[request.param]()


def test_a_saved_trace_comes_back_whole(case: Case, tmp_path: Path) -> None:
    trace = case.trace(grad=True)
    trace.save(tmp_path / "a.safetensors")
    loaded = gb.Trace.load(tmp_path / "a.safetensors")
    assert loaded.info == trace.info
    assert loaded.names() == trace.names()
    assert all(np.array_equal(loaded[name], trace[name]) for name in trace.names())
    beside = parse_json((tmp_path / "a.json").read_text(encoding="utf-8"))
    assert tuple(beside["tokens"]) == trace.tokens
    assert [step["name"] for step in beside["graph"]] == [step.name for step in trace.graph]


def test_a_trace_that_is_streamed_into_a_file_is_the_one_in_memory(case: Case, tmp_path: Path) -> None:
    case.trace(grad=True).save(tmp_path / "kept.safetensors")
    case.trace(grad=True, out=tmp_path / "streamed.safetensors")
    for ending in ("safetensors", "json"):
        streamed, kept = (tmp_path / f"{name}.{ending}" for name in ("streamed", "kept"))
        assert streamed.read_bytes() == kept.read_bytes()


def test_only_what_was_asked_for_is_kept() -> None:
    model = bert("mlm")
    assert model.trace("a b", names="enc.*.attn.probs").names() == ["enc.0.attn.probs", "enc.1.attn.probs"]
    chosen = model.trace("a b", layers=[1], grad=True)
    assert not chosen.names("*enc.0.*")
    assert not chosen.names("*blocks.0.*")
    assert chosen.names("*blocks.1.*")
    assert "head.mlm.logits" in chosen
    both = model.trace("a b", names=["loss", "enc.1.mlp.*"], layers=[1], grad=True)
    assert both.names("grad.*") == [f"grad.{name}" for name in both.names("enc.*") + ["loss"]]


def test_selected_numbers_are_those_of_the_whole_trace() -> None:
    case = CASES["classify"]()
    whole, part = case.trace(grad=True), case.trace(grad=True, names=["enc.1.*", "encoder.blocks.*"])
    assert 0 < len(part) < len(whole)
    assert all(np.array_equal(whole[name], part[name]) for name in part)


def test_a_part_of_a_tensor_is_that_part(tmp_path: Path) -> None:
    trace = bert().trace("a b c", out=tmp_path / "a.safetensors")
    whole = trace["enc.0.attn.probs"]
    assert np.array_equal(trace["enc.0.attn.probs", 0, 2], whole[0, 2])
    assert np.array_equal(trace["enc.0.attn.probs", 0, slice(1, 3), 4], whole[0, 1:3, 4])
    assert np.array_equal(trace.head("enc.0.attn.probs", 2), whole[0, 2])
    assert np.array_equal(trace.head("enc.0.attn.q", 1), trace["enc.0.attn.q"][:, 4:8])


def test_the_heads_of_queries_and_keys_give_the_scores() -> None:
    trace = bert().trace("a b c")
    for head in range(4):
        q, k = (trace.head(f"enc.1.attn.{name}", head).astype(float) for name in "qk")
        assert np.allclose(q @ k.T, trace.head("enc.1.attn.raw", head), atol=1e-5)
    with pytest.raises(gb.UserError, match="head 4: this model has 4 heads"):
        trace.head("enc.0.attn.q", 4)
    with pytest.raises(gb.UserError, match="enc.0.mlp.pre is not divided among heads"):
        trace.head("enc.0.mlp.pre", 0)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("enc.0.att.q", "did you mean enc.0.attn.q?"),
        ("enc.1.attn.q", "was not kept in this trace"),
        ("grad.enc.0.attn.q", "record it with grad=True"),
        ("zzz", "no step is called 'zzz'"),
    ],
)
def test_an_unknown_name_is_refused_with_the_nearest(name: str, message: str) -> None:
    trace = bert().trace("a b", layers=[0])
    with pytest.raises(gb.UserError) as caught:
        _ = trace[name]
    assert message in str(caught.value)


@pytest.mark.parametrize("options", [{"names": "enc.0.att.q"}, {"layers": [2]}])
def test_a_selection_of_nothing_is_refused(options: dict, tmp_path: Path) -> None:
    with pytest.raises(gb.UserError, match=r"did you mean enc.0.attn.q|this model has 2 blocks"):
        bert().trace("a b", out=tmp_path / "a.safetensors", **options)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", ["a.safetensors", "a.json"])
def test_files_that_exist_are_not_replaced_unasked(name: str, tmp_path: Path) -> None:
    (tmp_path / name).write_text("mine")
    for overwrite in (False, True):
        with pytest.raises(gb.UserError, match="that glassbert wrote; name another file"):
            bert().trace("a b", out=tmp_path / "a.safetensors", overwrite=overwrite)
    assert {path.name: path.read_text() for path in tmp_path.iterdir()} == {name: "mine"}
    (tmp_path / name).unlink()
    bert().trace("a b", out=tmp_path / "a.safetensors")
    with pytest.raises(gb.UserError, match="exists; name another file"):
        bert().trace("c d", out=tmp_path / "a.safetensors")
    bert().trace("a b", out=tmp_path / "a.safetensors", overwrite=True)
    assert gb.Trace.load(tmp_path / "a.safetensors").tokens[1] == "a"


def test_a_pass_that_fails_leaves_no_file(tmp_path: Path) -> None:
    model = bert()
    with torch.no_grad():
        model.network.encoder.blocks[1].mlp.outer.weight[0, 0] = torch.nan
    with pytest.raises(gb.ModelError, match=r"^enc\.1\.mlp\.out has a number that is NaN"):
        model.trace("a b", out=tmp_path / "a.safetensors")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("content", [b"", b"not a safetensors file", b"\xff" * 64])
def test_a_damaged_file_is_refused_in_one_line(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "a.safetensors").write_bytes(content)
    with pytest.raises(gb.ModelError, match="damaged or truncated safetensors file"):
        gb.Trace.load(tmp_path / "a.safetensors")


def test_other_safetensors_files_are_no_traces(tmp_path: Path) -> None:
    save_file({"a": np.zeros(3)}, tmp_path / "a.safetensors")
    with pytest.raises(gb.ModelError, match="not a trace"):
        gb.Trace.load(tmp_path / "a.safetensors")
    with pytest.raises(gb.ModelError, match="no such file"):
        gb.Trace.load(tmp_path / "b.safetensors")


def test_a_name_without_its_ending_is_refused(tmp_path: Path) -> None:
    with pytest.raises(gb.UserError, match=r"ends in \.safetensors"):
        bert().trace("a", out=tmp_path / "a.bin")
    with pytest.raises(gb.UserError, match="is not a folder; create it first"):
        bert().trace("a", out=tmp_path / "no" / "a.safetensors")


def test_a_long_text_is_traced_up_to_its_limit() -> None:
    for case in (CASES["classify"](), CASES["tag"](), CASES["mlm"](), CASES["translator post"]()):
        trace = case.model.trace("one two a b " * 900)
        assert trace.info.truncated
        assert len(trace.tokens) == case.model.max_length
        text = trace.info.text
        covered = [text[start:end] for start, end in trace.offsets if end > start]
        assert covered[:2] in (["o", "n"], ["one", " two"], ["one", "two"])


def test_offsets_name_the_characters_behind_each_token() -> None:
    trace = bert().trace("ab 今天", "\U0001f600 c")
    assert trace.tokens == ("[CLS]", "a", "##b", "今", "天", "[SEP]", "[UNK]", "c", "[SEP]")
    assert trace.offsets == ((0, 0), (0, 1), (1, 2), (3, 4), (4, 5), (0, 0), (0, 1), (2, 3), (0, 0))
    text = "one \U0001f600 two."
    trace = translator().trace(text)
    assert text[slice(*trace.offsets[0])] == "one"
    assert [text[start:end] for start, end in trace.offsets].count("\U0001f600") >= 3  # its bytes
    assert trace.offsets[-1] == (0, 0)


def test_the_fingerprint_is_that_of_the_weights() -> None:
    model, other = bert(), bert()
    assert model.trace("a").model_sha256 == other.trace("b").model_sha256
    with torch.no_grad():
        other.network.pooler.dense.bias[0] += 1e-3
    assert model.trace("a").model_sha256 != other.trace("a").model_sha256


def test_a_large_trace_is_announced_before_it_is_recorded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("glassbert.glassbox.trace.api.LARGE", 1000)
    said: list[str] = []
    trace = gb.trace(bert(), "a b", log=said.append)
    assert said == [
        f"a trace of {len(trace)} tensors, {trace.nbytes / 1e6:,.0f} MB in memory; "
        "out=FILE writes it as it is computed"
    ]


def test_a_trace_in_bfloat16_shows_what_rounding_does() -> None:
    model = bert("mlm")
    rounded = gb.Model(model.network, model.tokenizer, precision="bfloat16").trace("a b [MASK]")
    found = model.trace("a b [MASK]").diff(rounded)
    assert found.first is not None
    assert found.first.name == "emb.token"
    assert 1e-4 < found["enc.out"].relative < 0.1


def test_a_trace_describes_itself() -> None:
    assert repr(CASES["mlm"]().trace(grad=True)).startswith("Trace(tokens=6, tensors=")
    assert "target_tokens=" in repr(translator().trace("one."))
