"""Which addresses the processes of a tree listen on."""

import ipaddress

import psutil


def listeners(pid: int) -> set[tuple[str, int]]:
    """(address, port) of each listening TCP socket of a process and all that it has started."""
    found: set[tuple[str, int]] = set()
    try:
        tree = [psutil.Process(pid), *psutil.Process(pid).children(recursive=True)]
    except psutil.NoSuchProcess:
        return found
    for process in tree:
        try:
            sockets = process.net_connections(kind="tcp")
        except (psutil.NoSuchProcess, psutil.AccessDenied):
            continue
        found |= {(s.laddr.ip, s.laddr.port) for s in sockets if s.status == psutil.CONN_LISTEN}
    return found


def is_loopback(address: str) -> bool:
    found = ipaddress.ip_address(address)
    return (getattr(found, "ipv4_mapped", None) or found).is_loopback
