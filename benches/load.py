#!/usr/bin/env python3
"""Load on `journeyman serve`, on loopback: how many webhooks it takes, how many chats at once, and what kills do to it.

    benches/load.py webhooks [--rate 1000] [--seconds 20] [--chats 200] [--p99-ms-max 25]
    benches/load.py chats    [--chats 500] [--own-worktrees]
    benches/load.py soak     [--minutes 30] [--chats 8] [--seed N]

Fails (exit code 1) where a message is lost, taken twice or not answered, or a target is missed. JOURNEYMAN_BIN is the
program (default target/release/journeyman). The model and WhatsApp's Graph API are processes of this script: the model
answers with what it was asked, after --think seconds. Python's own library is all that it needs.
"""

import argparse
import asyncio
import collections
import hashlib
import hmac
import json
import multiprocessing
import os
import pathlib
import random
import signal
import socket
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
BIN = pathlib.Path(os.environ.get("JOURNEYMAN_BIN", ROOT / "target/release/journeyman")).resolve()
SECRET = "load-app-secret"
CONNECTIONS = 64
READY_SECONDS_MAX = 30
# A bare write that takes longer says that the machine stood still.
STILL_MS = 10


# --- the others ------------------------------------------------------------------------------------------------------


class Http(asyncio.Protocol):
    """As little of HTTP/1.1 as both sides of a load need: whole messages with a length, one after the other."""

    def connection_made(self, transport):
        self.transport, self.buffer = transport, b""

    def data_received(self, data):
        self.buffer += data
        while True:
            head, found, rest = self.buffer.partition(b"\r\n\r\n")
            if not found:
                return
            length = 0
            for line in head.split(b"\r\n")[1:]:
                name, _, value = line.partition(b":")
                if name.lower() == b"content-length":
                    length = int(value)
            if len(rest) < length:
                return
            self.buffer = rest[length:]
            self.message(head, rest[:length])

    def answer(self, status, body):
        if not self.transport.is_closing():
            data = json.dumps(body).encode()
            head = f"HTTP/1.1 {status} X\r\ncontent-type: application/json\r\ncontent-length: {len(data)}\r\n\r\n"
            self.transport.write(head.encode() + data)


def model(port, think):
    class Model(Http):
        def message(self, head, body):
            asked = [message["content"] for message in json.loads(body)["messages"] if message["role"] == "user"]
            reply = {"role": "assistant", "content": f"You said: {str(asked[-1])[-100:]}"}
            usage = {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15}
            choice = {"index": 0, "message": reply, "finish_reason": "stop"}
            answer = {"id": "c", "object": "chat.completion", "created": 1, "model": "m", "choices": [choice], "usage": usage}
            asyncio.get_running_loop().call_later(think, self.answer, 200, answer)

    asyncio.run(listen(port, Model))


def graph(port, sent):
    """Keeps who was written to, when and what, in `sent`, a pipe."""
    count = 0

    class Graph(Http):
        def message(self, head, body):
            nonlocal count
            request = json.loads(body)
            if "to" not in request:
                return self.answer(200, {"success": True})
            count += 1
            # Neither a reaction nor the welcome of a first session answers anything.
            text = request.get("text", {}).get("body", "👋")
            if not text.startswith("👋"):
                sent.send((time.monotonic(), request["to"], text))
            ids = [{"id": f"wamid.out.{os.getpid()}.{count}"}]
            contacts = [{"input": request["to"], "wa_id": request["to"]}]
            self.answer(200, {"messaging_product": "whatsapp", "contacts": contacts, "messages": ids})

    asyncio.run(listen(port, Graph))


def bare(folder, pipe):
    """What this machine takes for the least that a durable answer needs: 4 kB written and synced, due every 10 ms, until told."""
    times, due = [], time.monotonic()
    with open(pathlib.Path(folder) / "bare", "wb", buffering=0) as file:
        while not pipe.poll():
            time.sleep(max(0, due - time.monotonic()))
            os.pwrite(file.fileno(), b"x" * 4096, 0)
            os.fdatasync(file.fileno())
            times.append((due, (time.monotonic() - due) * 1000))
            due += 0.01
    pipe.send(times)


async def listen(port, protocol):
    server = await asyncio.get_running_loop().create_server(protocol, "127.0.0.1", port, backlog=1024)
    await server.serve_forever()


