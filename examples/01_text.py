"""Text to pieces and back: learn a vocabulary, cut text, find pieces in the original, add rare characters.

Purpose:   chapter 1 of the handbook as one script.
Data:      seven lines in this file.
Prints:    the vocabulary's fingerprint, pieces and their source, what truncation cut, [UNK] before and after.
Run time:  under a second.
"""

import tempfile
from pathlib import Path

import glassbert as gb

TEXT = """\
The nurse notes the dose and the time of each infusion.
Infusions are noted at the time of dosing.
The patient reported nausea; the infusion was slowed.
Reports of nausea are noted by the nurse.
Naïve patients: slow the infusion, repeat the report.
护士记录每次输液的剂量和时间。
患者报告恶心，输液减慢。
"""
SENTENCE = "Naïve nurses: 患者呕吐"


def main() -> None:
    """Run the chapter."""
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        (folder / "notes.txt").write_text(TEXT, encoding="utf-8")
        gb.learn_vocabulary(folder / "notes.txt", size=130, alphabet_coverage=1.0, out=folder / "learned")
        gb.extend_vocabulary(folder / "learned", ["呕", "吐"], folder / "wider")
        tokenizer, wider = (gb.Tokenizer.load(folder / name) for name in ("learned", "wider"))
    vocabulary = tokenizer.vocabulary
    print(f"vocabulary: {len(vocabulary)} pieces, sha256 {vocabulary.sha256[:12]}")

    encoding = tokenizer.encode(SENTENCE)
    for piece, (start, end) in zip(encoding.pieces, encoding.offsets, strict=True):
        print(f"  {piece:8} {SENTENCE[start:end]}")

    short = tokenizer.encode(SENTENCE, max_length=6, keep="head+tail")
    for cut in short.cut:
        print(f"cut to 6: {cut.num_pieces} pieces, {SENTENCE[cut.start : cut.end]!r}")

    print(f"[UNK]: {encoding.num_unknown} before extending, {wider.encode(SENTENCE).num_unknown} after")


if __name__ == "__main__":
    main()
