"""MCP with others on both ends: their conformance suite and servers against our client, their inspector against our server."""

import json
import pathlib
import subprocess

import pytest

import checks
import counterparts as c

SERVERS = c.INTEROP / "node_modules/@modelcontextprotocol"
CONFORMANCE = SERVERS / "conformance/dist/index.js"
EXPECTED_FAILURES = pathlib.Path(__file__).parent / "mcp_expected_failures.yml"
INSPECTOR = c.INTEROP / "node_modules/.bin/mcp-inspector"
# As the suite of version 0.1.16 names them; the others are about OAuth, which our client does not speak.
CLIENT_SCENARIOS = ["initialize", "tools_call", "sse-retry", "elicitation-sep1034-client-defaults"]


def example(name: str) -> pathlib.Path:
    built = c.BIN.parent / "examples" / name
    if not built.exists():
        root = pathlib.Path(__file__).parents[2]
        subprocess.run(["cargo", "build", "--quiet", "--example", name], cwd=root, check=True)
    return built


@pytest.fixture(scope="module")
def client() -> pathlib.Path:
    """Our client, connecting as the product does; it answers a form with its defaults, as a person would who agrees."""
    return example("mcp_conformance_client")


@pytest.mark.parametrize("scenario", CLIENT_SCENARIOS)
def test_our_client_conforms(client, scenario, tmp_path):
    argv = ["node", str(CONFORMANCE), "client", "--command", str(client), "--scenario", scenario]
    ran = subprocess.run(argv, cwd=tmp_path, capture_output=True, text=True, timeout=60)
    assert ran.returncode == 0 and "OVERALL: PASSED" in ran.stdout + ran.stderr, ran.stdout + ran.stderr


def conformance(folder: pathlib.Path, expected: pathlib.Path, *flags: str) -> list:
    """The suite against the handler of `mcp serve` over HTTP, with the suite's own tools beside its tools: checks that failed."""
    port = c.free_port()
    env = c.environment(folder / "home", "")
    argv = [str(example("mcp_conformance_server")), str(port), *flags]
    log = folder / "server.log"
    suite = ["node", str(CONFORMANCE), "server", "--suite", "all", "--url", f"http://127.0.0.1:{port}/mcp"]
    suite += ["--expected-failures", str(expected), "--output-dir", str(folder / "results")]
    with c.program(argv, env, c.project(folder / "shop"), log) as process:
        c.wait_for("the server", lambda: process.poll() is not None or c.listens(port))
        ran = subprocess.run(suite, cwd=folder, capture_output=True, text=True, timeout=120)
    said = ran.stdout + ran.stderr
    assert ran.returncode == 0, said + log.read_text()
    made = [json.loads(path.read_text()) for path in folder.glob("results/*/checks.json")]
    assert len(made) == 32, said
    return [check["errorMessage"] for scenario in made for check in scenario if check["status"] == "FAILURE"]


def test_our_server_conforms_but_for_what_it_does_not_offer(tmp_path):
    failures = conformance(tmp_path, EXPECTED_FAILURES)
    assert len(failures) == 14 and all("-32601" in failure for failure in failures), failures


def test_with_the_suites_fixtures_every_scenario_passes(tmp_path):
    """Its prompts, resources and logging beside what is ours: one warning stays, which the other list explains."""
    expected = tmp_path / "expected.yml"
    expected.write_text("server:\n  - server-sse-polling\n")
    assert conformance(tmp_path, expected, "--fixtures") == []


def calling(id: str, tool: str, arguments: dict) -> dict:
    return {"id": id, "name": tool, "arguments": arguments}


def fixtures() -> list:
    rounds = [
        [calling("call_sum", "mcp__everything__get-sum", {"a": 19, "b": 23})],
        [calling("call_image", "mcp__everything__get-tiny-image", {})],
        [calling("call_write", "mcp__files__write_file", {"path": "answer.txt", "content": "42"})],
        [calling("call_out", "mcp__files__read_text_file", {"path": "/etc/passwd"})],
        [calling("call_odd", "mcp__everything__get-sum", {"a": "many"})],
    ]
    usage = {"prompt_tokens": 900, "completion_tokens": 60, "total_tokens": 960}
    answers = [{"toolCalls": calls, "usage": usage} for calls in rounds] + [{"content": "It is 42.", "usage": usage}]
    return [{"match": {"turnIndex": at}, "response": answer} for at, answer in enumerate(answers)]


def configure(env: dict) -> None:
    folder = pathlib.Path(env["JOURNEYMAN_HOME"]) / "config"
    folder.mkdir(parents=True)
    everything = {"command": "node", "args": [str(SERVERS / "server-everything/dist/index.js"), "stdio"]}
    files = {"command": "node", "args": [str(SERVERS / "server-filesystem/dist/index.js"), "."], "write": True}
    (folder / "mcp.json").write_text(json.dumps({"mcpServers": {"everything": everything, "files": files}}))
    # Where they really are, where that is a link.
    readable = [str(c.INTEROP), str(SERVERS.resolve().parent)]
    (folder / "settings.toml").write_text(f"sandbox_read = {json.dumps(readable)}\n")
    # A loaded machine starts Node slowly.
    (folder / "limits.toml").write_text("mcp_offer_seconds = 50\n")


@pytest.fixture(scope="module")
def session(tmp_path_factory):
    home = tmp_path_factory.mktemp("mcp")
    workspace = c.project(home / "shop")
    with c.aimock(home / "aimock", fixtures(), key=c.KEY) as mock:
        env = c.environment(home / "home", mock.base_url)
        configure(env)
        ran = c.run(env, workspace, seconds=120)
        yield ran, workspace, env, mock.bodies()