# --- ours ------------------------------------------------------------------------------------------------------------


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def until(what, check, seconds, every=0.05):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if value := check():
            return value
        time.sleep(every)
    sys.exit(f"waited {seconds} s for {what}")


class Stage:
    """The program between a model and a Graph API, in a folder of its own."""

    def __init__(self, folder, numbers, think, settings='worktree = "shared"', together_ms=0):
        self.folder, self.numbers, self.think = pathlib.Path(folder), numbers, think
        self.ports = {name: free_port() for name in ("model", "graph", "server")}
        self.heard, self.processes = [], {}
        # Bounded: a reader that falls behind slows Graph down, and nothing is lost.
        self.inlet, self.outlet = multiprocessing.Pipe(duplex=False)
        shop = self.folder / "projects/shop"
        shop.mkdir(parents=True)
        (shop / "notes.txt").write_text("one\n")
        for args in (["init", "-q"], ["add", "."], ["-c", "user.name=A", "-c", "user.email=a@b.c", "commit", "-qm", "x"]):
            subprocess.run(["git", *args], cwd=shop, check=True)
        (self.folder / "home/config").mkdir(parents=True)
        (self.folder / "home/config/settings.toml").write_text(f'model_stream = false\nresume = "auto"\n{settings}\n')
        # Waiting for further messages costs nothing but that time.
        (self.folder / "home/config/limits.toml").write_text(f"together_ms = {together_ms}\nmessages_max = 0\n")
        for name in self.ports:
            self.start(name)

    def start(self, name):
        port = self.ports[name]
        if name == "server":
            self.processes[name] = self.serve()
        else:
            target, args = (model, (port, self.think)) if name == "model" else (graph, (port, self.outlet))
            self.processes[name] = multiprocessing.Process(target=target, args=args, daemon=True)
            self.processes[name].start()
        until(f"{name} to listen", lambda: listens(port), READY_SECONDS_MAX)

    def kill(self, name):
        process = self.processes[name]
        os.kill(process.pid, signal.SIGKILL)
        process.join() if name != "server" else process.wait()

    def serve(self):
        assert BIN.is_file(), f"no binary at {BIN}: cargo build --release, or set JOURNEYMAN_BIN"
        env = {
            "PATH": os.environ["PATH"],
            "HOME": str(self.folder),
            "JOURNEYMAN_HOME": str(self.folder / "home"),
            "DATA_DIR": str(self.folder / "data"),
            "PROJECTS_ROOT": str(self.folder / "projects"),
            "BIND_ADDR": f"127.0.0.1:{self.ports['server']}",
            "OPENAI_BASE_URL": f"http://127.0.0.1:{self.ports['model']}/v1",
            "AGENT_MODEL": "m",
            "WHATSAPP_ACCESS_TOKEN": "t",
            "WHATSAPP_PHONE_NUMBER_ID": "100",
            "WHATSAPP_VERIFY_TOKEN": "v",
            "WHATSAPP_APP_SECRET": SECRET,
            "WHATSAPP_API_URL": f"http://127.0.0.1:{self.ports['graph']}/v23.0",
            "ALLOWED_PHONE_NUMBERS": ",".join(self.numbers),
            "RUST_LOG": os.environ.get("RUST_LOG", "warn"),
        }
        log = (self.folder / "serve.log").open("ab")
        return subprocess.Popen([str(BIN), "serve"], env=env, cwd=self.folder, stdin=subprocess.DEVNULL, stderr=log)

    def memory(self, field):
        """Megabytes, by the kernel: VmRSS now, VmHWM at most."""
        for line in pathlib.Path(f"/proc/{self.processes['server'].pid}/status").read_text().splitlines():
            if line.startswith(field):
                return int(line.split()[1]) / 1024
        sys.exit("the server is gone")

    def listen(self):
        """What Graph was given since."""
        while self.inlet.poll():
            self.heard.append(self.inlet.recv())
        return self.heard

    def journals(self):
        for path in sorted((self.folder / "data/agent_sessions").glob("*.jsonl")):
            yield [json.loads(line) for line in path.read_text().splitlines()]

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        for process in self.processes.values():
            process.terminate()
        for name, process in self.processes.items():
            process.join() if name != "server" else process.wait(60)
        self.processes.clear()


