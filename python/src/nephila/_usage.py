"""Usage preferences: what sites said about the use of their pages.

The tables of a crawl have the columns `usage_train_ai`, `usage_search` and `usage_tdm`: True, False, or empty if nothing
was said.
"""

from __future__ import annotations

from typing import Any, Literal, Protocol

from ._error import Error
from ._packages import load

#: A use of a page.
Use = Literal["train-ai", "search", "tdm"]

#: Columns that decide about a use. Training a model is also text and data mining, so a reservation of that counts.
USAGE_COLUMNS: dict[str, tuple[str, ...]] = {
    "train-ai": ("usage_train_ai", "usage_tdm"),
    "search": ("usage_search",),
    "tdm": ("usage_tdm",),
}


class Row(Protocol):
    """A row by column names: a dict, a Series of pandas, and others."""

    def __getitem__(self, key: str, /) -> Any: ...


def columns_of(use: str) -> tuple[str, ...]:
    """Return the columns that decide about a use."""
    try:
        return USAGE_COLUMNS[use]
    except KeyError:
        raise ValueError(f"{use!r} is no use; there are {', '.join(USAGE_COLUMNS)}") from None


def allows(row: Row, use: Use, *, unsaid: bool = True) -> bool:
    """Return whether a page may be used.

    A `False` in one of the columns forbids the use. If the first column of the use is empty, `unsaid` is the answer: with
    `unsaid=False` only pages whose sites agreed are allowed. A row without the columns is an error and no permission.
    """
    said = [_said(row, column) for column in columns_of(use)]
    if False in said:
        return False
    return unsaid if said[0] is None else True


def _said(row: Row, column: str) -> bool | None:
    try:
        value = row[column]
    except (KeyError, IndexError, TypeError):
        raise Error(f"the row has no column {column}: select it, or permission is unknown") from None
    if value is None or isinstance(value, bool):
        return value
    kind = type(value).__name__
    if kind in ("bool", "bool_"):
        return bool(value)
    if kind in ("NAType", "NaTType") or value != value:
        return None
    raise Error(f"{column} is neither True nor False nor empty: {value!r}")


def usage_filter(use: Use, *, unsaid: bool = True) -> Any:
    """Return the same as an expression of pyarrow, for a scan of a dataset."""
    dataset = load("pyarrow.dataset", "pyarrow", "reading tables")
    result = None
    for number, column in enumerate(columns_of(use)):
        field = dataset.field(column)
        fits = field.is_null() | field if unsaid or number > 0 else field.is_valid() & field
        result = fits if result is None else result & fits
    return result
