"""WhatsApp: what pywa accepts we accept, what pywa sends we send."""

import base64
import contextlib
import copy
import email
import hashlib
import json
import pathlib
import subprocess

import httpx
import jsonschema
import pytest
import pywa
import pywa.utils
import yaml
from pywa.types import Button

import checks
import counterparts as c

SECRET = "interop-app-secret"
TOKEN = "EAAG-interop-not-for-logs"
VERIFY = "interop-verify"
PHONE_ID = "106540352242922"
ANN = "5491112345678"
HOOK = "webhook"
SIGNER = c.BIN.parent / "examples/sign_webhook"


def webhook(message_id: str, content: dict, sender: str = ANN, newer: bool = True) -> bytes:
    """As Meta posts it: with `user_id` in the newer shape, without in the older one."""
    contact = {"profile": {"name": "Ann"}, "wa_id": sender}
    message = {"from": sender, "id": message_id, "timestamp": "1795300000", **content}
    if newer:
        contact["user_id"] = "AR.13491208655302741918"
        message["from_user_id"] = contact["user_id"]
    metadata = {"display_phone_number": "15550783881", "phone_number_id": PHONE_ID}
    value = {"messaging_product": "whatsapp", "metadata": metadata, "contacts": [contact], "messages": [message]}
    entry = {"id": "102290129340398", "changes": [{"field": "messages", "value": value}]}
    return json.dumps({"object": "whatsapp_business_account", "entry": [entry]}).encode()


def text(message_id: str, body: str, **more) -> bytes:
    return webhook(message_id, {"type": "text", "text": {"body": body}}, **more)


class Server:
    def __init__(self, url: str, graph: c.Graph, model, env: dict):
        self.url = url
        self.graph = graph
        self.model = model
        self.env = env

    def post(self, body: bytes, signature: str | None = None) -> int:
        headers = {"X-Hub-Signature-256": c.sign(SECRET, body) if signature is None else signature}
        return c.post(f"{self.url}/{HOOK}", body, headers)


@contextlib.contextmanager
def serve(folder, fixtures, settings="", models=""):
    """`journeyman serve` between a model of fixtures and a Graph API that records."""
    projects = folder / "projects"
    projects.mkdir()
    c.project(projects / "shop")
    with c.aimock(folder / "aimock", fixtures) as mock, c.graph() as graph:
        port = c.free_port()
        env = c.environment(
            folder / "home",
            mock.base_url,
            BIND_ADDR=f"127.0.0.1:{port}",
            PROJECTS_ROOT=str(projects),
            WHATSAPP_ACCESS_TOKEN=TOKEN,
            WHATSAPP_PHONE_NUMBER_ID=PHONE_ID,
            WHATSAPP_VERIFY_TOKEN=VERIFY,
            WHATSAPP_APP_SECRET=SECRET,
            WHATSAPP_API_URL=graph.url,
            ALLOWED_PHONE_NUMBERS=ANN,
        )
        config = pathlib.Path(env["JOURNEYMAN_HOME"]) / "config"
        config.mkdir(parents=True, exist_ok=True)
        (config / "settings.toml").write_text(settings)
        (config / "models.toml").write_text(models)
        log = folder / "serve.log"
        assert c.BIN.is_file(), f"no binary at {c.BIN}: build it, or set JOURNEYMAN_BIN"
        with c.program([str(c.BIN), "serve"], env, folder / "home", log) as process:
            c.wait_for("serve", lambda: process.poll() is not None or c.listens(port))
            assert process.poll() is None, log.read_text()
            yield Server(f"http://127.0.0.1:{port}", graph, mock, env)
        assert TOKEN not in log.read_text() and SECRET not in log.read_text()


