from glassbert.demo.sentences import OF_THINGS, THINGS, sentences

SINGULAR = {english for english, _ in THINGS}
ADJECTIVES = {english for english, _ in OF_THINGS}


def object_of(english: str) -> tuple[str, str]:
    """Return the adjective and the thing at the end of a sentence."""
    adjective, noun = english.rstrip(".").split()[-2:]
    return adjective, noun if noun in SINGULAR else noun.removesuffix("s")


def test_spanish_agrees_in_gender_and_number() -> None:
    pairs = sentences(8, is_held_out=False, seed=0)
    assert pairs[0] == (
        "The tired girls need this black cup.",
        "Las niñas cansadas necesitan esta taza negra.",
    )
    assert pairs[2] == ("The tall uncle finds the white table.", "El tío alto encuentra la mesa blanca.")
    assert pairs[3] == (
        "Our old farmer wants our dirty tables.",
        "Nuestra granjera vieja quiere nuestras mesas sucias.",
    )


def test_held_out_things_have_adjectives_that_they_never_had() -> None:
    known = {object_of(english) for english, _ in sentences(3000, is_held_out=False, seed=0)}
    new = {object_of(english) for english, _ in sentences(1000, is_held_out=True, seed=0)}
    assert not known & new
    assert len(known) == 120
    assert len(new) == 30
    # Every word by itself has been seen.
    assert {adjective for adjective, _ in known} == ADJECTIVES == {adjective for adjective, _ in new}
    assert {thing for _, thing in known} == SINGULAR == {thing for _, thing in new}


def test_sentences_are_different_and_those_of_the_seed() -> None:
    pairs = sentences(500, is_held_out=False, seed=3)
    assert len(dict(pairs)) == 500
    assert pairs == sentences(500, is_held_out=False, seed=3)
    assert pairs != sentences(500, is_held_out=False, seed=4)
    # Each Spanish sentence says what one English sentence does.
    assert len({spanish for _, spanish in pairs}) == 500
