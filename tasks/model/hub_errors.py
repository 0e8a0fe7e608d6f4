"""Transient errors of a download: timeouts, 5xx responses and lost connections, as opposed to a wrong name."""

TRANSIENT_STATUS = (408, 425, 429)


def is_transient(error: BaseException) -> bool:
    """Whether the error or one of its causes is a lost connection, a timeout or a response that asks to retry."""
    chain = list(_causes(error))
    if any(type(cause).__name__ == "OfflineModeIsEnabled" for cause in chain):
        return False  # HF_HUB_OFFLINE is set
    responses = [response for cause in chain if (response := getattr(cause, "response", None)) is not None]
    if responses:
        return responses[0].status_code in TRANSIENT_STATUS or responses[0].status_code >= 500
    return any(isinstance(cause, (ConnectionError, TimeoutError)) or _is_transport(cause) for cause in chain)


def _causes(error: BaseException | None) -> list[BaseException]:
    chain: list[BaseException] = []
    while error is not None and error not in chain:
        chain.append(error)
        error = error.__cause__ or error.__context__
    return chain


def _is_transport(error: BaseException) -> bool:
    """By name: the hub's library has its own httpx."""
    return any(kind.__name__ == "TransportError" for kind in type(error).__mro__)
