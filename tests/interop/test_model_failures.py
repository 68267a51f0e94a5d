"""What a model's server does wrong: told in clear words, tried again within bounds, and nothing runs twice or half."""

import pytest

import checks
import counterparts as c

DONE = {"match": {}, "response": {"content": "All is well."}}
# config/limits.toml: model_attempts_max.
ATTEMPTS_MAX = 5


def go(tmp_path, fixtures, ours=c.KEY, theirs=""):
    """Runs once against aimock with our key and theirs; how it ended, and what aimock was asked."""
    with c.aimock(tmp_path / "aimock", fixtures, key=theirs) as mock:
        env = c.environment(tmp_path / "home", mock.base_url, OPENAI_API_KEY=ours)
        ran = c.run(env, c.project(tmp_path / "shop"), seconds=110)
        return ran, mock.entries(), mock.bodies()


def raw(tmp_path, *answers):
    with c.raw_model(*answers) as model:
        env = c.environment(tmp_path / "home", model.base_url)
        workspace = c.project(tmp_path / "shop")
        return c.run(env, workspace, seconds=110), model.bodies, workspace


def ended(ran) -> dict:
    (event,) = ran.of("turn_ended")
    return event


def test_a_rate_limit_is_waited_for_as_told(tmp_path):
    limited = {
        "match": {"sequenceIndex": 0},
        "response": {"error": {"message": "slow down", "type": "rate_limit_error"}, "status": 429, "retryAfter": 2},
    }
    ran, entries, bodies = go(tmp_path, [limited, DONE])
    assert (ran.code, ended(ran)["text"]) == (0, "All is well."), ran.everything
    assert [entry["response"]["status"] for entry in entries] == [429, 200]
    assert entries[1]["timestamp"] - entries[0]["timestamp"] >= 1_900
    assert bodies[0] == bodies[1], "the same question again"


def test_a_disconnect_in_mid_stream_is_tried_again_and_shown_once(tmp_path):
    cut = {"match": {"sequenceIndex": 0}, "truncateAfterChunks": 3, "chunkSize": 4, "response": {"content": "All is lost in the middle"}}
    ran, _, bodies = go(tmp_path, [cut, DONE])
    assert (ran.code, ended(ran)["text"]) == (0, "All is well."), ran.everything
    assert len(bodies) == 2 and bodies[0] == bodies[1], "nothing of the broken answer is in the next question"


def test_a_disconnect_inside_of_a_call_runs_nothing(tmp_path):
    write = {"id": "call_w", "name": "write_file", "arguments": {"path": "half.txt", "content": "x" * 400}}
    cut = {"match": {"sequenceIndex": 0}, "truncateAfterChunks": 6, "chunkSize": 10, "response": {"toolCalls": [write]}}
    ran, _, bodies = go(tmp_path, [cut, DONE])
    assert ran.code == 0, ran.everything
    assert not (tmp_path / "shop/half.txt").exists() and not ran.of("tool_started")
    assert bodies[0] == bodies[1]


def test_a_model_that_always_hangs_up_fails_the_turn_within_bounds(tmp_path):
    cut = {"match": {}, "truncateAfterChunks": 2, "chunkSize": 2, "response": {"content": "never to the end"}}
    ran, _, bodies = go(tmp_path, [cut])
    assert ran.code == 1, ran.everything
    assert 1 < len(bodies) <= ATTEMPTS_MAX
    assert ended(ran)["reason"] == "failed"


def test_a_stream_that_ends_without_a_finish_reason_is_no_answer(tmp_path):
    ran, bodies, _ = raw(
        tmp_path,
        c.sse(c.chunk(role="assistant", content="All is "), c.chunk(content="lost")),
        WELL,
    )
    assert (ran.code, ended(ran)["text"]) == (0, "All is well."), ran.everything
    assert len(bodies) == 2


def test_a_finished_stream_without_done_is_an_answer(tmp_path):
    ran, bodies, _ = raw(tmp_path, c.sse(c.chunk(role="assistant", content="All is well."), c.chunk("stop")))
    assert (ran.code, ended(ran)["text"]) == (0, "All is well."), ran.everything
    assert len(bodies) == 1