def listens(port):
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def webhook(number, message_id, text):
    message = {"from": number, "id": message_id, "timestamp": "1795300000", "type": "text", "text": {"body": text}}
    value = {"messaging_product": "whatsapp", "metadata": {"display_phone_number": "1", "phone_number_id": "100"}, "messages": [message]}
    entry = {"id": "1", "changes": [{"field": "messages", "value": value}]}
    body = json.dumps({"object": "whatsapp_business_account", "entry": [entry]}).encode()
    signature = hmac.new(SECRET.encode(), body, hashlib.sha256).hexdigest()
    head = f"POST /webhook HTTP/1.1\r\nhost: x\r\nx-hub-signature-256: sha256={signature}\r\ncontent-length: {len(body)}\r\n\r\n"
    return head.encode() + body


class Caller(Http):
    """One kept-alive connection: one request at a time."""

    waiting = None

    def message(self, head, body):
        waiting, self.waiting = self.waiting, None
        if waiting and not waiting.done():
            waiting.set_result(int(head.split(b" ")[1]))

    def connection_lost(self, why):
        if self.waiting and not self.waiting.done():
            self.waiting.set_result(0)

    async def post(self, request):
        self.waiting = asyncio.get_running_loop().create_future()
        self.transport.write(request)
        return await self.waiting


async def play(port, requests, rate):
    """Posts everything, at this rate, whatever became of those before. Status and seconds of each, from when it was due, and that."""
    loop, free = asyncio.get_running_loop(), asyncio.Queue()
    for _ in range(CONNECTIONS):
        _, caller = await loop.create_connection(Caller, "127.0.0.1", port)
        free.put_nowait(caller)
    results, tasks = [], []

    async def one(request, due):
        caller = await free.get()
        status = await caller.post(request)
        free.put_nowait(caller)
        results.append((status, loop.time() - due, due))

    start = loop.time() + 0.1
    for at, request in enumerate(requests):
        due = start + at / rate
        if (wait := due - loop.time()) > 0:
            await asyncio.sleep(wait)
        tasks.append(asyncio.create_task(one(request, due)))
    await asyncio.gather(*tasks)
    return results, loop.time() - start


def settled(stage):
    """Waits until the server has nothing more to do, and stops it: then its journals are whole."""
    seen = [None, time.monotonic()]

    def quiet():
        size = sum(path.stat().st_size for path in (stage.folder / "data/agent_sessions").glob("*.jsonl"))
        stage.listen()
        if size != seen[0]:
            seen[:] = [size, time.monotonic()]
        return time.monotonic() - seen[1] > 5 + stage.think

    until("the server to be at rest", quiet, 600, every=0.2)


def account(stage, ids):
    """Every message came once, was taken once, and every turn ended once, its words sent."""
    wrong, came, taken, ended, finals = [], collections.Counter(), collections.Counter(), 0, 0
    for events in stage.journals():
        turn, unsent = False, set()
        for event in events:
            kind = event["event"]
            if kind == "message_received":
                came[event["message"]["id"]] += 1
            elif kind == "message_taken":
                for message in [event, *event.get("with", [])]:
                    taken[message["message"]] += 1
                turn = turn or event["reading"]["as"] == "objective"
            elif kind == "turn_ended":
                if not turn:
                    wrong.append(f"{events[0]['session']}: a turn ended twice, line {event['seq']}")
                turn, ended = False, ended + 1
            elif kind == "send_started":
                unsent.add(event["send"])
                finals += event["kind"] == "final"
            elif kind == "send_finished" and not event["error"]:
                unsent.discard(event["send"])
        if turn or unsent:
            wrong.append(f"{events[0]['session']}: {'a turn that goes on, ' if turn else ''}{len(unsent)} messages not sent")
    for what, count in (("received", came), ("taken", taken)):
        odd = [message for message in ids if count[message] != 1]
        if odd or len(count) != len(ids):
            wrong.append(f"not {what} exactly once: {len(odd)} of {len(ids)}, such as {odd[:3]}; {len(count)} known")
    home = {"HOME": stage.folder, "DATA_DIR": stage.folder / "data", "JOURNEYMAN_HOME": stage.folder / "home"}
    env = {"PATH": os.environ["PATH"], **{name: str(path) for name, path in home.items()}}
    verified = subprocess.run([str(BIN), "audit", "verify"], env=env, cwd=stage.folder, capture_output=True, text=True)
    if verified.returncode:
        wrong.append(verified.stdout[-300:] + verified.stderr[-300:])
    print(f"{len(ids)} messages, each received and taken once; {ended} turns, each ended once" if not wrong else "\n".join(wrong))
    return not wrong


