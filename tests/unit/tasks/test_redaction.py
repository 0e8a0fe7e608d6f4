"""Law: what is secret does not leave in any text, and what is not stays as it was."""

import io
import logging
import subprocess
import sys
import time
import traceback
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tasks.core.metrics_files import flatten
from tasks.errors import GraftError
from tasks.params.file import load_params, override
from tasks.redaction import known_secrets, redact_logs, redacted, without_secrets

SECRET = "g3heim-k4Zq"
PARAMS = Path(__file__).parents[3] / "params.yaml"


@pytest.mark.parametrize(
    "text",
    [
        f"http://user:{SECRET}@host:5000/api",
        f"https://{SECRET}@host",
        f"postgresql+psycopg2://u:{SECRET}/x@y@host/db: connection refused",
        f"cannot open 'mysql://u:{SECRET}@h/d'",
        f"GET https://host/v1?api_key={SECRET}&limit=1 failed",
        f"host=h user=u password={SECRET} dbname=d",
        f"{{'Authorization': 'Bearer {SECRET}'}}",
        f"authorization: Basic {SECRET}",
        f"X-Api-Key: {SECRET}",
        f"HF_TOKEN={SECRET}",
        f"AWS_SECRET_ACCESS_KEY='{SECRET}'",
    ],
)
def test_a_secret_is_taken_out_of_a_text(text: str) -> None:
    assert SECRET not in redacted(text)
    assert "***" in redacted(text)
    assert redacted(redacted(text)) == redacted(text)


@pytest.mark.parametrize(
    "key", ["sk-proj-a1B2c3D4e5F6g7H8", "hf_a1B2c3D4e5F6g7H8i9", "pnu_a1B2c3D4e5F6g7H8i9", "ghp_" + "a1" * 12]
)
def test_keys_of_well_known_shapes_are_seen(key: str) -> None:
    assert redacted(f"Incorrect API key provided: {key}.") == "Incorrect API key provided: ***."


@pytest.mark.parametrize(
    "text",
    [
        "http://127.0.0.1:5000/runs/a@b",
        "http://host:8000/v1: no reply; mail to a@b.org",
        "sqlite:///mlflow.db",
        "params.yaml:63: operators.max_tokens: Input should be greater than 0, not -1",
        "has no end-of-text token; set eos_token in it",
        "holds token 3, which is not in the policy's vocabulary of 300",
        "policy.base: 'Qwen/Qwen2.5-0.5B' is no causal language model (no file); give another",
        "params.yaml: no param 'grpo.key'; did you mean 'grpo.kl'?",
    ],
)
def test_what_is_no_secret_stays(text: str) -> None:
    assert redacted(text) == text


@given(st.text(st.characters(exclude_characters="@=:")))
def test_plain_text_stays(text: str) -> None:
    if not any(shape in text.lower() for shape in ("sk-", "hf_", "pnu_", "gh", "akia", "bearer")):
        assert redacted(text) == text


