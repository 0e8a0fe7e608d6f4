"""Faults that strangers' inputs caused: the corpora of this folder, each by the product's own functions.

    python -m benchmarks.faults                    # all of them, some ten minutes
    python -m benchmarks.faults expressions bf16   # some of them

`hangs` and `faults_in_graft` are of hostile params, records, reward functions, other people's runs and models. The
seconds of sandboxed programs are those of `python -m benchmarks.sandbox`. The last line is one JSON object.
"""

import argparse
import json
import time
from importlib import import_module

PARTS = (
    "expressions",
    "completions",
    "programs",
    "surroundings",
    "prompts",
    "models",
    "records",
    "late",
    "policies",
    "stages",
    "access",
    "bf16",
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    # argparse holds the empty list itself to the choices
    parser.add_argument("parts", nargs="*", choices=[*PARTS, []], metavar="PART", help=f"of {PARTS}; none: all")
    figures: dict[str, float] = {}
    for part in parser.parse_args().parts or PARTS:
        begun = time.monotonic()
        measured = import_module(f"benchmarks.faults.{part}").measure()
        print(f"{part}  {time.monotonic() - begun:.0f} s")
        for name, value in measured.items():
            print(f"  {name:32} {value:g}")
        figures |= measured
    for name, of_models in (("hangs", "model_hangs"), ("faults_in_graft", "model_faults")):
        if {name, of_models} & figures.keys():
            figures[name] = figures.get(name, 0) + figures.pop(of_models, 0)
    print(json.dumps(figures))


if __name__ == "__main__":
    main()
