"""What an operator sets: limits, switches and the token."""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Sequence
from dataclasses import dataclass
from http.cookies import CookieError, SimpleCookie
from pathlib import Path

from l2x.errors import InputError

MIB = 1 << 20
COOKIE = "l2x"
# The names of this machine. A page of another site can have its own name point to this address, and then read
# the responses; but it cannot change the header Host.
LOCAL = ("localhost", "127.0.0.1", "[::1]")


@dataclass(frozen=True)
class Settings:
    """Limits and switches of the service; sizes are in bytes, times in seconds.

    Attributes
    ----------
    token : str, optional
        The secret that clients send as `Authorization: Bearer ...`; None admits every client.
    max_rows : int
        Maximum number of rows in a JSON request.
    queue : int
        Maximum number of rows that wait for a batch; further requests get 503.
    batch_rows : int
        Maximum number of rows in a batch; 1 explains every request alone.
    timeout : float
        Every request is answered within this time, if necessary with 504. A request whose turn does not come,
        or is not expected to come, within half of it gets 503.
    body_timeout : float
        A body that takes longer to arrive gets 408.
    max_body, max_arrow_body : int
        Maximum size of a JSON body and of an Arrow stream.
    reload : bool
        Whether to load a file again when it changes.
    reload_every : float
        Time between two looks at the files.
    root_path : str
        The path under which a proxy exposes the service, such as "/l2x".
    hosts : tuple of str
        Names, as in `LOCAL`, that the header Host of a request may have; empty for all.
    watch : float
        Share of the served rows, between 0 and 1, that are verified in the background; needs the model.
    watch_rows : int
        Maximum number of rows of each explainer that are verified per minute.
    effects : bool
        Whether responses have effects unless a request has its own `effects`.
    most_refine : int
        Maximum of `refine` in a request: masked rows that the model is queried for, per row.
    """

    token: str | None = None
    max_rows: int = 1000
    queue: int = 2000
    batch_rows: int = 256
    timeout: float = 10.0
    body_timeout: float = 10.0
    max_body: int = 16 * MIB
    max_arrow_body: int = 1024 * MIB
    reload: bool = False
    reload_every: float = 1.0
    root_path: str = ""
    hosts: tuple[str, ...] = ()
    watch: float = 0.0
    watch_rows: int = 600
    effects: bool = True
    most_refine: int = 30

    def __post_init__(self) -> None:
        if not 0 <= self.watch <= 1:
            raise InputError(f"watch is {self.watch!r}; expected a share of rows between 0 and 1.")


class Token:
    """The secret of the service, and the cookie that replaces it in a browser, which is derived from it."""

    def __init__(self, secret: str) -> None:
        self._digest = _digest(secret)
        self.cookie = hmac.new(secret.encode(), b"playground", hashlib.sha256).hexdigest()

    def matches(self, given: str) -> bool:
        """Compare in constant time."""
        return hmac.compare_digest(_digest(given), self._digest)

    def admits(self, headers: dict[bytes, bytes]) -> bool:
        """Return whether the headers of a request carry the secret or the cookie."""
        scheme, _, given = headers.get(b"authorization", b"").decode("latin-1").partition(" ")
        if scheme.lower() == "bearer":
            return self.matches(given.strip())
        try:
            cookies = SimpleCookie(headers.get(b"cookie", b"").decode("latin-1"))
        except CookieError:
            return False
        return COOKIE in cookies and hmac.compare_digest(_digest(cookies[COOKIE].value), _digest(self.cookie))


def allowed_hosts(host: str, token: str | None, names: Sequence[str]) -> tuple[str, ...]:
    """Return `Settings.hosts` of a service that listens on `host`, where `names` are further names.

    Without names, only a service that is meant for this machine and needs no token is restricted.

    >>> allowed_hosts("127.0.0.1", None, [])
    ('localhost', '127.0.0.1', '[::1]')
    >>> allowed_hosts("0.0.0.0", None, [])
    ()
    """
    local = host in ("localhost", "::1") or host.startswith("127.")
    restricted = bool(names) or (local and token is None)
    return tuple(dict.fromkeys([*LOCAL, *names])) if restricted else ()


def read_token(path: Path) -> str:
    """Return the token in a file, without the trailing newline.

    Raises
    ------
    InputError
        If the file cannot be read, or its token is shorter than 16 characters or contains blanks.
    """
    try:
        token = path.read_text(encoding="ascii").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"Cannot read the token from '{path}': {error}.") from error
    if len(token) < 16 or any(character.isspace() for character in token):
        raise InputError(
            f"The token in '{path}' has {len(token)} characters; expected at least 16, without blanks. "
            "Make one with: python -c 'import secrets; print(secrets.token_urlsafe(32))'"
        )
    return token


def _digest(text: str) -> bytes:
    return hashlib.sha256(text.encode("utf-8", "replace")).digest()