class Pywa:
    """pywa's client with a transport that keeps what it would have sent."""

    def __init__(self):
        self.sent = []
        self.client = pywa.WhatsApp(phone_id=PHONE_ID, token=TOKEN, session=httpx.Client(transport=httpx.MockTransport(self._take)))

    def _take(self, request: httpx.Request) -> httpx.Response:
        if request.url.path.endswith("/media"):
            self.sent.append((request.url.path, request.headers["content-type"], request.content))
            return httpx.Response(200, json={"id": "1"})
        self.sent.append((request.url.path, request.headers.get("authorization"), json.loads(request.content)))
        contacts = [{"input": ANN, "wa_id": ANN}]
        return httpx.Response(200, json={"success": True, "contacts": contacts, "messages": [{"id": "wamid.p"}]})

    def last(self) -> dict:
        return self.sent[-1][2]


QUESTION = [
    {
        "match": {"turnIndex": 0},
        "response": {"toolCalls": [{"id": "call_q", "name": "run_command", "arguments": {"command": "echo hi > out.txt"}}]},
    },
    {"match": {}, "response": {"content": "It is **written**: `out.txt` has 2*3*4 and a_b_c."}},
]


@pytest.fixture(scope="module")
def conversation(tmp_path_factory):
    """One message, one question with buttons, one press, one answer."""
    with serve(tmp_path_factory.mktemp("conversation"), QUESTION) as server:
        assert server.post(text("wamid.in.1", "write hi into out.txt")) == 200
        question = server.graph.wait("the question", lambda body: body.get("type") == "interactive", 60)
        approve = question["interactive"]["action"]["buttons"][0]["reply"]
        pressed = {"type": "interactive", "interactive": {"type": "button_reply", "button_reply": approve}}
        assert server.post(webhook("wamid.in.2", {**pressed, "context": {"id": "wamid.graph.1"}})) == 200
        final = server.graph.wait("the answer", lambda body: "written" in body.get("text", {}).get("body", ""), 60)
        yield server, question, final


def ours(server: Server) -> list:
    return server.graph.bodies()


def test_a_question_has_the_buttons_that_pywa_would_send(conversation):
    server, question, _ = conversation
    client = Pywa()
    buttons = [Button(title=b["reply"]["title"], callback_data=b["reply"]["id"]) for b in question["interactive"]["action"]["buttons"]]
    client.client.send_message(ANN, question["interactive"]["body"]["text"], buttons=buttons)
    assert question == client.last()
    titles = [button.title for button in buttons]
    # "Always" is not offered for what has operators.
    assert titles in (["Approve", "Deny"], ["Approve", "Always this session", "Deny"])
    assert any("echo hi > out.txt" in json.dumps(body) for body in ours(server)), "the whole command is shown"


def test_texts_are_what_pywa_would_send(conversation):
    server, _, final = conversation
    assert final["text"]["body"].count("*written*") == 1 and "2*3*4 and a_b_c" in final["text"]["body"]
    for body in ours(server):
        if body.get("type") == "text":
            client = Pywa()
            client.client.send_message(ANN, body["text"]["body"], reply_to_message_id=body.get("context", {}).get("message_id"))
            assert body == client.last()


def test_the_read_mark_with_typing_is_what_pywa_would_send(conversation):
    server, *_ = conversation
    client = Pywa()
    client.client.indicate_typing("wamid.in.1")
    assert client.last() in ours(server)


def test_path_and_bearer_are_what_pywa_would_send(conversation):
    server, *_ = conversation
    client = Pywa()
    client.client.send_message(ANN, "x")
    path, bearer, _ = client.sent[-1]
    for our_path, headers, _ in server.graph.requests:
        # pywa's version is in its path, ours in WHATSAPP_API_URL.
        assert our_path.split("/")[2:] == path.split("/")[2:]
        assert {name.lower(): value for name, value in headers.items()}["authorization"] == bearer == f"Bearer {TOKEN}"


def test_the_published_description_accepts_what_we_send(conversation):
    server, *_ = conversation
    document = yaml.safe_load((checks.schemas() / "whatsapp-business-messaging-v23.0.yaml").read_text())
    for body in ours(server):
        if "type" in body:
            accepted_by_whatsapp(document, body)


