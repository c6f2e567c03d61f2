"""Pages load nothing from another host, and escape what they are given."""

from __future__ import annotations

import re

import pytest

from l2x.display._pages import SECURITY_HEADERS, STATIC, environment


def test_the_base_loads_files_that_are_there_and_nothing_else() -> None:
    page = environment("l2x.display", extra="plots").get_template("base.html").render(root="/under/a/proxy")
    loaded = re.findall(r'(?:src|href)="([^"#]+)"', page)
    files = [address for address in loaded if address.startswith("/under/a/proxy/static/")]
    assert len(files) == 2
    assert all((STATIC / address.rpartition("/")[2]).stat().st_size for address in files)
    assert set(loaded) - set(files) == {"data:,"}


def test_our_files_name_no_other_host() -> None:
    sheet = (STATIC / "l2x.css").read_text()
    assert "://" not in sheet
    assert "@import" not in sheet
    assert "url(" not in sheet


def test_templates_escape() -> None:
    made = environment("l2x.display", extra="plots")
    assert made.from_string("{{ name }}").render(name="<b>") == "&lt;b&gt;"
    with pytest.raises(Exception, match="undefined"):
        made.from_string("{{ nothing }}").render()


def test_headers_allow_no_inline_script() -> None:
    policy = SECURITY_HEADERS["Content-Security-Policy"]
    assert "unsafe" not in policy
    assert "default-src 'none'" in policy
