"""The request that a page's form stands for, as commands to copy."""

from __future__ import annotations

import json
import shlex
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote


@dataclass(frozen=True)
class Request:
    base: str
    name: str
    row: Any
    k: int
    token: bool = False

    @property
    def url(self) -> str:
        return f"{self.base}/v1/explainers/{quote(self.name, safe='')}/explain"

    @property
    def body(self) -> dict[str, Any]:
        return {"rows": [self.row], "k": self.k}


def curl(request: Request) -> str:
    """For a shell; whatever the row holds stays inside its quotes."""
    token = ' \\\n  -H "Authorization: Bearer $L2X_TOKEN"' if request.token else ""
    return (
        f"curl {shlex.quote(request.url)} \\\n  -H 'Content-Type: application/json'{token} \\\n"
        f"  -d {shlex.quote(json.dumps(request.body))}"
    )


def python(request: Request) -> str:
    """For Python without any package."""
    token = ', "Authorization": f"Bearer {os.environ[\'L2X_TOKEN\']}"' if request.token else ""
    return (
        f"import json{', os' if request.token else ''}, urllib.request\n\n"
        f"body = {request.body!r}\n"
        f'headers = {{"Content-Type": "application/json"{token}}}\n'
        f"request = urllib.request.Request({request.url!r}, json.dumps(body).encode(), headers)\n"
        "print(json.load(urllib.request.urlopen(request)))"
    )
