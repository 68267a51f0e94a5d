"""Starts the other programs: aimock as the model, a model of raw bytes, a Graph API that records, and ours."""

import contextlib
import hashlib
import hmac
import http.client
import http.server
import json
import os
import pathlib
import signal
import socket
import subprocess
import threading
import time
import urllib.request

INTEROP = pathlib.Path(os.environ["JOURNEYMAN_INTEROP"])
BIN = pathlib.Path(os.environ["JOURNEYMAN_BIN"])
FIXTURES = pathlib.Path(__file__).parent / "fixtures"
KEY = "sk-interop-not-for-logs"
MODEL = "interop-model"
START_SECONDS_MAX = 20


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def wait_for(what: str, check, seconds: float = START_SECONDS_MAX):
    """The first true value of `check`; what was waited for, if it never comes."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        value = check()
        if value:
            return value
        time.sleep(0.02)
    raise AssertionError(f"waited {seconds} s for {what}")


def listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


@contextlib.contextmanager
def program(argv: list, env: dict, cwd: pathlib.Path, log: pathlib.Path):
    """A background program, ended with its group however the test ends."""
    with log.open("wb") as out:
        process = subprocess.Popen(
            argv, env=env, cwd=cwd, stdin=subprocess.DEVNULL, stdout=out, stderr=out, start_new_session=True
        )
    try:
        yield process
    finally:
        if process.poll() is None:
            process.send_signal(signal.SIGTERM)
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()


class Aimock:
    """aimock, and its journal of what it was asked."""

    def __init__(self, port: int, key: str):
        self.base_url = f"http://127.0.0.1:{port}/v1"
        # With keys set, aimock asks for one here too.
        headers = {"authorization": f"Bearer {key}"} if key else {}
        self._journal = urllib.request.Request(f"http://127.0.0.1:{port}/__aimock/journal", headers=headers)

    def entries(self) -> list:
        with urllib.request.urlopen(self._journal, timeout=20) as answer:
            entries = json.load(answer)
        return [entry for entry in entries if entry["method"] == "POST" and "/chat/completions" in entry["path"]]

    def bodies(self) -> list:
        """Our requests, in order. A copy that aimock cut short would prove nothing."""
        bodies = [entry["body"] for entry in self.entries()]
        # aimock adds names of its own to what it keeps; the wire never had them.
        bodies = [{name: value for name, value in body.items() if not name.startswith("_")} for body in bodies if body]
        assert not any("__aimock_truncated" in json.dumps(body) for body in bodies)
        return bodies


@contextlib.contextmanager
def aimock(folder: pathlib.Path, fixtures: list, key: str = ""):
    """A model that knows `fixtures`, and takes nothing but `key` where one is given."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "fixtures.json"
    path.write_text(json.dumps({"fixtures": fixtures}))
    port = free_port()
    # Without the switch, an answer is also given to rounds that it is not for.
    env = {"PATH": os.environ["PATH"], "HOME": str(folder), "AIMOCK_STRICT_TURN_INDEX": "1"}
    if key:
        env["AIMOCK_API_KEYS"] = key
    cli = INTEROP / "node_modules/@copilotkit/aimock/dist/cli.js"
    argv = ["node", str(cli), "-h", "127.0.0.1", "-p", str(port), "-f", str(path), "--strict", "--metrics", "--validate-on-load"]
    log = folder / "aimock.log"
    with program(argv, env, folder, log) as process:
        wait_for("aimock", lambda: process.poll() is not None or listens(port))
        assert process.poll() is None, log.read_text()
        yield Aimock(port, key)


def session_fixtures() -> list:
    return json.loads((FIXTURES / "session.json").read_text())["fixtures"]


