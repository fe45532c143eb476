"""`pretrain`: a recipe and a corpus become an encoder."""

from pathlib import Path

from glassbert.cli.options import RunOptions, carry_out_and_print, recipe_tables


def pretrain(recipe: Path, /, *, options: RunOptions | None = None) -> None:
    """Train an encoder on masked tokens and sentence pairs; resumes a run that was stopped.

    Args:
        recipe: TOML file with the tables data, model, objective and train.
    """
    from glassbert.runs.pretrain import PretrainRecipe
    from glassbert.runs.start import BERT_PRESETS

    options = options or RunOptions()
    tables = recipe_tables(recipe, {}, options.set_, {}, model=options.model, presets=BERT_PRESETS)
    carry_out_and_print(PretrainRecipe.of(tables), recipe.stem, options, file=recipe)
