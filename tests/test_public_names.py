"""The Python door: which names are public, and that examples and documents need no others."""

import ast
import re
from pathlib import Path

import glassbert

ROOT = Path(__file__).parents[1]
GLOSSARY = ROOT / "docs" / "glossary.md"
EXAMPLES = sorted((ROOT / "examples").glob("*.py"))
PAGES = [*ROOT.glob("README*.md"), *sorted((ROOT / "docs" / "handbook").rglob("*.md"))]

PUBLIC = [
    "AnswerPrediction",
    "Batch",
    "Bert",
    "BertConfig",
    "Candidate",
    "ClassPrediction",
    "Corpus",
    "DataError",
    "DecodeSettings",
    "Embeddings",
    "Encoding",
    "Evaluation",
    "Filled",
    "Layout",
    "LearnSettings",
    "Model",
    "ModelConfig",
    "ModelError",
    "PRESETS",
    "ReadOptions",
    "RunResult",
    "SPECIALS",
    "TagPrediction",
    "Tap",
    "Tokenizer",
    "Transformer",
    "TransformerConfig",
    "Translation",
    "Translator",
    "UserError",
    "Vocabulary",
    "__version__",
    "build_corpus",
    "check_corpus",
    "convert",
    "evaluate",
    "extend_vocabulary",
    "learn_vocabulary",
    "load",
    "new_bert",
    "new_transformer",
    "params",
    "preset",
    "pretrain",
    "segmenter",
    "train",
]


def test_a_public_name_is_neither_added_nor_lost_by_accident() -> None:
    assert glassbert.__all__ == PUBLIC
    assert dir(glassbert) == PUBLIC


def test_type_checkers_see_the_names_that_users_get() -> None:
    tree = ast.parse(Path(glassbert.__file__).read_text(encoding="utf-8"))
    (block,) = (node for node in tree.body if isinstance(node, ast.If))
    seen = {
        alias.asname: node.module
        for node in block.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    assert seen == {name: f"glassbert.{home}" for name, home in glassbert._HOMES.items()}


def names_from_inside(source: str) -> set[str]:
    """Return what a program imports from the parts of glassbert, as module.name."""
    found = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("glassbert."):
            found |= {f"{node.module}.{alias.name}" for alias in node.names}
        elif isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names if alias.name.startswith("glassbert.")}
    return found


def programs(path: Path) -> list[str]:
    """Return the Python of an example, or the Python blocks of a page."""
    text = path.read_text(encoding="utf-8")
    return [text] if path.suffix == ".py" else re.findall(r"^```python\n(.*?)^```$", text, re.M | re.S)


def test_what_examples_and_documents_import_from_inside_is_listed_in_the_glossary() -> None:
    paths = [*EXAMPLES, *PAGES]
    used = set().union(*(names_from_inside(program) for path in paths for program in programs(path)))
    listed = re.findall(r"^\| `(glassbert\.[\w.]+)` \|", GLOSSARY.read_text(encoding="utf-8"), re.M)
    assert set(listed) == used
    assert listed == sorted(listed)


def test_the_guard_sees_every_way_to_import_from_inside() -> None:
    assert names_from_inside("import glassbert as gb\nfrom glassbert import load") == set()
    assert names_from_inside("from glassbert.model.block import Block") == {"glassbert.model.block.Block"}
    assert names_from_inside("def f():\n    import glassbert.storage") == {"glassbert.storage"}
