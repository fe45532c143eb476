from glassbert.demo.translation import picture, shade
from glassbert.inference.translator import Alignment


def test_the_picture_is_dark_where_the_decoder_looked() -> None:
    alignment = Alignment(
        source=("the", "red", "cup"),
        target=("la", "taza", "roja"),
        weights=((0.9, 0.05, 0.05), (0.0, 0.25, 0.75), (0.1, 0.5, 0.4)),
    )
    assert picture(alignment) == [
        "     the red cup",
        "la   ███",
        "taza     ░░░ ▓▓▓",
        "roja     ▒▒▒ ▒▒▒",
    ]


def test_shades_cover_all_shares() -> None:
    assert "".join(shade(weight) for weight in (0.0, 0.19, 0.2, 0.4, 0.6, 0.8, 1.0)) == "  ░▒▓██"