def accepted_by_whatsapp(document: dict, body: dict) -> None:
    """The description as published refuses every message, since it joins closed parts by allOf. So those parts are
    opened; what is inside of them stays closed."""
    schemas = copy.deepcopy(document["components"]["schemas"])
    for schema in schemas.values():
        for part in [schema, *schema.get("allOf", [])]:
            if part.get("additionalProperties") is False:
                del part["additionalProperties"]
    root = {"$ref": "#/components/schemas/Message", "components": {"schemas": schemas}}
    errors = [f"{error.json_path}: {error.message[:200]}" for error in jsonschema.Draft202012Validator(root).iter_errors(body)]
    assert not errors, (errors, body)


def test_the_opened_description_still_refuses_what_is_wrong():
    document = yaml.safe_load((checks.schemas() / "whatsapp-business-messaging-v23.0.yaml").read_text())
    client = Pywa()
    client.client.send_message(ANN, "x")
    good = client.last()
    accepted_by_whatsapp(document, good)
    wrong = [{"text": {"body": 7}}, {"text": {"body": "x", "invented": 1}}, {"type": "nonsense"}, {"to": None}]
    for change in wrong:
        with pytest.raises(AssertionError):
            accepted_by_whatsapp(document, good | change)


def reactions(server: Server) -> list:
    return [body for body in ours(server) if body.get("type") == "reaction"]


def test_the_mark_of_work_is_what_pywa_would_send(conversation):
    server, *_ = conversation
    client = Pywa()
    c.wait_for("the mark is taken away", lambda: len(reactions(server)) > 1, 30)
    client.client.send_reaction(ANN, "⏳", "wamid.in.1")
    client.client.remove_reaction(ANN, "wamid.in.1")
    assert reactions(server) == [body for _, _, body in client.sent]


LONG = "\n\n".join(f"Paragraph {n}. " + "All of it is told in detail. " * 30 for n in range(25))


@pytest.fixture(scope="module")
def long_answer(tmp_path_factory):
    with serve(tmp_path_factory.mktemp("long"), [{"match": {}, "response": {"content": LONG}}]) as server:
        assert server.post(text("wamid.long", "tell me everything")) == 200
        yield server, server.graph.wait("the document", lambda body: body.get("type") == "document", 60)


def parts_of(content_type: str, body: bytes) -> dict:
    """The parts of a form by name: file name, type, content."""
    message = email.message_from_bytes(b"Content-Type: " + content_type.encode() + b"\r\n\r\n" + body)
    form = {}
    for part in message.get_payload():
        name = part.get_param("name", header="content-disposition")
        kind = part.get_content_type() if part.get_filename() else None
        form[name] = (part.get_filename(), kind, part.get_payload(decode=True))
    return form


def test_a_long_answer_is_the_document_that_pywa_would_send(long_answer):
    server, document = long_answer
    client = Pywa()
    content = document["document"]
    client.client.send_document(ANN, content["id"], filename=content["filename"], caption=content["caption"])
    assert document == client.last() and content["filename"] == "answer.md"
    schema = yaml.safe_load((checks.schemas() / "whatsapp-business-messaging-v23.0.yaml").read_text())
    accepted_by_whatsapp(schema, document)


def test_a_long_answer_is_uploaded_as_pywa_would(long_answer):
    server, _ = long_answer
    path, content_type, body = server.graph.uploads[0]
    client = Pywa()
    client.client.upload_media(LONG.encode(), mime_type="text/plain", filename="answer.md")
    their_path, their_type, their_body = client.sent[-1]
    assert path.split("/")[2:] == their_path.split("/")[2:]
    assert parts_of(content_type, body) == parts_of(their_type, their_body)


TEMPLATE = 'whatsapp_template = "journeyman_news"\nwhatsapp_template_language = "en"\n'


def test_a_template_is_what_pywa_would_send(tmp_path):
    with serve(tmp_path, [{"match": {}, "response": {"content": "Watered."}}], TEMPLATE) as server:
        for args in (["add", "@yearly", "water the plants", "--tz", "UTC"], ["run", "1"]):
            subprocess.run([str(c.BIN), "cron", *args], env=server.env, check=True, capture_output=True)
        template = server.graph.wait("the template", lambda body: body.get("type") == "template", 60)
    client = Pywa()
    params = [pywa.types.templates.BodyText.params("shop")]
    language = pywa.types.templates.TemplateLanguage.ENGLISH
    client.client.send_template(ANN, name="journeyman_news", language=language, params=params)
    theirs = client.last()
    # Meta's description wants the one in small letters, and the other at all.
    theirs["template"]["language"]["policy"] = "deterministic"
    theirs["template"]["components"][0]["type"] = "body"
    assert template == theirs
    schema = yaml.safe_load((checks.schemas() / "whatsapp-business-messaging-v23.0.yaml").read_text())
    accepted_by_whatsapp(schema, template)


