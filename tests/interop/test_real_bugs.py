"""Real bugs of real libraries, by the whole program: release N is repaired to what N+1 says, with the test of N+1.

The model is scripted: it looks around, adds the test, sees it fail, changes the source, sees it pass, commits, pushes and
opens a pull request. The patches are made here, from the two releases, in the forms in which models write them.
"""

import difflib
import json
import os
import pathlib
import re
import shutil

import pytest

import checks
import counterparts as c
import forge as f

BUGS = json.loads((pathlib.Path(__file__).parent / "real_bugs.json").read_text())
PACKAGES = c.INTEROP / "packages"
# As many as `packages` downloads anyway.
ALWAYS = 2
CONTEXT = 3
# Below the source of a Rust module.
TESTS_BEGIN = re.compile(r"^#\[cfg\(test\)\]\n(const|static|mod) ", re.MULTILINE)
SECONDS_MAX = 240


class Hunk:
    """Lines of one place, each with its mark: blank, `-` or `+`."""

    def __init__(self, old: int, new: int, lines: list, end: str):
        self.old, self.new, self.lines, self.end = old, new, lines, end

    def side(self, mark: str) -> list:
        return [line[1:] for line in self.lines if line[0] in (" ", mark)]

    @property
    def unified(self) -> str:
        old, new = len(self.side("-")), len(self.side("+"))
        head = f"@@ -{self.old},{old} +{self.new},{new} @@\n"
        return head + "".join(f"{line}\n" for line in self.lines) + self.end


def text_of(release: pathlib.Path, path: str) -> str:
    file = release / path
    return file.read_text() if file.exists() else ""


def hunks(before: str, after: str) -> list:
    old, new, found = before.splitlines(), after.splitlines(), []
    # Where the end of the file is in a hunk, it says whether a line ends there.
    end = "" if before or after.endswith("\n") else "\\ No newline at end of file\n"
    for group in difflib.SequenceMatcher(None, old, new, autojunk=False).get_grouped_opcodes(CONTEXT):
        lines = []
        for tag, i1, i2, j1, j2 in group:
            if tag == "equal":
                lines += [" " + line for line in old[i1:i2]]
                continue
            lines += ["-" + line for line in old[i1:i2]] + ["+" + line for line in new[j1:j2]]
        found.append(Hunk(group[0][1] + bool(old), group[0][3] + 1, lines, end))
    return found


class Bug:
    def __init__(self, about: dict):
        self.about = about
        self.before, self.after = (PACKAGES / f"{about['name']}-{about[it]}" for it in ("before", "after"))

    def __getitem__(self, name: str):
        return self.about.get(name)

    def changes(self, of_tests: bool) -> list:
        """`(path, whether it is new, hunks)`; where tests stand below the source, each hunk is one or the other."""
        found = []
        for path in self["tests" if of_tests else "source"]:
            old, new = text_of(self.before, path), text_of(self.after, path)
            places = hunks(old, new)
            if path in self["tests"] and path in self["source"]:
                at = new[: TESTS_BEGIN.search(new).start()].count("\n") + 1
                places = [hunk for hunk in places if (hunk.new + CONTEXT >= at) == of_tests]
            if places:
                found.append((path, not old, places))
        assert found, f"{self['name']}: nothing differs"
        return found


def as_edits(changes: list) -> dict:
    edit = lambda path, hunk: {"path": path, "search": "\n".join(hunk.side("-")), "replace": "\n".join(hunk.side("+"))}
    assert not any(new for _, new, _ in changes)
    return {"edits": [edit(path, hunk) for path, _, places in changes for hunk in places]}


def as_diff(changes: list) -> dict:
    parts = []
    for path, new, places in changes:
        parts.append(f"--- {'/dev/null' if new else 'a/' + path}\n+++ b/{path}\n")
        parts += [hunk.unified for hunk in places]
    return {"patch": "".join(parts)}