# aimock refuses to serve arguments that are no JSON, so these two are told byte by byte.
WELL = c.sse(c.chunk(role="assistant", content="All is well."), c.chunk("stop"), "[DONE]")


def calling(finish: str, *calls: tuple) -> tuple:
    deltas = [
        {"index": at, "id": id, "type": "function", "function": {"name": name, "arguments": arguments}}
        for at, (id, name, arguments) in enumerate(calls)
    ]
    return c.sse(*[c.chunk(role="assistant", tool_calls=[delta]) for delta in deltas], c.chunk(finish), "[DONE]")


def test_a_call_cut_off_by_length_never_runs(tmp_path):
    half = ("call_w", "write_file", '{"path": "half.txt", "content": "never to')
    ran, bodies, workspace = raw(tmp_path, calling("length", half), WELL)
    assert not (workspace / "half.txt").exists()
    assert ran.code in (0, 1) and ended(ran)["reason"] in ("done", "failed"), ran.everything
    checks.all_of(bodies)


def test_a_wrong_key_is_final_and_named_but_never_shown(tmp_path):
    ran, entries, _ = go(tmp_path, [DONE], ours="sk-wrong-and-secret", theirs="sk-another")
    assert ran.code == 1, ran.everything
    assert "OPENAI_API_KEY" in ran.everything
    assert "sk-wrong-and-secret" not in ran.everything
    assert len(entries) <= 1


def test_an_unknown_model_is_final_and_named(tmp_path):
    error = {"message": f"The model `{c.MODEL}` does not exist", "type": "invalid_request_error", "code": "model_not_found"}
    ran, entries, _ = go(tmp_path, [{"match": {}, "response": {"error": error, "status": 404}}])
    assert ran.code == 1 and len(entries) == 1, ran.everything
    assert c.MODEL in ran.everything and "AGENT_MODEL" in ran.everything


def test_nobody_listening_is_said_with_the_address(tmp_path):
    port = c.free_port()
    env = c.environment(tmp_path / "home", f"http://127.0.0.1:{port}/v1")
    ran = c.run(env, c.project(tmp_path / "shop"), seconds=110)
    assert ran.code == 1, ran.everything
    assert f"127.0.0.1:{port}" in ran.everything


def test_malformed_arguments_and_unknown_tools_go_back_to_the_model(tmp_path):
    calls = [("call_1", "read_lines", '{"path": '), ("call_2", "read_lines", '{"path": 7}'), ("call_3", "make_coffee", "{}")]
    ran, bodies, _ = raw(tmp_path, calling("tool_calls", *calls), WELL)
    assert (ran.code, len(bodies)) == (0, 2), ran.everything
    checks.all_of(bodies)
    results = {message["tool_call_id"]: message["content"] for message in bodies[1]["messages"] if message["role"] == "tool"}
    assert set(results) == {"call_1", "call_2", "call_3"}
    assert "make_coffee" in results["call_3"]


def test_an_overflowing_context_is_said_with_its_numbers(tmp_path):
    message = "the request exceeds the available context size (n_prompt_tokens: 9000, n_ctx: 8192)"
    ran, bodies, _ = raw(tmp_path, c.failure(400, message, type="exceed_context_size_error", n_prompt_tokens=9000, n_ctx=8192))
    assert ran.code in (1, 4) and len(bodies) == 1, ran.everything
    assert "8192" in ran.everything


def test_an_error_frame_in_mid_stream_is_no_answer(tmp_path):
    frame = {"error": {"code": 500, "message": "slot unavailable", "type": "server_error"}}
    ran, bodies, _ = raw(
        tmp_path,
        c.sse(c.chunk(role="assistant", content="All is "), frame),
        WELL,
    )
    assert (ran.code, ended(ran)["text"]) == (0, "All is well."), ran.everything
    assert len(bodies) == 2


@pytest.mark.parametrize("status", [500, 503])
def test_a_server_that_stumbles_once_is_asked_again(tmp_path, status):
    ran, bodies, _ = raw(
        tmp_path,
        c.failure(status, "try later"),
        c.sse(c.chunk(role="assistant", content="All is well. \ufffd", extra={"x": 1}), c.chunk("stop"), "[DONE]"),
    )
    assert ran.code == 0 and len(bodies) == 2, ran.everything