def test_pywa_reads_the_webhooks_that_we_post():
    for body, expected in [(text("wamid.1", "hello 👋"), "hello 👋")]:
        message = pywa.types.Message.from_update(Pywa().client, json.loads(body))
        assert (message.text, message.from_user.wa_id, message.id) == (expected, ANN, "wamid.1")


@pytest.fixture(scope="module")
def greeter(tmp_path_factory):
    with serve(tmp_path_factory.mktemp("greeter"), [{"match": {}, "response": {"content": "Hello, Ann."}}]) as server:
        yield server


def pywa_accepts(body: bytes, signature: str) -> bool:
    return pywa.utils.webhook_updates_validator(SECRET, body, signature)


def ours_signs(secret: str, body: bytes) -> str:
    """The header as our own code makes it (examples/sign_webhook.rs)."""
    assert SIGNER.is_file(), f"no signer at {SIGNER}: cargo build --example sign_webhook"
    return subprocess.run([SIGNER, secret], input=body, capture_output=True, check=True).stdout.decode().strip()


@pytest.mark.parametrize(
    "body",
    [text("wamid.s", "hello 👋"), b"", b"{}", b"\x00\xff not utf-8\r\n", b"x" * 1_000_000],
    ids=["webhook", "empty", "braces", "bytes", "large"],
)
def test_pywa_accepts_what_our_code_signs(body):
    assert pywa_accepts(body, ours_signs(SECRET, body))
    assert not pywa_accepts(body, ours_signs(SECRET + "x", body))
    assert not pywa_accepts(body + b" ", ours_signs(SECRET, body))
    assert ours_signs(SECRET, body) == c.sign(SECRET, body)


@pytest.mark.parametrize("newer", [True, False], ids=["newer", "older"])
def test_a_webhook_that_pywa_accepts_is_served_once(greeter, newer):
    body = text(f"wamid.once.{newer}", "hello 👋", newer=newer)
    assert pywa_accepts(body, c.sign(SECRET, body))
    before = len(ours(greeter))
    assert [greeter.post(body) for _ in range(3)] == [200, 200, 200]
    answers = lambda: [b for b in ours(greeter)[before:] if b.get("text", {}).get("body") == "Hello, Ann."]
    c.wait_for("the answer", answers, 30)
    assert len(answers()) == 1


NOTES = b"milk\neggs\n"


@pytest.mark.parametrize("newer", [True, False], ids=["newer", "older"])
def test_a_document_that_pywa_reads_is_in_the_inbox(greeter, newer):
    media = f"10138596002854{int(newer)}"
    digest = base64.b64encode(hashlib.sha256(NOTES).digest()).decode()
    named = {"filename": f"list{int(newer)}.txt", "caption": "what is on it?"}
    content = {"id": media, "mime_type": "text/plain", "sha256": digest, **named}
    body = webhook(f"wamid.document.{newer}", {"type": "document", "document": content}, newer=newer)
    if newer:  # pywa reads no other shape any more
        message = pywa.types.Message.from_update(Pywa().client, json.loads(body))
        theirs = message.document
        assert (theirs.id, theirs.filename, theirs.sha256, message.caption) == (media, named["filename"], digest, named["caption"])
    greeter.graph.media[media] = ("text/plain", NOTES)
    assert greeter.post(body) == 200
    root = pathlib.Path(greeter.env["PROJECTS_ROOT"])
    found = c.wait_for("the file", lambda: list(root.rglob(f"inbox/list{int(newer)}-*.txt")), 30)
    assert [file.read_bytes() for file in found] == [NOTES]


