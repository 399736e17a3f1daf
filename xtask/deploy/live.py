"""Real nodes and servers, started with what deploy/ says: the settings, the environment, the arguments. Only addresses and folders
are replaced, so that all of it is on loopback.

Probes are asked of the nodes as Kubernetes would ask them, the token of Prometheus is tried, and each node ends by the signal or
the command that the manuals name, in the time that its manifest gives.
"""

import http.client
import json
import os
import re
import shutil
import signal
import socket
import ssl
import subprocess
import time
import urllib.error
import urllib.request

import composed
from render import COMPLETE, Failed, documents, environment, of_kind, settings_text, the
from rules import pod

# Stopped by a signal or by `nephila cluster drain`.
STOPPED = 11
# Time for servers to elect a leader, and for a node to be ready after that.
START_S = 90
LOOK_S = 0.1
# Files of `nephila cluster keys` that no pod may have.
KEPT_AWAY = {"ca.key", "operator.nk", "reader.nk"}
# Loopback, and the setting by which the crawler may ask it.
HOST = "127.0.0.1"
OPEN = {"NEPHILA_SPIDER__ALLOW_ADDRESSES": f'["{HOST}/32"]'}


def free_ports(count):
    held = [socket.socket() for _ in range(count)]
    for one in held:
        one.bind((HOST, 0))
    ports = [one.getsockname()[1] for one in held]
    for one in held:
        one.close()
    return ports


def replaced(text, pairs):
    """A text with other words, longest first, each once."""
    pattern = "|".join(re.escape(word) for word in sorted(pairs, key=len, reverse=True))
    return re.sub(pattern, lambda found: str(pairs[found.group()]), text)


def clean():
    """The environment of this process without settings."""
    return {key: value for key, value in os.environ.items() if not key.startswith("NEPHILA_")}


class Processes:
    """Everything that was started, ended with this value. Nothing else is."""

    def __init__(self, folder):
        self.folder, self.running = folder, []

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for process in reversed(self.running):
            if process.poll() is None:
                process.kill()
            process.wait()

    def start(self, name, words, env):
        with open(self.folder / f"{name}.log", "ab") as log:
            words = [str(word) for word in words]
            process = subprocess.Popen(words, env=clean() | env, stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd=self.folder)
        self.running.append(process)
        return process

    def said(self, name):
        return (self.folder / f"{name}.log").read_text(encoding="utf-8", errors="replace")[-600:]


