"""PDF of a lab: all pages of the site about it for one device, printed by the system's Chromium.

For readers who want a lab on paper or in an archive. Any browser can print a single page.
"""

import contextlib
import os
import re
import shutil
import signal
import subprocess
from pathlib import Path

from ..ctrl_c import ctrl_c_waits
from ..errors import Failed, UsageError, one_of
from ..escaping import page_json
from ..paths import scratch_folder, write_whole
from ..spec import registry
from . import slide_files
from .device_choices import SCRIPTS, DeviceChoice, choices, script_places
from .lab_pages import SPREAD, STORY

BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
LONGEST = 180
"""Seconds that the browser may take."""


def choose_device(root: Path, lab: str, device: str | None) -> DeviceChoice:
    """Return the named device, in the form of the pages' addresses, or the first device.

    Raise UsageError for an unknown one.
    """
    registry.get(lab)
    devices = choices(root, lab)
    if not devices:
        raise UsageError(
            f"no device of {lab} has been drawn yet; `roofbook build` does that for those that are recorded"
        )
    choice_by_name = {choice.name: choice for choice in devices}
    if device is not None and device not in choice_by_name:
        raise one_of("device", device, list(choice_by_name))
    return choice_by_name[device] if device else devices[0]


def write_pdf(root: Path, lab: str, choice: DeviceChoice, out: Path) -> None:
    """Print the built site's pages of a lab on a device. An existing `out` is replaced only by a complete file.

    Raise UsageError if there is no site, no browser or no space for the file, Failed for other errors.
    """
    browser = _browser()
    folder = root / "_build" / "html" / "labs"
    page = folder / f".{lab}-{os.getpid()}.html"  # in the story's folder, to which links are relative
    try:
        write_whole(page, combined_html(root, lab, choice))
        _print_whole(browser, page, lab, out)
    finally:
        page.unlink(missing_ok=True)


def write_slides(root: Path, lab: str, out: Path) -> None:
    """Print the slides of a lab's lesson in the built site, one a sheet. Errors: as of `write_pdf`."""
    registry.get(lab)
    page = root / "_build" / "html" / "labs" / lab / slide_files.FILE
    if not page.exists():
        raise UsageError(f"the site has no slides of {lab}; `roofbook build` makes them for a lab with a lesson")
    _print_whole(_browser(), page, lab, out)


def _browser() -> str:
    """Return the path of the system's Chromium. Raise UsageError if there is none."""
    browser = next(filter(None, map(shutil.which, BROWSERS)), None)
    if browser is None:
        raise UsageError(
            "no Chromium on PATH: install one (Debian: `apt-get install chromium`), or print the page in a browser"
        )
    return browser


def _print_whole(browser: str, page: Path, lab: str, out: Path) -> None:
    """Print a page about a lab, and replace `out` by the complete file."""
    with scratch_folder() as scratch:
        pdf = scratch / "made.pdf"
        try:
            error_text = _print(browser, page, pdf)
        except subprocess.TimeoutExpired:
            raise Failed(f"{browser} took more than {LONGEST} s to print {lab}") from None
        if error_text:
            raise Failed(f"{browser} did not print {lab}: {error_text}")
        content = pdf.read_bytes()
        if not content.rstrip().endswith(b"%%EOF"):
            raise UsageError(f"{browser} could not write all of {lab} into {scratch.parent}; is there room left?")
    write_whole(out, content)


def _print(browser: str, page: Path, out: Path) -> str:
    """Print a page. Return '', or the last line of the browser's output if it failed. The browser's files are next to `out`."""
    arguments = ["--headless", "--disable-gpu", "--no-pdf-header-footer", f"--user-data-dir={out.parent / 'profile'}"]
    arguments += ["--no-sandbox"] * (os.geteuid() == 0)  # Chromium refuses to run as root without it
    arguments += [f"--print-to-pdf={out}", page.as_uri()]
    with contextlib.ExitStack() as cleanup:
        with ctrl_c_waits():
            process = subprocess.Popen(
                [browser, *arguments], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, errors="replace",
                start_new_session=True, env={**os.environ, "TMPDIR": str(out.parent)},
            )  # fmt: skip
            cleanup.callback(_end, process)
        _, messages = process.communicate(timeout=LONGEST)
    return "" if out.exists() and not process.returncode else (messages.strip().splitlines() or ["no message"])[-1]


def _end(leader: "subprocess.Popen[str]") -> None:
    """Kill a process and its group: a browser has several processes, and they write files."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(leader.pid, signal.SIGKILL)
    leader.wait()
    assert leader.stderr
    leader.stderr.close()


def combined_html(root: Path, lab: str, choice: DeviceChoice) -> str:
    """Return one HTML page with the articles of all pages of the lab's notebook, for this device."""
    folder = root / "_build" / "html" / "labs"
    files = {STORY: folder / f"{lab}.html"} | {name: folder / lab / f"{name}.html" for name in SPREAD}
    if not files[STORY].exists():
        raise UsageError(f"the site has no page of {lab}; `roofbook build` makes it")
    articles, cells = list[str](), list[dict[str, str]]()
    for name, path in files.items():
        if path.exists():
            text = path.read_text(encoding="utf-8")
            articles.append(text[text.index("<article") : text.index("</article>")] + "</article>")
            cells.append(script_places(root / "_build" / "html" / SCRIPTS / lab / name / choice.script))
    head = files[STORY].read_text(encoding="utf-8").partition("</head>")[0]
    # Without its scripts, which would restore a device chosen earlier.
    head = re.sub(r"<script\b[^>]*\bsrc=[^>]*></script>|<base\b[^>]*>", "", head)
    arguments = page_json({"cells": cells, "device": choice.label})
    return f"{head}</head><body>\n{''.join(articles)}\n<script>({_SHOW})({arguments})</script></body></html>\n"


_SHOW = """({ cells, device }) => {
  document.querySelectorAll("article").forEach((article, page) => {
    for (const place of article.querySelectorAll(".on-device")) place.innerHTML = cells[page][place.dataset.cell] ?? "";
  });
  for (const bar of document.querySelectorAll(".device-bar")) bar.dataset.device = device;
  for (const folded of document.querySelectorAll("details:has(table, figure)")) folded.open = true;
  document.documentElement.dataset.theme = "light";
}"""
