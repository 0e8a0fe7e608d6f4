"""A reward of this project: -S 'rewards.own=[{name: brief, term: "rewards:brief", weight: 0.1}]'"""


def brief(problem: object, text: str, results: object) -> float:
    """1 for a completion of one line, 1/2 for two, 1/3 for three …

    `problem` has question, answer, siblings and fields; `text` is the completion; `results` are its results on the
    problem and its siblings.
    """
    return 1 / max(len(text.strip().splitlines()), 1)