class Stage:
    """Keys, three NATS servers, and addresses of one flavour of the deployment: pods, or services of compose."""

    def __init__(self, deployment, processes, flavour):
        self.deployment, self.processes, self.folder = deployment, processes, processes.folder
        self.flavour, self.document = flavour, None
        ports = free_ports(12)
        self.clients, self.routes, self.monitors, self.apis = ports[:3], ports[3:6], ports[6:9], ports[9:]
        self.keys = self.folder / "keys"
        self.settings = self.folder / "nephila.toml"
        self.pairs = {mount: self.folder / name for mount, name in flavour.mounts.items()}
        self.pairs |= {flavour.settings: self.settings, "0.0.0.0": HOST}
        for number, server in enumerate(flavour.servers):
            self.pairs |= {
                f"{server}:4222": f"{HOST}:{self.clients[number]}",
                f"{server}:6222": f"{HOST}:{self.routes[number]}",
                f"{server}:8222": f"{HOST}:{self.monitors[number]}",
            }
        self.settings.write_text(self.here(flavour.settings_file), encoding="utf-8")

    def here(self, text, **more):
        return replaced(text, self.pairs | more)

    def make_keys(self, words):
        """Runs the command that makes keys. The address of this machine is a server as well: certificates go with addresses. Then the
        Secrets are made of them, with the files that the manual tells to take and no others."""
        self.deployment.tools.say(self.deployment.tools.nephila, *words)
        for server in self.flavour.servers:
            for end in ("pem", "key"):
                (self.keys / f"server-{server}.{end}").write_bytes((self.keys / f"server-{HOST}.{end}").read_bytes())
        for name, patterns in self.flavour.secrets.items():
            (self.folder / name).mkdir()
            for path in {path for pattern in patterns for path in self.folder.glob(pattern)}:
                if path.name in KEPT_AWAY:
                    raise Failed(f"the Secret {name} would have {path.name}")
                shutil.copy(path, self.folder / name)

    def start_servers(self):
        for number, server in enumerate(self.flavour.servers):
            local = {"listen: 0.0.0.0:4222": f"listen: {HOST}:{self.clients[number]}",
                     "listen: 0.0.0.0:6222": f"listen: {HOST}:{self.routes[number]}",
                     "http: 0.0.0.0:8222": f"http: {HOST}:{self.monitors[number]}",
                     "store_dir: /data": f"store_dir: {self.folder}/{server}",
                     "/tmp/": f"{self.folder}/{server}-",
                     self.flavour.accounts: f"include {self.flavour.include}"}
            path = self.folder / f"{server}.conf"
            path.write_text(replaced(self.flavour.nats_conf, self.pairs | local), encoding="utf-8")
            env = {name: self.here(value) for name, value in self.flavour.nats_env(number).items()}
            self.processes.start(server, [self.deployment.tools.nats, "--config", path], env)
        for number in range(3):
            for path in self.flavour.nats_probes:
                url = f"http://{HOST}:{self.monitors[number]}{path}"
                if not until(lambda url=url: status(url) == 200, START_S):
                    raise Failed(f"{url}: {status(url)}; {self.processes.said(self.flavour.servers[number])}")

    def start_node(self, number, args, env):
        name = self.flavour.nodes[number]
        local = {"/data/node": self.folder / f"data-{number}"}
        args = [self.here(arg, **local) for arg in args]
        env = {key: self.here(value, **self.address(number)) for key, value in env.items()}
        env |= {"NEPHILA_API__LISTEN": f"{HOST}:{self.apis[number]}"} | OPEN
        return self.processes.start(name, [self.deployment.tools.nephila, *args], env)

    def address(self, number):
        own = f"{HOST}:{self.apis[number]}"
        return {f"{self.flavour.nodes[number]}:6374": own, f"{HOST}:6374": own}


def until(is_so, limit):
    end = time.monotonic() + limit
    while time.monotonic() < end:
        if is_so():
            return True
        time.sleep(LOOK_S)
    return is_so()


def status(url, token=None, context=None):
    """The status of an answer; a sentence without one."""
    request = urllib.request.Request(url, headers={"Authorization": f"Bearer {token}"} if token else {})
    try:
        with urllib.request.urlopen(request, timeout=5, context=context) as answer:
            return answer.status
    except urllib.error.HTTPError as error:
        return error.code
    except (OSError, http.client.HTTPException) as error:
        return str(error) or type(error).__name__


def described(url, token=None):
    """The document of the API, by the server itself."""
    request = urllib.request.Request(f"{url}/api/v1/openapi.json", headers={"Authorization": f"Bearer {token}"} if token else {})
    with urllib.request.urlopen(request, timeout=START_S) as answer:
        return json.load(answer)


def unverified():
    """As the kubelet asks: it looks at no certificate."""
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    return context


class Pods:
    """The flavour of Kubernetes, with the commands of docs/kubernetes.md."""

    servers, nodes = ["nats-0.nats", "nats-1.nats", "nats-2.nats"], ["nephila-0", "nephila-1", "nephila-2"]
    mounts, settings = {"/etc/nephila-keys": "nephila-keys", "/etc/nats-keys": "nats-keys"}, "/etc/nephila/nephila.toml"
    accounts, include = "include ../nats-keys/accounts.conf", "nats-keys/accounts.conf"

    def __init__(self, deployment):
        self.nats_conf = deployment.text("kubernetes/nats/nats.conf")
        docs = documents(deployment.text("kubernetes/nats/nats.yaml"))
        self.server = pod(the(docs, "StatefulSet", "nats"))["containers"][0]
        self.nats_probes = [self.server[probe]["httpGet"]["path"] for probe in ("startupProbe", "livenessProbe", "readinessProbe")]
        self.settings_file = settings_text(deployment.helm())
        manual = (deployment.root / "docs/kubernetes.md").read_text(encoding="utf-8")
        self.keys_command = re.search(r"\$ nephila (cluster keys .*)", manual).group(1).split()
        found = re.findall(r"create secret generic (\S+) \$\(printf -- '--from-file=%s ' ([^)]*)\)", manual)
        self.secrets = {name: patterns.split() for name, patterns in found}

    def nats_env(self, number):
        return environment(self.server, {"metadata.name": f"nats-{number}"})

    def command(self, stage):
        """The command that makes keys, with this machine's address as a further server, and as a further host of each node."""
        words = [stage.keys if word == "keys" and at == 2 else word for at, word in enumerate(self.keys_command)]
        at = words.index("--server") + 1
        words[at] = f"{words[at]},{HOST}"
        at = words.index("--node") + 1
        words[at] = ",".join(f"{node}+{HOST}" for node in words[at].split(","))
        return words


