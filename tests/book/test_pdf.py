"""A lab as one PDF: the pages of the built site, of the device that was asked for; one clear line where that cannot be."""

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from roofbook.book import pdf
from roofbook.book.device_choices import FOLDER, DeviceChoice, script
from roofbook.errors import Failed, UsageError

FIRST, NEXT = DeviceChoice("first-gpu/cuda", "First GPU, CUDA"), DeviceChoice("next-gpu/cuda", "Next GPU, CUDA")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A checkout whose site has a lab on two pages, written for the first of two devices."""
    for page in ("story", "results"):
        folder = tmp_path / FOLDER / "lbm" / page
        folder.mkdir(parents=True)
        for choice in (FIRST, NEXT):
            table = f"<table><tr><td>{page} of {choice.label} </script></td></tr></table>"
            (folder / choice.script).write_text(script("lbm", choice.name, {page: f"<details>{table}</details>"}))
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


def test_a_lab_is_printed_on_the_device_that_was_asked_for(root: Path, browser: Any) -> None:
    if not shutil.which("pdftotext"):
        pytest.skip("no pdftotext on PATH; to read a PDF: apt-get install poppler-utils")
    out = root / "out" / "lab.pdf"
    out.parent.mkdir()
    out.write_text("older")
    pdf.write(root, "lbm", pdf.chosen(root, "lbm", NEXT.name), out)
    words = subprocess.run(["pdftotext", out, "-"], capture_output=True, text=True, check=True).stdout
    for said in ("The story", "story of Next GPU, CUDA", "The results", "results of Next GPU, CUDA"):
        assert said in words, said
    assert "First GPU" not in words and "of the first" not in words and "Menu" not in words
    assert not [*(root / "_build" / "html" / "labs").glob(".*")], "nothing is left beside the story"


def test_without_a_name_it_is_the_device_that_the_pages_show_first(root: Path) -> None:
    assert pdf.chosen(root, "lbm", None) == FIRST
    page = pdf.whole(root, "lbm", FIRST)
    assert page.count("<article") == 2 and "remembers.js" not in page and '"device": "First GPU, CUDA"' in page


def test_what_cannot_be_printed_is_one_line(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UsageError, match="unknown device 'cuda'; valid: first-gpu/cuda, next-gpu/cuda"):
        pdf.chosen(root, "lbm", "cuda")
    with pytest.raises(UsageError, match="unknown lab 'nothing'"):
        pdf.chosen(root, "nothing", None)
    with pytest.raises(UsageError, match="no device of cnn has been drawn yet; `roofbook build`"):
        pdf.chosen(root, "cnn", None)
    monkeypatch.setattr(pdf, "BROWSERS", ("false",))
    with pytest.raises(Failed, match="did not print lbm: it says nothing"):
        pdf.write(root, "lbm", FIRST, root / "lab.pdf")
    monkeypatch.setattr(pdf, "BROWSERS", ("no-such-browser",))
    with pytest.raises(UsageError, match="no Chromium on PATH"):
        pdf.write(root, "lbm", FIRST, root / "lab.pdf")
    (root / "_build" / "html" / "labs" / "lbm.html").unlink()
    with pytest.raises(UsageError, match="the site has no page of lbm; `roofbook build` makes it"):
        pdf.whole(root, "lbm", FIRST)
