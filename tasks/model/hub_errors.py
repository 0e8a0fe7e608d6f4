"""Whether what stood in the way of a download may pass: a hub that does not answer, not a name that is wrong."""

BUSY = (408, 425, 429)


def is_away(error: BaseException) -> bool:
    """By the errors that this one came from: no connection, no answer in time, or an answer that asks for patience."""
    chain = list(_causes(error))
    if any(type(cause).__name__ == "OfflineModeIsEnabled" for cause in chain):
        return False  # asked for with HF_HUB_OFFLINE
    answers = [answer for cause in chain if (answer := getattr(cause, "response", None)) is not None]
    if answers:
        return answers[0].status_code in BUSY or answers[0].status_code >= 500
    return any(isinstance(cause, (ConnectionError, TimeoutError)) or _is_transport(cause) for cause in chain)


def _causes(error: BaseException | None) -> list[BaseException]:
    chain: list[BaseException] = []
    while error is not None and error not in chain:
        chain.append(error)
        error = error.__cause__ or error.__context__
    return chain


def _is_transport(error: BaseException) -> bool:
    """By its name: the hub's library brings an httpx of its own."""
    return any(kind.__name__ == "TransportError" for kind in type(error).__mro__)