def as_envelope(changes: list) -> dict:
    parts = ["*** Begin Patch\n"]
    for path, new, places in changes:
        parts.append(f"*** {'Add' if new else 'Update'} File: {path}\n")
        for hunk in places:
            parts += ([] if new else ["@@\n"]) + [f"{line}\n" for line in hunk.lines]
    return {"patch": "".join(parts) + "*** End Patch\n"}


STYLES = {"edits": as_edits, "diff": as_diff, "envelope": as_envelope}


def script(bug: Bug) -> list:
    """Each round's calls."""
    written = STYLES[bug["style"]]
    source, tests = written(bug.changes(False)), written(bug.changes(True))
    path, _, places = bug.changes(False)[0]
    near = places[0].old
    run = ("run_command", {"command": bug["command"], "timeout": 240})
    branch = ("git_create_branch", {"name": f"fix/{bug['name']}"})
    commit = ("git_commit", {"message": f"{bug['title']}\n\nAs the test of {bug['after']} wants it."})
    # Who forgets to make a branch is told by the remote.
    delivered = [[commit], [("git_push", {})], [branch]] if bug["on_main"] else [[branch, commit]]
    proposal = {"title": bug["title"], "summary": "It **works** now.", "tests": f"`{bug['command']}`", "draft": False}
    return [
        [("list_files", {}), ("get_file_outline", {"path": path}), ("search", {"pattern": bug["look_for"], "literal": True})],
        [("read_lines", {"path": path, "start": max(1, near - 20), "end": near + 40})],
        [("apply_patch", tests)],
        [run],
        [("preview_patch", source), ("apply_patch", source)],
        [run],
        [("git_status", {}), ("git_diff", {"path": path})],
        *delivered,
        [("git_push", {})],
        [("git_create_pr", proposal)],
        [("git_pr_status", {})],
    ]


def fixtures(rounds: list) -> list:
    def answer(number: int, calls: list) -> dict:
        named = [{"id": f"call_{number}_{i}", "name": name, "arguments": arguments} for i, (name, arguments) in enumerate(calls)]
        return {"match": {"turnIndex": number}, "response": {"toolCalls": named}}

    asked = [answer(number, calls) for number, calls in enumerate(rounds)]
    return [*asked, {"match": {"turnIndex": len(rounds)}, "response": {"content": "Fixed, and a pull request is open."}}]


def checkout(bug: Bug, folder: pathlib.Path, hosted: f.Forge) -> pathlib.Path:
    """The release as a repository, whose `main` the forge has too."""
    shutil.copytree(bug.before, folder)
    c.git(folder, "init", "-q", "-b", "main")
    (folder / ".git/info/exclude").write_text("__pycache__/\n*.egg-info/\n/target/\nCargo.lock\n")
    c.git(folder, "add", "--all", "--force", ".")
    c.git(folder, "commit", "-q", "-m", f"Release {bug['before']}")
    c.git(folder, "remote", "add", "origin", hosted.remote)
    c.git(hosted.repository, "fetch", "-q", str(folder), "main:main")
    return folder


def environment(bug: Bug, home: pathlib.Path, base_url: str, hosted: f.Forge) -> dict:
    env = c.environment(home, base_url, GITHUB_TOKEN=f.TOKEN, GITHUB_API_URL=hosted.api)
    env["PATH"] = f"{c.INTEROP}/venv/bin:{env['PATH']}"
    # Where the real one has its toolchain.
    for name, folder in (("CARGO_HOME", ".cargo"), ("RUSTUP_HOME", ".rustup")):
        env[name] = os.environ.get(name, str(pathlib.Path.home() / folder))
    config = home / "journeyman/config"
    config.mkdir(parents=True, exist_ok=True)
    readable = [str(c.INTEROP / "venv"), env["CARGO_HOME"], env["RUSTUP_HOME"]]
    (config / "settings.toml").write_text(f"sandbox_read = {json.dumps(readable)}\n")
    return env


