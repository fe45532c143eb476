"""Vectors of words: which states they are the mean of, and the files that others read."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.numpy import load_file

import glassbert as gb
from glassbert.cli.main import main
from glassbert.errors import DataError, UserError
from glassbert.evaluation.word_pairs import WordSet, common_characters
from glassbert.inference.word_vectors import (
    BINARY,
    LIST,
    TENSORS,
    TEXT,
    WordVectors,
    frequent_words,
    listed_words,
)
from glassbert.messages import say_nothing
from glassbert.model.layout import Batch
from glassbert.model.tap import Tap


@pytest.fixture(scope="module")
def demo() -> gb.Model:
    return gb.load("demo", gb.Model)


def layers_of(model: gb.Model, text: str) -> np.ndarray:
    """Return the mean over the layers of each piece's states, by the glass path; specials left out."""
    (encoding,) = model.tokenize([text])
    seen = {}

    def sink(name: str, value: torch.Tensor) -> torch.Tensor:
        seen[name] = value
        return value

    with torch.no_grad():
        model.network(Batch.from_lists([encoding.ids], [encoding.segments]), tap=Tap(sink))
    names = ["emb.out", *(f"enc.{block}.out" for block in range(model.config.encoder.num_hidden_layers))]
    return np.mean([seen[name].numpy() for name in names], axis=0)[1:-1]


def test_a_word_is_the_mean_of_its_pieces_over_all_layers(demo: gb.Model) -> None:
    text = "北京 unbelievable。"
    found = demo.words(text, segmenter=["北京"])
    assert [(word.text, word.start, word.end) for word in found] == [
        ("北京", 0, 2),
        ("unbelievable", 3, 15),
        ("。", 15, 16),
    ]
    states = layers_of(demo, text)
    num_pieces = len(states) - 3
    assert num_pieces > 1, "a word of several pieces"
    for word, rows in zip(found, (states[:2], states[2:-1], states[-1:]), strict=True):
        np.testing.assert_allclose(word.vector, rows.mean(axis=0), atol=2e-5)


def test_chinese_words_are_found_by_rjieba_unless_another_is_named(demo: gb.Model) -> None:
    assert [word.text for word in demo.words("北京大学在中国")] == ["北京大学", "在", "中国"]
    assert [word.text for word in demo.words("北京大学", segmenter=["大学"])] == ["北", "京", "大学"]


def test_words_beyond_the_longest_input_are_left_out(demo: gb.Model) -> None:
    text = "a " * 600
    assert len(demo.words(text)) == demo.max_length - 2


def test_vectors_of_a_list_are_centred_and_those_in_contexts_are_means(
    demo: gb.Model, tmp_path: Path
) -> None:
    (tmp_path / "text.txt").write_text("the red car.\n\na red house is big.\nred again here.\n")
    words = ["red", "car", "moon"]
    found = gb.word_vectors(demo, words, text=tmp_path / "text.txt", contexts=2, log=say_nothing)
    assert found.contexts == (2, 1, 0)
    in_first, in_second = (
        next(word.vector for word in demo.words(text) if word.text == "red")
        for text in ("the red car.", "a red house is big.")
    )
    car = next(word.vector for word in demo.words("the red car.") if word.text == "car")
    alone = demo.words("moon")[0].vector
    raw = np.stack([(in_first + in_second) / 2, car, alone])
    np.testing.assert_allclose(found.vectors, raw - raw.mean(axis=0), atol=2e-5)
    np.testing.assert_allclose(found.vectors.mean(axis=0), 0.0, atol=1e-6)


VECTORS = WordVectors(
    ("king", "man", "queen", "woman", "new york"),
    np.array([[1, 1, 0], [1, 0, 0], [0, 1, 1], [0, 0, 1.5], [-1, -1, 0]], dtype=np.float32),
    (1, 0, 2, 0, 0),
)


def test_neighbours_and_analogies_follow_the_cosine() -> None:
    assert VECTORS.similarity("king", "man") == pytest.approx(1 / np.sqrt(2))
    assert [one.word for one in VECTORS.nearest("king", top=2)] == ["man", "queen"]
    assert VECTORS.nearest("king", top=9)[-1].word == "new york"
    assert VECTORS.analogy("man", "king", "woman", top=1)[0].word == "queen"
    with pytest.raises(UserError, match="no vector of 'prince'"):
        VECTORS.nearest("prince")


