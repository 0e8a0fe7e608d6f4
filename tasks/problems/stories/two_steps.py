# ruff: noqa: E501 - a phrasing stands on one line, so that the order of its quantities is seen at a glance
"""Stories that two operations solve."""

from tasks.problems.stories.words import AGE, BAKED, FRUIT, GOODS, PART, RATE, THINGS, TIMES, YEAR
from tasks.problems.template import Template, decimals, dollars, plain, whole, words

TWO_STEPS = (
    Template(
        "change", "shopping", "paid - price * count",
        (
            "{name} buys {count} {item} for {price} each and pays with {paid}. How many dollars does {name} get back?",
            "With {paid} in the pocket, {name} goes to the {place} and buys {count} {item} at {price} each. How many dollars are left?",
            "The {item} cost {price} each. {name}, who is {age}, takes {count} of them and hands over {paid}. How much change in dollars is that?",
        ),
        {"paid": dollars(20, 200, 1000), "price": dollars(2, 18, 50), "count": whole(2, 12), "age": AGE},
        GOODS,
        hundredths=True,
    ),
    Template(
        "boxes-less", "groups", "boxes * each - gone",
        (
            "{name} has {boxes} boxes with {each} {item} in each box and gives away {gone} {item}. How many {item} are left?",
            "{gone} {item} were spoiled when {boxes} crates of {each} {item} each came to the {place}. How many {item} were good?",
            "A cart drives {far} miles with {boxes} sacks. Every sack holds {each} {item}, but {gone} {item} fall out. How many {item} arrive?",
        ),
        {"boxes": whole(3, 15), "each": whole(8, 40), "gone": whole(5, 70), "far": whole(4, 60)},
        FRUIT,
    ),
    Template(
        "pool-and-share", "share", "(mine + yours) / people",
        (
            "{name} has {mine} {item} and {other} has {yours}. They put them together and share them among {people} children. How many {item} does each child get?",
            "{people} children want equal parts of the {mine} {item} of {name} and the {yours} {item} of {other}. How many {item} does each get?",
            "{name} bakes {mine} {item} in {hours} hours and {other} bakes {yours}. They fill {people} bags equally. How many {item} are in each bag?",
        ),
        {"mine": whole(12, 150), "yours": whole(12, 150), "people": whole(3, 12), "hours": whole(2, 9)},
        BAKED,
    ),
    Template(
        "packs-and-loose", "groups", "packs * each + loose",
        (
            "{name} buys {packs} packs of {each} {item} and finds {loose} more {item} at home. How many {item} does {name} have?",
            "{name} already has {loose} {item}. Then {other} brings {packs} packs with {each} {item} in each. How many {item} does {name} have now?",
            "Each of {packs} albums holds {each} {item}. They cost {price} each. Another {loose} {item} lie on the desk. How many {item} are there?",
        ),
        {"packs": whole(3, 14), "each": whole(6, 48), "loose": whole(4, 90), "price": dollars(2, 30)},
        THINGS,
    ),
    Template(
        "discount", "percent", "price * (1 - rate)",
        (
            "A coat costs {price}. {name} gets a discount of {rate}. How many dollars does {name} pay for the coat?",
            "With a coupon for {rate} off, how many dollars does {name} pay at the {place} for a bag that costs {price}?",
            "The shop opened in {year}. Today it takes {rate} off a lamp with a price of {price}. What does the lamp cost now, in dollars?",
        ),
        {"price": dollars(20, 400, 500), "rate": RATE, "year": YEAR},
        hundredths=True,
    ),
    Template(
        "growth", "percent", "total * (1 + rate)",
        (
            "The {place} had {total} visitors in May. In June there were {rate} more. How many visitors came in June?",
            "Membership of the {place} grew by {rate} this year. Before that there were {total} members. How many members are there now?",
            "{name} is {age} and counts {total} {item} in the store. After a delivery there are {rate} more. How many {item} are there now?",
        ),
        {"total": whole(40, 900, 20), "rate": RATE, "age": AGE},
        GOODS,
    ),
    Template(
        "part-eaten", "part", "total - total * part",
        (
            "{name} bakes {total} {item} and sells {part} of them. How many {item} are left?",
            "On Monday {part} of the {total} {item} of the bakery at the {place} were sold. How many {item} were not sold?",
            "{name} gets up at {clock} and bakes {total} {item}. Guests eat {part} of them. How many {item} remain?",
        ),
        {"total": whole(20, 360, 10), "part": PART, "clock": whole(3, 9)},
        BAKED,
    ),
    Template(
        "floors", "groups", "floors * rooms * beds",
        (
            "A hotel has {floors} floors, {rooms} rooms on every floor and {beds} beds in every room. How many beds does the hotel have?",
            "Every room of a hostel holds {beds} beds. There are {rooms} rooms on each of the {floors} floors. How many beds are there?",
            "{name}, aged {age}, packs {floors} trucks with {rooms} crates each, and each crate holds {beds} lamps. How many lamps are packed?",
        ),
        {"floors": whole(3, 12), "rooms": whole(4, 20), "beds": whole(2, 9), "age": AGE},
    ),
    Template(
        "drive", "groups", "speed * hours + extra",
        (
            "{name} drives {hours} hours at {speed} miles per hour and then walks {extra} miles. How many miles does {name} travel?",
            "After a walk of {extra} miles {name} takes a train at {speed} miles per hour for {hours} hours. How far does {name} travel, in miles?",
            "Bus {line} runs at {speed} miles per hour for {hours} hours. Then {name} cycles {extra} miles home. How many miles is the whole way?",
        ),
        {"speed": whole(20, 80, 5), "hours": decimals(2, 6), "extra": whole(3, 30), "line": plain(31, 99)},
        hundredths=True,
    ),
    Template(
        "mean-of-pair", "share", "(first + last) / 2",
        (
            "{name} scores {first} points in the morning game and {last} points in the evening game. What is the average score of the games?",
            "{other} reads {first} pages on Monday. On Tuesday it is {last} pages. How many pages is that on average per day?",
            "{name} is {age}. {name} runs {first} laps on Friday and {last} laps on Sunday. What is the average number of laps on these days?",
        ),
        {"first": whole(11, 120), "last": whole(11, 120), "age": AGE},
    ),
    Template(
        "both-together", "compare", "count + (count + more)",
        (
            "{name} has {count} {item}. {other} has {more} more than {name}. How many {item} do they have together?",
            "{other} has {more} more {item} than {name}, and {name} has {count}. How many {item} do they have in total?",
            "{name} and {other} met in {year}. {name} has {count} {item} and {other} has {more} more. How many {item} do the friends have together?",
        ),
        {"count": whole(10, 150), "more": whole(3, 70), "year": YEAR},
        THINGS,
    ),
    Template(
        "times-together", "compare", "count * times + count",
        (
            "{name} has {count} {item} and {other} has {times} as many. How many {item} do they have together?",
            "{other} found {times} as many {item} as {name}, who found {count}. How many {item} did they find in total?",
            "In {hours} hours {name} picks {count} {item}, while {other} picks {times} as many. How many {item} do they pick together?",
        ),
        {"count": whole(6, 90), "times": TIMES, "hours": whole(7, 12)},
        FRUIT,
    ),
    Template(
        "eggs", "groups", "cartons * dozen - broken",
        (
            "{name} buys {cartons} {dozen} eggs at the {place} and breaks {broken} of them. How many eggs are whole?",
            "On the way home {broken} eggs break. {name} had bought {cartons} {dozen} eggs. How many eggs are left?",
            "For {price} {name} gets {cartons} {dozen} eggs, but {broken} are bad. How many eggs are good?",
        ),
        {"cartons": whole(3, 20), "dozen": words("dozen"), "broken": whole(2, 30), "price": dollars(13, 60)},
    ),
    Template(
        "two-givings", "left", "had - first - last",
        (
            "{name} has {had} {item}, gives {first} to {other} and loses {last}. How many {item} does {name} still have?",
            "{name} sells {first} {item} in the morning and {last} in the evening. There were {had} at the start. How many {item} are left?",
            "At {clock} there are {had} {item} on the stall. Then {other} buys {first} and {name} buys {last}. How many {item} remain?",
        ),
        {"had": whole(60, 400), "first": whole(10, 150), "last": whole(10, 150), "clock": whole(3, 9)},
        THINGS,
    ),
    Template(
        "machine-rate", "share", "made / hours * later",
        (
            "A machine makes {made} {item} in {hours} hours. How many {item} does it make in {later} hours?",
            "How many {item} can {name} make in {later} hours, when making {made} {item} takes {hours} hours?",
            "{name} is {age} and folds {made} {item} in {hours} hours. At the same speed, how many {item} are folded in {later} hours?",
        ),
        {"made": whole(24, 240, 4), "hours": whole(2, 8), "later": whole(3, 14), "age": AGE},
        GOODS,
    ),
    Template(
        "weeks-to-save", "share", "(goal - have) / weekly",
        (
            "{name} wants a bike for {goal} and has {have}. {name} saves {weekly} each week. How many weeks will it take?",
            "Saving {weekly} a week, {name} wants to buy a camera for {goal}. {name} has {have} already. How many weeks does {name} need?",
            "{name} owns {have} and needs {goal} for a trip to the {place}. {other} is {age}. How many weeks must {name} save {weekly} a week?",
        ),
        {"goal": dollars(60, 400, 1000), "have": dollars(10, 150, 500), "weekly": dollars(4, 25), "age": AGE},
    ),
)  # fmt: skip
