"""Write tokenizer.json: what BertTokenizerFast of transformers makes of a few strings with our vocabulary.

Run it only to add strings; the results of the strings that are there must not change.
"""

import json
from pathlib import Path

SPECIALS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
LETTERS = "abcdefghijklmnopqrstuvwxyz0123456789"
PIECES = [
    *SPECIALS,
    "[unused1]",
    *LETTERS,
    *("##" + letter for letter in LETTERS),
    *"ABCDHJP.,!?'\"-()[]#@$&:;/…“”、。，！？《》",
    *"北京今天气很好我们去公园玩深度学习模型的了不是",
    *["the", "##ing", "##ed", "un", "##aff", "##able", "want", "runn", "cafe", "café", "##é", "naive"],
    *["Jo", "##hn", "Paris", "hello", "Hello", "world", "😀", "👍", "ß", "ss", "ı", "é", "über", "uber"],
]
TEXTS = [
    "Hello, world!",
    "The unwanted running: John's café in Paris (naïve, über-good) costs $5.",
    "UNAFFABLE unaffable un affable",
    "今天天气很好，我们去公园玩！",
    "我们的 deep learning 模型了不是BERT模型。",
    "《北京》…“好”、龘",
    "I 😀 emoji 👍🏽 and 👨‍👩‍👧 too",
    "cafe\u0301 CAFÉ ＨＥＬＬＯ Straße İstanbul ﬁne",
    "한국어 텍스트 हिन्दी ไทย العربية",
    "a\tb\nc\u00a0d\u3000e\u200bf\x00g\ufffdh",
    "mask [MASK] and [SEP], not [mask] or [UNK",
    "www.example.com/x?y=z#1 user@host [unused1]",
    "x" * 100 + " " + "x" * 101,
    "",
    " \t\n ",
]
PAIRS = [
    ("Hello, world!", "今天天气很好，我们去公园玩！", None),
    ("the running world", "", None),
    ("今天天气很好，我们去公园玩！", "unaffable running", 12),
    ("hello world", "我们去公园玩", 9),
    ("a b c d e", "f g h i j", 10),
    ("a b c d e", "f g h i j", 11),
    ("a b c d e f", "g h i j k", 10),
    ("a b c d e", "f g h i j k", 10),
]


def main() -> None:
    from transformers import BertTokenizerFast

    cases = []
    for lowercase in (True, False):
        vocabulary = {piece: id_ for id_, piece in enumerate(PIECES)}
        tokenizer = BertTokenizerFast(vocab=vocabulary, do_lower_case=lowercase)
        for text, pair, max_length in [*((text, None, None) for text in TEXTS), *PAIRS]:
            limits = {} if max_length is None else {"truncation": "longest_first", "max_length": max_length}
            # As a batch of one: for a single text, transformers takes an empty pair for none.
            pairs = None if pair is None else [pair]
            result = tokenizer([text], pairs, return_offsets_mapping=True, **limits)
            cases.append(
                {
                    "lowercase": lowercase,
                    "text": text,
                    "pair": pair,
                    "max_length": max_length,
                    "pieces": result.tokens(0),
                    "ids": result["input_ids"][0],
                    "segments": result["token_type_ids"][0],
                    "offsets": result["offset_mapping"][0],
                    "decoded": tokenizer.decode(result["input_ids"][0], clean_up_tokenization_spaces=False),
                }
            )
    lines = ",\n".join(f"  {json.dumps(case, ensure_ascii=False)}" for case in cases)
    pieces = json.dumps(PIECES, ensure_ascii=False)
    path = Path(__file__).with_name("tokenizer.json")
    path.write_text(f'{{"pieces": {pieces},\n "cases": [\n{lines}\n]}}\n', encoding="utf-8")


if __name__ == "__main__":
    main()
