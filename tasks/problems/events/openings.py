"""Openings of stories: how a quantity of some kind comes up."""

from tasks.problems.events.story_part import Part
from tasks.problems.stories.words import AGE, FRUIT, GOODS, THINGS, YEAR
from tasks.problems.template import dollars, whole

HOURS = whole(2, 9)
COUNT = whole(12, 360, 6)
FEW = whole(3, 15)
EACH = whole(4, 24)

OPENINGS = (
    Part(
        "owns", None, "things", "x",
        (
            "{who} has {x} {item}.",
            "There are {x} {item} in the box of {who}.",
            "{who}, who is {age} years old, owns {x} {item}.",
        ),
        {"x": COUNT, "age": AGE}, THINGS,
    ),
    Part(
        "picks", None, "things", "x",
        (
            "{who} picks {x} {item}.",
            "In the garden {who} gathers {x} {item}.",
            "After {hours} hours of work {who} has a harvest of {x} {item}.",
        ),
        {"x": COUNT, "hours": HOURS}, FRUIT,
    ),
    Part(
        "stocks", None, "things", "x",
        (
            "The shop of {who} has {x} {item} in stock.",
            "{who} runs a shop with {x} {item} on the shelves.",
            "Since {year} {who} has had a shop, and today there are {x} {item} in it.",
        ),
        {"x": COUNT, "year": YEAR}, GOODS,
    ),
    Part(
        "makes", None, "things", "x",
        (
            "For the {place} {who} makes {x} {item}.",
            "{who} prepares {x} {item} for the {place}.",
            "{who} works {hours} hours for the {place} and makes {x} {item}.",
        ),
        {"x": COUNT, "hours": HOURS}, GOODS,
    ),
    Part(
        "boxes", None, "things", "x * y",
        (
            "{who} buys {x} boxes with {y} {item} each.",
            "On each shelf of {who} there are {y} {item}, and there are {x} shelves.",
            "{who} is {age} and keeps {x} bags with {y} {item} in each bag.",
        ),
        {"x": FEW, "y": EACH, "age": AGE}, THINGS,
    ),
    Part(
        "daily", None, "things", "x * y",
        (
            "{who} collects {x} {item} a day for {y} days.",
            "For {y} days {who} gets {x} {item} every day.",
            "Since {year} {who} has a hobby: on each of {y} days {who} finds {x} {item}.",
        ),
        {"x": EACH, "y": FEW, "year": YEAR}, THINGS,
    ),
    Part(
        "colours", None, "things", "x + y",
        (
            "{who} has {x} red {item} and {y} blue {item}.",
            "On the table of {who} lie {x} {item}, and in the drawer there are {y} more.",
            "{who} is {age} years old and has {x} old and {y} new {item}.",
        ),
        {"x": COUNT, "y": COUNT, "age": AGE}, THINGS,
    ),
    Part(
        "saves", None, "money", "x",
        (
            "{who} has saved {x}.",
            "There are {x} in the purse of {who}.",
            "{who}, who is {age}, comes to the {place} with {x}.",
        ),
        {"x": dollars(24, 480, 600), "age": AGE},
    ),
    Part(
        "wins", None, "money", "x",
        (
            "{who} wins {x} at the {place}.",
            "At the {place} {who} gets a prize of {x}.",
            "In {year} {who} won a prize of {x}.",
        ),
        {"x": dollars(24, 480, 600), "year": YEAR},
    ),
    Part(
        "is-paid", None, "money", "x",
        (
            "The {place} pays {who} {x}.",
            "{who} is paid {x} by the {place}.",
            "For {hours} hours of work {who} is paid {x}.",
        ),
        {"x": dollars(24, 480, 600), "hours": HOURS},
    ),
    Part(
        "wage", None, "money", "x * y",
        (
            "{who} earns {x} an hour and works {y} hours.",
            "For {y} hours of work {who} gets {x} an hour.",
            "{who}, aged {age}, works {y} hours for {x} an hour.",
        ),
        {"x": dollars(6, 40), "y": FEW, "age": AGE},
    ),
    Part(
        "crowd", None, "people", "x",
        (
            "There are {x} visitors at the {place}.",
            "The {place} counts {x} visitors.",
            "The {place} is {age} years old and has {x} visitors.",
        ),
        {"x": COUNT, "age": AGE},
    ),
    Part(
        "arrives", None, "people", "x",
        (
            "In the morning {x} visitors come to the {place}.",
            "At noon there are {x} visitors in the {place}.",
            "In the {hours} hours before noon {x} visitors come to the {place}.",
        ),
        {"x": COUNT, "hours": HOURS},
    ),
    Part(
        "festival", None, "people", "x",
        (
            "A festival at the {place} draws {x} visitors.",
            "To the festival of the {place} come {x} visitors.",
            "A festival that began in {year} brings {x} visitors to the {place}.",
        ),
        {"x": COUNT, "year": YEAR},
    ),
    Part(
        "buses", None, "people", "x * y",
        (
            "The {place} is visited by {x} buses with {y} visitors each.",
            "In each bus to the {place} sit {y} visitors, and there are {x} buses.",
            "After {hours} hours on the road {x} buses with {y} visitors each reach the {place}.",
        ),
        {"x": FEW, "y": EACH, "hours": HOURS},
    ),
    Part(
        "ages", None, "people", "x + y",
        (
            "The {place} is visited by {x} children and {y} adults.",
            "At the {place} there are {x} guests from the village and {y} from the city.",
            "Within {hours} hours {x} children and {y} adults come to the {place}.",
        ),
        {"x": COUNT, "y": COUNT, "hours": HOURS},
    ),
    Part(
        "tank", None, "water", "x",
        (
            "The tank of {who} holds {x} litres of water.",
            "There are {x} litres of water in the tank of {who}.",
            "In the tank that {who} built in {year} there are {x} litres of water.",
        ),
        {"x": COUNT, "year": YEAR},
    ),
    Part(
        "rain", None, "water", "x",
        (
            "After the rain the tank of {who} contains {x} litres of water.",
            "Rain brings {x} litres of water into the empty tank of {who}.",
            "In {hours} hours the rain brings {x} litres of water into the empty tank of {who}.",
        ),
        {"x": COUNT, "hours": HOURS},
    ),
    Part(
        "pump", None, "water", "x",
        (
            "A pump brings {x} litres of water into the empty tank of {who}.",
            "With a pump {who} puts {x} litres of water into an empty tank.",
            "A pump runs for {hours} hours and brings {x} litres of water into the empty tank of {who}.",
        ),
        {"x": COUNT, "hours": HOURS},
    ),
    Part(
        "buckets", None, "water", "x * y",
        (
            "{who} pours {x} buckets with {y} litres of water each into an empty tank.",
            "A bucket holds {y} litres of water, and {who} pours {x} buckets into an empty tank.",
            "{who}, aged {age}, carries {x} buckets with {y} litres of water each to an empty tank.",
        ),
        {"x": FEW, "y": EACH, "age": AGE},
    ),
)  # fmt: skip
"""The parts that begin a story; those with an operation of their own need no event."""
