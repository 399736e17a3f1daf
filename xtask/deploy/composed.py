"""Rules for the compose file, for Prometheus, and for the files of a code host (`.github`)."""

import functools
import pathlib
import re
import shutil
import tempfile

import yaml
from render import Failed, documents

# Who has to write to a root file system of its own.
WRITES = {"prepare", "grafana"}


def environment_of(service):
    return {key: str(value) for key, value in service.get("environment", {}).items()}


def nodes(deployment):
    return {name: service for name, service in deployment.compose()["services"].items() if name.startswith("node-")}


def schema(deployment):
    """The schema of compose files, and a second reader of them."""
    import compose_spec

    path = deployment.folder / "compose/compose.yaml"
    complaints = checked(deployment, "vendor.compose-spec", [path])
    try:
        options = compose_spec.PyOptions()
        options.apply_merge = True
        # Variables are filled in before a file is read.
        read = options.from_yaml(re.sub(r"\$\{\w+:-([^}]*)\}", r"\1", path.read_text(encoding="utf-8")))
        for validate in (read.validate_networks, read.validate_volumes, read.validate_configs, read.validate_secrets):
            validate()
    except (ValueError, TypeError, RuntimeError) as error:
        complaints.append(f"compose_spec: {str(error)[:300]}")
    return complaints


def services(deployment):
    """What services name is there; they run without rights, and listen on this machine alone."""
    compose, complaints = deployment.compose(), []
    volumes = set(compose["volumes"])
    for name, service in compose["services"].items():
        mounted = {mount.split(":")[0] for mount in service.get("volumes", [])}
        files = {path for path in mounted if path.startswith(".")}
        complaints += [f"{name}: no file {path}" for path in files if not (deployment.folder / "compose" / path).is_file()]
        complaints += [f"{name}: no volume {volume}" for volume in mounted - files - volumes]
        complaints += [f"{name}: no service {other}" for other in set(service.get("depends_on", {})) - set(compose["services"])]
        complaints += [f"{name}: {port} is open to other machines" for port in service.get("ports", []) if not port.startswith("127.0.0.1:")]
        if name not in WRITES and not (service.get("read_only") and service.get("user", "0").split(":")[0] not in ("0", "root")):
            complaints.append(f"{name} runs as root, or writes to its own file system")
        if name != "prepare" and (service.get("cap_drop") != ["ALL"] or "no-new-privileges:true" not in service.get("security_opt", [])):
            complaints.append(f"{name} keeps rights")
    leave = deployment.seconds("crates/nephila-cluster/src/shell.rs", "LEAVE_MAX")
    leave += deployment.seconds("crates/nephila-cluster/src/lib.rs", "LAST_UPLOADS_MAX")
    for name, service in nodes(deployment).items():
        if int(service.get("stop_grace_period", "10s").removesuffix("s")) <= leave:
            complaints.append(f"{name}: stop_grace_period is not above {leave} s")
    return complaints


def settings(deployment):
    """The program takes the settings of every node, and each is a node of its own."""
    complaints, seen = [], set()
    for name, service in nodes(deployment).items():
        try:
            effective = deployment.effective(deployment.folder / "compose/nephila.toml", environment_of(service))
        except Failed as error:
            complaints.append(f"{name}: {error}")
            continue
        cluster, api = effective["cluster"], effective["api"]
        if cluster["node"] != name or api["advertise"] != f"{name}:6374" or name not in cluster["nkey_file"] or name not in api["tls_key_file"]:
            complaints.append(f"{name} has the name, address or keys of another node")
        seen.add(cluster["node"])
        if cluster["partitions"] < 16 * len(nodes(deployment)):
            complaints.append(f"{name}: fewer than 16 partitions for each node")
    targets = documents(deployment.text("compose/prometheus.yml"))[0]["scrape_configs"][0]["static_configs"][0]["targets"]
    if {target.split(":")[0] for target in targets} != seen:
        complaints.append(f"Prometheus scrapes {targets}, and the nodes are {sorted(seen)}")
    return complaints


def prometheus(deployment):
    """promtool reads the rules and the configurations."""
    complaints = []
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        shutil.copy(deployment.folder / "prometheus/alerts.yml", folder)
        for file in ("ca.pem", "read.token"):
            (folder / file).write_text("x", encoding="utf-8")
        for path in ("prometheus/prometheus.yml", "compose/prometheus.yml"):
            text = deployment.text(path).replace("/keys/", f"{folder}/")
            (folder / "prometheus.yml").write_text(text, encoding="utf-8")
            try:
                deployment.tools.say(deployment.tools.promtool, "check", "config", "--lint-fatal", folder / "prometheus.yml")
            except Failed as error:
                complaints.append(f"{path}: {error}")
        for _name, found in deployment.sets():
            for doc in found:
                if doc["kind"] == "PrometheusRule":
                    (folder / "rules.yml").write_text(yaml.safe_dump(doc["spec"]), encoding="utf-8")
                    try:
                        deployment.tools.say(deployment.tools.promtool, "check", "rules", folder / "rules.yml")
                    except Failed as error:
                        complaints.append(f"PrometheusRule: {error}")
    return complaints


def code_host(deployment):
    """The workflow and the forms for issues, by the schemas of the code host. The workflow runs `.ci/run` and nothing else."""
    github = deployment.root / ".github"
    complaints = checked(deployment, "vendor.github-workflows", sorted((github / "workflows").glob("*.yml")))
    complaints += checked(deployment, "custom.github-workflows-require-timeout", sorted((github / "workflows").glob("*.yml")))
    forms = sorted(path for path in (github / "ISSUE_TEMPLATE").glob("*.yml") if path.name != "config.yml")
    complaints += checked(deployment, "vendor.github-issue-forms", forms)
    complaints += checked(deployment, "vendor.github-issue-config", [github / "ISSUE_TEMPLATE/config.yml"])
    text = (github / "workflows/ci.yml").read_text(encoding="utf-8")
    if not re.search(r"^\s+(?:- )?run: bash \.ci/run$", text, re.MULTILINE):
        complaints.append("workflows/ci.yml does not run .ci/run")
    if "permissions:\n  contents: read\n" not in text:
        complaints.append("workflows/ci.yml has more rights than to read")
    for action in re.findall(r"uses: (\S+)", text):
        if not re.fullmatch(r"\S+@[0-9a-f]{40}|actions/[a-z-]+@v\d+", action):
            complaints.append(f"workflows/ci.yml: {action} is not pinned")
    if not (github / "PULL_REQUEST_TEMPLATE.md").is_file():
        complaints.append("there is no PULL_REQUEST_TEMPLATE.md")
    return complaints


def checked(deployment, name, paths):
    """What check-jsonschema finds wrong with files, by a schema that it brings."""
    if not paths:
        return [f"no file for the schema {name}"]
    return said_of(deployment.tools, name, tuple((path.name, path.read_text(encoding="utf-8")) for path in paths))


@functools.cache
def said_of(tools, name, files):
    """The same for files by their contents: most faults are in one file of several."""
    with tempfile.TemporaryDirectory() as folder:
        paths = [pathlib.Path(folder) / file for file, _ in files]
        for path, (_, text) in zip(paths, files):
            path.write_text(text, encoding="utf-8")
        try:
            tools.say(tools.schema, "--builtin-schema", name, *paths)
            return []
        except Failed as error:
            return [str(error)]


ALL = [schema, services, settings, prometheus, code_host]
