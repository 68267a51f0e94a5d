"""The counterparts themselves: the fixtures do what they say, and the checks refuse what is wrong."""

import openai
import pytest
from mistral_common.exceptions import MistralCommonException

import checks
import counterparts as c

TOOLS = [{"type": "function", "function": {"name": "list_files", "parameters": {"type": "object", "properties": {}}}}]


def call(id: str) -> dict:
    return {"id": id, "type": "function", "function": {"name": "list_files", "arguments": "{}"}}


def result(id: str) -> dict:
    return {"role": "tool", "tool_call_id": id, "content": "x"}


def request(*messages: dict) -> dict:
    start = [{"role": "system", "content": "s"}, {"role": "user", "content": "u"}]
    return {"model": "m", "stream": True, "messages": [*start, *messages], "tools": TOOLS}


def asked(*ids: str) -> dict:
    return {"role": "assistant", "content": "", "tool_calls": [call(id) for id in ids]}


def test_a_well_paired_conversation_is_accepted():
    body = request(asked("a", "b"), result("a"), result("b"), {"role": "assistant", "content": "done"}, {"role": "user", "content": "more"})
    checks.pairing(body)
    checks.shape(body)


@pytest.mark.parametrize(
    "messages",
    [
        [asked("a", "b"), result("a")],
        [asked("a"), result("a"), result("a")],
        [asked("a"), result("b")],
        [asked("a", "a"), result("a"), result("a")],
        [result("a")],
        [asked("a"), {"role": "assistant", "content": "x"}],
    ],
    ids=["missing", "twice", "another's", "same id twice", "orphan", "skipped"],
)
def test_wrong_pairing_is_refused(messages):
    with pytest.raises((MistralCommonException, ValueError)):
        checks.pairing(request(*messages))


@pytest.mark.parametrize("change", [{"messages": "text"}, {"invented": 1}, {"tools": [{"type": "function"}]}, {"temperature": "warm"}, {"messages": [{"role": "tool", "content": "x"}]}])
def test_a_wrong_shape_is_refused(change):
    with pytest.raises((AssertionError, ValueError)):
        checks.shape(request() | change)


def test_the_published_description_accepts_and_refuses():
    checks.schemas()
    checks.published(request(asked("a"), result("a")))
    with pytest.raises(AssertionError):
        checks.published(request() | {"messages": [{"role": "tool", "content": "x"}]})


def test_the_session_fixtures_stream_parallel_calls(tmp_path):
    with c.aimock(tmp_path, c.session_fixtures(), key=c.KEY) as mock:
        client = openai.OpenAI(base_url=mock.base_url, api_key=c.KEY, max_retries=0)
        messages = request()["messages"]
        names = []
        for _ in range(6):
            stream = client.chat.completions.create(
                model=c.MODEL, messages=messages, stream=True, tools=TOOLS, stream_options={"include_usage": True}
            )
            text, calls, usage, finish, parts = "", {}, None, None, 0
            for part in stream:
                parts += 1
                usage = part.usage or usage
                for choice in part.choices:
                    finish = choice.finish_reason or finish
                    text += choice.delta.content or ""
                    for delta in choice.delta.tool_calls or []:
                        known = calls.setdefault(delta.index, {"id": "", "name": "", "arguments": ""})
                        known["id"] += delta.id or ""
                        known["name"] += delta.function.name or ""
                        known["arguments"] += delta.function.arguments or ""
            assert parts > 3 and usage is not None
            names.append([known["name"] for known in calls.values()])
            tool_calls = [
                {"id": known["id"], "type": "function", "function": {"name": known["name"], "arguments": known["arguments"]}}
                for known in calls.values()
            ]
            messages = [*messages, {"role": "assistant", "content": text, **({"tool_calls": tool_calls} if tool_calls else {})}]
            messages += [result(tool_call["id"]) for tool_call in tool_calls]
        assert names == [["create_task_plan", "list_files"], ["read_lines"], ["apply_patch"], ["run_command"], ["git_commit"], []]
        assert finish == "stop" and "✅" in text
        checks.all_of(mock.bodies())

        with pytest.raises(openai.AuthenticationError):
            openai.OpenAI(base_url=mock.base_url, api_key="sk-wrong", max_retries=0).models.list()


def test_the_failures_are_what_they_say(tmp_path):
    limited = {
        "match": {"turnIndex": 0, "sequenceIndex": 0},
        "response": {"error": {"message": "slow down", "type": "rate_limit_error"}, "status": 429, "retryAfter": 2},
    }
    cut = {"match": {"turnIndex": 1}, "truncateAfterChunks": 3, "chunkSize": 2, "response": {"content": "cut off in the middle of it"}}
    fixtures = [limited, {"match": {"turnIndex": 0}, "response": {"content": "hello"}}, cut]
    with c.aimock(tmp_path, fixtures) as mock:
        client = openai.OpenAI(base_url=mock.base_url, api_key=c.KEY, max_retries=0)
        ask = lambda *more: client.chat.completions.create(model=c.MODEL, messages=request(*more)["messages"], stream=True)
        with pytest.raises(openai.RateLimitError) as refused:
            ask()
        assert refused.value.response.headers["retry-after"] == "2"
        assert "".join(part.choices[0].delta.content or "" for part in ask()) == "hello"
        with pytest.raises(Exception) as broken:
            list(ask({"role": "assistant", "content": "x"}, {"role": "user", "content": "y"}))
        assert not isinstance(broken.value, openai.APIStatusError)


def test_a_raw_model_answers_byte_for_byte():
    with c.raw_model(c.sse(c.chunk(role="assistant", content="a"), c.chunk("stop"))) as model:
        client = openai.OpenAI(base_url=model.base_url, api_key=c.KEY, max_retries=0)
        stream = client.chat.completions.create(model=c.MODEL, messages=request()["messages"], stream=True)
        assert [part.choices[0].finish_reason for part in stream] == [None, "stop"]
