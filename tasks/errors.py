"""What a user can put right: one line that names the thing and the remedy."""

from tasks.redaction import redacted

LONGEST = 2000
"""Signs of a line for people: more of a value than its beginning and its end tells them nothing."""


class GraftError(Exception):
    """A mistake in the input or the surroundings, not in Graft.

    The message is one line: the thing (file, line, field, value), then the remedy.
    The command line prints it without a traceback and exits with 2. Secrets are taken out of it here, once for all:
    what libraries say of an address often holds its password.
    """

    def __init__(self, message: str) -> None:
        super().__init__(one_line(redacted(message)))


class Passing(GraftError):
    """What may be well again by itself: a server or a hub that does not answer, a lock that another process holds.

    A run tries such a stage again after a while (`schedule.retries`); no other error is worth a second try.
    """


def one_line(text: str) -> str:
    """The text on one line and in plain signs: what a file holds can neither break a line nor steer a terminal."""
    plain = "".join(sign if sign.isprintable() else " " if sign.isspace() else repr(sign)[1:-1] for sign in text)
    return plain if len(plain) <= LONGEST else f"{plain[: LONGEST - 500]} … {plain[-500:]}"
