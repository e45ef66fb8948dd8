#!/usr/bin/env python3
"""Makes the page that a run or `troupe dash` serves: one HTML file with its styles and scripts, and a C++ source that holds it compressed.

    page/build.py --html page.html                          only the page, to look at it
    page/build.py --page dash_page --cpp dash_page.cpp      the source that the build compiles

The page may load nothing: its policy allows the one style and the one script by their hashes, and requests and a
WebSocket to the address that it came from.
"""

import argparse
import base64
import gzip
import hashlib
import pathlib

HERE = pathlib.Path(__file__).resolve().parent
STYLES = ["vendor/uPlot.min.css", "page.css"]
# They share one scope, in this order.
NAMES = (
    "format figures place connection curves store charts learning histograms flow views events header verdict folders runs compare "
    "warmup main"
)
SCRIPTS = ["vendor/uPlot.iife.min.js"] + [name + ".js" for name in NAMES.split()]
# What serves each page, which the script reads: one run, or the runs in folders.
PAGES = {"dashboard_page": "run", "dash_page": "runs"}
POLICY = (
    "default-src 'none'; script-src {script}; style-src 'unsafe-inline'; connect-src 'self'; img-src data:; base-uri 'none'; "
    "form-action 'none'"
)
CPP = """#include "tools/cli/dashboard_page.h"

namespace troupe {{
namespace {{
constexpr unsigned char kPage[] = {{
{bytes}}};
}}  // namespace

std::string_view {name}() {{ return {{reinterpret_cast<const char*>(kPage), sizeof kPage}}; }}

}}  // namespace troupe
"""


def joined(names: list[str]) -> str:
    """The files as one text."""
    return "\n".join((HERE / name).read_text() for name in names)


def hash_of(text: str) -> str:
    """The source expression of a Content-Security-Policy that allows an inline text."""
    return "'sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() + "'"


def page(name: str) -> str:
    """The whole page, HTML."""
    style, script = joined(STYLES), "'use strict';\n" + joined(SCRIPTS)
    # Styles are also set on elements, which hashes do not cover.
    policy = POLICY.format(script=hash_of(script))
    html = (HERE / "index.html").read_text()
    for place, text in (("policy", policy), ("style", style), ("serves", PAGES[name]), ("script", script)):
        assert html.count("{{" + place + "}}") == 1, place
        html = html.replace("{{" + place + "}}", text)
    return html


def cpp(name: str, html: str) -> str:
    """A C++ source with the function that returns the page."""
    data = gzip.compress(html.encode(), 9, mtime=0)
    lines = [", ".join(str(byte) for byte in data[i : i + 32]) for i in range(0, len(data), 32)]
    return CPP.format(name=name, bytes=",\n".join(lines))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--page", choices=PAGES, default="dashboard_page")
    parser.add_argument("--html", type=pathlib.Path)
    parser.add_argument("--cpp", type=pathlib.Path)
    options = parser.parse_args()
    html = page(options.page)
    if options.html:
        options.html.write_text(html)
    if options.cpp:
        options.cpp.write_text(cpp(options.page, html))


if __name__ == "__main__":
    main()
