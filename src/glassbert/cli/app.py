"""The `glassbert` command: which verbs there are, and what all of them take.

Verbs import torch inside their bodies, so that `--help` stays instant.
"""

import sys
from typing import Annotated

import cyclopts

from glassbert.cli import (
    convert,
    corpus,
    demo,
    distil,
    doctor,
    embed,
    evaluate,
    fill,
    lab,
    open,
    params,
    predict,
    pretrain,
    serve,
    tokenize,
    trace,
    train,
    translate,
    vocab,
    why,
    words,
)
from glassbert.model_names import hub_names
from glassbert.version import __version__

ONLINE = "--online"


def build_app() -> cyclopts.App:
    """Return the command-line application with every verb."""
    app = cyclopts.App(
        name="glassbert",
        help="The BERT family from raw text to a fast encoder, with every number inside open to view.",
        version=__version__,
        default_parameter=cyclopts.Parameter(negative=()),
        result_action="return_value",
        suppress_keyboard_interrupt=False,  # otherwise cyclopts exits without a message
    )
    app.command(demo.demo)
    app.command(vocab.app)
    app.command(tokenize.tokenize)
    app.command(params.params)
    app.command(trace.app)
    app.command(corpus.app)
    app.command(pretrain.pretrain)
    app.command(train.build_app())
    app.command(distil.distil)
    app.command(evaluate.evaluate)
    app.command(predict.predict)
    app.command(fill.fill)
    app.command(embed.embed)
    app.command(words.words)
    app.command(why.why)
    app.command(doctor.doctor)
    app.command(translate.translate)
    app.command(serve.app)
    app.command(convert.convert)
    app.command(lab.lab)
    app.command(open.open_page, name="open")
    _add_common_options(app)
    return app


def run_verb(argv: list[str] | None) -> object:
    """Run the verb that the words of a command line name."""
    app, words = build_app(), sys.argv[1:] if argv is None else argv
    # The app with the common options reads those of the verb twice, which takes as long as all else here.
    has_common = any(word.startswith(ONLINE) for word in words)
    with hub_names(allowed=False):
        return (app.meta if has_common else app)(words, exit_on_error=False, print_error=False)


def _add_common_options(app: cyclopts.App) -> None:
    """Let ``app.meta`` run any verb with the options that all of them have."""
    app.meta.group_parameters = cyclopts.Group("With every verb")
    app.meta.suppress_keyboard_interrupt = app.suppress_keyboard_interrupt

    @app.meta.default
    def launch(
        *words: Annotated[str, cyclopts.Parameter(show=False, allow_leading_hyphen=True)],
        online: Annotated[bool, cyclopts.Parameter(name=ONLINE, show_default=False)] = False,
    ) -> int | None:
        """Run a verb.

        Args:
            online: Let MODEL be a name on the Hugging Face hub; without it, nothing uses the network.
        """
        with hub_names(allowed=online):
            return app(words, exit_on_error=False, print_error=False)
