import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from glassbert.errors import ModelError, UserError
from glassbert.inference.loading import load
from glassbert.inference.translator import Translator, best_targets
from helpers.sentence_pairs import (
    ctranslate2_texts,
    sentence_pairs,
    small_network,
    write_arbitrary_translator,
)
from helpers.small_translators import small_lstm

TEXTS = [source for source, _ in sentence_pairs(12, seed=2)]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_arbitrary_translator(tmp_path_factory.mktemp("translator"))


@pytest.fixture(scope="module")
def translator(folder: Path) -> Translator:
    return load(folder, Translator)


@pytest.mark.parametrize("method", ["greedy", "beam", "sample"])
def test_a_text_is_translated_alike_alone_and_among_others(translator: Translator, method: str) -> None:
    settings = translator.usual_settings(method=method, max_length=12)
    together = translator.translate(TEXTS, settings)
    for index, text in enumerate(TEXTS):
        # Random draws depend on the place of a text; blank texts before it keep its place.
        alone = translator.translate([""] * index + [text], settings)[-1]
        assert alone.text == together[index].text
        assert alone.score == pytest.approx(together[index].score, abs=1e-4)


def test_a_stream_keeps_the_order_and_reads_no_further_than_its_chunk(translator: Translator) -> None:
    taken: list[str] = []

    def texts() -> Iterator[str]:
        for text in TEXTS:
            taken.append(text)
            yield text

    settings = translator.usual_settings(max_length=8)
    stream = translator.stream(texts(), settings, chunk_size=3)
    first = next(stream)
    assert len(taken) == 3
    rest = list(stream)
    assert [first.text, *(found.text for found in rest)] == [
        found.text for found in translator.translate(TEXTS, settings)
    ]


def test_blank_texts_stay_blank(translator: Translator) -> None:
    settings = translator.usual_settings(num_hypotheses=2, max_length=8)
    found = translator.translate(["", TEXTS[0], " \t"], settings, with_alignment=True)
    for blank in (found[0], found[2]):
        assert blank.to_json() == {
            "text": "",
            "score": 0.0,
            "finished": True,
            "truncated": False,
            "tokens": 0,
            "n_best": [{"text": "", "score": 0.0, "log_prob": 0.0, "finished": True}] * 2,
        }
    assert found[1].alignment is not None
    assert translator.translate([]) == []


def test_a_source_longer_than_the_table_is_cut_and_reported(translator: Translator) -> None:
    found = translator.translate(["one " * 100, "one"], translator.usual_settings(max_length=4))
    assert [one.truncated for one in found] == [True, False]
    assert [one.tokens for one in found] == [64, len(translator.tokenizer.ids_of("one")) + 1]


@pytest.mark.parametrize(("num_pieces", "is_cut"), [(62, False), (63, False), (64, True), (65, True)])
def test_a_source_is_cut_only_when_it_and_its_end_do_not_fit(
    translator: Translator, num_pieces: int, is_cut: bool
) -> None:
    text = "5" * num_pieces  # a digit is a piece; the first takes the space before it as one more
    assert len(translator.tokenizer.ids_of(text[1:])) == num_pieces
    found = translator.translate([text[1:]], translator.usual_settings(max_length=2))[0]
    assert found.truncated == is_cut
    assert found.tokens == min(num_pieces + 1, 64)


def test_random_draws_do_not_depend_on_how_a_stream_is_cut(translator: Translator) -> None:
    settings = translator.usual_settings(method="sample", max_length=8)
    same = [TEXTS[0]] * 6
    whole = [found.text for found in translator.stream(same, settings)]
    assert len(set(whole)) > 1, "each place draws for itself"
    assert [found.text for found in translator.stream(same, settings, chunk_size=2)] == whole


def test_a_translation_without_an_end_is_reported_for_each_sentence(translator: Translator) -> None:
    found = translator.translate(TEXTS, translator.usual_settings(method="sample", max_length=12))
    assert {one.finished for one in found} == {True, False}
    for one in found:
        assert one.to_json()["finished"] == one.finished
        assert one.n_best[0].finished == one.finished


def test_n_best_are_different_and_sorted(translator: Translator) -> None:
    settings = translator.usual_settings(beam_size=4, num_hypotheses=3, max_length=8)
    for found in translator.translate(TEXTS, settings):
        assert len(found.n_best) == 3
        assert found.text == found.n_best[0].text
        scores = [one.score for one in found.n_best]
        assert scores == sorted(scores, reverse=True)
        assert [one["text"] for one in found.to_json()["n_best"]] == [one.text for one in found.n_best]


def test_an_alignment_has_a_row_for_each_piece_that_was_written(translator: Translator) -> None:
    settings = translator.usual_settings(method="greedy", max_length=6)
    for text, found in zip(TEXTS, translator.translate(TEXTS, settings, with_alignment=True), strict=True):
        alignment = found.alignment
        assert alignment is not None
        assert alignment.source == (*translator.tokenizer.shown(translator.tokenizer.ids_of(text)), "</s>")
        assert (alignment.target[-1] == "</s>") == found.finished
        assert len(alignment.weights) == len(alignment.target)
        for row in alignment.weights:
            assert len(row) == len(alignment.source)
            assert sum(row) == pytest.approx(1, abs=1e-2)
        assert found.to_json()["alignment"]["weights"] == alignment.weights


