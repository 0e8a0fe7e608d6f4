"""The modules that a program may import: those that compute, and reach no file, process, socket or real clock.

Standard library only, since the sandbox's zygote imports it.
"""

# fmt: off
MODULES = (
    "abc", "array", "ast", "base64", "binascii", "bisect", "calendar", "cmath", "collections", "collections.abc",
    "colorsys", "contextlib", "copy", "csv", "dataclasses", "datetime", "decimal", "difflib", "enum", "fractions",
    "functools", "graphlib", "hashlib", "heapq", "hmac", "html", "html.entities", "html.parser", "ipaddress",
    "itertools", "json", "keyword", "math", "numbers", "operator", "pprint", "random", "re", "statistics", "string",
    "struct", "textwrap", "time", "types", "typing", "unicodedata", "urllib.parse", "zlib",
)
# fmt: on
"""Not among them are `queue` and `logging`, which have threads, locks, files and a clock (`collections.deque` and
`heapq` are queues). Others are there because the interpreter needs them, such as `sys`."""
