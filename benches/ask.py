#!/usr/bin/env python3
"""What `journeyman ask` costs beyond the time of the agent that answers.

    benches/ask.py [--times 21] [--ms-max 30]

Runs the whole program around an agent that answers at once, and that agent by itself, in turns; prints both medians and
their difference. Fails (exit code 1) where the difference is more than --ms-max. JOURNEYMAN_BIN is the program (default
target/release/journeyman). Python's own library is all that it needs.
"""

import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
BIN = pathlib.Path(os.environ.get("JOURNEYMAN_BIN", ROOT / "target/release/journeyman")).resolve()
AGENT = ["sh", "-c", "echo There."]


def run(command, environment, folder):
    began = time.perf_counter()
    done = subprocess.run(command, env=environment, cwd=folder, capture_output=True, text=True)
    took_ms = (time.perf_counter() - began) * 1000
    if done.returncode != 0:
        sys.exit(f"{command[0]} ended with {done.returncode}: {done.stderr}")
    return took_ms, done.stdout


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--times", type=int, default=21)
    arguments.add_argument("--ms-max", type=float, default=30)
    wanted = arguments.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        home = pathlib.Path(folder, "home")
        (home / "config").mkdir(parents=True)
        source = pathlib.Path(folder, "src")
        source.mkdir()
        agent = {"ask": "sh -c 'echo There.'", "chat": "sh"}
        agents = {"defaultAgent": "mine", "agents": {"mine": agent}}
        (home / "config/agents.json").write_text(json.dumps(agents))
        environment = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}
        environment |= {"JOURNEYMAN_HOME": str(home), "TMPDIR": folder}
        run([BIN, "sources", "add", "dir", "src", source], environment, folder)
        ask = [BIN, "ask", "-s", "src", "-q", "Where?"]
        whole, alone = [], []
        for number in range(wanted.times + 1):
            took_ms, said = run(ask, environment, folder)
            assert said == "There.\n", said
            by_itself_ms, _ = run(AGENT, environment, folder)
            if number:  # the first one makes the template
                whole.append(took_ms)
                alone.append(by_itself_ms)
    whole_ms, alone_ms = statistics.median(whole), statistics.median(alone)
    more_ms = whole_ms - alone_ms
    print(f"journeyman ask {whole_ms:.1f} ms, the agent by itself {alone_ms:.1f} ms: {more_ms:.1f} ms more (median of {wanted.times})")
    sys.exit(more_ms > wanted.ms_max)


if __name__ == "__main__":
    main()
