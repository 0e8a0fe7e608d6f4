"""Events of the grammar: each changes a quantity of some kind."""

from tasks.problems.events.story_part import Part
from tasks.problems.stories.words import AGE, PART, RATE, TIMES
from tasks.problems.template import dollars, whole

SOME = whole(3, 120)
BY = whole(2, 12)
HOURS = whole(2, 9)
GOAL = whole(200, 900, 5)

EVENTS = (
    Part(
        "gain", "things", "things", "q + x",
        (
            "Then {who} gets {x} more.",
            "A friend brings {who} {x} more {item}.",
            "A friend, aged {age}, gives {x} more {item} to {who}.",
        ),
        {"x": SOME, "age": AGE},
    ),
    Part(
        "loss", "things", "things", "q - x",
        (
            "Then {x} of the {item} get lost.",
            "{who} gives away {x} of the {item}.",
            "Within {hours} hours {who} gives away {x} of the {item}.",
        ),
        {"x": SOME, "hours": HOURS},
    ),
    Part(
        "share", "things", "things", "q / x",
        (
            "{who} divides all {item} equally among {x} children, and {next} is among these children.",
            "There are {x} children who share all these {item} evenly, {next} among them.",
            "All {item} are split equally among {x} people who are over {age} years old, among them {next}.",
        ),
        {"x": BY, "age": AGE}, passes=True,
    ),
    Part(
        "part", "things", "things", "q * x",
        (
            "{who} keeps only {x} of the {item}.",
            "Only {x} of the {item} are good, and {who} throws the others away.",
            "After {hours} hours only {x} of the {item} remain with {who}.",
        ),
        {"x": PART, "hours": HOURS},
    ),
    Part(
        "percent", "things", "things", "q * x",
        (
            "Of these {item} {x} are green, and {who} keeps the green ones.",
            "{who} keeps {x} of the {item} and sells the others.",
            "The {place}, {age} years old, lets {who} keep {x} of the {item}.",
        ),
        {"x": RATE, "age": AGE},
    ),
    Part(
        "spoiled", "things", "things", "q * (1 - x)",
        (
            "Then {who} loses {x} of the {item}.",
            "A storm destroys {x} of the {item}.",
            "Within {hours} hours {x} of the {item} disappear.",
        ),
        {"x": RATE, "hours": HOURS},
    ),
    Part(
        "times", "things", "things", "q * x",
        (
            "{next} has {x} as many {item} as {who}.",
            "A neighbour, {next}, owns {x} as many {item} as {who}.",
            "{next}, who is {age}, has {x} as many {item} as {who}.",
        ),
        {"x": TIMES, "age": AGE}, passes=True,
    ),
    Part(
        "more", "things", "things", "q + x",
        (
            "{next} has {x} more {item} than {who}.",
            "Compared with {who}, {next} has {x} more {item}.",
            "{next}, aged {age}, has {x} more {item} than {who}.",
        ),
        {"x": SOME, "age": AGE}, passes=True,
    ),
    Part(
        "fewer", "things", "things", "q - x",
        (
            "{next} has {x} fewer {item} than {who}.",
            "Compared with {who}, {next} has {x} fewer {item}.",
            "{next}, aged {age}, has {x} fewer {item} than {who}.",
        ),
        {"x": SOME, "age": AGE}, passes=True,
    ),
    Part(
        "pack", "things", "bags", "q / x",
        (
            "{who} packs all {item} into bags of {x}.",
            "All {item} are put into bags, and {x} fit into each bag.",
            "In {hours} hours {who} packs all {item} into bags of {x}.",
        ),
        {"x": BY, "hours": HOURS},
    ),
    Part(
        "sell", "things", "money", "q * x",
        (
            "{who} sells all {item} for {x} each.",
            "The price of each of the {item} is {x}, and {who} sells them all.",
            "Within {hours} hours {who} sells all {item} for {x} each.",
        ),
        {"x": dollars(2, 12, 50), "hours": HOURS}, hundredths=True,
    ),
    Part(
        "goal", "things", "missing things", "x - q",
        (
            "{who} needs {x} {item} in all.",
            "The {place} asks {who} for {x} {item} in all.",
            "Within {hours} hours {who} needs {x} {item} in all.",
        ),
        {"x": GOAL, "hours": HOURS},
    ),
    Part(
        "bags-loss", "bags", "bags", "q - x",
        (
            "{who} gives away {x} of the bags.",
            "Then {x} of the bags get lost.",
            "Within {hours} hours {x} of the bags get lost.",
        ),
        {"x": whole(2, 20), "hours": HOURS},
    ),
    Part(
        "bags-sell", "bags", "money", "q * x",
        (
            "{who} sells each bag for {x}.",
            "The price of a bag is {x}, and {who} sells them all.",
            "Within {hours} hours {who} sells all bags for {x} each.",
        ),
        {"x": dollars(2, 30), "hours": HOURS},
    ),
    Part(
        "earn", "money", "money", "q + x",
        (
            "Then {who} gets {x} more.",
            "The mother of {who} adds {x}.",
            "A friend, aged {age}, gives {who} {x} more.",
        ),
        {"x": dollars(5, 120), "age": AGE},
    ),
    Part(
        "spend", "money", "money", "q - x",
        (
            "Then {who} spends {x}.",
            "At the {place} {who} pays {x} for a coat.",
            "Within {hours} hours {who} spends {x}.",
        ),
        {"x": dollars(5, 120), "hours": HOURS},
    ),
    Part(
        "split", "money", "money", "q / x",
        (
            "{who} divides all the money equally among {x} children, and {next} is among these children.",
            "There are {x} children who share all the money evenly, {next} among them.",
            "All the money is split equally among {x} people who are over {age} years old, among them {next}.",
        ),
        {"x": BY, "age": AGE}, passes=True,
    ),
    Part(
        "richer", "money", "money", "q * x",
        (
            "{next} has {x} as much money as {who}.",
            "A neighbour, {next}, owns {x} as much money as {who}.",
            "{next}, who is {age}, has {x} as much money as {who}.",
        ),
        {"x": TIMES, "age": AGE}, passes=True,
    ),
    Part(
        "tax", "money", "money", "q * (1 - x)",
        (
            "{who} has to pay {x} of the money as a tax.",
            "{who} gives {x} of the money to the {place}.",
            "Within {hours} hours {who} spends {x} of the money.",
        ),
        {"x": RATE, "hours": HOURS},
    ),
    Part(
        "donate", "money", "donation", "q * x",
        (
            "{who} gives {x} of the money to the {place}.",
            "The {place} gets {x} of the money of {who} as a gift.",
            "{who}, aged {age}, gives {x} of the money to the {place}.",
        ),
        {"x": RATE, "age": AGE},
    ),
    Part(
        "tickets", "money", "tickets", "q / x",
        (
            "{who} buys tickets for {x} each with all the money.",
            "A ticket costs {x}, and {who} spends all the money on tickets.",
            "For {hours} hours {who} buys tickets for {x} each until all the money is spent.",
        ),
        {"x": dollars(2, 12), "hours": HOURS},
    ),
    Part(
        "tickets-loss", "tickets", "tickets", "q - x",
        (
            "{who} gives away {x} of the tickets.",
            "Then {x} of the tickets get lost.",
            "Within {hours} hours {x} of the tickets get lost.",
        ),
        {"x": whole(2, 20), "hours": HOURS},
    ),
    Part(
        "enter", "people", "people", "q + x",
        (
            "Then {x} more visitors come.",
            "A bus brings {x} more visitors.",
            "After {hours} hours {x} more visitors come.",
        ),
        {"x": SOME, "hours": HOURS},
    ),
    Part(
        "leave", "people", "people", "q - x",
        (
            "Then {x} of the visitors go home.",
            "A bus takes {x} of the visitors away.",
            "After {hours} hours {x} of the visitors leave.",
        ),
        {"x": SOME, "hours": HOURS},
    ),
    Part(
        "crowd-part", "people", "people", "q * x",
        (
            "Only {x} of the visitors stay for dinner.",
            "Only {x} of the visitors may stay, and the others leave.",
            "After {hours} hours only {x} of the visitors are still there.",
        ),
        {"x": PART, "hours": HOURS},
    ),
    Part(
        "crowd-percent", "people", "people", "q * (1 - x)",
        (
            "Then {x} of the visitors leave.",
            "The rain drives {x} of the visitors away.",
            "Within {hours} hours {x} of the visitors leave.",
        ),
        {"x": RATE, "hours": HOURS},
    ),
    Part(
        "next-day", "people", "people", "q * x",
        (
            "On the next day there are {x} as many visitors.",
            "A day later {x} as many visitors come.",
            "With a show of {hours} hours the next day brings {x} as many visitors.",
        ),
        {"x": TIMES, "hours": HOURS},
    ),
    Part(
        "groups", "people", "groups", "q / x",
        (
            "A guide divides all visitors into groups of {x}.",
            "All visitors walk in groups, and each group consists of {x} people.",
            "For a tour of {hours} hours all visitors are divided into groups of {x}.",
        ),
        {"x": BY, "hours": HOURS},
    ),
    Part(
        "groups-loss", "groups", "groups", "q - x",
        (
            "Then {x} of the groups leave.",
            "A bus takes {x} of the groups away.",
            "After {hours} hours {x} of the groups leave.",
        ),
        {"x": whole(2, 20), "hours": HOURS},
    ),
    Part(
        "fee", "people", "takings", "q * x",
        (
            "Each visitor pays {x}.",
            "The {place} takes {x} from each visitor.",
            "For a show of {hours} hours each visitor pays {x}.",
        ),
        {"x": dollars(2, 15), "hours": HOURS},
    ),
    Part(
        "pour", "water", "water", "q + x",
        (
            "Then {who} pours in {x} more litres.",
            "A hose adds {x} litres.",
            "After {hours} hours {x} more litres are added.",
        ),
        {"x": SOME, "hours": HOURS},
    ),
    Part(
        "use", "water", "water", "q - x",
        (
            "Then {who} uses {x} litres.",
            "The plants need {x} litres, which {who} takes out.",
            "Within {hours} hours {x} litres are used.",
        ),
        {"x": SOME, "hours": HOURS},
    ),
    Part(
        "dry", "water", "water", "q * (1 - x)",
        (
            "In the sun {x} of the water dries up.",
            "Through a hole {x} of the water is lost.",
            "Within {hours} hours {x} of the water is lost.",
        ),
        {"x": RATE, "hours": HOURS},
    ),
    Part(
        "bigger", "water", "water", "q * x",
        (
            "The tank of {next} holds {x} as much water as the tank of {who}.",
            "In the tank of {next} there is {x} as much water as in the tank of {who}.",
            "{next}, aged {age}, has a tank with {x} as much water as the tank of {who}.",
        ),
        {"x": TIMES, "age": AGE}, passes=True,
    ),
    Part(
        "bottles", "water", "bottles", "q / x",
        (
            "{who} fills all the water into bottles of {x} litres.",
            "All the water is filled into bottles, and each bottle holds {x} litres.",
            "In {hours} hours {who} fills all the water into bottles of {x} litres.",
        ),
        {"x": BY, "hours": HOURS},
    ),
    Part(
        "bottles-loss", "bottles", "bottles", "q - x",
        (
            "{who} gives away {x} of the bottles.",
            "Then {x} of the bottles break.",
            "Within {hours} hours {x} of the bottles break.",
        ),
        {"x": whole(2, 20), "hours": HOURS},
    ),
    Part(
        "fill-up", "water", "missing water", "x - q",
        (
            "The tank is full with {x} litres.",
            "The tank of {who} has room for {x} litres in all.",
            "Within {hours} hours {who} wants the tank to hold {x} litres.",
        ),
        {"x": GOAL, "hours": HOURS},
    ),
)  # fmt: skip
"""Each continues a story of the kind that it takes."""
