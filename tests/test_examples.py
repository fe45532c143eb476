"""Every example runs, offline and within seconds, and prints what its header says."""

import ast
import runpy
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
EXAMPLES = sorted((ROOT / "examples").glob("*.py"))
CHAPTERS = {path.stem for path in (ROOT / "docs" / "handbook").glob("*.md")}
HEADINGS = ("Purpose:", "Data:", "Prints:", "Run time:")

# Lines that must come out; the numbers are also those of the handbook.
EXPECTED = {
    "01_text": [
        "vocabulary: 130 pieces, sha256 03a27f1f3bf0",
        "  ##iv     ïv",
        "cut to 6: 6 pieces, 'e nurses: 患者'",
        "[UNK]: 2 before extending, 0 after",
    ],
    "02_model": [
        "  0.2099 0.2696 0.2272 0.2933   0.2099 0.2696 0.2272 0.2933",
        "fast and glass path agree: True",
    ],
    "03_parameters": [
        "by hand: 324,472,832; counted: 324,472,832",
        "  with pooler                       325,522,432",
        "512 tokens: 654,311,424 operations a token",
    ],
    "04_models_in_and_out": [
        "ours: kept 46 tensors (float32)",
        "half: kept 46 tensors (float16)",
        "two texts as vectors: (2, 128), from (7, 5) tokens",
        "refused: ./ours holds pytorch_model.bin, a pickle, which is never loaded; "
        "run `glassbert convert ./ours NEW_FOLDER` once and use that folder",
    ],
    "05_pretraining": [
        "corpus: 30 documents, 1620 tokens",
        "15% of the tokens are to be predicted",
        "batch 7 asked for again is the same: True",
        "asked to stop at step 20, stopped after step 21",
        "both runs end with the same bits: True",
    ],
    "06_tasks": [
        "2 labels: bad (38), good (38)",
        "accuracy 1.00 on the dev rows",
        "['bad', 'good'], a row for each gold label: [[10, 0], [0, 10]]",
        "good  早餐很好。",
        "bad   The view was terrible.",
        "alone and in a batch, the same answer: True",
    ],
    "07_translation": [
        "source  ▁Two ▁white ▁cats ▁slept ▁in ▁the ▁forest . </s>",
        "decoder <pad> ▁两只 白 猫 在森林里 睡觉 。",
        "teacher forcing and 7 steps with the cache agree: True",
        "beam 4: 两只白猫在森林里睡觉。 (finished: True)",
    ],
    "08_inside": [
        "  enc.0.attn.probs   softmax(scores)",
        "gradient 0.744, slope 0.744",
        "they diverge at emb.token; 2 of 45 tensors are the same",
        "written: cat.html cat.json cat.safetensors",
        "fill: [MASK] = 'states', log-odds 0.690, probability 0.6659",
        "ranked first by gradients: united, by occlusion: united",
        "  after block 2    states",
        "faults: 0",
    ],
    "08_by_hand": [
        "hidden1' = x1*w1 + x2*w2 + b1 = 0.05*0.15 + 0.1*0.2 + 0.35 = 0.0075 + 0.02 + 0.35 = 0.3775000000",
        "d loss/d w5: by hand 0.0821670406, by autograd 0.0821670406",
        "one gamma for every token: True",
    ],
    "09_experiments": [
        "[holds] dy_i/dx_j is y_i*(1-y_i) for i = j and -y_i*y_j otherwise.",
        "Result('waves'",
    ],
    "10_serving": [
        "/v1/embeddings: 3 vectors, 13 tokens",
        "/similarity: the dog is nearer to the cat than the market is: True",
        "/tasks/fill: country",
        "drained, exit code 0",
        "3 files, 9 rows, 0 bad; 0 were done before",
        "3 files, 9 rows, 0 bad; 3 were done before",
    ],
    "11_page": [
        "they diverge at emb.token",
        "enc.out   0.5144",
        "nearest to the: a 0.5998, an 0.4625, its 0.4595",
        "one HTML file of at most 5 MB: True",
    ],
    "12_small": [
        "student: 76% of the parameters",
        "trimmed: 12,000 rows, now 25",
        "words: 北京[0:2] 是[2:3] 首都[3:5] 。[5:6]",
        "new: [CLS] 鲵 [SEP]",
    ],
}


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_an_example_prints_what_is_expected(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    runpy.run_path(str(path), run_name="__main__")
    printed = capsys.readouterr().out.splitlines()
    assert [line for line in EXPECTED[path.stem] if line not in printed] == [], "\n".join(printed)


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_an_example_says_what_it_is_for(path: Path) -> None:
    header = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or ""
    assert [heading for heading in HEADINGS if heading not in header] == []


def test_every_chapter_has_its_example() -> None:
    assert {path.stem.replace("_", "-") for path in EXAMPLES} == CHAPTERS


def test_an_example_runs_from_any_folder_without_torch(tmp_path: Path) -> None:
    script = ROOT / "examples" / "03_parameters.py"
    without_torch = "import runpy, sys; sys.modules['torch'] = None; "
    code = f"{without_torch}runpy.run_path({str(script)!r}, run_name='__main__')"
    run = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert EXPECTED["03_parameters"][0] in run.stdout.splitlines()
