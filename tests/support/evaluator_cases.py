"""Tricky cases of every built-in evaluator: (evaluator, value, answer as a file has it, score).

Most are from issue threads of the benchmarks' harnesses: what they count wrong for its form, or right by accident.
"""

from tasks.evaluators.number import Value
from tasks.records.problems import Answer

TWO_THIRDS = 2 / 3


CASES: list[tuple[str, Value, Answer, float]] = [
    # numbers: GSM8K, AIME
    ("number", 72, "He eats 70 + 2 = <<70+2=72>>72.\n#### 72", 1),
    ("number", " 1,234 ", "#### 1,234", 1),
    ("number", 72.00000000000001, 72, 1),
    ("number", 72.0000001, 72, 0),
    ("number", 1.6020000000000001e-19, "1.602e-19", 1),
    ("number", 0, 1.602e-19, 0),
    ("number", "1.6e-19", 1.7e-19, 0),
    ("number", 1234568, 1234567, 0),
    ("number", "72 apples", 72, 0),
    ("number", 0.1 + 0.2, 0.3, 1),
    ("number", "025", "25", 1),  # AIME's leading zero
    ("number", 1e-9, 0, 0),
    ("number", 10**400, 5, 0),
    ("number", "1,23", 123, 0),
    ("number", "nan", 0, 0),
    # texts: SQuAD's exact match
    ("text", "The Eiffel Tower.", "Eiffel Tower", 1),
    ("text", "eiffel   tower", "Eiffel Tower", 1),
    ("text", "U.S.", "US", 1),
    ("text", "Eiffel", "Eiffel Tower", 0),
    ("text", "in Paris", ["Paris", "in Paris"], 1),
    ("text", 42, "42", 1),
    ("text", 42.0, 42, 1),
    ("text", 4.5, "4.5", 1),
    ("text", "anthem", "them", 0),  # articles are words, not beginnings of words
    ("text", "", "a b", 0),
    # choices: MMLU, GPQA, ARC
    ("choice", "B", "B", 1),
    ("choice", "(b).", "B", 1),
    ("choice", "**C**", "(C)", 1),
    ("choice", "The answer is (D).", "D", 1),
    ("choice", "The answer is not A. The answer is B", "B", 1),
    ("choice", "the answer is a dog", "A", 0),  # an article is no letter
    ("choice", "I think so", "I", 0),  # a pronoun is no letter
    ("choice", "B) Paris", "B", 1),
    ("choice", r"so \boxed{\text{C}}", "C", 1),
    ("choice", "A or B", "A", 0),  # two letters are no answer
    ("choice", "The answer is A or B.", "A", 0),
    ("choice", "The answer is (A) or (B).", "A", 0),
    ("choice", "The answer is A, because B is false.", "A", 1),
    ("choice", "AB", "A", 0),
    ("choice", "answer: b", "B", 1),
    ("choice", 1, "B", 0),
    ("choice", "Answer: A, B", "A", 0),
    ("choice", "Answer: (a), (b)", "A", 0),
    ("choice", "Answer: A B", "A", 0),
    ("choice", "Answer: A, C and D.", "A", 0),
    ("choice", "Answer: A & D", "A", 0),
    ("choice", "(A) or (B)", "A", 0),
    ("choice", "A) B", "A", 1),
    ("choice", r"\boxed{A, B}", "A", 0),
    ("choice", r"\boxed{A \text{ and } B}", "A", 0),
    ("choice", r"$\boxed{A}$ or $\boxed{B}$", "B", 0),
    ("choice", r"Answer: A. So \boxed{A, B}", "A", 0),
    ("choice", "Answer: A, B is wrong.", "A", 1),
    ("choice", "Answer: A, I think", "A", 1),
    ("choice", "Answer: C, E. coli divides", "C", 1),
    ("choice", "The answer is D) A and B", "D", 1),
    ("choice", "Answer: A, B. No: answer: C", "C", 1),
    ("choice", "\\boxed{\\Delta E}\nAnswer: B", "B", 1),
    ("choice", r"\boxed{A}. Wait. Answer: B", "B", 1),
    ("choice", r"Answer: A. Wait: \boxed{B}", "B", 1),
    ("choice", r"Answer: B, as \boxed{42} shows", "B", 1),
    ("choice", r"\boxed{\Delta E}", "E", 0),
    ("choice", "The answer is A. Option B is wrong.", "A", 1),
    ("choice", r"\boxed{A}, as option B is wrong.", "A", 1),
    ("choice", "Not option A but option B", "B", 1),
    ("choice", r"\boxed{\boxed{C}}", "C", 1),
    # expressions of MATH
    ("expression", "1/2", r"\frac{1}{2}", 1),
    ("expression", 0.5, r"\boxed{\frac12}", 1),
    ("expression", r"So \boxed{1} and then \boxed{\dfrac{3}{4}}", "0.75", 1),  # the last box
    ("expression", "x^2 + 2x + 1", "(x+1)^2", 1),
    ("expression", r"\left( 3, \frac{\pi}{2} \right)", r"(3,\frac{\pi}{2})", 1),
    ("expression", "11\\sqrt2", r"11\sqrt{2}", 1),
    ("expression", r"\frac{\sqrt2}{2}", r"\frac{1}{\sqrt{2}}", 1),
    ("expression", "90^\\circ", "90", 1),
    ("expression", "Evelyn", r"\text{Evelyn}", 1),
    ("expression", "(1,2)", "[1,2]", 0),  # an open interval is no closed one
    ("expression", "3.14", r"\pi", 0),
    ("expression", "0.333", r"\frac{1}{3}", 0),
    ("expression", "yes", "no", 0),
    ("expression", "1 or 2", "2", 0),  # two values are no answer
    ("expression", r"\{1,2,3\}", "2", 0),
    ("expression", r"\boxed{2} or \boxed{3}", "2", 0),
    ("expression", "2^{100}", "1267650600228229401496703205376", 1),
    # F1: SQuAD, HotpotQA
    ("f1", "Tower Eiffel", "the Eiffel Tower", 1),
    ("f1", "Eiffel Tower in Paris", "Eiffel Tower", TWO_THIRDS),
    ("f1", "cat cat cat", "cat", 0.5),  # bags: saying a word again does not pay
    ("f1", "yes", "Yes.", 1),
    ("f1", "yes it is", "yes", 0),  # HotpotQA's rule
    ("f1", "no", "no man's land", 0),
    ("f1", "London", ["Paris", "London, England"], TWO_THIRDS),
    # DROP: numbers, dates, spans
    ("drop", "12", {"number": "12.0", "date": {}, "spans": []}, 1),
    ("drop", 12, {"number": "12", "date": {"day": "", "month": "", "year": ""}, "spans": []}, 1),
    ("drop", "twelve", {"number": "12"}, 0),
    ("drop", "3 March 1999", {"number": "", "date": {"day": "3", "month": "March", "year": "1999"}, "spans": []}, 1),
    ("drop", "March 1999", {"number": "", "date": {"day": "", "month": "March", "year": "1999"}, "spans": []}, 1),
    ("drop", "March 1998", {"number": "", "date": {"day": "", "month": "March", "year": "1999"}, "spans": []}, 0),
    ("drop", "Smith\nJones", {"number": "", "date": {}, "spans": ["Jones", "Smith"]}, 1),
    ("drop", "Smith", {"number": "", "date": {}, "spans": ["Jones", "Smith"]}, 0.5),
    ("drop", "47-yard", ["47 yard"], 1),  # words are split at hyphens
    ("drop", "46 yards", ["47 yards"], 0),  # another number is no partial credit
    # unit tests: verdicts that the sandbox gave
]
