"""Whether a request of ours is one that other people's software accepts.

Three opinions: mistral-common (pairing of tool calls and results, names, tool schemas), openai's own request types, and
OpenAI's published API description where its folder is given. Nothing here knows Journeyman.
"""

import copy
import json
import os
import pathlib
import typing

import jsonschema
import pydantic
import pytest
from mistral_common.protocol.instruct.request import ChatCompletionRequest
from mistral_common.protocol.instruct.validator import MistralRequestValidatorV13, ValidationMode
from openai.types.chat import completion_create_params as params

STREAMING = pydantic.TypeAdapter(params.CompletionCreateParamsStreaming)
PLAIN = pydantic.TypeAdapter(params.CompletionCreateParamsNonStreaming)


def pairing(body: dict) -> None:
    """Mistral's rules, as its servers apply them: each call answered exactly once, in its place."""
    request = ChatCompletionRequest.from_openai(
        messages=copy.deepcopy(body["messages"]), tools=copy.deepcopy(body.get("tools")), model=body["model"]
    )
    MistralRequestValidatorV13(mode=ValidationMode.serving).validate_request(request)


def shape(body: dict) -> None:
    """openai's request types. They leave lists unread until asked, and unknown fields unsaid: both are seen to here."""
    streaming = body.get("stream") is True
    known = typing.get_type_hints(params.CompletionCreateParamsStreaming if streaming else params.CompletionCreateParamsNonStreaming)
    unknown = set(body) - set(known)
    assert not unknown, f"fields that OpenAI does not know: {unknown}"
    valid = (STREAMING if streaming else PLAIN).validate_python(body)
    _drain(valid)


def _drain(value) -> None:
    if isinstance(value, dict):
        for item in value.values():
            _drain(item)
    elif not isinstance(value, (str, bytes, int, float, bool, type(None))):
        for item in value:
            _drain(item)


def schemas() -> pathlib.Path:
    folder = os.environ.get("JOURNEYMAN_SCHEMAS")
    if not folder:
        pytest.skip("JOURNEYMAN_SCHEMAS is not set: no check against the published descriptions")
    return pathlib.Path(folder)


_published = {}


def published(body: dict) -> None:
    """OpenAI's published description of a request."""
    path = schemas() / "openai-openapi-2.3.0.json"
    if path not in _published:
        document = json.loads(path.read_text())
        root = {"$ref": "#/components/schemas/CreateChatCompletionRequest", "components": document["components"]}
        _published[path] = jsonschema.Draft202012Validator(root)
    errors = [f"{error.json_path}: {error.message[:200]}" for error in _published[path].iter_errors(body)]
    assert not errors, errors


def all_of(bodies: list) -> None:
    """Every request of a session, by everybody's rules; and each continues the one before it, message for message."""
    assert bodies, "no request reached the model"
    for body in bodies:
        pairing(body)
        shape(body)
        if os.environ.get("JOURNEYMAN_SCHEMAS"):
            published(body)
    for before, after in zip(bodies, bodies[1:]):
        assert after["messages"][: len(before["messages"])] == before["messages"], "the prompt's prefix changed"
    # Those for work of several steps come with the steps, once.
    offers = [body.get("tools") or [] for body in bodies]
    changes = [(before, after) for before, after in zip(offers, offers[1:]) if before != after]
    assert len(changes) <= 1, "the tools changed more than once"
    for before, after in changes:
        more = [tool["function"]["name"] for tool in after if tool not in before]
        assert all(tool in after for tool in before) and set(more) <= {"delegate", "plan_tasks"}, more
