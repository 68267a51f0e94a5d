"""A whole session against aimock: found, fixed, tested, committed, and all of it on disk."""

import json
import signal
import subprocess

import pytest

import checks
import counterparts as c

ANSWER = "The discount is **taken off** now, the test passes, and it is committed. ✅"


@pytest.fixture(scope="module")
def session(tmp_path_factory):
    home = tmp_path_factory.mktemp("session")
    workspace = c.project(home / "shop")
    with c.aimock(home / "aimock", c.session_fixtures(), key=c.KEY) as mock:
        env = c.environment(home / "home", mock.base_url)
        ran = c.run(env, workspace)
        yield ran, workspace, env, mock.entries(), mock.bodies()


def test_it_ends_well_and_says_so(session):
    ran, *_ = session
    assert ran.code == 0, ran.everything
    ended = ran.of("turn_ended")
    assert [event["reason"] for event in ended] == ["done"]
    done = "✏️ Files changed: 1 (+1 −1) · ✅ `python3 test_discount.py` passed\n📌 "
    assert ended[0]["text"].startswith(f"{ANSWER}\n\n{done}")


def journal(env: dict) -> list:
    (path,) = (c.pathlib.Path(env["DATA_DIR"]) / "agent_sessions").glob("*.jsonl")
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_stdout_is_the_journal_whole(session):
    ran, _, env, *_ = session
    assert ran.events == journal(env)
    assert ran.events[0]["event"] == "session_started" and ran.events[0]["session"]


def test_the_fix_is_committed(session):
    _, workspace, *_ = session
    assert "price - price" in c.git(workspace, "show", "HEAD:discount.py")
    assert c.git(workspace, "log", "-1", "--format=%s").strip() == "fix(discount): take it off the price"
    assert c.git(workspace, "rev-list", "--count", "HEAD").strip() == "2"
    assert c.git(workspace, "status", "--porcelain").strip() == ""


def test_both_parallel_calls_ran_and_the_command_passed(session):
    ran, *_ = session
    finished = {event["call"]: event["outcome"] for event in ran.of("tool_finished")}
    # The plan is kept by the session itself: a change of it is an event of its own.
    assert [event["call"] for event in ran.of("plan_changed")] == ["1.1"]
    assert sorted(finished) == ["1.2", "2.1", "3.1", "4.1", "5.1"]
    assert {outcome["status"] for outcome in finished.values()} == {"done"}, finished
    assert finished["4.1"]["exit_code"] == 0 and "Exit code: 0" in finished["4.1"]["output"]


def test_every_request_is_valid_to_others(session):
    *_, bodies = session
    assert len(bodies) == 6
    checks.all_of(bodies)
    assert all(body["stream"] is True and body["model"] == c.MODEL for body in bodies)


def test_calls_and_results_carry_the_models_own_ids(session):
    *_, bodies = session
    messages = bodies[-1]["messages"]
    asked = [call["id"] for message in messages for call in message.get("tool_calls") or []]
    answered = [message["tool_call_id"] for message in messages if message["role"] == "tool"]
    assert asked == answered == ["call_plan", "call_list", "call_read", "call_patch", "call_test", "call_commit"]


def test_the_published_description_accepts_every_request(session):
    *_, bodies = session
    checks.schemas()
    for body in bodies:
        checks.published(body)


def test_the_first_request_is_small_and_the_key_is_only_in_its_header(session):
    ran, _, env, entries, bodies = session
    # All tools are offered.
    assert len(json.dumps(bodies[0], ensure_ascii=False, separators=(",", ":")).encode()) < 8_000
    assert c.KEY not in json.dumps(bodies) + ran.everything
    for path in c.pathlib.Path(env["DATA_DIR"]).rglob("*"):
        if path.is_file():
            assert c.KEY.encode() not in path.read_bytes(), path


def test_the_journal_verifies_and_a_changed_byte_is_found(session):
    _, _, env, *_ = session
    home = c.pathlib.Path(env["HOME"])
    verified = c.journeyman(env, "audit", "verify", cwd=home)
    assert verified.returncode == 0, verified.stdout + verified.stderr
    journals = list((c.pathlib.Path(env["DATA_DIR"]) / "agent_sessions").glob("*.jsonl"))
    assert len(journals) == 1
    whole = journals[0].read_bytes()
    journals[0].write_bytes(whole.replace(b"price - price", b"price - prize", 1))
    try:
        assert journals[0].read_bytes() != whole
        assert c.journeyman(env, "audit", "verify", cwd=home).returncode != 0
    finally:
        journals[0].write_bytes(whole)


def test_without_json_the_answer_alone_is_on_stdout(tmp_path):
    with c.aimock(tmp_path / "aimock", [{"match": {}, "response": {"content": "Nothing to do."}}]) as mock:
        env = c.environment(tmp_path / "home", mock.base_url)
        done = c.journeyman(env, "run", "say so", "--workspace", str(c.project(tmp_path / "shop")), "--yes", cwd=tmp_path)
    assert (done.returncode, done.stdout.strip()) == (0, "Nothing to do."), done.stderr


ASKING = [
    {
        "match": {"turnIndex": 0},
        "response": {"toolCalls": [{"id": "call_q", "name": "run_command", "arguments": {"command": "echo hi > out.txt"}}]},
    },
    {"match": {"turnIndex": 1}, "response": {"content": "Done."}},
]


