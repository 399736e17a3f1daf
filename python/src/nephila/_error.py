"""Errors of this package. All of them are a `nephila.Error`."""

from __future__ import annotations


class Error(Exception):
    """Base class of all errors of this package."""


class Damaged(Error):
    """Bytes of an archive, an index or an answer do not have the expected form."""


class TooLarge(Error):
    """Data exceeds a limit. The message names the limit."""


class NotFound(Error):
    """The crawl has no such capture, file or table."""


class MissingPackage(Error):
    """An optional package is needed. The message names the package."""


class Unreachable(Error):
    """No node answered: refused connections, timeouts, broken answers."""


class ApiError(Error):
    """A problem that a node reported (RFC 9457).

    Programs decide by `type` or `status`; `title` and `detail` are for people.
    """

    def __init__(
        self,
        status: int,
        type: str = "about:blank",
        title: str = "",
        detail: str = "",
        retry_after: int | None = None,
    ) -> None:
        super().__init__(f"{status} {title}: {detail}" if detail else f"{status} {title}")
        #: HTTP status.
        self.status = status
        #: Kind of the problem, such as `urn:nephila:problem:not-found`.
        self.type = type
        self.title = title
        self.detail = detail
        #: Seconds until the request can be repeated, if the node named a time.
        self.retry_after = retry_after