class _Quiet(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def body(self) -> bytes:
        return self.rfile.read(int(self.headers.get("content-length", 0)))


@contextlib.contextmanager
def serving(handler):
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()


class RawModel:
    """A model that answers with exactly these bytes, one answer after the other; the last one again and again."""

    def __init__(self, answers: list):
        self.answers = answers
        self.bodies = []
        # The same, as they came: byte for byte.
        self.raw = []
        self.arrived_at = []
        self.base_url = ""


@contextlib.contextmanager
def raw_model(*answers):
    """Each answer: `(status, headers, chunks)`; a stream ends cleanly after its chunks."""
    model = RawModel(list(answers))

    class Handler(_Quiet):
        def do_POST(self):
            body = self.body()
            model.arrived_at.append(time.monotonic())
            model.raw.append(body)
            model.bodies.append(json.loads(body))
            status, headers, chunks = model.answers[min(len(model.bodies), len(model.answers)) - 1]
            self.send_response(status)
            for name, value in headers.items():
                self.send_header(name, value)
            self.send_header("transfer-encoding", "chunked")
            self.end_headers()
            for chunk in chunks:
                self.wfile.write(b"%x\r\n%s\r\n" % (len(chunk), chunk))
                self.wfile.flush()
            self.wfile.write(b"0\r\n\r\n")

    with serving(Handler) as url:
        model.base_url = f"{url}/v1"
        yield model


def sse(*events) -> tuple:
    """A streamed answer. A string stands as it is (`[DONE]`), everything else is JSON."""
    texts = [event if isinstance(event, str) else json.dumps(event) for event in events]
    return 200, {"content-type": "text/event-stream"}, [f"data: {text}\n\n".encode() for text in texts]


def chunk(finish=None, **delta) -> dict:
    choice = {"index": 0, "delta": delta, "finish_reason": finish}
    return {"id": "c1", "object": "chat.completion.chunk", "created": 1, "model": MODEL, "choices": [choice]}


def failure(status: int, message: str, headers: dict = {}, **fields) -> tuple:
    body = json.dumps({"error": {"message": message, "code": status, **fields}}).encode()
    return status, {"content-type": "application/json", **headers}, [body]


class Graph:
    """A Graph API that takes everything and keeps it."""

    def __init__(self):
        self.requests = []
        self.uploads = []
        # What people sent: type and content, by media id.
        self.media = {}
        self.url = ""

    def bodies(self) -> list:
        return [body for _, _, body in list(self.requests)]

    def wait(self, what: str, check, seconds: float = 30):
        """The first recorded body for which `check` holds."""
        try:
            return wait_for(what, lambda: next((body for body in self.bodies() if check(body)), None), seconds)
        except AssertionError as error:
            raise AssertionError(f"{error}; recorded: {json.dumps(self.bodies())[:2000]}") from None


@contextlib.contextmanager
def graph():
    graph = Graph()

    class Handler(_Quiet):
        def do_POST(self):
            if self.path.endswith("/media"):
                graph.uploads.append((self.path, self.headers["content-type"], self.body()))
                return self.answer({"id": str(len(graph.uploads))})
            body = json.loads(self.body())
            graph.requests.append((self.path, dict(self.headers), body))
            to = body.get("to") or body.get("recipient")
            answer = {"success": True} if not to else {
                "messaging_product": "whatsapp",
                "contacts": [{"input": to, "wa_id": to}],
                "messages": [{"id": f"wamid.graph.{len(graph.requests)}"}],
            }
            self.answer(answer)

        def do_GET(self):
            """Where a medium lies, and what lies there."""
            mime, content = graph.media[self.path.rsplit("/", 1)[-1]]
            if self.headers["authorization"] is None:
                return self.send_error(401)
            if "/attachments/" in self.path:
                return self.answer(content, mime)
            url = self.path.replace("/v23.0/", "/whatsapp_business/attachments/")
            digest = hashlib.sha256(content).hexdigest()
            described = {"url": graph.url.removesuffix("/v23.0") + url, "mime_type": mime, "sha256": digest, "file_size": len(content)}
            self.answer({"messaging_product": "whatsapp", "id": self.path.rsplit("/", 1)[-1], **described})

        def answer(self, answer: dict | bytes, mime: str = "application/json"):
            data = answer if isinstance(answer, bytes) else json.dumps(answer).encode()
            self.send_response(200)
            self.send_header("content-type", mime)
            self.send_header("content-length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

    with serving(Handler) as url:
        graph.url = f"{url}/v23.0"
        yield graph


def project(folder: pathlib.Path) -> pathlib.Path:
    """A small git repository whose test really fails."""
    folder.mkdir(parents=True)
    (folder / "discount.py").write_text(
        "def discounted(price, percent):\n    \"\"\"The price after a discount.\"\"\"\n    return price + price * percent / 100\n"
    )
    (folder / "test_discount.py").write_text(
        "from discount import discounted\n\nassert discounted(200, 10) == 180, discounted(200, 10)\nprint('ok')\n"
    )
    (folder / ".gitignore").write_text("__pycache__/\n")
    for args in (["init", "-q", "-b", "main"], ["add", "."], ["commit", "-q", "-m", "Start"]):
        git(folder, *args)
    return folder


def git(folder: pathlib.Path, *args: str) -> str:
    identity = ["-c", "user.name=Ann", "-c", "user.email=ann@example.org"]
    done = subprocess.run(["git", *identity, *args], cwd=folder, capture_output=True, text=True, check=True)
    return done.stdout


def environment(home: pathlib.Path, base_url: str, **more: str) -> dict:
    """What our program sees: nothing of the surroundings but the path."""
    home.mkdir(parents=True, exist_ok=True)
    (home / ".gitconfig").write_text("[user]\n\tname = Ann\n\temail = ann@example.org\n")
    return {
        "PATH": os.environ["PATH"],
        "HOME": str(home),
        "JOURNEYMAN_HOME": str(home / "journeyman"),
        "DATA_DIR": str(home / "data"),
        "OPENAI_BASE_URL": base_url,
        "OPENAI_API_KEY": KEY,
        "AGENT_MODEL": MODEL,
        "AGENT_WRITE_ENABLED": "true",
        **more,
    }


class Ran:
    """How `journeyman run --json` ended."""

    def __init__(self, done: subprocess.CompletedProcess):
        self.code = done.returncode
        self.stdout = done.stdout
        self.stderr = done.stderr
        self.events = [json.loads(line) for line in done.stdout.splitlines() if line.strip()]

    def of(self, name: str) -> list:
        return [event for event in self.events if event.get("event") == name]

    @property
    def everything(self) -> str:
        return f"{self.stdout}\n{self.stderr}"


def journeyman(env: dict, *args: str, cwd: pathlib.Path, seconds: float = 60) -> subprocess.CompletedProcess:
    assert BIN.is_file(), f"no binary at {BIN}: build it, or set JOURNEYMAN_BIN"
    return subprocess.run(
        [str(BIN), *args], env=env, cwd=cwd, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=seconds
    )


def run(env: dict, workspace: pathlib.Path, objective: str = "the test for discount fails, fix it", seconds: float = 60) -> Ran:
    args = ["run", objective, "--workspace", str(workspace), "--yes", "--json"]
    return Ran(journeyman(env, *args, cwd=pathlib.Path(env["HOME"]), seconds=seconds))


def sign(secret: str, body: bytes) -> str:
    return "sha256=" + hmac.new(secret.encode(), body, hashlib.sha256).hexdigest()


def post(url: str, body: bytes, headers: dict) -> int:
    host, path = url.removeprefix("http://").split("/", 1)
    connection = http.client.HTTPConnection(host, timeout=20)
    try:
        connection.request("POST", f"/{path}", body, {"content-type": "application/json", **headers})
        return connection.getresponse().status
    finally:
        connection.close()
