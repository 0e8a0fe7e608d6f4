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
    Template(
        "boxes", "groups", "boxes * each",
        (
            "{name} packs {boxes} boxes with {each} {item} in each box. How many {item} does {name} pack?",
            "A box holds {each} {item}. The {place} orders {boxes} boxes. How many {item} does it order?",
            "{name} is {age} years old and carries {boxes} boxes. Each of them holds {each} {item}. How many {item} does {name} carry?",
        ),
        {"boxes": whole(3, 30), "each": whole(4, 48), "age": AGE},
        THINGS,
    ),
    Template(
        "daily", "groups", "days * pages",
        (
            "{name} reads {pages} pages a day. How many pages does {name} read in {days} days?",
            "For {days} days {name} reads {pages} pages every day. How many pages is that?",
            "In {year} {name} spent {days} days at the {place} and wrote {pages} pages on each of them. How many pages did {name} write?",
        ),
        {"days": whole(3, 28), "pages": whole(6, 60), "year": YEAR},
    ),
    Template(
        "total-cost", "shopping", "count * price",
        (
            "Each of the {item} costs {price}. {name} buys {count} {item}. How many dollars does {name} pay?",
            "{name} buys {count} {item} for {price} each. How many dollars does that cost?",
            "{name} walks {far} miles and buys {count} {item} at {price} each. How many dollars does {name} spend?",
        ),
        {"count": whole(3, 24), "price": dollars(2, 40), "far": whole(2, 9)},
        GOODS,
    ),
    Template(
        "joined", "more", "here + come",
        (
            "There are {here} people at the {place}. Then {come} more people arrive. How many people are there now?",
            "{come} people join the {here} people who are already at the {place}. How many people is that?",
            "After {hours} hours {here} people sit at the {place}, and {come} others come in. How many people are there then?",
        ),
        {"here": whole(12, 300), "come": whole(5, 120), "hours": whole(2, 9)},
    ),
    Template(
        "altogether", "more", "first + second",
        (
            "{name} has {first} {item} and {other} has {second} {item}. How many {item} do they have together?",
            "{other} brings {second} {item} and {name} brings {first}. How many {item} do they bring in all?",
            "{name}, who is {age}, sells {first} {item} on Monday and {second} {item} on Tuesday. How many {item} does {name} sell?",
        ),
        {"first": whole(12, 240), "second": whole(12, 240), "age": AGE},
        THINGS,
    ),
    Template(
        "earlier", "more", "now + spent",
        (
            "{name} spends {spent} and has {now} left. How many dollars did {name} have to begin with?",
            "After paying {spent} at the {place}, {name} still has {now}. How many dollars did {name} have before?",
            "{name} has {now} left after {hours} hours at the {place}, where {name} spent {spent}. How many dollars did {name} bring?",
        ),
        {"now": dollars(5, 200), "spent": dollars(5, 150), "hours": whole(2, 9)},
    ),
    Template(
        "difference", "compare", "more - less",
        (
            "{name} has {more} {item} and {other} has {less}. How many more {item} does {name} have than {other}?",
            "{other} picks {less} {item}, {name} picks {more}. How many {item} does {name} pick more than {other}?",
            "In {hours} hours {name} gathers {more} {item} and {other} {less} {item}. By how many {item} is {name} ahead?",
        ),
        {"more": whole(40, 400), "less": whole(5, 300), "hours": whole(2, 9)},
        FRUIT,
    ),
    Template(
        "to-read", "left", "pages - read",
        (
            "A book has {pages} pages. {name} has read {read} of them. How many pages are left to read?",
            "{name} has read {read} pages of a book of {pages} pages. How many pages remain?",
            "In {year} {name} started a book of {pages} pages and read {read} pages. How many pages has {name} still to read?",
        ),
        {"pages": whole(80, 600), "read": whole(10, 400), "year": YEAR},
    ),
    Template(
        "money-back", "left", "paid - price",
        (
            "{name} pays with {paid} for {item} that cost {price}. How many dollars does {name} get back?",
            "The {item} cost {price}. {name} gives {paid} to the seller. How many dollars of change does {name} get?",
            "{name} drives {far} miles to the {place}, where the {item} cost {price}, and pays with {paid}. How many dollars come back?",
        ),
        {"paid": dollars(20, 200, 500), "price": dollars(3, 180), "far": whole(2, 9)},
        GOODS,
    ),
    Template(
        "teams", "share", "people / size",
        (
            "{people} children at the {place} form teams of {size}. How many teams are there?",
            "Each team has {size} players. How many teams can {people} players at the {place} form?",
            "{name} is {age} and divides {people} players into teams of {size} players. How many teams does {name} get?",
        ),
        {"people": whole(24, 360, 2), "size": whole(3, 18), "age": AGE},
    ),
    Template(
        "pace", "share", "pages / days",
        (
            "{name} reads {pages} pages in {days} days, the same number every day. How many pages does {name} read a day?",
            "In {days} days {name} writes {pages} pages, equally many each day. How many pages is that a day?",
            "In {year} {name} copied {pages} pages in {days} days, on each day as many. How many pages did {name} copy each day?",
        ),
        {"pages": whole(24, 480, 4), "days": whole(3, 16), "year": YEAR},
    ),
    Template(
        "percent-off", "percent", "price * rate",
        (
            "The {item} of {name} cost {price}. The {place} takes {rate} off. How many dollars are taken off?",
            "At the {place} there is {rate} off. {name} buys {item} for {price} in all. How many dollars does {name} save?",
            "After {hours} hours {name} finds {item} for {price}, reduced by {rate}. By how many dollars are they reduced?",
        ),
        {"price": dollars(20, 400, 500), "rate": RATE, "hours": whole(2, 9)},
        GOODS,
        hundredths=True,
    ),
)  # fmt: skip
