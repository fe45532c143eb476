"""Write treebank.json: how NLTK's `word_tokenize` divides these texts.

Needs nltk and its model `punkt_tab`, which no test does. The file was written with nltk 3.10.4.
"""

import json
from pathlib import Path

from nltk.tokenize import word_tokenize

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
    '""',
    '""is nothing',
    "it ended. then",
    "j. r. r. tolkien",
    "mr. smith met dr. no. they left",
    "the u.s. army, e.g. by air",
    "5. the fifth",
    "smith, r.s.; jones",
    "at the end.) then more",
    'who?"me"',
]

if __name__ == "__main__":
    rows = [{"text": text, "tokens": word_tokenize(text)} for text in TEXTS]
    lines = ",\n".join(json.dumps(row, ensure_ascii=False) for row in rows)
    Path(__file__).with_name("treebank.json").write_text(f"[\n{lines}\n]\n", encoding="utf-8")
