"""Secrets are removed from every text that leaves; any other text is unchanged."""

import base64
import html
import json
import os
import re
import shutil
import subprocess
import sys
import time
import traceback
from pathlib import Path
from urllib.parse import quote, quote_plus
from xml.sax import saxutils

import markupsafe
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tasks.core.metrics_files import flatten
from tasks.errors import GraftError
from tasks.params.file import load_params
from tasks.redaction import known_secrets, redacted, without_secrets
from tests.support.params_file import override

SECRET = "g3heim-k4Zq"
PARAMS = Path(__file__).parents[3] / "params.yaml"


@pytest.mark.parametrize("text", [
    f"http://user:{SECRET}@host:5000/api", f"https://{SECRET}@host",
    f"postgresql+psycopg2://u:{SECRET}/x@y@host/db: connection refused", f"cannot open 'mysql://u:{SECRET}@h/d'",
    f"GET https://host/v1?api_key={SECRET}&limit=1 failed", f"host=h user=u password={SECRET} dbname=d",
    f"{{'Authorization': 'Bearer {SECRET}'}}", f"authorization: Basic {SECRET}", f"X-Api-Key: {SECRET}",
    f"HF_TOKEN={SECRET}", f"AWS_SECRET_ACCESS_KEY='{SECRET}'", f"PGPASSWORD={SECRET}", f"X-Auth-Token: {SECRET}",
    f"PREFECT_API_AUTH_STRING=u:{SECRET}", f'{{"password": "{SECRET}", "user": "u"}}', f"{{'api_key': '{SECRET}'}}",
])  # fmt: skip
def test_a_secret_is_removed_from_a_text(text: str) -> None:
    assert SECRET not in redacted(text)
    assert "***" in redacted(text)
    assert redacted(redacted(text)) == redacted(text)


@pytest.mark.parametrize(
    "key",
    [
        "sk-proj-a1B2c3D4e5F6g7H8",
        "hf_a1B2c3D4e5F6g7H8i9",
        "pnu_a1B2c3D4e5F6g7H8i9",
        "ghp_" + "a1" * 12,
        "ASIA" + "A1" * 8,
        "glpat-" + "a1" * 10,
    ],
)
def test_keys_of_well_known_shapes_are_seen(key: str) -> None:
    assert redacted(f"Incorrect API key provided: {key}.") == "Incorrect API key provided: ***."


@pytest.mark.parametrize("text", [
    "http://127.0.0.1:5000/runs/a@b", "http://host:8000/v1: no reply; mail to a@b.org", "sqlite:///mlflow.db",
    "params.yaml:63: operators.max_tokens: Input should be greater than 0, not -1",
    "has no end-of-text token; set eos_token in it",
    "holds token 3, which is not in the policy's vocabulary of 300",
    "policy.base: 'Qwen/Qwen2.5-0.5B' is no causal language model (no file); give another",
    "params.yaml: no param 'update.key'; did you mean 'update.kl'?",
])  # fmt: skip
def test_text_without_a_secret_is_unchanged(text: str) -> None:
    assert redacted(text) == text


@given(st.text(st.characters(exclude_characters="@=:")))
def test_plain_text_is_unchanged(text: str) -> None:
    if not any(shape in text.lower() for shape in ("sk-", "hf_", "pnu_", "gh", "akia", "bearer")):
        assert redacted(text) == text


