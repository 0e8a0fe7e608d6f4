# ruff: noqa: E501 - a phrasing stands on one line, so that the order of its quantities is seen at a glance
"""Stories that one operation solves."""

from tasks.problems.stories.words import AGE, FRUIT, GOODS, PART, RATE, THINGS, TIMES, YEAR
from tasks.problems.template import Template, dollars, whole

ONE_STEP = (
    Template(
        "rows", "groups", "rows * each",
        (
            "{name} plants {rows} rows of tulips with {each} tulips in every row. How many tulips does {name} plant?",
            "Every row of the hall at the {place} has {each} chairs, and there are {rows} rows. How many chairs are there?",
            "The {place} is {age} years old. It sells trays with {each} tulips each, and {name} takes {rows} trays. How many tulips is that?",
        ),
        {"rows": whole(3, 25), "each": whole(4, 40), "age": AGE},
    ),
    Template(
        "given-away", "left", "had - gone",
        (
            "{name} has {had} {item} and gives {gone} of them to {other}. How many {item} does {name} have left?",
            "After {name} lost {gone} of the {had} {item} from the box, how many {item} remain?",
            "{name} is {age} years old and owns {had} {item}. At the {place} {name} sells {gone} {item}. How many {item} are left?",
        ),
        {"had": whole(30, 400), "gone": whole(5, 200), "age": AGE},
        THINGS,
    ),
    Template(
        "share-out", "share", "total / people",
        (
            "{name} shares {total} {item} equally among {people} friends. How many {item} does each friend get?",
            "There are {people} children at the {place}. They split {total} {item} evenly. How many {item} does each child take home?",
            "{people} neighbours pick {total} {item} in {hours} hours and divide them equally. How many {item} does each neighbour get?",
        ),
        {"total": whole(24, 360, 6), "people": whole(3, 15), "hours": whole(2, 9)},
        FRUIT,
    ),
    Template(
        "part-of", "part", "total * part",
        (
            "{name} has {total} {item}. {other} takes {part} of them. How many {item} does {other} take?",
            "At the {place}, {part} of the {total} {item} on the table are new. How many {item} are new?",
            "In {year} {name} started to collect {item}. Now {part} of the {total} {item} come from {other}. How many come from {other}?",
        ),
        {"total": whole(20, 360, 10), "part": PART, "year": YEAR},
        THINGS,
    ),
    Template(
        "percent-of", "percent", "total * rate",
        (
            "There are {total} visitors at the {place} and {rate} of them are children. How many children are there?",
            "{rate} of the {total} {item} in the shop of {name} are blue. How many {item} are blue?",
            "{name} works {hours} hours a day and prints {total} {item}, but {rate} of them are spoiled. How many {item} are spoiled?",
        ),
        {"total": whole(40, 800, 20), "rate": RATE, "hours": whole(2, 9)},
        GOODS,
    ),
    Template(
        "times-as-many", "compare", "count * times",
        (
            "{name} has {count} {item}. {other} has {times} as many {item} as {name}. How many {item} does {other} have?",
            "{other} has {times} as many {item} as {name}, who has {count}. How many {item} does {other} have?",
            "{name} is {age} and owns {count} {item}. At the {place} they sell {times} as many {item}. How many does the {place} sell?",
        ),
        {"count": whole(6, 90), "times": TIMES, "age": AGE},
        THINGS,
    ),
    Template(
        "unit-price", "share", "paid / count",
        (
            "{name} pays {paid} for {count} {item} that all cost the same. What is the price of each of them in dollars?",
            "For {count} equal {item} the bill at the {place} is {paid}. How many dollars does each of the {item} cost?",
            "{name} walks {far} miles to buy {count} {item} for {paid} in total. How many dollars is that for each?",
        ),
        {"paid": dollars(6, 180), "count": whole(3, 20), "far": whole(2, 9)},
        GOODS,
        hundredths=True,
    ),
    Template(
        "more-than", "compare", "count + more",
        (
            "{name} picks {count} {item}. {other} picks {more} more than {name}. How many {item} does {other} pick?",
            "{other} has {more} {item} more than {name}. {name} has {count}. How many {item} does {other} have?",
            "In {hours} hours {name} fills a basket with {count} {item}, and {other} collects {more} more {item} than {name}. How many does {other} collect?",
        ),
        {"count": whole(12, 240), "more": whole(3, 90), "hours": whole(2, 9)},
        FRUIT,
    ),
)  # fmt: skip