def percentile(values, share):
    return sorted(values)[min(len(values) - 1, int(len(values) * share))]


# --- the loads -------------------------------------------------------------------------------------------------------


def webhooks(wanted):
    numbers = [str(34600000000 + at) for at in range(wanted.chats)]
    with tempfile.TemporaryDirectory(prefix="journeyman-load-") as folder:
        with Stage(folder, numbers, wanted.think) as stage:
            total = wanted.rate * wanted.seconds
            ids = [f"wamid.{at}" for at in range(total)]
            requests, order = [], []
            for at, message in enumerate(ids):
                number = numbers[at % len(numbers)]
                requests.append(webhook(number, message, f"say {at}"))
                if at % 20 == 19:  # WhatsApp sends again what it got no answer to, and sometimes what it did
                    requests.append(webhook(numbers[(at - 7) % len(numbers)], ids[at - 7], f"say {at - 7}"))
            # The first message of a chat makes its session; what is measured is the steady state.
            warm = len(numbers) + len(numbers) // 20 + 1
            asyncio.run(play(stage.ports["server"], requests[:warm], 200))
            # A session's first turn makes its worktree: a dozen git processes each, on the cores that are to be measured.
            asked = lambda events: any(event["event"] == "model_asked" for event in events)
            until("every session to be at work", lambda: sum(map(asked, stage.journals())) == len(numbers), 120, every=0.5)
            before, used = stage.memory("VmRSS"), cpu(stage)
            ours, theirs = multiprocessing.Pipe()
            multiprocessing.Process(target=bare, args=(folder, theirs), daemon=True).start()
            results, seconds = asyncio.run(play(stage.ports["server"], requests[warm:], wanted.rate))
            after, used = stage.memory("VmRSS"), cpu(stage) - used
            ours.send("enough")
            beside = ours.recv()
            times = [seconds * 1000 for _, seconds, _ in results]
            refused = collections.Counter(status for status, _, _ in results if status != 200)
            p50, p99, most = percentile(times, 0.5), percentile(times, 0.99), max(times)
            print(f"{len(results)} webhooks in {seconds:.1f} s, {len(results) / seconds:.0f} a second; not 200: {dict(refused)}")
            print(f"to the durable 200: median {p50:.1f} ms, p99 {p99:.1f} ms, most {most:.0f} ms; processor time {used / len(results) * 1e6:.0f} µs each")
            bare_ms = [ms for _, ms in beside]
            print(f"4 kB written and synced beside it: median {percentile(bare_ms, 0.5):.1f} ms, p99 {percentile(bare_ms, 0.99):.1f} ms, most {max(bare_ms):.0f} ms")
            # Seconds in which the machine itself stood still say nothing of the program, nor does the one that catches up.
            still = {int(due) + after for due, ms in beside if ms > STILL_MS for after in (0, 1)}
            moving = [seconds * 1000 for _, seconds, due in results if int(due) not in still]
            p99 = percentile(moving, 0.99) if len(moving) > len(times) / 3 else None
            print(f"without {len(still)} seconds in or after which that took more than {STILL_MS} ms: p99 {f'{p99:.1f} ms' if p99 else 'not known'}")
            settled(stage)
            print(f"memory: {before:.0f} MB before, {after:.0f} after, {stage.memory('VmRSS'):.0f} at rest, {stage.memory('VmHWM'):.0f} at most")
            stage.close()
            return account(stage, ids) and not refused and p99 is not None and p99 < wanted.p99_ms_max