class Composed:
    """The flavour of compose."""

    servers, nodes = ["nats-1", "nats-2", "nats-3"], ["node-1", "node-2", "node-3"]
    mounts, settings, secrets = {"/keys": "keys"}, "/etc/nephila/nephila.toml", {}
    accounts, include = "include ../../keys/accounts.conf", "keys/accounts.conf"
    nats_probes = ["/healthz"]

    def __init__(self, deployment):
        self.services = deployment.compose()["services"]
        self.nats_conf = deployment.text("compose/nats.conf")
        self.settings_file = deployment.text("compose/nephila.toml")

    def nats_env(self, number):
        return composed.environment_of(self.services[self.servers[number]])


def probes(docs, port, patience=START_S):
    """Asks a running node what the manifest asks: complaints."""
    container, complaints = pod(the(docs, "StatefulSet", "nephila"))["containers"][0], []
    for name in ("startupProbe", "livenessProbe", "readinessProbe"):
        asks = container[name]["httpGet"]
        url = f"{asks.get('scheme', 'HTTP').lower()}://{HOST}:{port}{asks['path']}"
        if not until(lambda url=url: status(url, context=unverified()) == 200, patience):
            complaints.append(f"{name}: {asks['path']} by {asks.get('scheme', 'HTTP')}: {status(url, context=unverified())}")
    return complaints


def scraped(docs, port, keys):
    """Asks for metrics as the ServiceMonitor tells Prometheus to, and without a token: complaints."""
    endpoint = of_kind(docs, "ServiceMonitor")[0]["spec"]["endpoints"][0]
    token = (keys / endpoint["authorization"]["credentials"]["key"]).read_text(encoding="utf-8").strip()
    context = ssl.create_default_context(cafile=keys / endpoint["tlsConfig"]["ca"]["secret"]["key"])
    name, path = endpoint["tlsConfig"]["serverName"], endpoint["path"]
    answers = {}
    for given in (token, None):
        words = f"GET {path} HTTP/1.1\r\nHost: {HOST}:{port}\r\nConnection: close\r\n" + (f"Authorization: Bearer {given}\r\n" if given else "")
        try:
            with socket.create_connection((HOST, port), 5) as plain, context.wrap_socket(plain, server_hostname=name) as tls:
                tls.sendall(f"{words}\r\n".encode())
                answers[given] = tls.makefile("rb").readline().decode().split()[1]
        except (OSError, IndexError) as error:
            answers[given] = str(error)
    wanted = {token: "200", None: "401"}
    return [f"ServiceMonitor: {path} gave {answers[given]}, not {code}" for given, code in wanted.items() if answers[given] != code]


def operated(stage, env, is_again):
    """What docs/kubernetes.md types on a node, with its settings and its environment: complaints."""
    env = clean() | {key: stage.here(value) for key, value in env.items()} | OPEN
    rows = [(["cluster", "nodes"], ""), (["job", "create", "news", "-i", "-", "--scope", "domain"], f"http://{HOST}:{stage.monitors[0]}/\n")]
    complaints = []
    for words, typed in rows[:1 if is_again else 2]:
        def is_done(words=words, typed=typed):
            line = [stage.deployment.tools.nephila, *words, "--config", stage.settings]
            told = subprocess.run(line, input=typed, capture_output=True, text=True, timeout=START_S, env=env, check=False)
            stage.told = told.stdout + told.stderr
            return told.returncode == 0

        if not until(is_done, START_S):
            complaints.append(f"nephila {' '.join(words)}: {stage.told}")
    return complaints


def left(name, process, limit):
    """Waits until a node has left; complaints, and the time."""
    begun = time.monotonic()
    try:
        code = process.wait(limit)
    except subprocess.TimeoutExpired:
        return [f"{name} had not left after {limit} s"], limit
    took = time.monotonic() - begun
    return ([] if code == STOPPED else [f"{name} ended with {code}, not {STOPPED}"]), took


