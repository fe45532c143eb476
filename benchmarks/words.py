"""Vectors of words beside what counting gives: PPMI and SVD of the same text.

Purpose:   the claims of chapter 12 about words.
Compared:  a model's words (alone, and over contexts) and PPMI vectors of the same sentences.
Data:      ../shared/data/words and ../shared/data/corpus/zhwiki.jsonl.gz; a Chinese model folder.
Prints:    for each file of word pairs: the model, counting, and common characters alone.
Run time:  about 3 minutes with 50,000 sentences.

    python benchmarks/words.py MODEL --sentences 50000
"""

import argparse
from collections import Counter
from pathlib import Path

import numpy as np

import glassbert as gb
from glassbert.data.sentences import sampled_sentences
from glassbert.evaluation.word_pairs import WordSet
from glassbert.inference.word_vectors import WordVectors

DATA = Path(__file__).resolve().parents[2] / "shared" / "data"
WINDOW, FEATURES, MOST_WORDS = 3, 200, 20_000


def ppmi(sentences: list[str], wanted: list[str]) -> WordVectors:
    """Return vectors of words from how often they occur near each other; zeros for those that never do."""
    from scipy.sparse import coo_matrix
    from scipy.sparse.linalg import svds

    cut = gb.segmenter("rjieba")
    texts = [[sentence[start:end] for start, end in cut.words(sentence)] for sentence in sentences]
    counts = Counter(word for text in texts for word in text)
    words = list(dict.fromkeys([*wanted, *(word for word, _ in counts.most_common(MOST_WORDS))]))
    places = {word: place for place, word in enumerate(words)}
    near: Counter[tuple[int, int]] = Counter()
    for text in texts:
        known = [places[word] for word in text if word in places]
        for at, one in enumerate(known):
            for other in known[at + 1 : at + 1 + WINDOW]:
                near[one, other] += 1
                near[other, one] += 1
    rows, columns = np.array(list(near), dtype=np.int64).T
    values = np.array(list(near.values()), dtype=np.float64)
    sums = np.bincount(rows, values, minlength=len(words))
    smoothed = sums**0.75 / (sums**0.75).sum()
    scores = np.maximum(np.log(values / (sums[rows] * smoothed[columns])), 0.0)
    left, size, _ = svds(coo_matrix((scores, (rows, columns)), shape=(len(words),) * 2).tocsr(), k=FEATURES)
    vectors = (left * np.sqrt(size))[: len(wanted)].astype(np.float32)
    return WordVectors(tuple(wanted), vectors, tuple(int(sums[place]) for place in range(len(wanted))))


def main() -> None:
    """Score the model and counting on the files of word pairs."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("model")
    parser.add_argument("--sentences", type=int, default=50_000)
    parser.add_argument("--contexts", type=int, default=0, help="also over this many contexts of each word")
    options = parser.parse_args()
    corpus = DATA / "corpus" / "zhwiki.jsonl.gz"
    sets = [WordSet.read(DATA / "words" / f"{name}.txt.gz") for name in ("wordsim240", "cos960")]
    wanted = list(dict.fromkeys(word for one in sets for word in one.words()))
    sentences = sampled_sentences(corpus, options.sentences, log=print)
    found = {"alone": gb.word_vectors(options.model, wanted), "PPMI": ppmi(sentences, wanted)}
    if options.contexts:
        found["contexts"] = gb.word_vectors(options.model, wanted, text=corpus, contexts=options.contexts)
    for one in sets:
        for name, vectors in found.items():
            print(f"{name:<10} {one.score(vectors).sentence()}", flush=True)


if __name__ == "__main__":
    main()
