"""A GitHub Enterprise of other people's parts: emulate for the API, lighttpd with git http-backend for the repositories.

One front on loopback joins them, as one host has them, and keeps every request.
"""

import contextlib
import http.client
import json
import os
import pathlib
import re
import shutil
import stat
import subprocess

import jsonschema

import counterparts as c

TOKEN = "token-of-ana-that-goes-nowhere-else"
HOOK = """#!/bin/sh
while read old new ref; do
  test "$ref" != refs/heads/main || { echo 'main is protected here'; exit 1; }
done
"""


class Forge:
    def __init__(self, url: str, repository: pathlib.Path):
        self.url = url
        self.repository = repository
        self.requests = []

    @property
    def remote(self) -> str:
        return f"{self.url}/ana/shop.git"

    @property
    def api(self) -> str:
        return f"{self.url}/api/v3"

    def pushes(self) -> list:
        return [it for it in self.requests if it["method"] == "POST" and it["path"].endswith("/git-receive-pack")]

    def calls(self) -> list:
        return [it for it in self.requests if it["path"].startswith("/api/v3/")]


def lighttpd_binary() -> str:
    found = shutil.which("lighttpd") or shutil.which("lighttpd", path="/usr/sbin")
    return found or str(c.INTEROP / "lighttpd/usr/sbin/lighttpd")


@contextlib.contextmanager
def repositories(folder: pathlib.Path):
    """lighttpd, which lets only the token in, and a repository whose hook protects `main`."""
    repository = folder / "git/ana/shop.git"
    repository.parent.mkdir(parents=True)
    c.git(folder, "init", "-q", "--bare", "-b", "main", str(repository))
    c.git(repository, "config", "http.receivepack", "true")
    hook = repository / "hooks/pre-receive"
    hook.write_text(HOOK)
    hook.chmod(hook.stat().st_mode | stat.S_IXUSR)
    (folder / "passwords").write_text(f"x-access-token:{TOKEN}\n")
    backend = pathlib.Path(subprocess.check_output(["git", "--exec-path"], text=True).strip()) / "git-http-backend"
    port = c.free_port()
    (folder / "lighttpd.conf").write_text(f"""
server.port = {port}
server.bind = "127.0.0.1"
server.document-root = "{folder}"
server.modules = ("mod_alias", "mod_auth", "mod_authn_file", "mod_setenv", "mod_cgi")
setenv.add-environment = ("GIT_PROJECT_ROOT" => "{folder}/git", "GIT_HTTP_EXPORT_ALL" => "1")
alias.url = ("/" => "{backend}/")
cgi.assign = ("" => "")
auth.backend = "plain"
auth.backend.plain.userfile = "{folder}/passwords"
auth.require = ("/" => ("method" => "basic", "realm" => "git", "require" => "valid-user"))
""")
    binary = lighttpd_binary()
    modules = pathlib.Path(binary).parents[1] / "lib/lighttpd"
    argv = [binary, "-D", "-f", str(folder / "lighttpd.conf"), "-m", str(modules)]
    log = folder / "lighttpd.log"
    with c.program(argv, {"PATH": os.environ["PATH"], "HOME": str(folder)}, folder, log) as process:
        c.wait_for("lighttpd", lambda: process.poll() is not None or c.listens(port))
        assert process.poll() is None, log.read_text()
        yield port, repository


@contextlib.contextmanager
def emulate(folder: pathlib.Path):
    """GitHub's API as emulate plays it, with one empty project."""
    seed = {
        "tokens": {TOKEN: {"login": "ana", "scopes": ["repo"]}},
        "github": {
            "users": [{"login": "ana"}, {"login": "bob"}],
            "repos": [{"owner": "ana", "name": "shop", "auto_init": True}],
        },
    }
    (folder / "seed.yaml").write_text(json.dumps(seed))
    port = c.free_port()
    cli = c.INTEROP / "node_modules/emulate/dist/index.js"
    argv = ["node", str(cli), "start", "-s", "github", "-p", str(port), "--seed", str(folder / "seed.yaml")]
    log = folder / "emulate.log"
    with c.program(argv, {"PATH": os.environ["PATH"], "HOME": str(folder)}, folder, log) as process:
        c.wait_for("emulate", lambda: process.poll() is not None or c.listens(port))
        assert process.poll() is None, log.read_text()
        yield port


