#!/usr/bin/env python3
"""Says one thing to `journeyman serve` over HTTP, shows what it answers, and passes on yes and no. docs/http.md

    HTTP_SECRET=… ./http_client.py "the test for discount fails, fix it"

JOURNEYMAN_URL is the server (default http://127.0.0.1:8787), HTTP_SECRET the client's part after the colon in HTTP_CLIENTS.
--yes and --no answer questions by themselves. Exit code 0: the turn is done. Python's own library is all that it needs.
"""

import argparse
import json
import os
import sys
import time
import urllib.error
import urllib.request
import uuid

URL = os.environ.get("JOURNEYMAN_URL", "http://127.0.0.1:8787")
TRIES_MAX = 20


def call(path, body=None, headers=None, seconds=30):
    """One request. A server that is busy or away is asked again; what it refuses ends the program."""
    headers = {"Authorization": f"Bearer {os.environ['HTTP_SECRET']}", **(headers or {})}
    if body is not None:
        headers["Content-Type"] = "application/json"
        body = json.dumps(body).encode()
    for attempt in range(TRIES_MAX):
        try:
            return urllib.request.urlopen(urllib.request.Request(URL + path, body, headers), timeout=seconds)
        except urllib.error.HTTPError as refused:
            problem = json.load(refused)
            if refused.code != 503:
                sys.exit(f"{problem['title']}: {problem['detail']}")
            wait = int(refused.headers.get("Retry-After", 1))
        except OSError:
            wait = 1
        time.sleep(wait)
    sys.exit(f"no answer from {URL} after {TRIES_MAX} tries")


def events(session, first):
    """The session's lines from `first` on, each once: a stream that breaks is taken up after the last one."""
    last = None
    while True:
        headers = {"Last-Event-ID": last} if last else {}
        # A comment comes every 15 seconds: 60 without anything is a connection that is gone.
        with call(f"/v1/sessions/{session}/events?from={first}", headers=headers, seconds=60) as stream:
            try:
                for line in stream:
                    name, _, value = line.decode().rstrip("\n").partition(": ")
                    if name == "id":
                        seen = value
                    elif name == "data":
                        yield json.loads(value)
                        last = seen
            except OSError:
                pass
        time.sleep(1)


def decide(always_answer):
    if always_answer:
        return {"decision": always_answer}
    answer = input("[y]es, [a]lways, or why not: ").strip()
    known = {"y": "approve", "yes": "approve", "a": "always"}
    return {"decision": known[answer]} if answer in known else {"decision": "deny", "reason": answer}


def main():
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("text")
    arguments.add_argument("--chat", help="one of your chats; each has its own sessions")
    answers = arguments.add_mutually_exclusive_group()
    answers.add_argument("--yes", dest="answer", action="store_const", const="approve")
    answers.add_argument("--no", dest="answer", action="store_const", const="deny")
    wanted = arguments.parse_args()

    # With an id of ours, a request whose answer got lost can be sent again.
    message = {"id": str(uuid.uuid4()), "text": wanted.text, "chat": wanted.chat}
    taken = json.load(call("/v1/messages", message))
    print(f"session {taken['session']}", file=sys.stderr)
    ended, code = None, None
    for event in events(taken["session"], taken["seq"]):
        kind = event["event"]
        if kind == "message_taken" and event["message"] == taken["id"] and event["reply"]:
            ended = "done"  # a command: its reply is all
        elif kind == "approval_asked":
            code = event["approval"]
        elif kind == "turn_ended":
            ended = event["reason"]
        elif kind == "send_started":
            print(event["text"], flush=True)
            if event["kind"] == "question" and code:
                answer = {"id": str(uuid.uuid4()), "chat": wanted.chat, **decide(wanted.answer)}
                call(f"/v1/approvals/{code}", answer)
                code = None
            elif ended and event["kind"] in ("final", "notice"):
                sys.exit(0 if ended == "done" else f"the turn ended: {ended}")


if __name__ == "__main__":
    main()