def test_without_yes_and_without_a_terminal_it_parks_and_a_resume_finishes_it(tmp_path):
    with c.aimock(tmp_path / "aimock", ASKING) as mock:
        env = c.environment(tmp_path / "home", mock.base_url)
        workspace = c.project(tmp_path / "shop")
        parked = c.journeyman(env, "run", "write hi", "--workspace", str(workspace), "--json", cwd=tmp_path)
        events = c.Ran(parked)
        assert parked.returncode == 3, events.everything
        assert not (workspace / "out.txt").exists() and not events.of("tool_started")
        (asked,) = events.of("approval_asked")
        assert events.events == journal(env)
        session_id = events.events[0]["session"]
        # Whoever reads the screen knows what was asked, the code, and how to answer.
        assert "echo hi > out.txt" in parked.stderr and asked["approval"] in parked.stderr
        assert f"journeyman resume {session_id}" in parked.stderr

        still = c.journeyman(env, "resume", session_id, cwd=tmp_path)
        assert still.returncode == 3 and asked["approval"] in still.stderr, still.stderr
        assert len(mock.bodies()) == 1 and not (workspace / "out.txt").exists()

        resumed = c.journeyman(env, "resume", session_id, "--yes", cwd=tmp_path)
        assert (resumed.returncode, resumed.stdout.strip()) == (0, "Done."), resumed.stderr
        assert (workspace / "out.txt").read_text() == "hi\n"
        checks.all_of(mock.bodies())
        assert len(mock.bodies()) == 2

        again = c.journeyman(env, "resume", session_id, "--yes", cwd=tmp_path)
        assert again.returncode == 2 and len(mock.bodies()) == 2, again.stderr


def test_a_reader_that_goes_away_stops_nothing(tmp_path):
    with c.aimock(tmp_path / "aimock", c.session_fixtures()) as mock:
        env = c.environment(tmp_path / "home", mock.base_url)
        workspace = c.project(tmp_path / "shop")
        argv = [str(c.BIN), "run", "fix it", "--workspace", str(workspace), "--yes", "--json"]
        process = subprocess.Popen(
            argv, env=env, cwd=tmp_path, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
        )
        process.stdout.readline()
        process.stdout.close()
        assert process.wait(60) == 0
    assert c.git(workspace, "rev-list", "--count", "HEAD").strip() == "2"
    assert journal(env)[-1]["event"] == "send_finished"


def test_ctrl_c_stops_the_turn_and_a_resume_goes_on(tmp_path):
    slow = {"match": {"sequenceIndex": 0}, "latency": 20_000, "response": {"content": "Too late."}}
    with c.aimock(tmp_path / "aimock", [slow, {"match": {}, "response": {"content": "Done."}}]) as mock:
        env = c.environment(tmp_path / "home", mock.base_url)
        argv = [str(c.BIN), "run", "fix it", "--workspace", str(c.project(tmp_path / "shop")), "--yes", "--json"]
        process = subprocess.Popen(argv, env=env, cwd=tmp_path, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True)
        lines = []
        while not lines or lines[-1]["event"] != "model_asked":
            lines.append(json.loads(process.stdout.readline()))
        c.wait_for("the request", mock.entries)
        process.send_signal(signal.SIGINT)
        rest, _ = process.communicate(timeout=10)
        assert process.returncode == 130, rest
        lines += [json.loads(line) for line in rest.splitlines()]
        assert [line["reason"] for line in lines if line["event"] == "turn_ended"] == ["cancelled"]
        resumed = c.journeyman(env, "resume", lines[0]["session"], "--yes", cwd=tmp_path)
        assert (resumed.returncode, resumed.stdout.strip()) == (0, "Done."), resumed.stderr
        checks.all_of(mock.bodies())


def test_no_approvals_denies_and_goes_on(tmp_path):
    with c.aimock(tmp_path / "aimock", ASKING) as mock:
        env = c.environment(tmp_path / "home", mock.base_url)
        workspace = c.project(tmp_path / "shop")
        refused = c.journeyman(env, "run", "write hi", "--workspace", str(workspace), "--no-approvals", cwd=tmp_path)
        assert (refused.returncode, refused.stdout.strip()) == (0, "Done."), refused.stderr
        assert not (workspace / "out.txt").exists()
        checks.all_of(mock.bodies())
        (result,) = [message["content"] for message in mock.bodies()[-1]["messages"] if message["role"] == "tool"]
        assert result.startswith("Not run"), "the model is told"


@pytest.mark.parametrize("by", ["variable", "flag"])
def test_a_server_that_cannot_stream_is_asked_for_whole_answers(tmp_path, by):
    with c.aimock(tmp_path / "aimock", c.session_fixtures()) as mock:
        env = c.environment(tmp_path / "home", mock.base_url)
        ours = tmp_path / "ours"
        (ours / "config").mkdir(parents=True)
        (ours / "config/settings.toml").write_text("model_stream = false\n")
        flags = ["--config", str(ours)] if by == "flag" else []
        if by == "variable":
            env["JOURNEYMAN_HOME"] = str(ours)
        workspace = c.project(tmp_path / "shop")
        ran = c.Ran(c.journeyman(env, *flags, "run", "fix it", "--workspace", str(workspace), "--yes", "--json", cwd=tmp_path))
        bodies = mock.bodies()
    assert ran.code == 0, ran.everything
    assert ran.of("turn_ended")[0]["text"].startswith(f"{ANSWER}\n\n✏️ Files changed: 1 (+1 −1)")
    assert c.git(workspace, "rev-list", "--count", "HEAD").strip() == "2"
    assert len(bodies) == 6 and not any(body.get("stream") for body in bodies)
    checks.all_of(bodies)
    assert all(event["answer"]["usage"]["input_tokens"] > 0 for event in ran.of("model_answered"))

