"""What a model's server does wrong: told in clear words, tried again within bounds, and nothing runs twice or half."""

import email.utils
import json
import re
import threading
import time

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


def raw_model(tmp_path, *answers):
    """Runs once against these bytes; how it ended, and the model with what it was asked."""
    with c.raw_model(*answers) as model:
        env = c.environment(tmp_path / "home", model.base_url)
        return c.run(env, c.project(tmp_path / "shop"), seconds=110), model


def raw(tmp_path, *answers):
    ran, model = raw_model(tmp_path, *answers)
    return ran, model.bodies, tmp_path / "shop"


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


@pytest.mark.parametrize("status", [429, 500, 503])
def test_the_wait_that_a_server_asks_for_is_kept_and_the_bytes_are_the_same(tmp_path, status):
    ran, model = raw_model(tmp_path, c.failure(status, "busy", {"retry-after": "2"}), WELL)
    assert (ran.code, ended(ran)["text"]) == (0, "All is well."), ran.everything
    assert 1.9 <= model.arrived_at[1] - model.arrived_at[0] < 8
    assert len(model.raw) == 2 and model.raw[0] == model.raw[1]


def test_a_wait_until_a_date_is_kept_too(tmp_path):
    until = email.utils.formatdate(time.time() + 8, usegmt=True)
    ran, model = raw_model(tmp_path, c.failure(429, "busy", {"retry-after": until}), WELL)
    assert ran.code == 0, ran.everything
    assert model.arrived_at[1] - model.arrived_at[0] > 1.5


def test_a_wait_that_is_too_long_is_told_instead(tmp_path):
    ran, model = raw_model(tmp_path, c.failure(429, "come back tomorrow", {"retry-after": "3600"}), WELL)
    assert ran.code == 1 and len(model.raw) == 1, ran.everything
    assert "3600" in ended(ran)["text"] and "come back tomorrow" in ended(ran)["text"]


def test_the_bytes_of_a_session_only_grow_at_the_end(tmp_path):
    calls = [calling("tool_calls", (f"call_{at}", "list_files", "{}")) for at in range(3)]
    ran, model = raw_model(tmp_path, *calls, WELL)
    assert (ran.code, len(model.raw)) == (0, 4), ran.everything
    for before, after in zip(model.raw, model.raw[1:]):
        # The messages come last: up to the end of their list.
        shared = before.removesuffix(b"]}")
        assert after.startswith(shared), "a provider's cache would miss"
    checks.all_of(model.bodies)


def test_ids_that_a_server_uses_again_in_every_round_stay_paired(tmp_path):
    again = calling("tool_calls", ("call_0", "list_files", "{}"), ("call_0", "list_files", "{}"))
    ran, bodies, _ = raw(tmp_path, again, again, WELL)
    assert (ran.code, len(bodies)) == (0, 3), ran.everything
    checks.all_of(bodies)


@pytest.mark.parametrize("name", ["make coffee!", "", "functions.list_files", "x" * 200, "größe"])
def test_a_name_that_no_tool_can_have_does_not_spoil_the_history(tmp_path, name):
    ran, bodies, _ = raw(tmp_path, calling("tool_calls", ("call_1", name, "{}")), WELL)
    assert (ran.code, len(bodies)) == (0, 2), ran.everything
    checks.all_of(bodies)
    (call,) = bodies[1]["messages"][2]["tool_calls"]
    # OpenAI refuses everything else, for ever: the name is in every later request.
    assert re.fullmatch("[a-zA-Z0-9_-]{1,64}", call["function"]["name"]), call


def test_a_key_that_the_server_repeats_is_not_shown(tmp_path):
    ran, model = raw_model(tmp_path, c.failure(401, f"Incorrect API key provided: {c.KEY}."))
    assert ran.code == 1 and len(model.raw) == 1, ran.everything
    assert "OPENAI_API_KEY" in ended(ran)["text"] and "Incorrect API key" in ended(ran)["text"]
    assert c.KEY not in ran.everything


