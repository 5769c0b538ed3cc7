"""A lab as one PDF: the pages of the built site on the chosen device, or one clear line if that cannot be printed."""

import json
import re
import shutil
import signal
import subprocess
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

from roofbook.book import pdf
from roofbook.book.device_choices import FOLDER, SCRIPTS, DeviceChoice, cells_script
from roofbook.errors import Failed, UsageError

from ..processes import has_ended, until

FIRST, NEXT = DeviceChoice("first-gpu/cuda", "First GPU, CUDA"), DeviceChoice("next-gpu/cuda", "Next GPU, CUDA")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Write a checkout whose site has a lab on two pages, drawn for the first of two devices; return its folder."""
    for page in ("story", "results"):
        folder = tmp_path / "_build" / "html" / SCRIPTS / "lbm" / page
        folder.mkdir(parents=True)
        for choice in (FIRST, NEXT):
            table = f"<table><tr><td>{page} of {choice.label} </script></td></tr></table>"
            (folder / choice.script).write_text(cells_script(choice.script, {page: f"<details>{table}</details>"}))
    (tmp_path / FOLDER / "lbm").mkdir(parents=True)
    (tmp_path / FOLDER / "lbm" / "index.json").write_text(json.dumps([FIRST, NEXT]))
    labs = tmp_path / "_build" / "html" / "labs"
    (labs / "lbm").mkdir(parents=True)
    for page, path in (("story", labs / "lbm.html"), ("results", labs / "lbm" / "results.html")):
        path.write_text(
            '<!doctype html><html lang="en"><head><title>T</title><script src="../remembers.js"></script></head><body>'
            f'<nav>Menu</nav><article class="bd-article"><h1>The {page}</h1><div class="device-bar"></div>'
            f'<div class="on-device" data-cell="{page}">of the first</div></article></body></html>'
        )
    return tmp_path


def test_a_lab_is_printed_on_the_chosen_device(root: Path, browser: Any) -> None:
    if not shutil.which("pdftotext"):
        pytest.skip("no pdftotext on PATH; to read a PDF: apt-get install poppler-utils")
    out = root / "out" / "lab.pdf"
    out.parent.mkdir()
    out.write_text("older")
    pdf.write_pdf(root, "lbm", pdf.choose_device(root, "lbm", NEXT.name), out)
    words = subprocess.run(["pdftotext", out, "-"], capture_output=True, text=True, check=True).stdout
    for text in ("The story", "story of Next GPU, CUDA", "The results", "results of Next GPU, CUDA"):
        assert text in words, text
    assert "First GPU" not in words and "of the first" not in words and "Menu" not in words
    assert not [*(root / "_build" / "html" / "labs").glob(".*")], "no file is left in the folder of the story"


def test_a_printed_file_is_complete_and_no_other_file_is_left(
    root: Path, browser: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    with TemporaryDirectory() as scratch:  # Chromium's socket has a name of a hundred letters at most
        monkeypatch.setattr("tempfile.tempdir", scratch)
        monkeypatch.setenv("TMPDIR", scratch)
        pdf.write_pdf(root, "lbm", FIRST, root / "lab.pdf")
        content = (root / "lab.pdf").read_bytes()
        assert content.startswith(b"%PDF") and content.rstrip().endswith(b"%%EOF")
        assert not [*Path(scratch).iterdir(), *(root / "_build" / "html" / "labs").glob(".*")]


ENDS = {
    "cut short": ('for each; do case $each in --print-to-pdf=*) echo %PDF > "${each#*=}"; esac; done', UsageError),
    "stopped": ("sleep 60 & echo $! > CHILD; touch $TMPDIR/mine; kill -INT $PPID; wait", KeyboardInterrupt),
    "too slow": ("sleep 60 & echo $! > CHILD; touch $TMPDIR/mine; wait", Failed),
}
"""Commands of a fake browser for each bad end of a print, and the error that it leads to."""


@pytest.mark.parametrize("end", ENDS)
def test_a_print_that_does_not_end_well_leaves_the_older_file_and_no_other(
    root: Path, monkeypatch: pytest.MonkeyPatch, end: str
) -> None:
    commands, error = ENDS[end]
    browser, scratch, out = root / "browser", root / "scratch", root / "lab.pdf"
    browser.write_text("#!/bin/sh\n" + commands.replace("CHILD", f"{root}/pid"))
    browser.chmod(0o755)
    scratch.mkdir()
    out.write_text("older")
    monkeypatch.setattr("tempfile.tempdir", str(scratch))
    monkeypatch.setattr(pdf, "BROWSERS", (str(browser),))
    monkeypatch.setattr(pdf, "LONGEST", 1 if end == "too slow" else 30)
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background job would ignore it
    try:
        with pytest.raises(error):
            pdf.write_pdf(root, "lbm", FIRST, out)
    finally:
        signal.signal(signal.SIGINT, before)
    assert out.read_text() == "older"
    assert not [*scratch.iterdir(), *(root / "_build" / "html" / "labs").glob(".*")]
    if (root / "pid").exists():
        child = int((root / "pid").read_text())
        until(lambda: has_ended(child))


def test_the_default_device_is_the_one_that_the_pages_show_first(root: Path) -> None:
    assert pdf.choose_device(root, "lbm", None) == FIRST
    page = pdf.combined_html(root, "lbm", FIRST)
    assert page.count("<article") == 2 and "remembers.js" not in page and '"device": "First GPU, CUDA"' in page


def test_each_reason_that_prevents_a_print_is_one_line(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UsageError, match="unknown device 'cuda'; valid: first-gpu/cuda, next-gpu/cuda"):
        pdf.choose_device(root, "lbm", "cuda")
    with pytest.raises(UsageError, match="unknown lab 'nothing'"):
        pdf.choose_device(root, "nothing", None)
    with pytest.raises(UsageError, match="no device of cnn has been drawn yet; `roofbook build`"):
        pdf.choose_device(root, "cnn", None)
    monkeypatch.setattr(pdf, "BROWSERS", ("false",))
    with pytest.raises(Failed, match="did not print lbm: no message"):
        pdf.write_pdf(root, "lbm", FIRST, root / "lab.pdf")
    monkeypatch.setattr(pdf, "BROWSERS", ("no-such-browser",))
    with pytest.raises(UsageError, match="no Chromium on PATH"):
        pdf.write_pdf(root, "lbm", FIRST, root / "lab.pdf")
    (root / "_build" / "html" / "labs" / "lbm.html").unlink()
    with pytest.raises(UsageError, match="the site has no page of lbm; `roofbook build` makes it"):
        pdf.combined_html(root, "lbm", FIRST)


def test_slides_are_printed_one_a_sheet(root: Path, browser: Any) -> None:
    folder, out = root / "_build" / "html" / "labs" / "lbm", root / "slides.pdf"
    with pytest.raises(UsageError, match="no slides of lbm; `roofbook build` makes them"):
        pdf.write_slides(root, "lbm", out)
    style = "@page { size: 960px 540px; margin: 0 } section { break-after: page }"
    sections = "".join(f"<section>Slide {number}</section>" for number in range(3))
    (folder / "slides.html").write_text(f"<!doctype html><title>T</title><style>{style}</style>{sections}")
    pdf.write_slides(root, "lbm", out)
    content = out.read_bytes()
    assert len(re.findall(rb"/Type\s*/Page\b", content)) == 3
    (box, *_) = re.findall(rb"/MediaBox\s*\[([^]]*)\]", content)
    assert [float(side) for side in box.split()][2:] == pytest.approx([720, 405], abs=1), "in points"
