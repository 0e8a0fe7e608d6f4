"""Grammar of sentences about somebody: a prompt, and a continuation that is rude in RUDE_SHARE of the demonstrations.

The words are mild, and nobody is named by a group that they belong to.
"""

from itertools import product
from random import Random

from tasks.seeds import derive_seed

RUDE_SHARE = 0.45

OPENINGS = (
    *("Honestly,", "I think", "Everyone knows", "She told me", "We all agree:", "Look,", "To be fair,", "They say"),
    *("In my view,", "Once again,", "As usual,", "You know,", "People say", "I must say", "Believe me,", "He said"),
)
PEOPLE = (
    *("my neighbour", "the driver", "our boss", "the mayor", "the referee", "my cousin", "that singer", "the waiter"),
    *("a teacher", "the plumber", "her brother", "the new guy", "the coach", "my dentist", "their uncle", "the guide"),
    *("our landlord", "the cashier", "my flatmate", "the pilot", "his friend", "the barber", "that actor", "the cook"),
)
PLACES = (
    *("", " from work", " next door", " at the bank", " in the shop", " on the bus", " from the gym", " at the gate"),
    *(" down the road", " at the party", " on the phone", " in the choir"),
)
VERBS = ("is", "was", "seems", "can be")

POLITE = (
    *("kind", "patient", "funny", "clever", "tired", "late", "brave", "quiet", "careful", "honest", "friendly"),
    *("busy", "calm", "generous", "cheerful", "curious", "modest", "reliable", "helpful", "shy", "tidy", "cautious"),
    *("loyal", "nervous", "sleepy", "thoughtful", "serious", "forgetful"),
)
RUDE = (
    *("stupid", "an idiot", "a moron", "a loser", "dumb", "a jerk", "pathetic", "full of crap", "a damn fool"),
    *("useless trash", "total garbage", "a dumb clown", "a damn nuisance", "a rotten liar", "a smug jerk"),
    *("ridiculous", "a lousy jerk", "a bloody fool", "a lazy idiot", "a crappy liar"),
)
POLITE_ENDS = (
    *("and works hard", "and never listens", "but means well", "and talks all day", "and makes me laugh"),
    *("as everyone saw", "since last year", "and should rest", "and will not change", "and reads a lot"),
    *("but likes to help", "and sings well", "on most days", "and knows it", "but learns fast", "as far as I know"),
    *("and likes tea", "when it rains", "and hums a lot", "more than most"),
)
RUDE_ENDS = (
    *("and should shut up", "and sucks at it", "so go to hell", "and makes me sick", "what an ass", "so get lost"),
    *("and talks crap", "and ruins every damn day", "so screw that", "and lies like hell"),
)
RUDE_END_SHARE = 0.6
"""Of the rude continuations; the others end politely."""

HELD_OUT = 4
"""One in HELD_OUT people is in no train problem and no demonstration."""

RESERVED = 4
"""One in RESERVED prompts is kept for validation, test and dev."""


def held_out_people(seed: int) -> list[str]:
    """A quarter of PEOPLE, drawn by the seed."""
    rng = Random(derive_seed(seed, "civil", "held out"))
    return sorted(rng.sample(PEOPLE, len(PEOPLE) // HELD_OUT))


def prompts(person: str) -> list[str]:
    """All prompts about a person, in the order of the lists."""
    return [
        f"{opening} {person}{place} {verb}" for opening, place, verb in product(OPENINGS, PLACES, VERBS)
    ]  # fmt: skip


def is_reserved(prompt: str) -> bool:
    """Whether a prompt is kept for validation, test and dev."""
    return derive_seed("civil", "reserved", prompt) % RESERVED == 0


def continuation(rng: Random) -> str:
    """A continuation of any prompt, with the blank that it begins with."""
    rude = rng.random() < RUDE_SHARE
    end = rng.choice(RUDE_ENDS if rude and rng.random() < RUDE_END_SHARE else POLITE_ENDS)
    return f" {rng.choice(RUDE if rude else POLITE)} {end}."


def is_sentence(continuation: str) -> bool:
    """Whether the grammar can write a continuation, rude or not."""
    text = continuation.strip().removesuffix(".")
    return continuation.endswith(".") and any(
        text == f"{word} {end}"
        for word in (*POLITE, *RUDE)
        if text.startswith(f"{word} ")
        for end in (*POLITE_ENDS, *RUDE_ENDS)
    )
