"""What an operator can set."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from l2x.errors import InputError

MIB = 1 << 20


@dataclass(frozen=True)
class Settings:
    """Limits and switches of the service; sizes in bytes, times in seconds.

    Attributes
    ----------
    token : what `Authorization: Bearer` must carry; None lets everybody in
    max_rows : rows of one JSON request
    queue : rows that may wait for a batch; requests beyond it get 503
    batch_rows : rows of one forward pass; 1 explains every request by itself
    timeout : the promised time: an answer takes no longer, or is 504. Requests whose turn would come later
        than in half of it are refused with 503
    body_timeout : a body that takes longer to arrive gets 408
    reload : load a new file under an old name while the service runs
    root_path : where a proxy shows the service, such as "/l2x"
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


def read_token(path: Path) -> str:
    """The token in a file, without the line's end."""
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