def cpu(stage):
    fields = pathlib.Path(f"/proc/{stage.processes['server'].pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def chats(wanted):
    numbers = [str(34600000000 + at) for at in range(wanted.chats)]
    with tempfile.TemporaryDirectory(prefix="journeyman-load-") as folder:
        own = 'worktree = "own"' if wanted.own_worktrees else 'worktree = "shared"'
        with Stage(folder, numbers, wanted.think, own) as stage:
            ids = [f"wamid.{at}" for at in range(wanted.chats)]
            start = time.monotonic()
            requests = [webhook(number, ids[at], f"say {at}") for at, number in enumerate(numbers)]
            results, _ = asyncio.run(play(stage.ports["server"], requests, 1e9))
            taken = time.monotonic() - start
            until("an answer for everybody", lambda: len(stage.listen()) >= len(numbers), 600)
            answered, most = time.monotonic() - start, stage.memory("VmHWM")
            settled(stage)
            rest = stage.memory("VmRSS")
            stage.close()
            place = {to: at for at, (_, to, _) in enumerate(stage.heard)}
            # Of the answers, in the order in which they were asked for.
            late = max(place[number] - at for at, number in enumerate(numbers))
            right = all(text.endswith(f"say {numbers.index(to)}") for _, to, text in stage.heard)
            statuses = collections.Counter(status for status, _, _ in results)
            print(f"{len(numbers)} chats at once: all taken after {taken:.2f} s {dict(statuses)}, all answered after {answered:.2f} s")
            print(f"each its own answer: {right}; nobody was overtaken by more than {late} others")
            print(f"memory: {most:.0f} MB at most, {rest:.0f} at rest")
            return account(stage, ids) and right and len(place) == len(stage.heard) == len(numbers) and most < 150


def soak(wanted):
    seed = wanted.seed if wanted.seed is not None else random.SystemRandom().randrange(10**6)
    print(f"seed {seed}", flush=True)
    chance, numbers = random.Random(seed), [str(34600000000 + at) for at in range(wanted.chats)]
    with tempfile.TemporaryDirectory(prefix="journeyman-soak-") as folder:
        with Stage(folder, numbers, wanted.think, together_ms=500) as stage:
            end, ids, kills = time.monotonic() + wanted.minutes * 60, [], collections.Counter()
            next_kill, back = time.monotonic() + 3, None
            while time.monotonic() < end:
                number, message = chance.choice(numbers), f"wamid.{len(ids)}"
                ids.append(message)
                request = webhook(number, message, f"say {len(ids) - 1}")
                for _ in range(2 if chance.random() < 0.1 else 1):
                    while post(stage.ports["server"], request) != 200:
                        time.sleep(0.05)
                        back = resurrect(stage, back)
                if back is None and time.monotonic() > next_kill:
                    name = chance.choice(["server", "server", "model", "graph"])
                    stage.kill(name)
                    kills[name] += 1
                    back = (name, time.monotonic() + chance.uniform(0, 3))
                    next_kill = time.monotonic() + chance.uniform(1, 10)
                back = resurrect(stage, back)
                stage.listen()
                time.sleep(chance.uniform(0, 0.3))
            while back:
                back = resurrect(stage, back)
            # A message that could not be sent is tried again, after up to ten minutes.
            until("every message to be sent", lambda: stage.listen() is not None and all_sent(stage), 900, every=2)
            settled(stage)
            print(f"{wanted.minutes} min, killed: {dict(kills)}; memory {stage.memory('VmRSS'):.0f} MB")
            stage.close()
            again = sum(text.startswith("(sent again") for _, _, text in stage.heard)
            print(f"{len(stage.heard)} messages to people, {again} of them marked as sent again")
            return account(stage, ids)


def resurrect(stage, back):
    if back and time.monotonic() >= back[1]:
        stage.start(back[0])
        return None
    return back


def all_sent(stage):
    for events in stage.journals():
        started = {event["send"] for event in events if event["event"] == "send_started"}
        done = {event["send"] for event in events if event["event"] == "send_finished" and not event["error"]}
        if started - done:
            return False
    return True


def post(port, request):
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=30) as connection:
            connection.sendall(request)
            return int((connection.recv(4096).split(b" ") + [b"0"])[1] or 0)
    except (OSError, IndexError, ValueError):
        return 0


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("load", choices=["webhooks", "chats", "soak"])
    arguments.add_argument("--rate", type=int, default=1000)
    arguments.add_argument("--seconds", type=int, default=20)
    arguments.add_argument("--p99-ms-max", type=float, default=25)
    arguments.add_argument("--minutes", type=float, default=30)
    arguments.add_argument("--chats", type=int)
    arguments.add_argument("--think", type=float, help="seconds until the model answers")
    arguments.add_argument("--own-worktrees", action="store_true")
    arguments.add_argument("--seed", type=int)
    wanted = arguments.parse_args()
    usual = {"webhooks": (200, 2.0), "chats": (500, 0.0), "soak": (8, 0.2)}[wanted.load]
    wanted.chats = wanted.chats or usual[0]
    wanted.think = usual[1] if wanted.think is None else wanted.think
    load = {"webhooks": webhooks, "chats": chats, "soak": soak}[wanted.load]
    sys.exit(0 if load(wanted) else 1)


if __name__ == "__main__":
    main()
