"""The HTTP channel: schemathesis against the description that we serve, and the example client as a person would use it."""

import contextlib
import json
import os
import pathlib
import subprocess
import sys

import jsonschema
import pytest

import checks
import counterparts as c

SECRET = "interop-http-secret-not-for-logs"
CLIENT = pathlib.Path(__file__).parents[2] / "examples/http_client.py"
FUZZ_SECONDS_MAX = 180


@contextlib.contextmanager
def serve(folder, fixtures):
    """`journeyman serve` with one client and no WhatsApp."""
    projects = folder / "projects"
    projects.mkdir(parents=True)
    c.project(projects / "shop")
    with c.aimock(folder / "aimock", fixtures) as mock:
        port = c.free_port()
        env = c.environment(
            folder / "home",
            mock.base_url,
            BIND_ADDR=f"127.0.0.1:{port}",
            PROJECTS_ROOT=str(projects),
            HTTP_CLIENTS=f"ci:{SECRET}",
        )
        log = folder / "serve.log"
        with c.program([str(c.BIN), "serve"], env, folder / "home", log) as process:
            c.wait_for("serve", lambda: process.poll() is not None or c.listens(port))
            assert process.poll() is None, log.read_text()
            yield f"http://127.0.0.1:{port}", mock, env
        assert SECRET not in log.read_text()


def say(url: str, *args: str, stdin: str = "") -> subprocess.CompletedProcess:
    env = {"PATH": os.environ["PATH"], "JOURNEYMAN_URL": url, "HTTP_SECRET": SECRET}
    argv = [sys.executable, str(CLIENT), *args]
    return subprocess.run(argv, env=env, input=stdin, capture_output=True, text=True, timeout=120)


WRITES = {"toolCalls": [{"id": "call_q", "name": "run_command", "arguments": {"command": "echo hi > out.txt"}}]}
QUESTION = [
    {"match": {"turnIndex": 0}, "response": WRITES},
    {"match": {"turnIndex": 1}, "response": {"content": "It is written."}},
]


@pytest.mark.parametrize("answer", ["flag", "typed"])
def test_the_example_client_says_something_approves_and_shows_the_answer(tmp_path, answer):
    with serve(tmp_path, QUESTION) as (url, mock, env):
        done = say(url, "write hi", "--yes") if answer == "flag" else say(url, "write hi", stdin="y\n")
        assert done.returncode == 0, done.stdout + done.stderr
        assert "echo hi > out.txt" in done.stdout and "It is written." in done.stdout, done.stdout
        checks.all_of(mock.bodies())
        (journal,) = (pathlib.Path(env["DATA_DIR"]) / "agent_sessions").glob("*.jsonl")
        events = [json.loads(line) for line in journal.read_text().splitlines()]
        assert events[0]["chat"] == "http:ci"
        assert [event["by"]["who"] for event in events if event["event"] == "approval_given"] == ["http:ci"]
        # A command is answered by its reply, in a chat of its own as well.
        cost = say(url, "/cost", "--chat", "other")
        assert cost.returncode == 0 and "Session" in cost.stdout, cost.stdout + cost.stderr


def test_the_example_client_denies_with_a_reason(tmp_path):
    with serve(tmp_path, QUESTION) as (url, mock, _):
        done = say(url, "write hi", stdin="use the other folder\n")
        assert done.returncode == 0, done.stdout + done.stderr
        (result,) = [message["content"] for message in mock.bodies()[-1]["messages"] if message["role"] == "tool"]
        assert "use the other folder" in result


def test_the_example_client_says_what_is_wrong(tmp_path):
    with serve(tmp_path, QUESTION) as (url, _, _):
        env = {"PATH": os.environ["PATH"], "JOURNEYMAN_URL": url, "HTTP_SECRET": "a-wrong-one"}
        wrong = subprocess.run([sys.executable, str(CLIENT), "x"], env=env, capture_output=True, text=True, timeout=60)
        assert wrong.returncode == 1 and "HTTP_CLIENTS" in wrong.stderr, wrong.stderr


def test_schemathesis_finds_nothing_that_the_description_does_not_say(tmp_path):
    """Generated requests, right and wrong ones: never 5xx, every answer as described, no way in without the secret."""
    with serve(tmp_path, [{"match": {}, "response": {"content": "Hello."}}]) as (url, _, env):
        assert say(url, "hello").returncode == 0
        (journal,) = (pathlib.Path(env["DATA_DIR"]) / "agent_sessions").glob("*.jsonl")
        # A stream that follows has no end, and a session that is not there has no stream.
        (tmp_path / "schemathesis.toml").write_text(
            "[[operations]]\n"
            'include-path = "/v1/sessions/{id}/events"\n'
            f'parameters = {{ "query.follow" = "false", "path.id" = "{journal.stem}" }}\n'
        )
        argv = [
            str(c.INTEROP / "venv/bin/schemathesis"),
            "run",
            f"{url}/openapi.json",
            "--header",
            f"Authorization: Bearer {SECRET}",
            "--phases",
            "examples,coverage,fuzzing",
            "--max-examples",
            "25",
            "--seed",
            "6",
            "--request-timeout",
            "20",
            "--no-color",
        ]
        home = {"PATH": os.environ["PATH"], "HOME": str(tmp_path)}
        ran = subprocess.run(argv, cwd=tmp_path, env=home, capture_output=True, text=True, timeout=FUZZ_SECONDS_MAX)
        assert ran.returncode == 0, ran.stdout + ran.stderr
    for path in (pathlib.Path(env["DATA_DIR"]) / "agent_sessions").glob("*.jsonl"):
        for line in path.read_text().splitlines():
            jsonschema.validate(json.loads(line), {"required": ["seq", "at", "event", "prev", "hash"]})