def test_what_is_written_is_read_by_an_independent_reader(tmp_path: Path) -> None:
    VECTORS.save(tmp_path / "out")
    lines = (tmp_path / "out" / TEXT).read_text().splitlines()
    assert lines[0] == "5 3"
    assert lines[1] == "king 1 1 0"
    assert lines[5] == "new_york -1 -1 0"
    data = (tmp_path / "out" / BINARY).read_bytes().split(b"\n", 1)[1]
    name, _, rest = data.partition(b" ")
    assert (name, np.frombuffer(rest[:12], "<f4").tolist(), rest[12:13]) == (b"king", [1.0, 1.0, 0.0], b"\n")
    tensors = load_file(tmp_path / "out" / TENSORS)
    np.testing.assert_array_equal(tensors["vectors"], VECTORS.vectors)
    assert tensors["contexts"].tolist() == [1, 0, 2, 0, 0]
    assert (tmp_path / "out" / LIST).read_text().splitlines() == list(VECTORS.words)
    with pytest.raises(UserError, match="not empty"):
        VECTORS.save(tmp_path / "out")


@pytest.mark.parametrize("is_binary", [False, True])
def test_gensim_loads_both_forms(is_binary: bool, tmp_path: Path) -> None:
    models = pytest.importorskip("gensim.models")
    words = WordVectors(("北京", "a b", "c"), VECTORS.vectors[:3], (0, 0, 0))
    words.save(tmp_path / "out")
    path = tmp_path / "out" / (BINARY if is_binary else TEXT)
    found = models.KeyedVectors.load_word2vec_format(str(path), binary=is_binary)
    assert found.index_to_key == ["北京", "a_b", "c"]
    np.testing.assert_allclose(found["北京"], VECTORS.vectors[0])
    assert found.similarity("北京", "a_b") == pytest.approx(VECTORS.similarity("king", "man"), abs=1e-6)


def test_every_score_has_its_baseline_of_common_characters(tmp_path: Path) -> None:
    assert common_characters("北京", "南京") == 0.5
    assert common_characters("aab", "aa") == pytest.approx(0.8)
    (tmp_path / "pairs.txt").write_text("king man 3 9 9\nking queen 2 1 1\nking newyork 1 0 0\n")
    vectors = WordVectors((*VECTORS.words[:4], "newyork"), VECTORS.vectors, VECTORS.contexts)
    found = WordSet.read(tmp_path / "pairs.txt").score(vectors)
    assert (found.metric, found.rows, found.score) == ("spearman", 3, pytest.approx(1.0))
    shared = [common_characters("king", other) for other in ("man", "queen", "newyork")]
    order = np.argsort(np.argsort(shared))
    assert found.baseline == pytest.approx(np.corrcoef(order, [2, 1, 0])[0, 1])
    (tmp_path / "fours.txt").write_text(": royal\nman king woman queen\nking man queen woman\n")
    found = WordSet.read(tmp_path / "fours.txt").score(vectors)
    assert (found.metric, found.score) == ("accuracy", 1.0)
    assert found.baseline == 1.0, "only one word is left to choose"


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "0 pairs"),
        ("a b\nc d 1\n", ":1: expected two words and a score"),
        ("a b x\n", ":1: expected two words"),
        ("a b nan\n", ":1: expected two words"),
        ("a b 1e999\n", ":1: expected two words"),
        (": group\na b c\n", "expected four words"),
    ],
)
def test_a_file_of_another_kind_is_refused(content: str, message: str, tmp_path: Path) -> None:
    (tmp_path / "pairs.txt").write_text(content)
    with pytest.raises(DataError, match=message):
        WordSet.read(tmp_path / "pairs.txt")


def test_the_verb_prints_scores_and_writes_a_folder(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "words.txt").write_text("cat\ndog\ncar\ncat\n")
    (tmp_path / "pairs.txt").write_text("cat dog 3\ncat car 1\n")
    out = tmp_path / "out"
    arguments = [
        "--near",
        "cat",
        "--analogy",
        "cat dog car",
        "--pairs",
        str(tmp_path / "pairs.txt"),
        "--json",
    ]
    assert main(["words", "demo", str(tmp_path / "words.txt"), *arguments, "--out", str(out)]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["words"], found["features"], found["in_contexts"]) == (3, 256, 0)
    assert {one["word"] for one in found["answers"][0]["words"]} == {"dog", "car"}
    assert found["scores"][0]["rows"] == 2
    assert (out / BINARY).is_file()


