"""Rules for what deploy/ gives. Each takes a `Deployment` and returns complaints; none if all is well.

Schemas say that a document has the right form. These say that its parts fit together: names, ports, rights, times, versions.
"""

import functools
import json
import re
import tempfile

from render import COMPLETE, LEFT_OUT, Failed, comparable, differences, documents, of_kind, settings_text

# Secrets that docs/kubernetes.md tells to make; the last may be missing.
SECRETS = {"nephila-keys", "nats-keys", "nephila-objects"}
# Versions of Kubernetes whose schemas are asked: the oldest that the chart permits, and the newest that the package has.
KUBERNETES = ["1.30", "1.37"]
# Private and reserved networks: no pod of ours opens a connection there by the rule for the web.
CLOSED = {"10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "169.254.0.0/16", "127.0.0.0/8", "100.64.0.0/10", "fc00::/7", "fe80::/10", "::1/128"}
# Room between the longest way to leave and the end of the patience of Kubernetes.
SPARE_S = 10


def workloads(docs):
    return of_kind(docs, "StatefulSet") + of_kind(docs, "Deployment")


def pod(workload):
    return workload["spec"]["template"]["spec"]


def in_each(rule):
    """A rule for one set of documents, applied to all of them, as long as somebody wants to hear more."""

    def judge(deployment):
        for name, docs in deployment.sets():
            yield from (f"{name}: {complaint}" for complaint in rule(docs, deployment))

    judge.__name__, judge.__doc__ = rule.__name__, rule.__doc__
    return judge


@in_each
def schemas(docs, _deployment):
    """Strict schemas of the Kubernetes API: no field that it does not know, no wrong type."""
    own = [doc for doc in docs if not doc["apiVersion"].startswith("monitoring.coreos.com/")]
    return [complaint for doc in own for complaint in misshapen(json.dumps(doc, sort_keys=True))]


@functools.cache
def misshapen(text):
    """Complaints about one document, as JSON: most are in several sets."""
    import kubernetes_validate

    doc, complaints = json.loads(text), []
    for version in KUBERNETES:
        try:
            kubernetes_validate.validate(doc, version, strict=True)
        except (kubernetes_validate.ValidationError, kubernetes_validate.InvalidSchemaError, kubernetes_validate.SchemaNotFoundError) as error:
            complaints.append(f"{doc['kind']}/{doc['metadata']['name']}, Kubernetes {version}: {str(error)[:200]}")
    return complaints


@in_each
def rights(docs, _deployment):
    """No pod runs as root, writes outside of its volumes, gains rights, or can speak to Kubernetes."""
    complaints = []
    for workload in workloads(docs):
        spec, where = pod(workload), workload["metadata"]["name"]
        context = spec.get("securityContext", {})
        wanted = {
            "runAsNonRoot": context.get("runAsNonRoot") is True,
            "runAsUser": context.get("runAsUser", 0) > 0,
            "seccompProfile": context.get("seccompProfile", {}).get("type") == "RuntimeDefault",
            "automountServiceAccountToken": spec.get("automountServiceAccountToken") is False,
            "hostNetwork": not spec.get("hostNetwork") and not spec.get("hostPID"),
        }
        for container in spec["containers"] + spec.get("initContainers", []):
            own = container.get("securityContext", {})
            wanted |= {
                "allowPrivilegeEscalation": own.get("allowPrivilegeEscalation") is False,
                "readOnlyRootFilesystem": own.get("readOnlyRootFilesystem") is True,
                "capabilities": own.get("capabilities") == {"drop": ["ALL"]},
                "privileged": not own.get("privileged"),
                "resources": bool(container.get("resources", {}).get("limits", {}).get("memory")),
            }
        complaints += [f"{where}: {name}" for name, is_so in wanted.items() if not is_so]
    return complaints


def selects(selector, labels):
    return bool(selector) and all(labels.get(key) == value for key, value in selector.items())


@in_each
def selectors(docs, _deployment):
    """Whatever selects something selects something that is there."""
    complaints = []
    pods = [workload["spec"]["template"]["metadata"]["labels"] for workload in workloads(docs)]
    services = [doc["metadata"]["labels"] for doc in of_kind(docs, "Service")]
    rows = [(doc, doc["spec"]["selector"], pods) for doc in of_kind(docs, "Service")]
    rows += [(doc, doc["spec"]["selector"]["matchLabels"], pods) for doc in of_kind(docs, "PodDisruptionBudget")]
    rows += [(doc, doc["spec"]["podSelector"]["matchLabels"], pods) for doc in of_kind(docs, "NetworkPolicy")]
    rows += [(doc, doc["spec"]["selector"]["matchLabels"], services) for doc in of_kind(docs, "ServiceMonitor")]
    rows += [(doc, doc["spec"]["selector"]["matchLabels"], [doc["spec"]["template"]["metadata"]["labels"]]) for doc in workloads(docs)]
    for doc, selector, among in rows:
        matching = [labels for labels in among if selects(selector, labels)]
        if len(matching) != 1:
            complaints.append(f"{doc['kind']}/{doc['metadata']['name']} selects {len(matching)} of {len(among)}")
    for workload in of_kind(docs, "StatefulSet"):
        heads = [doc for doc in of_kind(docs, "Service", workload["spec"]["serviceName"]) if doc["spec"].get("clusterIP") == "None"]
        if len(heads) != 1:
            where = f"StatefulSet/{workload['metadata']['name']}"
            complaints.append(f"{where}: its Service {workload['spec']['serviceName']} is not headless, or not there")
    return complaints


@in_each
def names(docs, _deployment):
    """Ports, volumes, ConfigMaps and Secrets that are named exist; no document has a namespace."""
    complaints = [f"{doc['kind']}/{doc['metadata']['name']} has a namespace" for doc in docs if "namespace" in doc["metadata"]]
    maps = {doc["metadata"]["name"] for doc in of_kind(docs, "ConfigMap")}
    accounts = {doc["metadata"]["name"] for doc in of_kind(docs, "ServiceAccount")}
    ports = {}
    for workload in workloads(docs):
        spec, where = pod(workload), workload["metadata"]["name"]
        volumes = {volume["name"]: volume for volume in spec.get("volumes", [])}
        claims = {claim["metadata"]["name"] for claim in workload["spec"].get("volumeClaimTemplates", [])}
        named = {volume["configMap"]["name"] for volume in volumes.values() if "configMap" in volume}
        complaints += [f"{where}: no ConfigMap {name}" for name in named - maps]
        secrets = {volume["secret"]["secretName"] for volume in volumes.values() if "secret" in volume}
        complaints += [f"{where}: nobody is told to make the Secret {name}" for name in secrets - SECRETS]
        if spec.get("serviceAccountName", "default") not in accounts | {"default"}:
            complaints.append(f"{where}: no ServiceAccount {spec['serviceAccountName']}")
        for container in spec["containers"]:
            mounted = {mount["name"] for mount in container.get("volumeMounts", [])}
            complaints += [f"{where}: no volume {name}" for name in mounted - volumes.keys() - claims]
            kept = [mount["mountPath"] for mount in container.get("volumeMounts", []) if mount["name"] in claims]
            args = container.get("args", [])
            if "--output" in args and not any(args[args.index("--output") + 1].startswith(f"{path}/") for path in kept):
                complaints.append(f"{where}: its folder is not on a volume that is kept")
            own = {port["name"] for port in container.get("ports", [])}
            for probe in ("startupProbe", "livenessProbe", "readinessProbe"):
                if container.get(probe, {}).get("httpGet", {}).get("port") not in own:
                    complaints.append(f"{where}: {probe} asks no port of the container")
            ports.setdefault(frozenset(workload["spec"]["selector"]["matchLabels"].items()), set()).update(own)
    for service in of_kind(docs, "Service"):
        there = set().union(*[own for labels, own in ports.items() if set(service["spec"]["selector"].items()) >= labels], set())
        for port in service["spec"]["ports"]:
            if port["targetPort"] not in there:
                complaints.append(f"Service/{service['metadata']['name']}: no port {port['targetPort']}")
    return complaints


@in_each
def patience(docs, deployment):
    """Kubernetes waits longer than a node may need to leave, by the constants of the program."""
    hand_over = deployment.seconds("crates/nephila-cluster/src/shell.rs", "LEAVE_MAX")
    uploads = deployment.seconds("crates/nephila-cluster/src/lib.rs", "LAST_UPLOADS_MAX")
    complaints = []
    for workload in of_kind(docs, "StatefulSet", "nephila"):
        container = pod(workload)["containers"][0]
        sleeps = container.get("lifecycle", {}).get("preStop", {}).get("sleep", {}).get("seconds", 0)
        needed = sleeps + hand_over + uploads + SPARE_S
        if not sleeps:
            complaints.append("no preStop: requests are sent to a node that leaves")
        if pod(workload)["terminationGracePeriodSeconds"] < needed:
            complaints.append(f"terminationGracePeriodSeconds is below {needed}")
        ttl = settings_of(docs, deployment)["cluster"]["lease_ttl"]
        if workload["spec"].get("minReadySeconds", 0) <= int(ttl.removesuffix("s")):
            complaints.append(f"minReadySeconds is not above cluster.lease_ttl, {ttl}")
    return complaints


def settings_of(docs, deployment):
    with tempfile.NamedTemporaryFile("w", suffix=".toml") as file:
        file.write(settings_text(docs))
        file.flush()
        container = pod(of_kind(docs, "StatefulSet", "nephila")[0])["containers"][0]
        env = {entry["name"]: entry.get("value", "") for entry in container["env"] if entry["name"].startswith("NEPHILA_")}
        return deployment.effective(file.name, env)


@in_each
def settings(docs, deployment):
    """The program takes every setting, and the numbers fit: partitions to nodes, the web's ports to the network policy."""
    if not settings_text(docs):
        return []
    try:
        effective = settings_of(docs, deployment)
    except Failed as error:
        return [str(error)]
    complaints = []
    workload = of_kind(docs, "StatefulSet", "nephila")[0]
    if effective["cluster"]["partitions"] < 16 * workload["spec"]["replicas"]:
        complaints.append("fewer than 16 partitions for each node")
    port = int(effective["api"]["listen"].rpartition(":")[2])
    if port not in [port["containerPort"] for port in pod(workload)["containers"][0]["ports"]]:
        complaints.append(f"api.listen has port {port}, the container has not")
    for policy in of_kind(docs, "NetworkPolicy", "nephila"):
        web = [rule for rule in policy["spec"]["egress"] if any("ipBlock" in to for to in rule["to"])]
        open_ports = {port["port"] for rule in web for port in rule["ports"]}
        if missing := set(effective["spider"]["ports"]) - open_ports:
            complaints.append(f"the network policy closes {sorted(missing)} of spider.ports")
        excepted = {network for rule in web for to in rule["to"] for network in to["ipBlock"].get("except", [])}
        if open_still := CLOSED - excepted:
            complaints.append(f"the network policy opens {sorted(open_still)}")
    return complaints


def equality(deployment):
    """The chart gives what kustomize gives, with its own values and with those of the overlay `complete`."""
    complaints = []
    for name, values in (("base", ""), ("complete", COMPLETE)):
        docs = deployment.kustomize(name)
        if docs is LEFT_OUT:
            continue
        ours = [doc for doc in docs if doc["metadata"].get("labels", {}).get("app.kubernetes.io/name") == "nephila"]
        complaints += [f"{name}: {line}" for line in differences(comparable(ours), comparable(deployment.helm(values)))]
    return complaints


def chart(deployment):
    """`helm lint`, and a schema that refuses values that do not exist."""
    complaints = []
    try:
        deployment.tools.say(deployment.tools.helm, "lint", "--strict", deployment.chart)
    except Failed as error:
        complaints.append(str(error))
    for wrong in ("replica=3", "replicas=three", "storage.size=much", "set.contact=x", "terminationGracePeriodSeconds=30"):
        try:
            deployment.helm(wrong)
            complaints.append(f"the schema takes {wrong}")
        except Failed:
            pass
    lines = deployment.text("helm/nephila/values.yaml").splitlines()
    for number, line in enumerate(lines):
        is_told = lines[number - 1].startswith("#") or lines[number + 1:][:1] and lines[number + 1].startswith("  #")
        if re.match(r"\w", line) and not is_told:
            complaints.append(f"values.yaml does not say what {line.partition(':')[0]} is")
    return complaints


def versions(deployment):
    """Images and chart name the version of the program."""
    wanted, complaints = deployment.version(), []
    for name, docs in deployment.sets():
        for workload in workloads(docs):
            for container in pod(workload)["containers"]:
                image, _, tag = container["image"].partition(":")
                if image == "nephila" and tag != wanted or not tag or tag == "latest":
                    complaints.append(f"{name}: image {container['image']}, and the program is {wanted}")
    about = documents(deployment.text("helm/nephila/Chart.yaml"))[0]
    complaints += [f"Chart.yaml: {key} is {about[key]}" for key in ("version", "appVersion") if about[key] != wanted]
    for name, service in deployment.compose()["services"].items():
        image = re.sub(r"\$\{\w+:-([^}]*)\}", r"\1", service["image"])
        tag = image.partition(":")[2]
        if image.startswith("nephila:") and tag != wanted or not tag or tag == "latest":
            complaints.append(f"compose: {name} has image {image}, and the program is {wanted}")
    return complaints


def copies(deployment):
    """Alerts and settings that are there twice are the same: `cargo xtask deploy --write` makes them."""
    return [f"{path} is not what `cargo xtask deploy --write` makes" for path, text in made(deployment).items() if deployment.text(path) != text]


RULE_HEAD = """# Made from deploy/prometheus/alerts.yml by `cargo xtask deploy --write`: change the alerts there.
apiVersion: monitoring.coreos.com/v1
kind: PrometheusRule
metadata:
  name: nephila
  labels:
    app.kubernetes.io/name: nephila
    app.kubernetes.io/instance: nephila
spec:
"""


def made(deployment):
    """Files that are made from others, with their contents."""
    alerts = deployment.text("prometheus/alerts.yml")
    groups = alerts[alerts.index("groups:"):]
    inner = "".join(f"  {line}" if line.strip() else line for line in groups.splitlines(True))
    return {
        "helm/nephila/files/alerts.yml": alerts,
        "helm/nephila/files/nephila.toml": deployment.text("kubernetes/base/nephila.toml"),
        "kubernetes/monitoring/prometheusrule.yaml": RULE_HEAD + inner,
    }


ALL = [schemas, rights, selectors, names, patience, settings, equality, chart, versions, copies]