@contextlib.contextmanager
def forge(folder: pathlib.Path):
    folder.mkdir(parents=True)
    with repositories(folder) as (git_port, repository), emulate(folder) as api_port:
        requests = []

        class Front(c._Quiet):
            def pass_on(self):
                body = self.body()
                is_api = self.path.startswith("/api/v3/")
                port, path = (api_port, self.path.removeprefix("/api/v3")) if is_api else (git_port, self.path)
                headers = {name: value for name, value in self.headers.items() if name.lower() not in ("host", "connection")}
                connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
                connection.request(self.command, path, body, headers)
                answer = connection.getresponse()
                data = answer.read()
                requests.append({
                    "method": self.command, "path": self.path, "status": answer.status,
                    "authorization": self.headers.get("authorization", ""), "body": body, "answer": data,
                })
                self.send_response(answer.status)
                for name, value in answer.getheaders():
                    if name.lower() not in ("content-length", "transfer-encoding", "connection"):
                        self.send_header(name, value)
                self.send_header("content-length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)
                connection.close()

            do_GET = do_POST = do_PATCH = do_PUT = do_DELETE = pass_on

            def body(self):
                if self.headers.get("transfer-encoding") != "chunked":
                    return super().body()
                whole = b""
                while size := int(self.rfile.readline().split(b";")[0], 16):
                    whole += self.rfile.read(size)
                    self.rfile.readline()
                self.rfile.readline()
                return whole

        with c.serving(Front) as url:
            made = Forge(url, repository)
            made.requests = requests
            yield made


_published = {}


def published() -> dict:
    if not _published:
        path = c.INTEROP / "node_modules/@octokit/openapi/generated/api.github.com.json"
        _published.update(json.loads(path.read_text()))
    return _published


def operation(method: str, path: str) -> tuple:
    """The published operation of a request, with the path's parameters left out: the one with the fewest of them."""
    fits = []
    for template, item in published()["paths"].items():
        pattern = re.sub(r"\\\{[^/]+?\\\}", "[^/]+", re.escape(template))
        if re.fullmatch(pattern, path) and method.lower() in item:
            fits.append((template.count("{"), template, item))
    assert fits, f"GitHub has no {method} {path}"
    _, template, item = min(fits, key=lambda it: it[:2])
    return template, item[method.lower()], item.get("parameters", [])


def valid(request: dict) -> None:
    """A request of ours, by GitHub's own description: the path is known, the query too, the body fits."""
    path, _, query = request["path"].removeprefix("/api/v3").partition("?")
    template, described, shared = operation(request["method"], path)
    parameters = [resolved(it) for it in described.get("parameters", []) + shared]
    known = {it["name"] for it in parameters if it["in"] == "query"}
    sent = {pair.split("=")[0] for pair in query.split("&") if pair}
    assert sent <= known, f"{template} does not know {sent - known}"
    schema = described.get("requestBody", {}).get("content", {}).get("application/json", {}).get("schema")
    assert bool(request["body"]) <= bool(schema), f"{template} takes no body"
    if schema:
        root = {**schema, "components": published()["components"]}
        jsonschema.Draft202012Validator(root).validate(json.loads(request["body"] or b"{}"))
        fields = set(resolved(schema).get("properties", {}))
        unknown = set(json.loads(request["body"] or b"{}")) - fields
        assert not fields or not unknown, f"{template} does not know {unknown}"


def resolved(value: dict) -> dict:
    while "$ref" in value:
        here = published()
        for part in value["$ref"].removeprefix("#/").split("/"):
            here = here[part]
        value = here
    return value
