from glassbert.config import ModelConfig, preset
from glassbert.interop.card import model_card
from glassbert.model.init import new_bert


def test_labels_are_neither_markup_nor_more_than_a_line() -> None:
    labels = ("<script>x</script>", "![a](b)", "`c`\n# d", "B-PER_1", "\x1b[31m")
    encoder = preset("tiny", vocab_size=60)
    config = ModelConfig(encoder=encoder, head="classify", labels=labels)
    card = model_card(new_bert(config, seed=0), {"labels": labels})
    (line,) = (one for one in card.splitlines() if "labels: " in one)
    assert line.endswith(
        "labels: &lt;script&gt;x&lt;/script&gt;, !\\[a\\](b), \\`c\\`\\\\n# d, B-PER_1, \\\\x1b\\[31m"
    )