@pytest.mark.parametrize("name", [
    "PGPASSWORD", "PREFECT_API_AUTH_STRING", "PREFECT_SERVER_API_AUTH_STRING", "PREFECT_API_KEY",
    "MLFLOW_TRACKING_TOKEN", "MLFLOW_TRACKING_PASSWORD", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN",
    "AZURE_STORAGE_CONNECTION_STRING", "AZURE_STORAGE_SAS_TOKEN", "REDISCLI_AUTH", "MYSQL_PWD", "SMTP_PASS",
    "GPG_PASSPHRASE", "OPENAI_API_KEYS", "APIKEY", "HUGGING_FACE_HUB_TOKEN", "DVC_STUDIO_TOKEN", "SLACK_WEBHOOK_URL",
    "SENTRY_DSN", "APPRISE_URLS", "GH_PAT", "DBPASSWORD", "VLLM_API_KEY", "WANDB_API_KEY", "GOOGLE_CREDENTIALS",
    "token", "SESSION_COOKIE", "API_KEY2", "KAGGLE_KEY",
])  # fmt: skip
@pytest.mark.parametrize("value", ["hunter2", "g3heim-k4Zq", "admin:g3heim-k4Zq", 'a"b\\c/ä\n9', "10293847"])
def test_no_form_of_a_secret_variable_is_left(name: str, value: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Alone, in a sentence, encoded for an address, a header or JSON; of a pair the password alone, too."""
    monkeypatch.setenv(name, value)
    basic = base64.b64encode(value.encode()).decode()
    for form in (value, value.rpartition(":")[2], quote(value), quote(value, safe=""), basic, json.dumps(value)):
        bare = form.strip('"')
        assert bare not in redacted(f"it says <{form}> to {form}")
        assert "it says" in redacted(f"it says <{form}> to {form}")


@pytest.mark.parametrize("value", ["g3heim-k4Zq", "a&b<c>d'e\"f", "s3cr3t", "hunter2hunter2", "pässwört&1"])
@pytest.mark.parametrize("user", ["", "u:", "me:", "admin:", "x" * 40 + ":"])
def test_no_encoded_form_within_more_is_left(value: str, user: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """`user:VALUE` in base64, as in a header of HTTP, whatever the user is, and what may stand behind it."""
    monkeypatch.setenv("OPENAI_API_KEY", value)
    for behind in ("", "@host", ":more", "\n"):
        content = f"{user}{value}{behind}".encode()
        for encode in (base64.b64encode, base64.urlsafe_b64encode):
            encoded = encode(content).decode()
            for form in (encoded, encoded.rstrip("=")):
                assert redacted(f"it says <{form}>, {form}") == "it says <***>, ***"
                assert redacted(f"sent as Basic {form} there") == "sent as Basic *** there"


@pytest.mark.parametrize(
    "value", ["a&b<c>d'e\"f", "k4Zq&g3heim", "it's-a-k3y", '"quoted"1', "<tag>4711", "a\\\\b&c", "two words/x"]
)
def test_no_form_of_a_page_is_left(value: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", value)
    forms = {html.escape(value), html.escape(value, quote=False), str(markupsafe.escape(value)), saxutils.escape(value)}
    forms |= {quote_plus(value), re.sub("%..", lambda x: x[0].lower(), quote(value)), repr(value)[1:-1]}
    forms |= {saxutils.escape(value, {"'": "&apos;", '"': "&quot;"}), html.escape(json.dumps(value)[1:-1])}
    for form in forms:
        assert redacted(f"<b>{form}</b>") == "<b>***</b>"


def test_a_secret_variable_may_hold_any_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("API_KEY", os.fsdecode(b"caf\xe9-4711"))
    assert redacted("rejected: caf\udce9-4711") == "rejected: ***"
    assert str(GraftError("no answer")) == "no answer"


@pytest.mark.parametrize(("name", "value"), [
    ("REDIS", f"rediss://:{SECRET}@host:6379/0"), ("ADDRESS", f"https://h/x?api_key={SECRET}&y=1"),
    ("PGOPTIONS", f"host=db password={SECRET} user=u"), ("STORE", f"AccountName=a;AccountKey={SECRET};Suffix=b"),
    ("PRIVATE_KEY", f"-----BEGIN KEY-----\n{SECRET}\n-----END KEY-----"), ("REMOTE", f"https://x-{SECRET}-yz@host/a"),
])  # fmt: skip
def test_a_secret_within_a_variable_is_known(name: str, value: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(name, value)
    told = f"x-{SECRET}-yz" if name == "REMOTE" else SECRET
    assert redacted(f"rejected: {told}") == "rejected: ***"


def test_passwords_in_an_address_are_known_and_ordinary_variables_are_not(monkeypatch: pytest.MonkeyPatch) -> None:
    plain = {"PWD": "/home/somebody", "TOKENIZERS_PARALLELISM": "falsefalse", "PATH": "/usr/bin:/bin", "A_KEY": "short"}
    assert known_secrets(plain | {"SSL_KEY_FILE": "/etc/ssl/key.pem", "KEYBOARD": "qwertyuiop"}) == ()
    monkeypatch.setenv("PREFECT_API_DATABASE_CONNECTION_URL", f"postgresql+asyncpg://prefect:{SECRET}@db/prefect")
    assert redacted(f'password authentication with "{SECRET}" failed') == 'password authentication with "***" failed'


@pytest.mark.parametrize(("address", "tokens"), [
    ("tgram://123456789:AAbb-CCdd_12/98765432", ["123456789:AAbb-CCdd_12", "98765432"]),
    (f"mailto://graft:{SECRET}@mail.example.org?to=x@example.org", [SECRET]), (f"ntfy://ntfy.sh/{SECRET}", [SECRET]),
    ("slack://T1JJ3T3L2/A1BRTD4JD/TIiajkdnlazk#training", ["T1JJ3T3L2", "A1BRTD4JD", "TIiajkdnlazk"]),
    (SECRET, [SECRET]),
    (f"json://127.0.0.1:8000/a?+X-Key={quote(SECRET + '/+', safe='')}", [SECRET + "/+", quote(SECRET + "/+", safe="")]),
])  # fmt: skip
def test_no_token_of_an_address_of_alerts_is_left(
    address: str, tokens: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Hosts and channels, which say where the trouble is, are left."""
    monkeypatch.setenv("GRAFT_ALERTS", f"json://127.0.0.1:8000/ {address}")
    for token in tokens:
        left = redacted(f"POST to /{token}/: no answer")
        assert token not in left
        assert left.endswith("***/: no answer")
    assert not any(token in redacted(f"bad address: {address}") for token in tokens)
    plain = "127.0.0.1:8000, ntfy.sh, mail.example.org: no answer; training"
    assert redacted(plain) == plain


@pytest.mark.parametrize(
    "sign", ["x", "a_", "a-", "://", "a://", "a://b:", "a@", "bearer ", "password", "sk-", "A_", " =", "'"]
)
def test_redaction_takes_linear_time(sign: str) -> None:
    started = time.process_time()
    redacted(sign * (100_000 // len(sign)))  # a backtracking pattern would take hours
    assert time.process_time() - started < 20


def test_errors_contain_no_secret() -> None:
    assert str(GraftError(f"http://u:{SECRET}@h: no answer; fix it")) == "http://***@h: no answer; fix it"
    with pytest.raises(RuntimeError, match=r"^OSError: http://\*\*\*@h") as caught, without_secrets():
        raise OSError(f"http://u:{SECRET}@h")
    assert SECRET not in "".join(traceback.format_exception(caught.value))
    assert "test_redaction.py" in caught.value.__notes__[0]
    with pytest.raises(KeyError, match="plain"), without_secrets():
        raise KeyError("plain")


def test_logs_contain_no_secret(tmp_path: Path) -> None:
    """In a separate process, since the factory of log records stays."""
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
    log = (tmp_path / "log").read_text()
    assert SECRET not in log + done.stdout
    for line in ("POST https://***@host/v1 200", "plain text", "OSError: http://***@host", "ValueError: outer"):
        assert line in log
    assert "wrong %d" in done.stderr  # logging's own complaint


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return Path(shutil.copy(PARAMS, tmp_path))


def test_params_are_shown_without_secrets(file: Path) -> None:
    override(file, [f"machine.tracking.uri=postgresql://u:{SECRET}@h/mlflow"])
    params = load_params(file)
    assert params.machine.tracking.uri == f"postgresql://u:{SECRET}@h/mlflow"
    assert SECRET not in f"{params!r} {params} {params.model_dump()} {params.model_dump_json()}"
    flat = flatten({"a": {"b": f"http://u:{SECRET}@h"}, "c": [f"http://u:{SECRET}@h"]})
    assert flat == {"a.b": "http://***@h", "c": '["http://***@h"]'}


@pytest.mark.parametrize("url", [f"http://u:{SECRET}@h/v1", f"https://{SECRET}@h/v1", f"http://h/v1?api_key={SECRET}"])
def test_an_address_that_dvc_lock_would_keep_may_contain_no_secret(url: str, file: Path) -> None:
    with pytest.raises(GraftError, match=r"operators\.base_url: contains a password or a key") as caught:
        override(file, [f"operators.base_url={url}"])
    assert SECRET not in str(caught.value)
    assert file.read_text() == PARAMS.read_text()
