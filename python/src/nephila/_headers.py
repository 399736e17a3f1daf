"""Header fields of HTTP messages and WARC records."""

from __future__ import annotations

from collections.abc import Iterable, Iterator


class Headers:
    """Header fields in order. Names are compared without case; a name may occur several times."""

    __slots__ = ("_fields",)

    def __init__(self, fields: Iterable[tuple[str, str]] = ()) -> None:
        self._fields = list(fields)

    @classmethod
    def parse(cls, lines: bytes, encoding: str) -> Headers:
        """Parse the lines below a status line. Folded lines are joined; lines without a colon are left out."""
        fields: list[tuple[str, list[str]]] = []
        for line in lines.decode(encoding, "replace").replace("\r\n", "\n").split("\n"):
            if line[:1] in (" ", "\t") and fields:
                fields[-1][1].append(line.strip())
                continue
            name, colon, value = line.partition(":")
            if colon:
                fields.append((name.strip(), [value.strip()]))
        return cls((name, " ".join(values)) for name, values in fields)

    def get(self, name: str, default: str | None = None) -> str | None:
        """Return the first value of a field."""
        wanted = name.lower()
        return next((value for field, value in self._fields if field.lower() == wanted), default)

    def get_all(self, name: str) -> list[str]:
        """Return all values of a field."""
        wanted = name.lower()
        return [value for field, value in self._fields if field.lower() == wanted]

    def items(self) -> list[tuple[str, str]]:
        """Return all fields, as names and values."""
        return list(self._fields)

    def __getitem__(self, name: str) -> str:
        value = self.get(name)
        if value is None:
            raise KeyError(name)
        return value

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and self.get(name) is not None

    def __iter__(self) -> Iterator[str]:
        return iter(dict.fromkeys(name for name, _ in self._fields))

    def __len__(self) -> int:
        return len(self._fields)

    def __eq__(self, other: object) -> bool:
        return self._fields == other._fields if isinstance(other, Headers) else NotImplemented

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"Headers({self._fields!r})"