@pytest.mark.parametrize("about", BUGS, ids=lambda about: about["name"])
def test_a_real_bug_is_fixed_tested_and_proposed(about, tmp_path):
    if about not in BUGS[:ALWAYS] and os.environ.get("JOURNEYMAN_REAL_BUGS") != "all":
        pytest.skip("only with JOURNEYMAN_REAL_BUGS=all")
    bug = Bug(about)
    rounds = script(bug)
    with f.forge(tmp_path / "forge") as hosted, c.aimock(tmp_path / "aimock", fixtures(rounds)) as mock:
        env = environment(bug, tmp_path / "home", mock.base_url, hosted)
        workspace = checkout(bug, tmp_path / bug["name"], hosted)
        main = c.git(workspace, "rev-parse", "main")
        ran = c.run(env, workspace, f"{bug['title']}; add the test", SECONDS_MAX)
        bodies = mock.bodies()
        assert ran.code == 0, ran.everything[-4000:]
        said(bug, ran)
        delivered(bug, hosted, workspace, main)
        checks.all_of(bodies)
        verified = c.journeyman(env, "audit", "verify", cwd=tmp_path)
        assert verified.returncode == 0, verified.stderr
    assert f.TOKEN not in ran.everything


def said(bug: Bug, ran: c.Ran) -> None:
    """How each call ended: the test is red before the change of the source and green after it."""
    tools = {event["call"]: event["tool"] for event in ran.of("tool_started")}
    ended = [(tools[event["call"]], event["outcome"]) for event in ran.of("tool_finished")]
    outputs = lambda tool: [outcome["output"] for name, outcome in ended if name == tool]
    red, green = outputs("run_command")
    assert not red.startswith("Exit code: 0 ") and bug["red"] in red, red
    assert green.startswith("Exit code: 0 ") and bug["green"] in green, green
    refused = [(tool, outcome["output"]) for tool, outcome in ended if outcome["status"] != "done" and tool != "run_command"]
    if bug["on_main"]:
        (tool, why), *refused = refused
        assert tool == "git_push" and "main is protected here" in why and "open a pull request" in why
    assert not refused, refused
    assert outputs("preview_patch")[0] and bug["look_for"] in outputs("search")[0]


def delivered(bug: Bug, hosted: f.Forge, workspace: pathlib.Path, main: str) -> None:
    """One commit more on a branch of its own, and one pull request for it, as GitHub describes requests."""
    branch = f"fix/{bug['name']}"
    assert c.git(hosted.repository, "rev-parse", branch) == c.git(workspace, "rev-parse", branch)
    assert c.git(hosted.repository, "rev-parse", "main") == main
    assert c.git(hosted.repository, "rev-list", "--count", f"main..{branch}") == "1\n"
    message = c.git(hosted.repository, "log", "-1", "--format=%B", branch)
    assert message.startswith(bug["title"]) and "Journeyman-Effect: " in message
    changed = set(c.git(hosted.repository, "diff", "--name-only", f"main..{branch}").split())
    assert changed == {*bug["source"], *bug["tests"]}
    for path in changed:
        there = c.git(hosted.repository, "show", f"{branch}:{path}")
        wanted = text_of(bug.after, path)
        # An envelope cannot say that a file's last line has no end.
        ends = "\n" if bug["style"] == "envelope" and not wanted.endswith("\n") else ""
        assert there == wanted + ends, f"{path} is not as in {bug['after']}"
    creating = [it for it in hosted.calls() if it["method"] == "POST" and it["path"].endswith("/pulls")]
    (body,) = [json.loads(it["body"]) for it in creating]
    assert (body["head"], body["base"], body["title"]) == (branch, "main", bug["title"])
    assert bug["command"] in body["body"]
    for request in hosted.calls():
        f.valid(request)
        assert request["authorization"] == f"Bearer {f.TOKEN}"
