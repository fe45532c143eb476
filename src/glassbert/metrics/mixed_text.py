"""Mixed Chinese and English text as tokens, as in CMRC 2018's script: Chinese characters and English words.

The script leaves English to NLTK: its Punkt model finds the ends of sentences, its word tokenizer splits
them by the rules of the Penn Treebank. Both are rewritten here, so that a score needs neither that package
nor the data it downloads. Of the abbreviations that Punkt has learned, the usual ones are listed here.
"""

import re
from difflib import SequenceMatcher

# The script lists the two-dot ellipsis as one entry, which equals no single character: dots stay.
_MARKS = frozenset("-:_*^/\\~`+=，。：？！“”；’《》·、「」（）－～『』")
_CHINESE = re.compile("[\u4e00-\u9fa5]")
_CHINESE_OR_RUN = re.compile("[\u4e00-\u9fa5]|[^\u4e00-\u9fa5]+")

# After a full stop, and what closes with it, a sentence ends before a space or another mark.
_SENTENCE_END = re.compile(r"""(?<=[.?!])(?:[])}"']*\s+|(?=[;:@*({\[!?])|(?=[])}"']+[^\s\])}"']))""")
_LAST_WORD = re.compile(r"(\w[\w.,]*)\.$")
_LETTER, _NUMBER = re.compile(r"[^\W\d]"), re.compile(r"\d[\d,.]*")
_ABBREVIATION = re.compile(
    r"mr|mrs|ms|dr|prof|st|jr|sr|gen|sen|rep|col|lt|maj|co|corp|inc|ltd|bros|vs|ave|ft|jan|feb|aug|sept|oct|nov"
    r"|dec|u\.s|u\.k|u\.n|u\.s\.a|u\.s\.s\.r|d\.c|n\.y|n\.j|l\.a|a\.m|p\.m|a\.d|ph\.d"
)
# Marks that are always tokens of their own: brackets, signs, quotes, dashes.
_ALONE = r'\[\]"()<>{};@#$%&?!' + "\u00ab\u00bb\u2018\u201e\u2012-\u2015"
# A quote before a word is not part of it, except for endings that are tokens of their own.
_QUOTE = r"(?<!\w)'(?=\w)(?!(?:re|ve|ll|m|t|s|d|n)\b)"
_PIECE = re.compile(
    rf"""
      [{_ALONE}]
    | \.{{2,}}
    | ,(?!\d)  # not the comma of 1,000
    | ''
    | ``
    | {_QUOTE}
    | (?: [^\s,.'`{_ALONE}] | ,(?=\d) | (?<!\.)\.(?!\.) | (?!''|{_QUOTE})' )+
    """,
    re.VERBOSE,
)
_OPENING = re.compile(r"""^"|(?<=^")"|(?<=[ (\[{<])(?:"|'')""")
_FINAL_DOT = re.compile(r"""^(.*[^.])\.([])}>"']*)\s*$""", re.DOTALL)
_ENDING = re.compile(r"^(.*[^'])('s|'m|'d|'ll|'re|'ve|n't|')$")
_CONTRACTIONS = {
    "cannot": ["can", "not"],
    "gimme": ["gim", "me"],
    "gonna": ["gon", "na"],
    "gotta": ["got", "ta"],
    "lemme": ["lem", "me"],
    "wanna": ["wan", "na"],
    "d'ye": ["d", "'ye"],
    "more'n": ["more", "'n"],
    "'tis": ["'t", "is"],
    "'twas": ["'t", "was"],
}


def mixed_tokens(text: str) -> list[str]:
    """Return the Chinese characters and English words of ``text`` in lower case, without marks."""
    tokens: list[str] = []
    for run in _CHINESE_OR_RUN.findall(without_marks(text)):
        tokens += [run] if _CHINESE.match(run) else english_tokens(run)
    return tokens


def without_marks(text: str) -> str:
    """Return ``text`` in lower case without the punctuation that the script lists."""
    return "".join(character for character in text.lower().strip() if character not in _MARKS)


def english_tokens(text: str) -> list[str]:
    """Return the words and punctuation marks of lower-cased English by the rules of the Penn Treebank."""
    return [token for sentence in _sentences(text) for token in _treebank(sentence)]


def longest_common_run(a: list[str], b: list[str]) -> int:
    """Return the length of the longest run of tokens that both lists hold."""
    return SequenceMatcher(None, a, b, autojunk=False).find_longest_match().size


def _sentences(text: str) -> list[str]:
    """Split a text where sentences end."""
    sentences, start = [], 0
    for end in _SENTENCE_END.finditer(text):
        if not _belongs_to_word(text[start : end.start()], text[end.end() : end.end() + 1]):
            sentences.append(text[start : end.end()])
            start = end.end()
    return [*sentences, text[start:]]


def _belongs_to_word(before: str, after: str) -> bool:
    """Return whether a full stop belongs to its word: an abbreviation, an initial, or a number."""
    word = _LAST_WORD.search(before)
    if word is None:
        return False
    if _ABBREVIATION.fullmatch(word[1]) or _LETTER.fullmatch(word[1]):
        return True
    return _NUMBER.fullmatch(word[1]) is not None and (after.islower() or after in tuple(";:,.!?"))


def _treebank(sentence: str) -> list[str]:
    # Only the dot that ends a sentence is split from its word.
    sentence = _FINAL_DOT.sub(r"\1 . \2", _OPENING.sub(" `` ", sentence))
    tokens: list[str] = []
    for piece in _PIECE.findall(sentence):
        tokens += ["''"] if piece == '"' else _parts(piece)
    return tokens


def _parts(word: str) -> list[str]:
    """Split words such as "don't", "dog's" and "cannot"."""
    endings: list[str] = []
    while word not in _CONTRACTIONS and (ending := _ENDING.match(word)):
        word = ending[1]
        endings.append(ending[2])
    return [*_CONTRACTIONS.get(word, [word]), *reversed(endings)]
