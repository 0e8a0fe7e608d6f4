"""Each kind of alert is raised where a record says so, and nowhere else."""

from datetime import UTC, datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from flows.alerts.alert import Memory, missed_alerts, result_alerts
from flows.history.run_history import Entry
from tasks.records.promotion import Promotion
from tasks.records.selection import RewardAudit
from tasks.statistics.alarms import Alarm

ENTRY = Entry(when="", done=True, line="", flow_run="", mlflow_run=None, number=12, name="12 · seed 7", scheduled=True)
AUDIT = RewardAudit(answer="err", wrong=0.1, error=0.01, contradicted=0.2, expected=0.1, problems=9, needed=0)


def promotion(low: float, high: float, champion: str | None, version: str = "new", **more: str) -> Promotion:
    """The decision that this interval leads to."""
    return Promotion(
        promoted=low > 0,
        reason="as it is",
        pass_at_1=0.5,
        champion_pass_at_1=0.5,
        difference=(low + high) / 2,
        low=low,
        high=high,
        worse=high < 0 and "measure" not in more,
        version=version,
        champion_version=champion,
        **more,
    )


levels = st.sampled_from([-0.2, -0.1, 0.0, 0.1, 0.2])


@given(st.lists(levels, min_size=2, max_size=2).map(sorted), st.sampled_from([None, "old"]))
def test_an_interval_above_0_promotes_and_one_below_is_worse(interval: list[float], champion: str | None) -> None:
    low, high = interval
    alerts, _ = result_alerts(ENTRY, promotion(low, high, champion), {}, {}, Memory(), None)
    kinds = ["policy.promoted"] * (low > 0) + ["policy.worse"] * (high < 0)
    assert [alert.kind for alert in alerts] == kinds
    assert all((alert.line, alert.run) == ("12 · seed 7: as it is", 12) for alert in alerts)


def test_a_measure_of_which_less_is_better_is_not_pass_at_1() -> None:
    alerts, _ = result_alerts(ENTRY, promotion(-0.2, -0.1, "old", measure="cost"), {}, {}, Memory(), None)
    assert alerts == []


def test_a_decision_that_a_later_run_repeats_is_known() -> None:
    decision = promotion(0.1, 0.2, "old")
    alerts, memory = result_alerts(ENTRY, decision, {}, {}, Memory(), None)
    assert [alert.kind for alert in alerts] == ["policy.promoted"]
    assert result_alerts(ENTRY, decision, {}, {}, memory, None)[0] == []


def test_a_policy_that_waits_for_approval_has_beaten_the_champion() -> None:
    waits = promotion(0.1, 0.2, "old").model_copy(update={"promoted": False, "approval": "waits"})
    alerts, memory = result_alerts(ENTRY, waits, {}, {}, Memory(champion="old", unbeaten=6), 7)
    assert ([alert.kind for alert in alerts], memory.champion, memory.unbeaten) == (["policy.waits"], "old", 0)


@given(st.lists(st.booleans(), max_size=12), st.integers(1, 4) | st.none())
def test_a_champion_is_unbeaten_after_each_n_runs_since_it_was_made(promoted: list[bool], limit: int | None) -> None:
    """`promoted`: of runs one after the other. Before the first champion there is none to beat."""
    memory, champion, since = Memory(), None, 0
    for number, is_better in enumerate(promoted):
        low = 0.1 if is_better else -0.1
        decision = promotion(low, 0.2, champion, version=f"v{number}")
        alerts, memory = result_alerts(ENTRY, decision, {}, {}, memory, limit)
        champion, since = (decision.version, 0) if is_better else (champion, since + 1)
        due = limit is not None and champion is not None and since > 0 and since % limit == 0
        assert ["champion.unbeaten" for alert in alerts if alert.kind == "champion.unbeaten"] == (
            ["champion.unbeaten"] if due else []
        )


def test_a_champion_that_a_person_made_is_counted_from_its_first_run() -> None:
    memory = Memory(champion="old", unbeaten=6)
    alerts, memory = result_alerts(ENTRY, promotion(-0.1, 0.1, "a person's"), {}, {}, memory, 7)
    assert (alerts, memory.champion, memory.unbeaten) == ([], "a person's", 1)


@given(st.dictionaries(st.integers(1, 5), st.sampled_from(["right", "err", "unclear"])))
def test_the_rounds_whose_rewards_err_are_one_alert(answers: dict[int, str]) -> None:
    audits = {round: AUDIT.model_copy(update={"answer": answer}) for round, answer in answers.items()}
    alerts, _ = result_alerts(ENTRY, promotion(-0.1, 0.1, None), audits, {}, Memory(), None)
    erring = [f"round {round}: rewards err" for round, answer in answers.items() if answer == "err"]
    assert [alert.kind for alert in alerts] == ["rewards.err"] * bool(erring)
    assert all(text in alerts[0].line for text in erring)


def test_the_remarks_of_an_alarm_are_one_alert() -> None:
    alarms: dict[Alarm, list[str]] = {"rewards.mislead": ["the reward rose", "dev fell"], "policy.collapses": []}
    alerts, _ = result_alerts(ENTRY, promotion(-0.1, 0.1, None), {}, alarms, Memory(), None)
    assert [(alert.kind, alert.line) for alert in alerts] == [
        ("rewards.mislead", "12 · seed 7: the reward rose; dev fell")
    ]


def test_a_test_set_that_shows_no_lead_is_told_once_and_again_when_its_size_changes() -> None:
    memory, told = Memory(), list[str]()
    nights = [(-0.1, 20, 0.3), (-0.1, 20, 0.31), (-0.1, 24, 0.26), (-0.1, 60, 0.2), (-0.1, 24, 0.26), (0.1, 20, 0.3)]
    for low, problems, detectable in nights:
        decision = promotion(low, 0.4, "old").model_copy(update={"problems": problems, "detectable": detectable})
        alerts, memory = result_alerts(ENTRY, decision, {}, {}, memory, None)
        told += [alert.line for alert in alerts if alert.kind == "test.small"]
    sizes = [line.split("show")[0].split()[-5] for line in told]
    assert sizes == ["20", "24", "24"], told  # neither of the large one, nor of a better policy
    assert all("problems.test" in line for line in told)


@given(st.integers(0, 40))
def test_all_times_that_passed_without_a_run_are_one_alert_and_the_last_may_still_have_one(nights: int) -> None:
    first = datetime(2026, 3, 1, 3, tzinfo=UTC)
    alerts = missed_alerts([first + timedelta(days=day) for day in range(nights)])
    assert [alert.kind for alert in alerts] == ["runs.missed"] * (nights > 1)
    if nights > 1:
        assert alerts[0].line.startswith(f"{nights - 1} scheduled run")
