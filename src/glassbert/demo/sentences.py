"""English sentences with their Spanish translations, made for the demo.

Translating them takes more than a dictionary: adjectives change places with their nouns, and articles,
adjectives and verbs change with gender and number.
"""

from dataclasses import dataclass

from glassbert.data.random import Draw, below

Pair = tuple[str, str]


def _words(text: str) -> tuple[Pair, ...]:
    pairs = (pair.split() for pair in text.split(", "))
    return tuple((english, spanish) for english, spanish in pairs)


# Regular words only: plurals end in s (Spanish verbs: n), feminine words in a.
PEOPLE = _words(
    "boy niño, girl niña, teacher maestra, queen reina, cook cocinero, nurse enfermera, neighbour vecino, "
    "aunt tía, uncle tío, farmer granjera"
)
THINGS = _words(
    "house casa, table mesa, apple manzana, book libro, letter carta, chair silla, shirt camisa, "
    "door puerta, window ventana, cup taza, shoe zapato, hat sombrero, boat barco, plate plato, ring anillo"
)
OF_PEOPLE = _words("old viejo, small pequeño, tall alto, tired cansado, quiet tranquilo, nice simpático")
OF_THINGS = _words(
    "red rojo, white blanco, black negro, yellow amarillo, new nuevo, clean limpio, dirty sucio, "
    "pretty bonito, cheap barato, broken roto"
)
VERBS = _words(
    "buy compra, see ve, want quiere, need necesita, sell vende, paint pinta, draw dibuja, find encuentra"
)
# English and Spanish, each for one and for many; Spanish masculine before feminine.
DETERMINERS = (
    (("the", "the"), (("el", "la"), ("los", "las"))),
    (("this", "these"), (("este", "esta"), ("estos", "estas"))),
    (("our", "our"), (("nuestro", "nuestra"), ("nuestros", "nuestras"))),
)


@dataclass(frozen=True)
class _Draws:
    """The draws of one sentence."""

    seed: int
    is_held_out: bool
    number: int

    def below(self, limit: int, what: int) -> int:
        return int(below(limit, self.seed, Draw.CHOICE, int(self.is_held_out), self.number, what))


def sentences(count: int, *, is_held_out: bool, seed: int) -> list[Pair]:
    """Return ``count`` different sentences with their translations, the same ones for a seed.

    Args:
        is_held_out: Pairs of a thing and an adjective occur either in held-out sentences or in the others.
    """
    found: dict[str, str] = {}
    number = 0
    while len(found) < count:
        english, spanish = _sentence(_Draws(seed, is_held_out, number))
        found.setdefault(english, spanish)
        number += 1
    return list(found.items())


def _sentence(draws: _Draws) -> Pair:
    are_many, are_many_things = draws.below(2, 0) == 1, draws.below(2, 1) == 1
    thing = draws.below(len(THINGS), 2)
    # A fifth of all pairs of thing and adjective are held out; every word is in some of them.
    kinds = [kind for kind in range(len(OF_THINGS)) if ((thing + kind) % 5 == 0) == draws.is_held_out]
    kind = kinds[draws.below(len(kinds), 3)]
    # Not everybody is described.
    quality = (("", ""), *OF_PEOPLE)[draws.below(len(OF_PEOPLE) + 1, 4)]
    who = _phrase(draws.below(len(DETERMINERS), 5), quality, PEOPLE[draws.below(len(PEOPLE), 6)], are_many)
    what = _phrase(draws.below(len(DETERMINERS), 7), OF_THINGS[kind], THINGS[thing], are_many_things)
    verb = VERBS[draws.below(len(VERBS), 8)]
    english_verb, spanish_verb = (verb[0], f"{verb[1]}n") if are_many else (f"{verb[0]}s", verb[1])
    english, spanish = f"{who[0]} {english_verb} {what[0]}.", f"{who[1]} {spanish_verb} {what[1]}."
    return english[0].upper() + english[1:], spanish[0].upper() + spanish[1:]


def _phrase(determiner: int, adjective: Pair, noun: Pair, are_many: bool) -> Pair:
    """Return a noun with its determiner and adjective in both languages."""
    is_feminine, ending = noun[1].endswith("a"), "s" if are_many else ""
    of_english, of_spanish = DETERMINERS[determiner]
    agreeing = adjective[1].removesuffix("o") + "a" if is_feminine and adjective[1] else adjective[1]
    english = (of_english[are_many], adjective[0], noun[0] + ending)
    spanish = (of_spanish[are_many][is_feminine], noun[1] + ending, agreeing and agreeing + ending)
    return " ".join(filter(None, english)), " ".join(filter(None, spanish))