def test_alignments_do_not_depend_on_the_batch(
    translator: Translator, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = translator.usual_settings(method="greedy", max_length=6)
    monkeypatch.setattr("glassbert.inference.translator._ALIGNED_TOKENS", 40)
    together = translator.translate(TEXTS, settings, with_alignment=True)
    alone = [translator.translate([text], settings, with_alignment=True)[0] for text in TEXTS]
    for one, other in zip(together, alone, strict=True):
        assert one.alignment is not None
        assert other.alignment is not None
        torch.testing.assert_close(
            torch.tensor(one.alignment.weights), torch.tensor(other.alignment.weights), atol=2e-4, rtol=0
        )


def test_a_beam_larger_than_the_vocabulary_is_refused(translator: Translator) -> None:
    with pytest.raises(UserError, match=r"beam_size=500 exceeds the 318 tokens"):
        translator.translate(TEXTS, translator.usual_settings(beam_size=500))


def test_one_string_in_place_of_many_is_refused(translator: Translator) -> None:
    for call in (translator.tokenize, translator.translate, translator.stream):
        with pytest.raises(UserError, match="^texts='one two'; expected a list of str; wrap it in a list$"):
            call("one two")


def test_a_stream_refuses_what_is_no_text(translator: Translator) -> None:
    with pytest.raises(UserError, match=r"^texts=\['one', 2\]; expected a list of str$"):
        list(translator.stream(iter(["one", 2])))


def test_best_targets_may_be_twice_as_long_as_their_sources(translator: Translator) -> None:
    network = small_network(seed=4)
    with torch.no_grad():
        network.output.bias[1] = -100.0  # never ends by itself
    sources = [[5, 1], [5, 6, 7, 8, 9, 1]]
    for beam in (1, 2):
        assert [len(ids) for ids in best_targets(network.eval(), sources, beam=beam)] == [22, 22]
    many = [[5] * (1 + index % 20) + [1] for index in range(200)]
    lengths = [len(ids) for ids in best_targets(network, many, beam=1)]
    assert all(2 * len(source) <= length for source, length in zip(many, lengths, strict=True))
    assert len(set(lengths)) > 1


def test_an_exported_translator_writes_the_same_text(translator: Translator, tmp_path: Path) -> None:
    translator.export_ctranslate2(tmp_path / "exported")
    theirs = ctranslate2_texts(tmp_path / "exported", translator.tokenizer, TEXTS, max_length=12)
    ours = translator.translate(TEXTS, translator.usual_settings(max_length=12))
    assert theirs == [one.text for one in ours]
    pieces = translator.tokenizer.pieces
    recurrent = Translator(small_lstm(vocab_size=len(pieces)), translator.tokenizer, {})
    with pytest.raises(ModelError, match="this is an LSTM; nothing was written"):
        recurrent.export_ctranslate2(tmp_path / "other")
    assert not (tmp_path / "other").exists()


def test_the_input_of_the_encoder_can_be_seen(translator: Translator) -> None:
    seen, blank, long = translator.tokenize(["one two", " " * 1000, "one " * 100])
    assert seen.ids == [*translator.tokenizer.ids_of("one two"), translator.tokenizer.end_id]
    assert seen.pieces == [*translator.tokenizer.shown(seen.ids[:-1]), "</s>"]
    assert (seen.truncated, long.truncated, len(long.ids)) == (False, True, 64)
    assert (blank.ids, blank.pieces, blank.truncated) == ([], [], False), "there is nothing to cut"


def test_a_translator_shows_what_it_is(translator: Translator) -> None:
    num_parameters = sum(parameter.numel() for parameter in translator.network.parameters())
    assert repr(translator) == (
        "Translator(network='Transformer', num_hidden_layers=1, hidden_size=32, "
        f"num_parameters={num_parameters}, vocab_size=320, max_length=64, "
        "device='cpu', precision='float32')"
    )
    recurrent = Translator(small_lstm(vocab_size=320), translator.tokenizer)
    assert repr(recurrent).startswith("Translator(network='Lstm', num_hidden_layers=")


def test_a_saved_translator_writes_the_same(translator: Translator, tmp_path: Path) -> None:
    translator.save(str(tmp_path / "copy"))
    again = load(tmp_path / "copy", Translator)
    settings = translator.usual_settings(max_length=8)
    assert again.translate(TEXTS, settings) == translator.translate(TEXTS, settings)
    assert again.run["note"] == "random"
    with pytest.raises(UserError, match="is not empty"):
        translator.save(tmp_path / "copy")
    translator.save(tmp_path / "copy", overwrite=True)


def test_a_run_folder_means_its_best_model(folder: Path, tmp_path: Path) -> None:
    shutil.copytree(folder, tmp_path / "best")
    loaded = load(tmp_path, Translator)
    assert loaded.run["note"] == "random"
    assert loaded.max_length == 64


def test_a_folder_without_a_translator_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=r"no config\.json"):
        load(tmp_path, Translator)
    (tmp_path / "config.json").write_text('{"model_type": "bert"}')
    with pytest.raises(ModelError, match="is a BERT, not a translator; train one with `glassbert train"):
        load(tmp_path, Translator)