PIXEL = base64.b64decode("iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==")


def test_a_picture_that_pywa_reads_is_shown_to_the_model_as_openai_takes_it(tmp_path):
    sees = f'[[model]]\nnames = ["{c.MODEL}"]\nimages = true\n'
    fixtures = [{"match": {}, "response": {"content": "A dot."}}]
    with serve(tmp_path, fixtures, models=sees) as server:
        digest = base64.b64encode(hashlib.sha256(PIXEL).digest()).decode()
        content = {"id": "77", "mime_type": "image/png", "sha256": digest, "caption": "what is it?"}
        body = webhook("wamid.picture", {"type": "image", "image": content})
        message = pywa.types.Message.from_update(Pywa().client, json.loads(body))
        assert (message.image.id, message.image.mime_type, message.caption) == ("77", "image/png", "what is it?")
        server.graph.media["77"] = ("image/png", PIXEL)
        assert server.post(body) == 200
        server.graph.wait("the answer", lambda sent: sent.get("text", {}).get("body") == "A dot.", 30)
        assert server.post(text("wamid.more", "and now?")) == 200
        (first, second) = c.wait_for("two requests", lambda: server.model.bodies()[1:] and server.model.bodies(), 30)
    checks.all_of([first, second])
    words, picture = first["messages"][1]["content"]
    assert words["text"].startswith("what is it?") and picture["image_url"]["url"].endswith(base64.b64encode(PIXEL).decode())


@pytest.mark.parametrize("newer", [True, False], ids=["newer", "older"])
def test_a_voice_message_that_pywa_reads_is_answered(greeter, newer):
    content = {"id": "1", "mime_type": "audio/ogg; codecs=opus", "sha256": "x", "voice": True}
    body = webhook(f"wamid.voice.{newer}", {"type": "audio", "audio": content}, newer=newer)
    if newer:
        message = pywa.types.Message.from_update(Pywa().client, json.loads(body))
        assert message.audio.voice and message.audio.mime_type == content["mime_type"]
    before = len(ours(greeter))
    assert greeter.post(body) == 200
    told = lambda: [b for b in ours(greeter)[before:] if "TRANSCRIPTION_MODEL" in b.get("text", {}).get("body", "")]
    c.wait_for("the answer", told, 30)


@pytest.mark.parametrize(
    "spoil",
    [
        lambda body, good: (body + b" ", good),
        lambda body, good: (body, good[:-1] + ("0" if good[-1] != "0" else "1")),
        lambda body, good: (body, c.sign("another secret", body)),
        lambda body, good: (body, "sha256="),
        lambda body, good: (body, ""),
    ],
    ids=["body", "digit", "secret", "short", "empty"],
)
def test_a_webhook_that_pywa_refuses_is_refused(greeter, spoil):
    body = text("wamid.bad", "let me in")
    bad, signature = spoil(body, c.sign(SECRET, body))
    assert not pywa_accepts(bad, signature)
    assert greeter.post(bad, signature) == 401


def test_the_subscription_is_verified(greeter):
    query = {"hub.mode": "subscribe", "hub.verify_token": VERIFY, "hub.challenge": "1158201444"}
    with httpx.Client(trust_env=False) as client:
        good = client.get(f"{greeter.url}/{HOOK}", params=query)
        bad = client.get(f"{greeter.url}/{HOOK}", params=query | {"hub.verify_token": "wrong"})
    assert (good.status_code, good.text) == (200, "1158201444")
    assert bad.status_code in (401, 403) and "1158201444" not in bad.text


def test_somebody_else_gets_nothing(greeter):
    before = len(ours(greeter))
    assert greeter.post(text("wamid.stranger", "hello", sender="15559998888")) == 200
    # What comes after it in the queue was answered, so it was passed over.
    assert greeter.post(text("wamid.friend", "hello again")) == 200
    c.wait_for("the friend's answer", lambda: any(b.get("to") == ANN for b in ours(greeter)[before:]), 30)
    assert all(b.get("to") != "15559998888" and b.get("message_id") != "wamid.stranger" for b in ours(greeter)[before:])
