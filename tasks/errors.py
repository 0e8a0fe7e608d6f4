"""What a user can put right: one line that names the thing and the remedy."""


class GraftError(Exception):
    """A mistake in the input or the surroundings, not in Graft.

    The message is one line: the thing (file, line, field, value), then the remedy.
    The command line prints it without a traceback and exits with 2.
    """