@pytest.mark.parametrize(
    ("content", "code", "message"),
    [
        ("\n \n", 3, "0 words; expected two or more"),
        ("cat\n", 3, "1 words; expected two or more"),
        ("cat\n" + "天" * 700 + "\n", 3, "700 pieces, and the model reads"),
        ("cat\n\u200b\n", 3, "nothing is left of this word"),
    ],
)
def test_lists_that_hold_no_words_end_in_one_line(
    content: str, code: int, message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "words.txt"
    path.write_text(content, encoding="utf-8")
    assert main(["words", "demo", str(path), "--out", str(tmp_path / "out")]) == code
    lines = capsys.readouterr().err.strip().splitlines()
    assert message in lines[-1]
    assert not (tmp_path / "out").exists()


def test_a_verb_without_words_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["words", "demo"]) == 2
    assert "no words" in capsys.readouterr().err


def test_the_verb_prints_the_words_of_texts_with_their_places(
    demo: gb.Model, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    texts = ["北京大学在中国。", "", "A cat sat."]
    (tmp_path / "texts.txt").write_text("".join(f"{text}\n" for text in texts), encoding="utf-8")
    (tmp_path / "list.txt").write_text("北京\n大学\n", encoding="utf-8")
    command = ["words", "demo", "--spans", str(tmp_path / "texts.txt")]
    assert main(command) == 0
    plain = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [row["text"] for row in plain] == texts
    assert plain[0]["words"][0] == {"word": "北京大学", "start": 0, "end": 4}
    assert plain[1]["words"] == []
    assert main([*command, "--vectors", "--segmenter", str(tmp_path / "list.txt")]) == 0
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [word["word"] for word in rows[0]["words"]] == ["北京", "大学", "在", "中", "国", "。"]
    expected = demo.words(texts[2])
    for word, one in zip(rows[2]["words"], expected, strict=True):
        assert texts[2][word["start"] : word["end"]] == word["word"] == one.text
        np.testing.assert_allclose(word["vector"], one.vector, atol=2e-5)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--spans", "@", "--near", "cat"], "--spans prints the words of texts; leave --near out"),
        (["@", "--spans", "@"], "--spans prints the words of texts; leave a list of words out"),
        (["@", "--vectors"], "--vectors is for --spans"),
        (["@", "--text", "@", "--most", "3"], "--most is for the words of a text"),
    ],
)
def test_options_of_words_that_do_not_fit_together_are_refused(
    arguments: list[str], message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "cats.txt"
    path.write_text("cat\ndog\n", encoding="utf-8")
    assert main(["words", "demo", *(str(path) if one == "@" else one for one in arguments)]) == 2
    assert message in capsys.readouterr().err


def test_frequent_words_of_a_text_are_the_vocabulary_without_a_list(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = tmp_path / "text.txt"
    text.write_text("the cat sat. the dog sat!\n\n我们在中国。我们在北京。the cat\n" * 2, encoding="utf-8")
    found = frequent_words([text], 100, log=say_nothing)
    assert found[0] == "the"
    assert set(found) == {"the", "cat", "sat", "dog", "我们", "在", "中国", "北京"}
    assert frequent_words([text], 3, log=say_nothing) == found[:3]
    vectors = gb.word_vectors("demo", text=text, most=4, log=say_nothing)
    assert (vectors.words, min(vectors.contexts) > 0) == (tuple(found[:4]), True)
    assert main(["words", "demo", "--text", str(text), "--most", "4", "--near", "北京", "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert answer["words"] == 5
    assert {one["word"] for one in answer["answers"][0]["words"]} == set(found[:4])
    with pytest.raises(UserError, match="no words; give some, or a text"):
        gb.word_vectors("demo")


def test_a_word_that_is_listed_twice_counts_once() -> None:
    assert listed_words(["b", " a ", "b", ""]) == ["b", "a"]
