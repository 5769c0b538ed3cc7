"""A lab as one PDF: what the site's pages of it show of a device, one after the other, printed by the system's Chromium.

For a reader who wants a lab on paper or in an archive. One page alone can be printed by any browser.
"""

import contextlib
import os
import re
import shutil
import signal
import subprocess
from pathlib import Path

from ..errors import Failed, UsageError, ctrl_c_waits, one_of
from ..escaping import page_json
from ..paths import scratch_folder, write_whole
from ..spec import registry
from .device_choices import DeviceChoice, choices, local_choice, page_cells
from .lab_pages import SPREAD, STORY

BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
LONGEST = 180
"""Seconds that the browser may take."""


def chosen(root: Path, lab: str, device: str | None) -> DeviceChoice:
    """The device that a reader names as the pages' address has it, or the first that they show. Errors: UsageError."""
    registry.get(lab)
    listed = [*choices(root, lab), *filter(None, [local_choice(root, lab)])]
    if not listed:
        raise UsageError(
            f"no device of {lab} has been drawn yet; `roofbook build` does that for those that are recorded"
        )
    named = {each.name: each for each in listed}
    if device is not None and device not in named:
        raise one_of("device", device, list(named))
    return named[device] if device else listed[0]


def write(root: Path, lab: str, choice: DeviceChoice, out: Path) -> None:
    """Print what the built site has of a lab on a device. What `out` was stays until the new one is whole.

    Errors: UsageError where there is no site or browser, or no room for the file, else Failed.
    """
    browser = next(filter(None, map(shutil.which, BROWSERS)), None)
    if browser is None:
        raise UsageError(
            "no Chromium on PATH: install one (Debian: `apt-get install chromium`), or print the page in a browser"
        )
    folder = root / "_build" / "html" / "labs"
    page = folder / f".{lab}-{os.getpid()}.html"  # beside the story, since addresses are as seen from there
    with scratch_folder() as scratch:
        made = scratch / "made.pdf"
        try:
            write_whole(page, whole(root, lab, choice))
            said = _printed(browser, page, made)
        except subprocess.TimeoutExpired:
            raise Failed(f"{browser} took more than {LONGEST} s to print {lab}") from None
        finally:
            page.unlink(missing_ok=True)
        if said:
            raise Failed(f"{browser} did not print {lab}: {said}")
        content = made.read_bytes()
        if not content.rstrip().endswith(b"%%EOF"):
            raise UsageError(f"{browser} could not write all of {lab} into {scratch.parent}; is there room left?")
    write_whole(out, content)


def _printed(browser: str, page: Path, out: Path) -> str:
    """Print a page: '', or what the browser said last where it did not. All its files are beside `out`."""
    given = ["--headless", "--disable-gpu", "--no-pdf-header-footer", f"--user-data-dir={out.parent / 'profile'}"]
    given += ["--no-sandbox"] * (os.geteuid() == 0)  # without which Chromium does not run for root
    given += [f"--print-to-pdf={out}", page.as_uri()]
    with contextlib.ExitStack() as at_the_end:
        with ctrl_c_waits():
            process = subprocess.Popen(
                [browser, *given], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, errors="replace",
                start_new_session=True, env={**os.environ, "TMPDIR": str(out.parent)},
            )  # fmt: skip
            at_the_end.callback(_end, process)
        _, said = process.communicate(timeout=LONGEST)
    return "" if out.exists() and not process.returncode else (said.strip().splitlines() or ["it says nothing"])[-1]


def _end(leader: "subprocess.Popen[str]") -> None:
    """End a process and all of its group: a browser is several, and they make files."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(leader.pid, signal.SIGKILL)
    leader.wait()
    assert leader.stderr
    leader.stderr.close()


def whole(root: Path, lab: str, choice: DeviceChoice) -> str:
    """One HTML page with the articles of all pages that the notebook of the lab is spread over, of this device."""
    folder = root / "_build" / "html" / "labs"
    files = {STORY: folder / f"{lab}.html"} | {name: folder / lab / f"{name}.html" for name in SPREAD}
    if not files[STORY].exists():
        raise UsageError(f"the site has no page of {lab}; `roofbook build` makes it")
    articles, cells = list[str](), dict[str, str]()
    for name, path in files.items():
        if path.exists():
            text = path.read_text(encoding="utf-8")
            articles.append(text[text.index("<article") : text.index("</article>")] + "</article>")
            if (root / "_build" / "recorded" / lab / name / choice.script).exists():
                cells |= page_cells(root, lab, choice, name)
    head = files[STORY].read_text(encoding="utf-8").partition("</head>")[0]
    head = re.sub(r"<script\b[^>]*\bsrc=[^>]*></script>|<base\b[^>]*>", "", head)  # which would remember another device
    told = page_json({"cells": cells, "device": choice.label})
    return f"{head}</head><body>\n{''.join(articles)}\n<script>({_SHOW})({told})</script></body></html>\n"


_SHOW = """({ cells, device }) => {
  for (const each of document.querySelectorAll(".on-device")) each.innerHTML = cells[each.dataset.cell] ?? "";
  for (const each of document.querySelectorAll(".device-bar")) each.dataset.device = device;
  for (const each of document.querySelectorAll("details:has(table)")) each.open = true;
  document.documentElement.dataset.theme = "light";
}"""