@pytest.mark.parametrize("content", [b"<html><h1>Bad gateway</h1></html>", b"", b"x" * 1_000_000, b"\xff\xfe"])
def test_a_proxy_in_the_way_is_told_briefly(tmp_path, content):
    ran, bodies, _ = raw(tmp_path, (404, {"content-type": "text/html"}, [content] if content else []))
    assert ran.code == 1 and len(bodies) == 1, ran.everything
    assert "404" in ended(ran)["text"] or "OPENAI_BASE_URL" in ended(ran)["text"]
    assert len(ended(ran)["text"]) < 6_000


def test_an_answer_of_nothing_fails_the_turn_in_words(tmp_path):
    ran, bodies, _ = raw(tmp_path, c.sse(c.chunk(role="assistant", content=""), c.chunk("stop"), "[DONE]"))
    assert ran.code == 1 and len(bodies) == 1 and ended(ran)["text"].strip(), ran.everything


@pytest.mark.parametrize(
    "answers",
    [
        [(200, {"content-type": "application/json"}, [b'{"choices": [{"message": {"role": "assistant", "cont'])],
        [c.failure(500, "try later")],
        [c.failure(429, "slow down", {"retry-after": "1"})],
    ],
    ids=["truncated", "500", "429"],
)
def test_whole_answers_that_fail_are_asked_for_again(tmp_path, answers):
    whole = {
        "id": "c1",
        "object": "chat.completion",
        "created": 1,
        "model": c.MODEL,
        "choices": [{"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": "All is well."}}],
        "usage": None,
    }
    well = (200, {"content-type": "application/json"}, [json.dumps(whole).encode()])
    with c.raw_model(*answers, well) as model:
        env = c.environment(tmp_path / "home", model.base_url)
        settings = tmp_path / "home/journeyman/config/settings.toml"
        settings.parent.mkdir(parents=True)
        settings.write_text("model_stream = false\n")
        ran = c.run(env, c.project(tmp_path / "shop"), seconds=110)
    assert (ran.code, ended(ran)["text"]) == (0, "All is well."), ran.everything
    assert len(model.raw) == 2 and model.raw[0] == model.raw[1]


def test_a_silent_server_is_given_up_after_the_configured_time(tmp_path):
    quiet = threading.Event()

    def never():
        yield b": thinking\n\n"
        quiet.wait(60)

    class Silent:
        def __iter__(self):
            return never()

    with c.raw_model((200, {"content-type": "text/event-stream"}, Silent()), WELL) as model:
        env = c.environment(tmp_path / "home", model.base_url)
        limits = tmp_path / "home/journeyman/config/limits.toml"
        limits.parent.mkdir(parents=True)
        limits.write_text("model_silence_seconds = 1\n")
        ran = c.run(env, c.project(tmp_path / "shop"), seconds=50)
        quiet.set()
    assert (ran.code, ended(ran)["text"], len(model.raw)) == (0, "All is well.", 2), ran.everything


def test_rounds_without_end_reach_the_limit_and_say_how_to_go_on(tmp_path):
    # Each one another, or the detection of loops would be first.
    looks = [calling("tool_calls", ("call_0", "list_files", '{"glob": "*.%d"}' % n)) for n in range(15)]
    ran, bodies, _ = raw(tmp_path, *looks)
    assert ran.code == 4 and len(bodies) == 15, ran.everything
    assert "15" in ended(ran)["text"] and "/agent-resume" in ended(ran)["text"]
    checks.all_of(bodies)


def test_calls_above_the_cap_are_answered_and_not_run(tmp_path):
    calls = [(f"call_{at}", "list_files", "{}") for at in range(11)]
    ran, bodies, _ = raw(tmp_path, calling("tool_calls", *calls), WELL)
    assert (ran.code, len(bodies)) == (0, 2), ran.everything
    checks.all_of(bodies)
    assert len(ran.of("tool_started")) == 8
    results = [message["content"] for message in bodies[1]["messages"] if message["role"] == "tool"]
    assert len(results) == 11 and all("only 8 calls" in result for result in results[8:])
