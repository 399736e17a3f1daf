"""Packages that are imported when they are needed: captures in gzip files need the standard library alone."""

from __future__ import annotations

import importlib
from typing import Any

from ._error import MissingPackage


def load(module: str, package: str, purpose: str) -> Any:
    """Import a module of an optional package."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise MissingPackage(f"{purpose} needs the package {package}: pip install {package}") from error


def zstd() -> Any:
    """Return the module for Zstandard: part of Python from 3.14 on, a package before."""
    try:
        return importlib.import_module("compression.zstd")
    except ImportError:
        return load("backports.zstd", "backports.zstd", "Zstandard")