@pytest.mark.parametrize("name", ["OPENAI_API_KEY", "HF_TOKEN", "MLFLOW_TRACKING_PASSWORD", "MY_SECRET", "DB_PWD"])
def test_values_of_variables_that_are_secrets_are_known(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(name, f"{SECRET}/+ä")
    assert redacted(f"the server says: {SECRET}/+ä is wrong, in /x?k={SECRET}%2F%2B%C3%A4") == (
        "the server says: *** is wrong, in /x?k=***"
    )


def test_the_password_of_an_address_in_a_variable_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PREFECT_API_DATABASE_CONNECTION_URL", f"postgresql+asyncpg://prefect:{SECRET}@db/prefect")
    assert redacted(f'password authentication with "{SECRET}" failed') == 'password authentication with "***" failed'


@pytest.mark.parametrize(
    "sign", ["x", "a_", "a-", "://", "a://", "a://b:", "a@", "bearer ", "password", "sk-", "A_", " =", "'"]
)
def test_a_long_text_takes_no_longer_than_it_is(sign: str) -> None:
    """Of patterns that try again from each sign on, a million signs would take hours."""
    started = time.process_time()
    redacted(sign * (300_000 // len(sign)))
    assert time.process_time() - started < 20


def test_other_variables_are_none() -> None:
    others = {
        "PWD": "/home/somebody",
        "TOKENIZERS_PARALLELISM": "falsefalse",
        "PATH": "/usr/bin:/bin",
        "A_KEY": "short",
    }
    assert known_secrets(others | {"SSL_KEY_FILE": "/etc/ssl/key.pem", "KEYBOARD": "qwertyuiop"}) == ()


def test_an_error_of_ours_never_holds_one() -> None:
    assert str(GraftError(f"http://u:{SECRET}@h: no answer; mend it")) == "http://***@h: no answer; mend it"


def test_what_leaves_a_block_holds_none() -> None:
    with pytest.raises(RuntimeError, match=r"^OSError: http://\*\*\*@h") as caught, without_secrets():
        raise OSError(f"http://u:{SECRET}@h")
    assert SECRET not in "".join(traceback.format_exception(caught.value))
    assert "test_redaction.py" in caught.value.__notes__[0]
    with pytest.raises(KeyError, match="plain"), without_secrets():
        raise KeyError("plain")


def test_no_log_holds_one(tmp_path: Path) -> None:
    """In a process of its own: a factory of log records stays."""
    code = f"""
import logging, sys
from tasks.redaction import redact_logs
redact_logs(); redact_logs()
logging.basicConfig(filename={str(tmp_path / "log")!r}, level="DEBUG")
log = logging.getLogger("some.library")
log.info("POST %s %d", "https://u:{SECRET}@host/v1", 200)
log.info("plain %s", "text")
log.info("wrong %d", "arguments")
try:
    try:
        raise OSError("http://u:{SECRET}@host")
    except OSError as error:
        raise ValueError("outer") from error
except ValueError:
    log.exception("it failed")
"""
    done = subprocess.run([sys.executable, "-c", code], cwd=PARAMS.parent, capture_output=True, text=True, check=True)
    told = (tmp_path / "log").read_text()
    assert SECRET not in told + done.stdout
    assert "POST https://***@host/v1 200" in told
    assert "plain text" in told
    assert "OSError: http://***@host" in told
    assert "ValueError: outer" in told
    assert "wrong %d" in done.stderr  # logging's own complaint


def test_records_without_a_secret_are_left_alone() -> None:
    before = logging.getLogRecordFactory()
    try:
        redact_logs()
        stream = io.StringIO()
        logger = logging.Logger("alone")
        logger.addHandler(logging.StreamHandler(stream))
        logger.warning("%s of %s", 1, 2)
        record = logger.makeRecord("alone", 20, "f", 1, "%s of %s", (1, 2), None)
        assert record.args == (1, 2)
        assert stream.getvalue() == "1 of 2\n"
    finally:
        logging.setLogRecordFactory(before)


def test_params_are_told_without_it(tmp_path: Path) -> None:
    file = tmp_path / "params.yaml"
    file.write_text(PARAMS.read_text())
    override(file, [f"tracking.uri=postgresql://u:{SECRET}@h/mlflow"])
    params = load_params(file)
    assert params.tracking.uri == f"postgresql://u:{SECRET}@h/mlflow"
    assert SECRET not in f"{params!r} {params} {params.model_dump()} {params.model_dump_json()}"
    assert flatten({"a": {"b": f"http://u:{SECRET}@h"}, "c": [f"http://u:{SECRET}@h"]}) == {
        "a.b": "http://***@h",
        "c": '["http://***@h"]',
    }


@pytest.mark.parametrize("url", [f"http://u:{SECRET}@h/v1", f"https://{SECRET}@h/v1", f"http://h/v1?api_key={SECRET}"])
def test_an_address_that_dvc_lock_would_keep_may_hold_none(url: str, tmp_path: Path) -> None:
    file = tmp_path / "params.yaml"
    file.write_text(PARAMS.read_text())
    with pytest.raises(GraftError, match=r"operators\.base_url: contains a password or a key") as caught:
        override(file, [f"operators.base_url={url}"])
    assert SECRET not in str(caught.value)
    assert file.read_text() == PARAMS.read_text()
