"""Faults that are planted into copies of deploy/: the check that is meant for a fault has to complain, or it proves nothing."""

import concurrent.futures
import copy
import pathlib
import shutil
import tempfile

import composed
import rules
from render import Deployment, Failed, of_kind

BASE, CHART, COMPOSE, WORKFLOW = "kubernetes/base/", "helm/nephila/", "compose/", "../.github/workflows/ci.yml"

# The check, the file below deploy/, what is replaced, and by what.
FAULTS = [
    (rules.schemas, BASE + "statefulset.yaml", "  replicas: 3", "  replica: 3"),
    (rules.schemas, BASE + "poddisruptionbudget.yaml", "maxUnavailable: 1", "maxUnavailable: [1]"),
    (rules.rights, BASE + "statefulset.yaml", "readOnlyRootFilesystem: true", "readOnlyRootFilesystem: false"),
    (rules.rights, BASE + "statefulset.yaml", 'drop: ["ALL"]', 'drop: ["NET_RAW"]'),
    (rules.rights, BASE + "statefulset.yaml", "runAsNonRoot: true", "runAsNonRoot: false"),
    (rules.rights, "kubernetes/nats/nats.yaml", "type: RuntimeDefault", "type: Unconfined"),
    (rules.rights, CHART + "templates/statefulset.yaml", "allowPrivilegeEscalation: false", "allowPrivilegeEscalation: true"),
    (rules.selectors, BASE + "services.yaml", "  selector:\n    app.kubernetes.io/name: nephila\n", "  selector:\n    app: nephila\n"),
    (rules.selectors, BASE + "statefulset.yaml", "serviceName: nephila-nodes", "serviceName: nephila"),
    (rules.selectors, "kubernetes/monitoring/servicemonitor.yaml", "component: nodes", "component: node"),
    (rules.names, BASE + "services.yaml", "targetPort: api", "targetPort: http"),
    (rules.names, BASE + "statefulset.yaml", "            name: nephila-settings", "            name: settings"),
    (rules.names, BASE + "statefulset.yaml", '"/data/node"', '"/tmp/node"'),
    (rules.names, BASE + "statefulset.yaml", "secretName: nephila-keys", "secretName: nephila-key"),
    (rules.names, BASE + "kustomization.yaml", "resources:", "namespace: crawl\nresources:"),
    (rules.patience, BASE + "statefulset.yaml", "terminationGracePeriodSeconds: 120", "terminationGracePeriodSeconds: 60"),
    (rules.patience, BASE + "statefulset.yaml", "sleep:\n                seconds: 5", "httpGet:\n                port: api"),
    (rules.patience, BASE + "statefulset.yaml", "minReadySeconds: 20", "minReadySeconds: 5"),
    (rules.settings, BASE + "nephila.toml", "replicas = 3", "copies = 3"),
    (rules.settings, BASE + "nephila.toml", "partitions = 256", "partitions = 16"),
    (rules.settings, BASE + "nephila.toml", "0.0.0.0:6374", "0.0.0.0:6375"),
    (rules.settings, BASE + "statefulset.yaml", "NEPHILA_API__ADVERTISE", "NEPHILA_API__ADDRESS"),
    (rules.settings, BASE + "networkpolicy.yaml", "        - port: 8443\n          protocol: TCP\n", ""),
    (rules.settings, BASE + "networkpolicy.yaml", '"10.0.0.0/8", ', ""),
    (rules.equality, CHART + "values.yaml", "replicas: 3", "replicas: 4"),
    (rules.equality, CHART + "templates/networkpolicy.yaml", "port: 8222", "port: 8223"),
    (rules.equality, CHART + "templates/statefulset.yaml", "scheme: HTTPS", "scheme: HTTP"),
    (rules.chart, CHART + "values.yaml", "# Number of nodes.", "\nreplica: 3\n# Number of nodes."),
    (rules.chart, CHART + "values.schema.json", '"additionalProperties": false,\n  "required": ["replicas"', '"required": ["replicas"'),
    (rules.versions, BASE + "kustomization.yaml", "newTag: ", "newTag: 9."),
    (rules.versions, CHART + "Chart.yaml", "appVersion: ", "appVersion: 9."),
    (rules.versions, COMPOSE + "compose.yaml", "busybox:1.37", "busybox:latest"),
    (rules.copies, "prometheus/alerts.yml", "> 300", "> 301"),
    (rules.copies, CHART + "files/nephila.toml", "256", "128"),
    (composed.schema, COMPOSE + "compose.yaml", "read_only: true", "readonly: true"),
    (composed.schema, COMPOSE + "compose.yaml", 'restart: unless-stopped', 'restart: [often]'),
    (composed.services, COMPOSE + "compose.yaml", '"127.0.0.1:6371:6374"', '"6371:6374"'),
    (composed.services, COMPOSE + "compose.yaml", "./nats.conf:", "./nats-server.conf:"),
    (composed.services, COMPOSE + "compose.yaml", '"65532:65532"\n', '"0:0"\n'),
    (composed.services, COMPOSE + "compose.yaml", "stop_grace_period: 120s", "stop_grace_period: 10s"),
    (composed.settings, COMPOSE + "nephila.toml", "[api]", "[API]"),
    (composed.settings, COMPOSE + "compose.yaml", "NEPHILA_CLUSTER__NODE: node-2", "NEPHILA_CLUSTER__NODE: node-1"),
    (composed.settings, COMPOSE + "prometheus.yml", '"node-3:6374"', '"node-4:6374"'),
    (composed.prometheus, COMPOSE + "prometheus.yml", "honor_labels: true", "honour_labels: true"),
    (composed.prometheus, "kubernetes/monitoring/prometheusrule.yaml", "rate(", "raet("),
    (composed.code_host, WORKFLOW, "runs-on:", "runs_on:"),
    (composed.code_host, WORKFLOW, "run: bash .ci/run", "run: cargo test"),
    (composed.code_host, WORKFLOW, "  contents: read", "  contents: write"),
    (composed.code_host, "../.github/ISSUE_TEMPLATE/bug.yml", "type: dropdown", "type: dropdowns"),
]

