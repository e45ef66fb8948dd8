#!/usr/bin/env python3
"""The dashboard as the build makes it: it is small, loads nothing, and its policy allows its own script and no other."""

import base64
import gzip
import hashlib
import pathlib
import re
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
MOST_BYTES = 100 * 1024  # compressed


def built(page: str) -> tuple[str, bytes]:
    """A page, and what the C++ source holds."""
    with tempfile.TemporaryDirectory() as folder:
        html, cpp = pathlib.Path(folder) / "page.html", pathlib.Path(folder) / "page.cpp"
        command = [sys.executable, ROOT / "page" / "build.py", "--page", page, "--html", html, "--cpp", cpp]
        subprocess.run(command, check=True)
        assert f"std::string_view {page}()" in cpp.read_text()
        numbers = re.search(r"kPage\[\] = \{(.*?)\};", cpp.read_text(), re.DOTALL).group(1)
        return html.read_text(), bytes(int(number) for number in numbers.split(","))


def check(page: str, serves: str) -> None:
    html, compressed = built(page)
    assert f'<body data-serves="{serves}">' in html
    assert gzip.decompress(compressed).decode() == html
    assert len(compressed) <= MOST_BYTES, f"{len(compressed)} bytes compressed, at most {MOST_BYTES}"
    assert compressed == built(page)[1], "two builds differ"
    policy = re.search(r'http-equiv="Content-Security-Policy" content="([^"]*)"', html).group(1)
    scripts = re.findall(r"<script>(.*?)</script>", html, re.DOTALL)
    assert len(scripts) == 1 and "<script src" not in html
    digest = base64.b64encode(hashlib.sha256(scripts[0].encode()).digest()).decode()
    assert f"script-src 'sha256-{digest}';" in policy, policy
    assert policy.startswith("default-src 'none';") and "'unsafe-eval'" not in policy
    loaded = re.findall(r"""(?:src|href)\s*=\s*["'](?!#|data:)([^"']*)|url\(([^)]*)\)|@import""", html)
    assert not loaded, loaded
    # Every id that a script looks up exists.
    for name in set(re.findall(r'byId\("([^"]+)"\)', scripts[0])):
        assert f'id="{name}"' in html, name
    print(f"{page}: {len(html)} bytes, {len(compressed)} compressed")


def main() -> None:
    check("dashboard_page", "run")
    check("dash_page", "runs")


if __name__ == "__main__":
    main()
