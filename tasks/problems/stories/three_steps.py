# ruff: noqa: E501 - a phrasing stands on one line, so that the order of its quantities is seen at a glance
"""Stories that three operations solve."""

from tasks.problems.stories.words import AGE, BAKED, FRUIT, GOODS, PART, RATE, THINGS, TIMES
from tasks.problems.template import Template, dollars, plain, whole, words

THREE_STEPS = (
    Template(
        "two-goods", "shopping", "many * cheap + few * dear",
        (
            "{name} buys {many} {item} for {cheap} each and {few} lamps for {dear} each. How many dollars does {name} spend?",
            "Lamps cost {dear} each and {item} cost {cheap} each. {name} takes {few} lamps and {many} {item}. How many dollars is that?",
            "At the {place}, {many} visitors pay {cheap} each and {few} visitors pay {dear} each. The guide is {age}. How many dollars do they pay?",
        ),
        {"many": whole(3, 12), "cheap": dollars(2, 12), "few": whole(2, 9), "dear": dollars(10, 45), "age": AGE},
        GOODS,
    ),
    Template(
        "change-of-two", "shopping", "paid - price * count - extra",
        (
            "{name} has {paid}, buys {count} {item} for {price} each and a drink for {extra}. How many dollars are left?",
            "A ticket to the {place} costs {extra}, and {count} {item} cost {price} each. {name} pays all with {paid}. How many dollars come back?",
            "{name} buys {count} {item} at {price} each and a map for {extra} on bus {line}. How much is left of {paid}, in dollars?",
        ),
        {"paid": dollars(50, 300, 1000), "price": dollars(2, 18, 50), "count": whole(3, 12), "extra": dollars(2, 20), "line": plain(31, 99)},
        GOODS,
        hundredths=True,
    ),
    Template(
        "sell-the-good", "groups", "(boxes * each - bad) * price",
        (
            "{name} gets {boxes} boxes of {each} {item}. {bad} {item} are bad, the others are sold for {price} each. How many dollars does {name} earn?",
            "{name} sells {item} for {price} each. From {boxes} crates with {each} {item} each, {bad} are thrown away. How many dollars come in?",
            "In {hours} hours {name} picks {boxes} baskets of {each} {item}, eats {bad} and sells the others for {price} each. How many dollars is that?",
        ),
        {"boxes": whole(3, 10), "each": whole(6, 30), "bad": whole(3, 40), "price": dollars(2, 6), "hours": whole(7, 12)},
        FRUIT,
    ),
    Template(
        "sale", "percent", "count * price * (1 - rate)",
        (
            "{name} buys {count} {item} for {price} each and gets {rate} off the total. How many dollars does {name} pay?",
            "A shop gives {rate} off. The {item} cost {price} each before that, and {name} takes {count}. What does {name} pay, in dollars?",
            "On day {day} of the sale all is {rate} off. How many dollars do {count} {item} cost, when each had a price of {price}?",
        ),
        {"count": whole(2, 12), "price": dollars(5, 60), "rate": RATE, "day": whole(13, 30)},
        GOODS,
        hundredths=True,
    ),
    Template(
        "rest-shared", "part", "total * (1 - part) / people",
        (
            "{name} keeps {part} of {total} {item} and shares the others equally among {people} friends. How many {item} does each friend get?",
            "{people} children share what remains of {total} {item} after {name} took {part} of them. How many {item} does each child get?",
            "On day {day} {name} sells {part} of {total} {item} and puts the others on {people} plates equally. How many {item} are on each plate?",
        ),
        {"total": whole(24, 360, 12), "part": PART, "people": whole(2, 10), "day": whole(13, 30)},
        BAKED,
    ),
    Template(
        "packs-shared", "share", "(packs * each + loose) / people",
        (
            "{name} has {packs} packs of {each} {item} and {loose} loose ones. {people} children share them all equally. How many does each child get?",
            "{loose} {item} lie on the table beside {packs} packs of {each}. {name} deals all of them to {people} players. How many {item} does each player get?",
            "{people} friends, all aged {age}, split {packs} packs with {each} {item} each and another {loose} {item} evenly. How many does each of them get?",
        ),
        {"packs": whole(3, 10), "each": whole(6, 30), "loose": whole(4, 40), "people": whole(3, 12), "age": AGE},
        THINGS,
    ),
    Template(
        "use-and-refill", "part", "total * (1 - part) + more",
        (
            "{name} has {total} {item} and uses {part} of them. Then {name} buys {more} more. How many {item} does {name} have now?",
            "A delivery of {more} {item} comes after {part} of the {total} {item} in the store were sold. How many {item} are in the store now?",
            "The {place} is {far} miles away. {name} sells {part} of {total} {item} there and brings back {more} new ones. How many {item} does {name} own then?",
        ),
        {"total": whole(20, 360, 10), "part": PART, "more": whole(5, 90), "far": whole(3, 19)},
        GOODS,
    ),
    Template(
        "fence", "groups", "(length + width) * 2 * price",
        (
            "A garden is {length} meters long and {width} meters wide. A fence around it costs {price} per meter. How many dollars does the fence cost?",
            "At {price} per meter, what does {name} pay in dollars for a fence around a field that is {width} meters wide and {length} meters long?",
            "{name} has {count} sheep on a meadow of {length} by {width} meters. What does a fence around it cost, in dollars, at {price} per meter?",
        ),
        {"length": whole(12, 60), "width": whole(5, 40), "price": dollars(3, 18), "count": whole(61, 95)},
    ),
    Template(
        "wages-less-rent", "shopping", "hours * pay * days - rent",
        (
            "{name} works {hours} hours a day for {pay} an hour. After {days} days {name} pays {rent} for the room. How many dollars are left?",
            "The room costs {rent}. {name} works {days} days, {hours} hours each day, and earns {pay} an hour. How many dollars remain after the rent?",
            "{name}, aged {age}, earns {pay} an hour at the {place} and works {hours} hours on each of {days} days. The trip home costs {rent}. How many dollars remain?",
        ),
        {"hours": whole(3, 9), "pay": dollars(9, 25), "days": whole(4, 14), "rent": dollars(30, 300, 1000), "age": plain(26, 70)},
    ),
    Template(
        "wages-saved", "percent", "pay * days * (1 - rate)",
        (
            "{name} earns {pay} a day and works {days} days. {rate} of the money goes to the rent. How many dollars does {name} keep?",
            "{rate} of the wages are spent right away. {name} works {days} days for {pay} each. How many dollars are not spent?",
            "{name} is {age} and gets {pay} for each of {days} days at the {place}. Taxes take {rate}. How many dollars are left?",
        ),
        {"pay": dollars(30, 150, 500), "days": whole(4, 24), "rate": RATE, "age": AGE},
        hundredths=True,
    ),
    Template(
        "mean-of-days", "share", "(first + next + last) / days",
        (
            "{name} reads {first} pages on Monday, {next} on Tuesday and {last} on Friday. How many pages is that on average for these {days} days?",
            "Over {days} days {name} sold {first}, then {next} and then {last} {item}. How many {item} did {name} sell per day on average?",
            "{name} is {age}. In {days} games {name} scored {first}, {next} and {last} points. What was the average score?",
        ),
        {"first": whole(10, 90), "next": whole(10, 90), "last": whole(10, 90), "days": words("three", "3"), "age": AGE},
        GOODS,
    ),
    Template(
        "times-less", "compare", "count * times - less + count",
        (
            "{name} has {count} {item}. {other} had {times} as many as {name} but lost {less}. How many {item} do they have together now?",
            "{other} picked {times} as many {item} as {name} and then gave {less} away. {name} picked {count}. How many {item} do they have together?",
            "On day {day} {name} makes {count} {item}. {other} makes {times} as many, of which {less} break. How many good {item} do they have in total?",
        ),
        {"count": whole(8, 80), "times": TIMES, "less": whole(7, 60), "day": whole(13, 30)},
        GOODS,
    ),
    Template(
        "profit", "shopping", "(dear - cheap) * count - fee",
        (
            "{name} buys {count} {item} for {cheap} each and sells them for {dear} each. The stall costs {fee}. What is the profit in dollars?",
            "A stall at the {place} costs {fee}. {name} sells {count} {item} at {dear} each that were bought at {cheap} each. How many dollars does {name} gain?",
            "The {item} sell for {dear} each and cost {cheap} each to make. {name} sells {count} in {hours} hours and pays {fee} for the stall. What is the gain in dollars?",
        ),
        {"dear": dollars(9, 40), "cheap": dollars(2, 20), "count": whole(8, 60), "fee": dollars(10, 90, 500), "hours": whole(3, 7)},
        GOODS,
    ),
    Template(
        "bus-stops", "left", "start - off + on - out",
        (
            "A bus starts with {start} people. At the {place} {off} get off and {on} get on. Later {out} more get off. How many people are on the bus?",
            "{off} people leave a train and {on} board it, then {out} leave. There were {start} people before. How many people are on it now?",
            "Bus {line} carries {start} people. {off} leave at the {place}, {on} enter, and {out} leave at the harbour. How many people does it carry now?",
        ),
        {"start": whole(25, 90), "off": whole(3, 24), "on": whole(3, 30), "out": whole(2, 20), "line": plain(101, 199)},
    ),
)  # fmt: skip
