"""Pushes and pull requests against lighttpd with git http-backend, and emulate; every request as GitHub describes it."""

import json

import pytest

import counterparts as c
import forge as f

PROPOSAL = {"title": "fix: the discount", "summary": "It **works** now.", "tests": "1 passed", "draft": True, "labels": ["bug"], "reviewers": ["bob"]}


def fixtures(*calls: tuple) -> list:
    asked = [
        {"match": {"turnIndex": i}, "response": {"toolCalls": [{"id": f"call_{i}", "name": name, "arguments": arguments}]}}
        for i, (name, arguments) in enumerate(calls)
    ]
    return [*asked, {"match": {"turnIndex": len(calls)}, "response": {"content": "Done."}}]


@pytest.fixture
def hosted(tmp_path):
    with f.forge(tmp_path / "forge") as hosted:
        yield hosted


def work(hosted: f.Forge, folder, *calls: tuple, token: str = f.TOKEN):
    """One session in a clone on a branch of its own; how its calls ended, and what it printed."""
    with c.aimock(folder / "aimock", fixtures(*calls)) as mock:
        env = c.environment(folder / "home", mock.base_url, GITHUB_TOKEN=token, GITHUB_API_URL=hosted.api)
        workspace = folder / "shop"
        if not workspace.exists():
            c.project(workspace)
            c.git(workspace, "remote", "add", "origin", hosted.remote)
            c.git(workspace, "switch", "-q", "-c", "topic")
        ran = c.run(env, workspace)
    assert ran.code == 0, ran.everything
    assert token not in ran.everything
    return [event["outcome"] for event in ran.of("tool_finished")], workspace


def test_a_branch_is_pushed_and_its_pull_request_opened_once(hosted, tmp_path):
    (pushed, created, updated, status, replied, comments), workspace = work(
        hosted, tmp_path,
        ("git_push", {}),
        ("git_create_pr", PROPOSAL),
        ("git_create_pr", {**PROPOSAL, "title": "fix: the whole discount"}),
        ("git_pr_status", {"pull": 1}),
        ("git_pr_reply", {"pull": 1, "text": "Tested."}),
        ("git_pr_comments", {"pull": 1}),
    )
    for outcome in (pushed, created, updated, status, replied, comments):
        assert outcome["status"] == "done", outcome["output"]
    assert c.git(hosted.repository, "rev-parse", "topic") == c.git(workspace, "rev-parse", "topic")
    assert "Created pull request #" in created["output"] and "Updated pull request #" in updated["output"]
    # emulate would have taken a second one for the same head.
    creating = [it for it in hosted.calls() if it["method"] == "POST" and it["path"].endswith("/pulls")]
    assert len(creating) == 1
    body = json.loads(creating[0]["body"])
    assert (body["head"], body["base"], body["draft"]) == ("topic", "main", True)
    # GitHub refuses a head that it does not have: the branch was there first.
    at = [hosted.requests.index(it) for it in (hosted.pushes()[0], creating[0])]
    assert at == sorted(at)
    assert "fix: the whole discount" in status["output"] and "Tested." in comments["output"]
    # emulate takes any token: ours is the right one, everywhere.
    assert all(it["authorization"] == f"Bearer {f.TOKEN}" for it in hosted.calls())


def test_every_request_is_one_that_github_describes(hosted, tmp_path):
    work(
        hosted, tmp_path,
        ("git_create_pr", PROPOSAL),
        ("git_create_pr", PROPOSAL),
        ("git_pr_status", {}),
        ("git_pr_reply", {"pull": 1, "text": "Tested."}),
        ("git_pr_reply", {"pull": 1, "text": "Here too.", "reply_to": 5}),
        ("git_pr_comments", {"pull": 1}),
    )
    assert len(hosted.calls()) > 10
    for request in hosted.calls():
        f.valid(request)


def test_the_description_does_refuse_what_is_wrong():
    good = {"method": "POST", "path": "/api/v3/repos/a/b/pulls", "body": b'{"title": "x", "head": "h", "base": "main"}'}
    f.valid(good)
    for wrong in (
        {"path": "/api/v3/repos/a/b/pull"},
        {"body": b'{"title": "x", "head": "h"}'},
        {"body": b'{"title": "x", "head": "h", "base": "main", "reviewer": []}'},
        {"body": b'{"title": 7, "head": "h", "base": "main"}'},
        {"method": "GET", "path": "/api/v3/repos/a/b/pulls?status=open", "body": b""},
    ):
        with pytest.raises((AssertionError, f.jsonschema.ValidationError)):
            f.valid({**good, **wrong})


def test_refusals_of_the_repository_reach_the_model_in_words(hosted, tmp_path):
    (refused,), _ = work(hosted, tmp_path / "wrong", ("git_push", {}), token="some-other-token-of-nobody")
    assert refused["status"] == "failed" and "GITHUB_TOKEN is wrong" in refused["output"]
    (protected,), _ = work(hosted, tmp_path / "main", ("git_push", {"branch": "main"}))
    assert protected["status"] == "failed" and "open a pull request" in protected["output"]
    (first,), workspace = work(hosted, tmp_path / "first", ("git_push", {}))
    assert first["status"] == "done", first["output"]
    c.git(workspace, "commit", "-q", "--allow-empty", "-m", "feat: more")
    (more,), _ = work(hosted, tmp_path / "first", ("git_push", {}))
    assert more["status"] == "done", more["output"]
    (behind,), _ = work(hosted, tmp_path / "behind", ("git_push", {}))
    assert behind["status"] == "failed" and "git pull --rebase" in behind["output"]
    assert len(hosted.pushes()) >= 2
