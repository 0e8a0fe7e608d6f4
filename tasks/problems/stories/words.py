"""Names, places and quantities that the stories share."""

from tasks.problems.template import percents, plain, shares, words

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
