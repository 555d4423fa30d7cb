"""schemathesis against `weir serve`: its OpenAPI document, and whether it keeps to it, whatever is asked.

    python3 scripts/judges/api.py [--examples N] [--seed N]

A `weir run` with ports that swallow and a `weir serve` over it, by an operator's token. schemathesis makes requests from the
document, good ones and bad ones, and judges every answer: its status, type and shape are documented, nothing is answered
by 5xx that is not said, tokens are asked for, what does not fit the schema is refused. Left out: `/v1/events`, an answer
without end, and the check that whatever fits the schema is accepted: what physical nodes can't carry is not.
Then the daemon is as it was, and a network can still be made and deleted without a trace.
"""
import json
import os
import sys
import time
import urllib.error
import urllib.request

from checks import Judge
from lab import listening
from switches import find_weir

PORT = 16681
NODE = """
[dataplane]
socket = "node.sock"
frames = 512
tcam = { mapping_entries = 1024, action_entries = 1024, slice_entries = 4, block_slices = 64 }
[[port]]
name = "a"
device = "null"
[[port]]
name = "b"
device = "null"
"""
RED = {"name": "red", "owner": "alice", "node": [{"name": "s1", "host": "east", "ports": ["a", "b"]}]}
LEFT_OUT = "positive_data_acceptance"


def arguments(parser):
    parser.add_argument("--examples", type=int, default=12, help="requests of each kind for each operation")
    parser.add_argument("--seed", type=int, default=1)


def main():
    judge = Judge("api", __doc__, venv="schemathesis", arguments=arguments)
    with judge.lab() as lab:
        judged(judge, lab)
    return judge.end()


def judged(judge, lab):
    weir, directory = find_weir(), lab.directory("api")
    judge.version = lab.run(weir, "--version")[1].strip()
    at = lambda name: os.path.join(directory, name)     # noqa: E731
    with open(at("node.toml"), "w") as f:
        f.write(NODE)
    node = lab.spawn("node", [weir, "run", at("node.toml")])
    lab.wait("the node", lambda: "running: " in node.output(), needs=[node])
    token = lab.run(weir, "token", "add", "--role", "operator", "--tokens", at("tokens"))[1].strip()
    base = "http://127.0.0.1:%d" % PORT
    serve = lab.spawn("serve", [weir, "serve", "--listen", "127.0.0.1:%d" % PORT, "--tokens", at("tokens"),
                                "--store", at("net.redb")])
    lab.wait("the API", lambda: listening(lab, None, PORT), needs=[serve])

    def ask(method, path, body=None):
        data = None if body is None else json.dumps(body).encode()
        headers = {"Authorization": "Bearer " + token, "Content-Type": "application/json"}
        request = urllib.request.Request(base + path, data=data, method=method, headers=headers)
        try:
            with urllib.request.urlopen(request, timeout=60) as answer:
                return answer.status, json.load(answer)
        except urllib.error.HTTPError as e:
            return e.code, json.load(e)

    def has():
        shown = json.loads(lab.run(weir, "show", "--json", "--socket", at("node.sock"))[1])["result"]
        return [v["name"] for v in shown["vdps"]], [t["free_entries"] for t in shown["plane"]["tcam"]]

    def resident():
        with open("/proc/%d/statm" % serve.popen.pid) as f:
            return int(f.read().split()[1]) * os.sysconf("SC_PAGESIZE")

    empty = has()
    host = {"host": [{"name": "east", "api": "unix:" + at("node.sock")}]}
    judge.check("a lab is applied", ask("PUT", "/v1/lab", host)[0] == 200)
    judge.check("a network is made", ask("POST", "/v1/networks", RED)[0] == 201)

    began, before = time.monotonic(), resident()
    # It leaves a directory where it runs.
    run = lab.run("env", "-C", directory, judge.venv.bin("schemathesis"), "run", base + "/openapi.json",
                  "-H", "Authorization: Bearer " + token, "--checks", "all", "--exclude-checks", LEFT_OUT, "--exclude-path", "/v1/events",
                  "--max-examples", str(judge.args.examples), "--seed", str(judge.args.seed),
                  "--generation-database", "none", "--request-timeout", "60", "--no-shrink", "--no-color",
                  check=False, timeout=300)
    status, out, err = run
    with open(os.path.join(lab.logs, "schemathesis.txt"), "w") as f:
        f.write(out + err)
    end = [l for l in out.splitlines() if l.strip()][-30:]
    judge.check("schemathesis finds nothing", status == 0, " ".join(end) if status else "%.0f s" % (time.monotonic() - began))
    grown = (resident() - before) >> 20
    judge.check("memory does not grow with what is asked", grown < 64, "%d MiB" % grown)

    # Whatever it has left behind is undone by one request, and the node is as it was.
    judge.check("a lab is applied over it", ask("PUT", "/v1/lab", host)[0] == 200)
    judge.check("nothing is left", has() == empty, has())
    judge.check("a network is made", ask("POST", "/v1/networks", RED)[0] == 201)
    judge.check("and deleted", ask("DELETE", "/v1/networks/red")[0] == 200 and has() == empty, has())
    judge.check("no thread of it has failed", "panicked" not in serve.output(), serve.output()[-300:])


if __name__ == "__main__":
    sys.exit(main())
