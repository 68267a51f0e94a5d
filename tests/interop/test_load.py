"""A short load with kills, by benches/load.py; .ci/full has the long ones. It checks the journals itself."""

import os
import pathlib
import subprocess
import sys

import counterparts as c

LOAD = pathlib.Path(__file__).parents[2] / "benches/load.py"


def load(*args: str) -> None:
    env = {"PATH": os.environ["PATH"], "JOURNEYMAN_BIN": str(c.BIN)}
    ran = subprocess.run([sys.executable, str(LOAD), *args], env=env, capture_output=True, text=True, timeout=900)
    assert ran.returncode == 0, ran.stdout + ran.stderr


def test_every_message_is_answered_once_although_everything_is_killed():
    load("soak", "--minutes", "0.3", "--chats", "4")


def test_fifty_chats_at_once_each_get_their_own_answer():
    load("chats", "--chats", "50")
