"""Write treebank.json: how NLTK's word tokenizer divides these texts. Needs nltk, which no test does."""

import json
from pathlib import Path

from nltk.tokenize import NLTKWordTokenizer

TEXTS = [
    "iphone 4s",
    "about 18.5% of 1,000 people, or 3,5",
    "the dogs' owner didn't say it's john's; we'll see",
    "cannot, won't, they've, you're, i'm, he'd",
    '"harry potter" (1997) said "hello"',
    "'great pestilence' of 1348\u201350",
    "at&t paid $5.00 @ noon",
    "u.s. navy",
    "wait... what?! yes",
    "a.b.c. and 3.14.",
    "version 2.0.1",
    "rock'n'roll",
    "gonna wanna gimme lemme gotta",
    "[x] {y} <z>",
    "he said ''so''",
    "caf\u00e9 \u00abm\u00fcller\u00bb \u2018x",
    "m\u00b2",
    "1990,1991,1992",
    "the end.)",
    "''",
    "a , b ,c ,5",
    "100%",
    ".net",
    "c#",
]

if __name__ == "__main__":
    tokenizer = NLTKWordTokenizer()
    rows = [{"text": text, "tokens": tokenizer.tokenize(text)} for text in TEXTS]
    lines = ",\n".join(json.dumps(row, ensure_ascii=False) for row in rows)
    Path(__file__).with_name("treebank.json").write_text(f"[\n{lines}\n]\n", encoding="utf-8")
