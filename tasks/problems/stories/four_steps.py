# ruff: noqa: E501 - a phrasing stands on one line, so that the order of its quantities is seen at a glance
"""Stories that four operations solve."""

from tasks.problems.stories.words import AGE, BAKED, FRUIT, GOODS, PART, RATE, THINGS, YEAR
from tasks.problems.template import Template, dollars, plain, whole, words

FOUR_STEPS = (
    Template(
        "change-of-goods", "shopping", "paid - (many * cheap + few * dear)",
        (
            "{name} buys {many} {item} for {cheap} each and {few} lamps for {dear} each and pays with {paid}. How many dollars does {name} get back?",
            "From {paid}, {name} pays for {few} lamps at {dear} each and {many} {item} at {cheap} each. How many dollars are left?",
            "{item} cost {cheap} and lamps cost {dear}. {name}, who is {age}, takes {many} {item} and {few} lamps and pays with {paid}. How many dollars come back?",
        ),
        {"many": whole(3, 12), "cheap": dollars(2, 9), "few": whole(2, 7), "dear": dollars(10, 30), "paid": dollars(100, 400, 5000), "age": AGE},
        GOODS,
    ),
    Template(
        "bill-shared", "share", "(many * cheap + few * dear) / people",
        (
            "{people} friends order {many} drinks for {cheap} each and {few} meals for {dear} each and split the bill evenly. How many dollars does each pay?",
            "At the {place} {few} meals cost {dear} each and {many} drinks cost {cheap} each. {people} friends share the bill. How many dollars does each pay?",
            "After a walk of {far} miles {people} friends buy {many} {item} at {cheap} each and {few} tents at {dear} each. How many dollars must each of them pay?",
        ),
        {"many": whole(3, 12), "cheap": dollars(2, 9), "few": whole(2, 9), "dear": dollars(10, 30), "people": whole(2, 8), "far": whole(13, 30)},
        GOODS,
        hundredths=True,
    ),
    Template(
        "coupon", "shopping", "many * cheap + few * dear - off",
        (
            "{name} buys {many} {item} for {cheap} each and {few} bags for {dear} each, with a coupon of {off}. How many dollars does {name} pay?",
            "A coupon of {off} lowers the bill of {name} for {few} bags at {dear} each and {many} {item} at {cheap} each. How many dollars are to pay?",
            "On day {day} {name} has a coupon of {off}. {many} {item} cost {cheap} each, {few} bags cost {dear} each. How many dollars does {name} pay for all?",
        ),
        {"many": whole(3, 12), "cheap": dollars(2, 9), "few": whole(2, 9), "dear": dollars(10, 40), "off": dollars(5, 30, 500), "day": whole(13, 30)},
        GOODS,
    ),
    Template(
        "sale-by-mail", "percent", "count * price * (1 - rate) + fee",
        (
            "{name} orders {count} {item} at {price} each with {rate} off. Sending them costs {fee}. How many dollars does {name} pay in all?",
            "Sending a parcel costs {fee}. {name} gets {rate} off the price of {count} {item} that cost {price} each. What is the whole bill in dollars?",
            "The shop is {age} years old and gives {rate} off. {name} takes {count} {item} at {price} each and pays {fee} for sending. How many dollars is that?",
        ),
        {"count": whole(2, 12), "price": dollars(5, 50), "rate": RATE, "fee": dollars(3, 15), "age": AGE},
        GOODS,
        hundredths=True,
    ),
    Template(
        "orchard", "percent", "rows * trees * fruit * (1 - rate)",
        (
            "An orchard has {rows} rows of {trees} trees, and every tree bears {fruit} {item}. {rate} of them are bad. How many {item} are good?",
            "{rate} of the {item} fall off too early. There are {rows} rows with {trees} trees each and {fruit} {item} on every tree. How many {item} are left?",
            "{name} is {age} and owns {rows} fields of {trees} bushes with {fruit} {item} on each bush. Birds eat {rate} of all. How many {item} remain?",
        ),
        {"rows": whole(3, 12), "trees": whole(4, 20), "fruit": whole(10, 60, 5), "rate": RATE, "age": AGE},
        FRUIT,
    ),
    Template(
        "dealt-on-top", "share", "(boxes * each - gone) / people + had",
        (
            "{boxes} boxes hold {each} {item} each. {gone} are lost and {people} friends share the others equally. {name}, a friend, had {had} before. How many has {name} now?",
            "{name} has {had} {item}. Then {people} children, {name} among them, share {boxes} packs of {each} {item} equally, without {gone} torn ones. How many does {name} have?",
            "{name} had {had} {item} in {year}. Now {name} gets an equal part when {people} friends share {boxes} boxes of {each} less {gone} broken ones. How many has {name} then?",
        ),
        {"boxes": whole(3, 12), "each": whole(6, 30), "gone": whole(3, 30), "people": whole(3, 9), "had": whole(5, 60), "year": YEAR},
        THINGS,
    ),
    Template(
        "still-to-save", "left", "goal - have - weekly * weeks - gift",
        (
            "{name} wants a bike for {goal}, has {have}, saves {weekly} a week for {weeks} weeks and gets {gift} from {other}. How many dollars are missing?",
            "{other} gives {name} {gift}. {name} had {have} and saves {weekly} a week for {weeks} weeks. How many dollars are still missing for a trip of {goal}?",
            "{name}, aged {age}, puts {weekly} aside in each of {weeks} weeks. With {have} from before and a gift of {gift}, how many dollars are missing to {goal}?",
        ),
        {"goal": dollars(150, 600, 1000), "have": dollars(10, 90, 500), "weekly": dollars(4, 20), "weeks": whole(3, 14), "gift": dollars(10, 50, 500), "age": AGE},
    ),
    Template(
        "part-of-the-rest", "part", "total * (1 - part) * (1 - rate)",
        (
            "{name} sells {part} of {total} {item}. Of what remains {rate} are spoiled. How many good {item} are left?",
            "There are {total} {item} at the {place}. {other} takes {part} of them, and then {name} takes {rate} of the rest. How many {item} stay there?",
            "{name} works {hours} hours, bakes {total} {item} and gives {part} of them away. {rate} of the others are sold. How many {item} does {name} keep?",
        ),
        {"total": whole(60, 600, 20), "part": PART, "rate": RATE, "hours": whole(2, 9)},
        BAKED,
    ),
    Template(
        "overtime", "shopping", "hours * pay + extra * pay * times",
        (
            "{name} earns {pay} an hour, but {times} for each hour of overtime. {name} works {hours} normal hours and {extra} hours of overtime. How many dollars is that?",
            "{name} works {hours} normal hours and {extra} hours of overtime. A normal hour pays {pay}, an hour of overtime pays {times}. How many dollars does {name} earn?",
            "At the {place}, {age} years old, {name} does {extra} hours of overtime after {hours} normal hours. The pay is {pay} an hour, and {times} in overtime. How many dollars is that?",
        ),
        {"hours": whole(6, 40), "pay": dollars(9, 30), "extra": whole(3, 12), "times": words("double", "triple"), "age": plain(41, 70)},
    ),
    Template(
        "tank", "left", "((inflow - outflow) * minutes + start) / bucket",
        (
            "A tank holds {start} liters. Each minute {inflow} liters flow in and {outflow} flow out. After {minutes} minutes, how many buckets of {bucket} liters can be filled?",
            "{outflow} liters a minute leave a tank and {inflow} enter it. It starts with {start} liters. How many buckets of {bucket} liters does it fill after {minutes} minutes?",
            "{name} is {age} and watches a pool with {start} liters. For {minutes} minutes {inflow} liters enter and {outflow} leave each minute. How many jars of {bucket} liters is that?",
        ),
        {"inflow": whole(10, 40), "outflow": whole(3, 25), "minutes": whole(4, 20), "start": whole(20, 200, 10), "bucket": whole(2, 12), "age": plain(41, 70)},
    ),
)  # fmt: skip