def kubernetes(deployment, folder, planted):
    """Pods on loopback: a node as the base says, ended by a signal; again as `complete` says, over TLS, ended by a drain. `planted` are
    faults of probes for each of the two, as pairs of a name and documents. Returns complaints,
    figures, the faults that were missed, and the document of the API."""
    complaints, figures, missed = [], {}, []
    with Processes(folder) as processes:
        stage = Stage(deployment, processes, Pods(deployment))
        stage.make_keys(stage.flavour.command(stage))
        stage.start_servers()
        port, name = stage.apis[0], stage.flavour.nodes[0]
        for values in ("", COMPLETE):
            docs = deployment.helm(values)
            spec = pod(the(docs, "StatefulSet", "nephila"))
            container = spec["containers"][0]
            env = environment(container, {"metadata.name": name, "status.podIP": HOST})
            begun = time.monotonic()
            process = stage.start_node(0, container["args"], env)
            complaints += probes(docs, port)
            figures["ready_s"] = max(figures.get("ready_s", 0), time.monotonic() - begun)
            if complaints:
                return complaints + [processes.said(name)], figures, missed, stage.document
            missed += [fault for fault, wrong in planted[values] if not probes(wrong, port, 0)]
            complaints += operated(stage, env, len(values) > 0)
            if not values:
                stage.document = described(f"http://{HOST}:{port}", (stage.folder / "nephila-keys/read.token").read_text(encoding="utf-8").strip())
            if values:
                complaints += scraped(docs, port, stage.folder / "nephila-keys")
                deployment.tools.say(
                    deployment.tools.nephila, "cluster", "drain", name, "--node", f"https://{HOST}:{port}", "--ca-file", stage.keys / "ca.pem",
                    "--token-file", stage.keys / "operate.token")
            else:
                process.send_signal(signal.SIGTERM)
            sleeps = container["lifecycle"]["preStop"]["sleep"]["seconds"]
            wrong, took = left(name, process, spec["terminationGracePeriodSeconds"] - sleeps)
            complaints += wrong
            figures["drain_s" if values else "signal_s"] = took
    return complaints, figures, missed, stage.document


def compose(deployment, folder):
    """Services of compose on loopback: keys, servers, three nodes and their health checks, until they are told to stop."""
    complaints = []
    with Processes(folder) as processes:
        stage = Stage(deployment, processes, Composed(deployment))
        services = stage.flavour.services
        words = [stage.here(word) for word in services["keys"]["command"]]
        stage.make_keys([f"{word},{HOST}" if word.startswith("--server") else word for word in words])
        stage.start_servers()
        running = {}
        for number, name in enumerate(stage.flavour.nodes):
            running[name] = stage.start_node(number, services[name]["command"], composed.environment_of(services[name]))
        for number, name in enumerate(stage.flavour.nodes):
            check = [stage.here(word, **stage.address(number)) for word in services[name]["healthcheck"]["test"][2:]]
            if not until(lambda check=check: is_well(deployment, check), START_S):
                complaints.append(f"{name}: its health check fails: {said(deployment, check)}; {processes.said(name)}")
        complaints += [] if complaints else shared(deployment, stage)
        for name, process in running.items():
            process.send_signal(getattr(signal, services[name]["stop_signal"]))
        for name, process in running.items():
            complaints += left(name, process, int(services[name]["stop_grace_period"].removesuffix("s")))[0]
    return complaints


def said(deployment, words):
    done = subprocess.run([deployment.tools.nephila, *words], capture_output=True, text=True, timeout=START_S, check=False)
    return f"{done.returncode} {done.stdout} {done.stderr}"


def is_well(deployment, words):
    return said(deployment, words).startswith("0 ")


def shared(deployment, stage):
    """The three nodes have all partitions between them, and nobody is alarmed."""
    keys = ["--ca-file", stage.keys / "ca.pem", "--token-file", stage.keys / "read.token"]
    words = ["cluster", "status", "--node", f"https://{HOST}:{stage.apis[2]}", *keys]
    if until(lambda: "3 nodes" in said(deployment, words) and is_well(deployment, words), START_S):
        return []
    return [f"the nodes do not share the partitions: {said(deployment, words)}"]
