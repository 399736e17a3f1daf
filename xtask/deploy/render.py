"""What the folder deploy/ gives: documents of Kubernetes by kustomize and by Helm, the services of compose, and settings.

A `Deployment` reads one folder; the faults that are planted read copies of it. Everything is made when it is first asked for.
"""

import functools
import json
import os
import pathlib
import re
import shutil
import subprocess

import yaml

TOOL_S = 60
# The release whose documents are those of kustomize.
RELEASE = "nephila"
# Values of the chart that stand for the components of the overlay `complete`.
COMPLETE = "tls.enabled=true,monitoring.enabled=true"
# The documents of a set without a tool that makes them.
LEFT_OUT = None


class Failed(Exception):
    """A tool refused what it was given, and said why."""


class Tools:
    """Programs of others, and our own."""

    def __init__(self, nephila, nats, promtool, folder):
        self.nephila, self.nats, self.promtool = nephila, nats, promtool
        self.helm = folder / "helm"
        self.schema = folder / "check-jsonschema"
        self.kubectl = shutil.which("kubectl")

    def say(self, *words, env=None, cwd=None):
        """The standard output of a program that ends well."""
        done = subprocess.run([str(word) for word in words], capture_output=True, text=True, timeout=TOOL_S, env=env, cwd=cwd, check=False)
        if done.returncode:
            raise Failed(f"{pathlib.Path(words[0]).name} {words[1]}: {(done.stdout + done.stderr).strip()[-800:]}")
        return done.stdout


class Deployment:
    """The folder deploy/ of a root, which is the repository or a copy."""

    def __init__(self, root, tools):
        self.root, self.tools = pathlib.Path(root), tools
        self.folder = self.root / "deploy"
        self.chart = self.folder / "helm/nephila"

    def text(self, path):
        return (self.folder / path).read_text(encoding="utf-8")

    @functools.cache
    def kustomize(self, name):
        """The documents of a folder of kustomize; `LEFT_OUT` without kubectl."""
        if not self.tools.kubectl:
            return LEFT_OUT
        return documents(self.tools.say(self.tools.kubectl, "kustomize", self.folder / "kubernetes" / name))

    @functools.cache
    def helm(self, values=""):
        more = ["--set", values] if values else []
        return documents(self.tools.say(self.tools.helm, "template", RELEASE, self.chart, *more))

    def sets(self):
        """All sets of documents, with names for complaints, one after the other."""
        for name in ("base", "nats", "complete"):
            if self.kustomize(name) is not LEFT_OUT:
                yield name, self.kustomize(name)
        yield "chart", self.helm()
        yield "chart, complete", self.helm(COMPLETE)

    @functools.cache
    def compose(self):
        return documents(self.text("compose/compose.yaml"))[0]

    @functools.cache
    def version(self):
        manifest = (self.root / "Cargo.toml").read_text(encoding="utf-8")
        return re.search(r'^version = "([^"]+)"', manifest, re.MULTILINE).group(1)

    def seconds(self, path, name):
        """A constant of the program, in seconds."""
        source = (self.root / path).read_text(encoding="utf-8")
        return int(re.search(rf"const {name}: Duration = Duration::from_secs\((\d+)\);", source).group(1))

    def effective(self, settings, env):
        """The settings that the program makes of a file and an environment, as a table: it refuses what it does not know."""
        clean = {key: value for key, value in os.environ.items() if not key.startswith("NEPHILA_")}
        told = self.tools.say(self.tools.nephila, "settings", "--effective", "--config", settings, env=clean | env)
        return parsed(told)


def parsed(toml):
    import tomllib

    return tomllib.loads(toml)


# Loads nothing but data, and is ten times as fast as the one in Python.
LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


def documents(text):
    return [document for document in yaml.load_all(text, Loader=LOADER) if document]


def of_kind(docs, kind, name=None):
    return [doc for doc in docs if doc["kind"] == kind and name in (None, doc["metadata"]["name"])]


def the(docs, kind, name):
    found = of_kind(docs, kind, name)
    if len(found) != 1:
        raise Failed(f"{len(found)} documents {kind}/{name}")
    return found[0]


def settings_text(docs):
    """The settings file in the ConfigMap, whatever its name ends with."""
    maps = [doc for doc in of_kind(docs, "ConfigMap") if "nephila.toml" in doc["data"]]
    return maps[0]["data"]["nephila.toml"] if maps else None


def environment(container, known):
    """The environment of a container, as Kubernetes would make it: `known` are the values of fields of the pod, by their paths."""
    found = {}
    for entry in container.get("env", []):
        if "value" in entry:
            value = re.sub(r"\$\((\w+)\)", lambda name: found.get(name.group(1), name.group()), entry["value"])
        else:
            value = known[entry["valueFrom"]["fieldRef"]["fieldPath"]]
        found[entry["name"]] = value
    return found


def comparable(docs):
    """Documents without what kustomize and Helm have to say differently: the name of a ConfigMap, a checksum, order."""
    text = re.sub(r"(nephila-settings)-[a-z0-9]{10}\b", r"\1", json.dumps(docs))
    found = {}
    for doc in json.loads(text):
        template = doc.get("spec", {}).get("template", {}).get("metadata", {})
        template.get("annotations", {}).pop("checksum/settings", None)
        if not template.get("annotations", True):
            del template["annotations"]
        if doc["kind"] == "ConfigMap":
            doc["data"] = {name: parsed(value) if name.endswith(".toml") else value for name, value in doc["data"].items()}
        found[f"{doc['kind']}/{doc['metadata']['name']}"] = doc
    return found


def differences(left, right, path=""):
    """Where two trees differ."""
    if isinstance(left, dict) and isinstance(right, dict):
        return [line for key in sorted(left.keys() | right.keys()) for line in differences(left.get(key), right.get(key), f"{path}/{key}")]
    if isinstance(left, list) and isinstance(right, list) and len(left) == len(right):
        return [line for at, (one, other) in enumerate(zip(left, right)) for line in differences(one, other, f"{path}/{at}")]
    return [] if left == right else [f"{path}: {json.dumps(left)} and {json.dumps(right)}"]