def test_servers_of_others_are_used_in_a_session(session):
    ran, workspace, _, _ = session
    assert ran.code == 0, ran.everything
    outcomes = {event["call"]: event["outcome"] for event in ran.of("tool_finished")}
    assert "42" in outcomes["1.1"]["output"]
    assert "[image, image/png" in outcomes["2.1"]["output"] and len(outcomes["2.1"]["output"]) < 2000
    assert (workspace / "answer.txt").read_text() == "42"
    assert outcomes["4.1"]["status"] == "failed" and "root:" not in outcomes["4.1"]["output"]
    assert outcomes["5.1"]["status"] == "failed" and "do not fit" in outcomes["5.1"]["output"]
    started = [event["tool"] for event in ran.of("tool_started")]
    assert started == ["mcp.everything.get-sum", "mcp.everything.get-tiny-image", "mcp.files.write_file", "mcp.files.read_text_file"]


def test_every_request_offers_the_same_and_is_valid_to_others(session):
    *_, bodies = session
    assert len(bodies) == 6
    checks.all_of(bodies)
    offered = [json.dumps(body["tools"]) for body in bodies]
    assert len(set(offered)) == 1
    names = [tool["function"]["name"] for tool in bodies[0]["tools"]]
    assert "mcp__files__write_file" in names and len(names) == len(set(names))


def test_prompts_and_resources_of_others_are_commands(tmp_path):
    asked = {
        "/mcp.everything.args-prompt Lisbon state=Portugal": "What's weather in Lisbon, Portugal?",
        "/mcp.everything.resource-prompt Text 1": "demo://resource/dynamic/text/1",
        "/mcp.everything demo://resource/static/document/features.md in short?": "[resource demo://resource/static/document/features.md]",
    }
    workspace = c.project(tmp_path / "shop")
    answer = [{"match": {"turnIndex": 0}, "response": {"content": "Read.", "usage": {"prompt_tokens": 900, "completion_tokens": 6, "total_tokens": 906}}}]
    with c.aimock(tmp_path / "aimock", answer, key=c.KEY) as mock:
        env = c.environment(tmp_path / "home", mock.base_url)
        configure(env)
        for said, became in asked.items():
            ran = c.run(env, workspace, said, seconds=120)
            assert ran.code == 0, ran.everything
            (loaded,) = ran.of("command_loaded")
            assert loaded["loaded"]["result"] == "theirs" and became in loaded["loaded"]["text"], loaded
        bodies = mock.bodies()
    assert len(bodies) == len(asked)
    for body, (said, became) in zip(bodies, asked.items()):
        checks.all_of([body])
        content = body["messages"][-1]["content"]
        assert said in content and '<mcp-text server="everything">' in content and became in content, content


def test_they_are_listed(session):
    _, workspace, env, _ = session
    listed = c.journeyman(env, "mcp", "list", "--json", cwd=workspace)
    servers = json.loads(listed.stdout)["servers"]
    assert [server["name"] for server in servers] == ["everything", "files"], listed.stdout + listed.stderr
    assert all("MCP 2025-11-25" in server["about"] and server["tools"] for server in servers)
    everything = servers[0]
    assert "mcp.everything.args-prompt city [state]" in everything["prompts"]
    assert "demo://resource/static/document/features.md" in everything["resources"]
    assert "demo://resource/dynamic/text/{resourceId}" in everything["resources"]


def inspected(env: dict, workspace: pathlib.Path, *args: str) -> dict:
    # It hands on nothing of its environment but what it is told to.
    given = [word for name in ("JOURNEYMAN_HOME", "DATA_DIR") for word in ("-e", f"{name}={env[name]}")]
    argv = [str(INSPECTOR), "--cli", *given, str(c.BIN), "mcp", "serve", *args]
    ran = subprocess.run(argv, env=env, cwd=workspace, capture_output=True, text=True, timeout=60)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    return json.loads(ran.stdout)


def test_the_inspector_reads_our_server(session):
    _, workspace, env, _ = session
    tools = inspected(env, workspace, "--method", "tools/list")["tools"]
    assert [tool["name"] for tool in tools] == ["ask", "sessions", "plan", "outline"]
    call = ["--method", "tools/call", "--tool-name"]
    sessions = inspected(env, workspace, *call, "sessions")
    assert "done" in sessions["content"][0]["text"]
    outline = inspected(env, workspace, *call, "outline", "--tool-arg", "path=discount.py")
    assert "discount" in outline["content"][0]["text"]


def test_our_client_and_our_server_speak_the_current_revision(tmp_path):
    env = c.environment(tmp_path / "home", "")
    configure(env)
    folder = pathlib.Path(env["JOURNEYMAN_HOME"]) / "config"
    own = {"command": str(c.BIN), "args": ["mcp", "serve"], "env": {"JOURNEYMAN_HOME": str(tmp_path / "other")}}
    (folder / "mcp.json").write_text(json.dumps({"mcpServers": {"own": own}}))
    (folder / "settings.toml").write_text(f'sandbox_read = ["{c.BIN.parent}"]\n')
    listed = c.journeyman(env, "mcp", "list", "--json", cwd=c.project(tmp_path / "shop"))
    (server,) = json.loads(listed.stdout)["servers"]
    assert server["about"].endswith("MCP 2026-07-28") and server["tools"][0] == "ask", listed.stdout
