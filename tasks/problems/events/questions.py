"""Questions of the grammar: how a quantity of each kind is asked for in the end."""

from tasks.problems.events.story_part import Part

QUESTIONS = {
    kind: Part(f"ask-{kind}", kind, kind, "q", tellings)
    for kind, tellings in {
        "things": (
            "How many {item} does {who} have now?",
            "What is the number of {item} that {who} has in the end?",
            "Now {who} counts the {item}: how many are there?",
        ),
        "missing things": (
            "How many {item} are missing?",
            "How many {item} does {who} still have to find?",
            "What is the number of {item} that {who} has yet to find?",
        ),
        "bags": (
            "How many bags are there?",
            "How many bags does {who} have?",
            "What is the number of bags in the end?",
        ),
        "money": (
            "How many dollars does {who} have now?",
            "How much money, in dollars, does {who} have in the end?",
            "Now {who} counts the money: how many dollars are there?",
        ),
        "donation": (
            "How many dollars does the {place} get?",
            "How much money, in dollars, is given away?",
            "What is the value of the gift in dollars?",
        ),
        "tickets": (
            "How many tickets are there?",
            "How many tickets does {who} have?",
            "What is the number of tickets in the end?",
        ),
        "people": (
            "How many visitors are there now?",
            "What is the number of visitors in the end?",
            "How many visitors does the {place} have then?",
        ),
        "groups": (
            "How many groups are there?",
            "How many groups does the guide lead?",
            "What is the number of groups?",
        ),
        "takings": (
            "How many dollars does the {place} take?",
            "How much money, in dollars, do the visitors pay in all?",
            "What does the {place} get in all, in dollars?",
        ),
        "water": (
            "How many litres of water are in the tank of {who} now?",
            "How much water, in litres, is in the tank of {who} in the end?",
            "How many litres does the tank of {who} hold then?",
        ),
        "missing water": (
            "How many litres are missing?",
            "How many litres does {who} still have to add?",
            "How much water, in litres, can be added?",
        ),
        "bottles": (
            "How many bottles are there?",
            "How many bottles does {who} have?",
            "What is the number of bottles in the end?",
        ),
    }.items()
}
"""The part that ends a story, by the kind of its quantity."""