# Faults that are planted at once.
AT_ONCE = 3

# What a probe may name wrongly; asked of real nodes by `live.kubernetes`.
PROBES = [("path", "/healthz"), ("path", "/api/v1/readyz"), ("scheme", None)]
PROBE_NAMES = ("startupProbe", "livenessProbe", "readinessProbe")


def found_by(check, deployment):
    """Whether a check complains; a document that no tool reads is a complaint."""
    try:
        return any(True for _ in check(deployment))
    except (Failed, KeyError, IndexError, TypeError):
        return True


def missed(root, tools):
    """The planted faults that no check found, in words."""
    with tempfile.TemporaryDirectory() as name, concurrent.futures.ThreadPoolExecutor(AT_ONCE) as pool:
        folders = [pathlib.Path(name) / str(number) for number in range(len(FAULTS))]
        return [line for line in pool.map(lambda fault, copied: missed_one(root, tools, copied, *fault), FAULTS, folders) if line]


def missed_one(root, tools, copied, check, path, old, new):
    """Plants one fault into a copy of what the checks read. A complaint if the check has none."""
    for folder in ("deploy", ".github"):
        shutil.copytree(root / folder, copied / folder)
    for file in ("Cargo.toml", "crates/nephila-cluster/src/shell.rs", "crates/nephila-cluster/src/lib.rs"):
        (copied / file).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(root / file, copied / file)
    file = copied / "deploy" / path
    text = file.read_text(encoding="utf-8")
    if old not in text:
        return f"planted: {path} has no {old!r} any more"
    file.write_text(text.replace(old, new), encoding="utf-8")
    return None if found_by(check, Deployment(copied, tools)) else f"planted: {check.__name__} takes {new!r} in {path}"


def probes(docs):
    """Documents whose probes are wrong, with the name of each fault. Whoever asks a node by them has to complain."""
    found = []
    for probe in PROBE_NAMES:
        for key, value in PROBES:
            wrong = copy.deepcopy(docs)
            asks = of_kind(wrong, "StatefulSet", "nephila")[0]["spec"]["template"]["spec"]["containers"][0][probe]["httpGet"]
            asks[key] = value or ("HTTP" if asks.get("scheme") == "HTTPS" else "HTTPS")
            found.append((f"{probe}, {key} {asks[key]}", wrong))
    return found
