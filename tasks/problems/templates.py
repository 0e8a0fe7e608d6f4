# ruff: noqa: E501 - a phrasing stands on one line, so that the order of its quantities is seen at a glance
"""The stories of the generator, written by hand: add one here and it takes part.

Rules (each is tested): no number stands in a phrasing outside a quantity, no number word but those of
`template.WORDS`, and a family has several templates, so that what is held out resembles something that was learnt.
"""

from tasks.problems.template import Template, decimals, dollars, percents, plain, shares, whole, words

NAMES = (
    "Ada", "Ben", "Carla", "Dario", "Emma", "Felix", "Gina", "Hugo", "Ines", "Jonas", "Kim", "Lena", "Mario", "Nora",
    "Omar", "Paula", "Quinn", "Rosa", "Sam", "Tara", "Uma", "Vera", "Wanda", "Yusuf", "Zoe",
)  # fmt: skip
PLACES = ("market", "school", "library", "harbour", "museum", "village", "farm", "station", "club", "garden centre")
FRUIT = ("apples", "pears", "lemons", "oranges", "plums", "peaches")
THINGS = ("marbles", "stickers", "cards", "stamps", "shells", "badges", "coins")
GOODS = ("notebooks", "pens", "mugs", "candles", "scarves", "posters", "caps")
BAKED = ("muffins", "rolls", "cookies", "pretzels", "pies")

PART = shares("half", "1/4", "3/4", "1/5", "2/5", "3/5", "1/3", "2/3")
RATE = percents(5, 10, 15, 20, 25, 30, 40, 50, 60, 75)
TIMES = words("twice", "3 times", "4 times", "5 times", "6 times")
AGE = plain(15, 70)
YEAR = plain(1950, 2020)

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

TEMPLATES: tuple[Template, ...] = (*ONE_STEP, *TWO_STEPS, *THREE_STEPS, *FOUR_STEPS)
