"""No answer of a program depends on the time, the machine, its user or a folder."""

import pytest

from tests.support.machine_routes import CLOCKS, MACHINE, answers_elsewhere, answers_here, shown

ROUTES = {f"clock: {name}": code for name, code in CLOCKS.items()} | {
    f"machine: {name}": code for name, code in MACHINE.items()
}

Answers = dict[str, dict[str, object]]


@pytest.fixture(scope="module")
def answers(tmp_path_factory: pytest.TempPathFactory) -> tuple[Answers, Answers]:
    """Those of all routes, here and elsewhere."""
    return answers_here(ROUTES), answers_elsewhere(ROUTES, tmp_path_factory.mktemp("elsewhere"))


@pytest.mark.parametrize("name", ROUTES)
def test_the_answer_is_the_same_elsewhere_and_names_nothing_of_this_machine(
    name: str, answers: tuple[Answers, Answers]
) -> None:
    here, elsewhere = answers[0][name], answers[1][name]
    assert here["status"] in ("ok", "error", "killed")
    assert shown(here, elsewhere) == set(), (here, elsewhere)
