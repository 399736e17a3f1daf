#!/usr/bin/env python3
"""Builds the wheel, installs it into a fresh environment, and runs the type checker and all tests there.

    python/check.py FOLDER [-- OPTIONS OF PYTEST]

FOLDER keeps the tools, so that a second run is quick; the environment of the package itself is made anew each time.
`NEPHILA_BINARY` and `NEPHILA_TESTWEB` name the programs; with `NEPHILA_NATS_SERVER` the bucket is written by a real node
of a cluster. Ends with one line of figures, and with 1 if a step fails.
"""

from __future__ import annotations

import concurrent.futures
import os
import subprocess
import sys
import time
import venv
import zipfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
BUILD_TOOLS = ["build==1.6.1", "hatchling==1.33.0"]
#: The tools, and the versions of dependencies that the tests run with.
TEST_TOOLS = [
    "pyarrow==26.0.1",
    "brotli==1.2.1",
    "backports.zstd==1.8.0",
    "pytest==9.2.0",
    "mypy==2.4.1",
    "warcio==1.8.1",
    "duckdb==2.0.0",
    "pandas==3.1.1",
    "moto[server]==5.2.5",
    "boto3==1.44.3",
    "Scrapy==2.19.0",
]
STAMP = "nephila-tools.txt"


def run(*command: str | Path, **options: object) -> None:
    done = subprocess.run([str(part) for part in command], **options)  # type: ignore[call-overload]
    if done.returncode:
        print(f"check: {' '.join(str(part) for part in command[:4])} failed", file=sys.stderr)
        sys.exit(1)


def environment(path: Path, packages: list[str]) -> Path:
    """Make an environment unless there is one with exactly these packages; returns its Python."""
    python, stamp, wanted = path / "bin/python", path / STAMP, "\n".join(packages)
    if not stamp.is_file() or stamp.read_text() != wanted:
        print(f"check: installing {len(packages)} packages into {path}", file=sys.stderr)
        venv.create(path, with_pip=True, clear=True)
        run(python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *packages)
        stamp.write_text(wanted)
    return python


def fresh(pip: Path, path: Path, wheel: Path, *options: str) -> Path:
    """Make a new environment and install the wheel into it, with the pip of another one."""
    venv.create(path, with_pip=False, clear=True)
    python = path / "bin/python"
    run(pip, "-m", "pip", "--python", python, "install", "--quiet", "--no-compile", "--disable-pip-version-check", *options, wheel)
    return python


def install_as_user(pip: Path, path: Path, wheel: Path) -> None:
    user = fresh(pip, path, wheel)
    run(user, "-c", f"import nephila, pyarrow, brotli; assert nephila.__file__.startswith({str(path)!r})")


def main() -> None:
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    folder = Path(sys.argv[1]).resolve()
    more = sys.argv[sys.argv.index("--") + 1 :] if "--" in sys.argv else []
    for name in ("NEPHILA_BINARY", "NEPHILA_TESTWEB"):
        if not os.access(os.environ.get(name, ""), os.X_OK):
            sys.exit(f"check: {name} must name a program")
    folder.mkdir(parents=True, exist_ok=True)
    # Only what is installed counts.
    os.environ.pop("PYTHONPATH", None)
    steps: list[str] = []
    began = last = time.monotonic()

    def done(step: str) -> None:
        nonlocal last
        now = time.monotonic()
        steps.append(f"{step} {now - last:.1f} s")
        last = now

    build = environment(folder / "build-tools", BUILD_TOOLS)
    tools = environment(folder / "test-tools", TEST_TOOLS)
    done("tools")
    dist = folder / "dist"
    for old in dist.glob("*"):
        old.unlink()
    # The wheel is built from the source archive, so the archive is whole.
    run(build, "-m", "build", "--no-isolation", "--outdir", dist, HERE, stdout=subprocess.DEVNULL)
    (wheel,) = dist.glob("*.whl")
    assert wheel.name.endswith("-py3-none-any.whl"), wheel
    with zipfile.ZipFile(wheel) as package:
        for licence in ("LICENSE-MIT", "LICENSE-APACHE"):
            (name,) = (name for name in package.namelist() if name.endswith(f"/{licence}"))
            assert package.read(name) == (HERE.parent / licence).read_bytes(), f"{licence} is not that of the repository"
    done("wheel")

    # As a user installs the package: the wheel and its dependencies. Meanwhile the tests run.
    pool = concurrent.futures.ThreadPoolExecutor(1)
    installed = pool.submit(install_as_user, build, folder / "user", wheel)
    # Without any dependency; a test reads captures with it.
    bare = fresh(build, folder / "bare", wheel, "--no-deps")

    # The tests run with the installed package, and with the tools of the other environment.
    (packages,) = (folder / "test-tools/lib").glob("python3*/site-packages")
    environ = {**os.environ, "NEPHILA_BARE_PYTHON": str(bare), "PYTHONDONTWRITEBYTECODE": "1"}
    cache = folder / "mypy"
    run(tools, "-m", "mypy", "--cache-dir", cache, "--config-file", HERE / "pyproject.toml", cwd=HERE, env=environ)
    done("mypy")
    tested = fresh(build, folder / "tested", wheel, "--no-deps")
    (site,) = (folder / "tested/lib").glob("python3*/site-packages")
    (site / "tools.pth").write_text(f"{packages}\n")
    # Programs of the tools, such as moto_server, are on the PATH.
    environ["PATH"] = f"{folder / 'test-tools/bin'}{os.pathsep}{environ['PATH']}"
    run(tested, "-m", "pytest", "-q", "-p", "no:cacheprovider", *more, cwd=HERE, env=environ)
    done("tests")
    installed.result()
    done("install as a user")
    print(f"python: {wheel.name}; {', '.join(steps)}; {time.monotonic() - began:.0f} s in all")


if __name__ == "__main__":
    main()
