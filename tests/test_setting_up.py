"""Setup on a reader's machine: Makefile and results/record.sh, whatever the shell exports."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
BARE = {name: os.environ[name] for name in ("PATH", "HOME", "TMPDIR") if name in os.environ}
FAKE = """#!/bin/sh
case "$*" in
*"-m venv"*) mkdir -p "$FAKE_OUT/.venv/bin"; cp "$0" "$FAKE_OUT/.venv/bin/python" ;;
*"pip install"*) { for word; do printf '[%s]' "$word"; done; echo; env | grep ^PIP_ | sort; } >> "$FAKE_LOG"; exit 3 ;;
*) for word; do printf '[%s]' "$word"; done >> "$FAKE_LOG"; echo >> "$FAKE_LOG" ;;
esac
"""
"""Script in place of Python: it logs its arguments, and exits when packages would be installed."""


def make(*words: str, **environment: str) -> str:
    if not shutil.which("make"):
        pytest.skip("no make")
    done = subprocess.run(
        ["make", "-n", "-B", *words], cwd=ROOT, env={**BARE, **environment}, capture_output=True, text=True
    )
    return done.stdout


@pytest.mark.parametrize(("name", "value"), [("GPU", "cuda13"), ("WITH", "intel"), ("PYTHON", "python2.7")])
def test_make_takes_its_choices_from_the_command_line_alone(name: str, value: str) -> None:
    plain = make("book")
    assert make("book", **{name: value}) == plain and "locks/book.txt" in plain
    assert make("-e", "book", **{name: value}) == plain
    assert value in make("book", f"{name}={value}")


def test_make_hides_the_shells_settings_from_python_and_pip(tmp_path: Path) -> None:
    if not shutil.which("make"):
        pytest.skip("no make")
    probe = tmp_path / "probe.mk"
    probe.write_text(f"include {ROOT / 'Makefile'}\nprobe:\n\t@env\n")
    environment = {
        "PYTHONPATH": "/x", "PYTHONHOME": "/x", "PYTHONOPTIMIZE": "2", "PIP_TARGET": "/x", "PIP_USER": "1", "UV_TARGET": "/x",
        "PIP_REQUIRE_HASHES": "1", "UV_SYSTEM_PYTHON": "1", "PIP_INDEX_URL": "https://mirror", "UV_INDEX_URL": "https://mirror",
        "UV_DEFAULT_INDEX": "https://mirror", "PIP_CERT": "/cert", "UV_CACHE_DIR": "/cache",
    }  # fmt: skip
    done = subprocess.run(
        ["make", "-f", str(probe), "probe"],
        cwd=ROOT,
        env={**BARE, **environment},
        capture_output=True,
        text=True,
        check=True,
    )
    seen = dict(line.split("=", 1) for line in done.stdout.splitlines() if line.startswith(("PYTHON", "PIP_", "UV_")))
    assert {name for name, value in seen.items() if value and value != "0"} == {
        "PIP_INDEX_URL", "UV_INDEX_URL", "UV_DEFAULT_INDEX", "PIP_CERT", "UV_CACHE_DIR",
    }  # fmt: skip
    assert (seen["PIP_USER"], seen["PIP_REQUIRE_VIRTUALENV"]) == ("0", "0")


def record(folder: Path, out: str, **environment: str) -> list[str]:
    """Return the arguments with which record.sh calls Python, until it would install packages."""
    python, log = folder / "python", folder / "log"
    python.write_text(FAKE)
    python.chmod(0o755)
    settings = {"PYTHON": str(python), "FAKE_LOG": str(log), "FAKE_OUT": str(folder / out)}
    subprocess.run(
        ["sh", str(ROOT / "results" / "record.sh"), out],
        cwd=folder,
        env={**BARE, **settings, **environment},
        timeout=500,
    )
    return log.read_text().splitlines()


def test_record_names_its_folders_whatever_cd_prints(tmp_path: Path) -> None:
    order, *_ = record(tmp_path, "OUT", CDPATH=".")
    assert order == f"[-P][-m][roofbook.devices.checkout][{tmp_path / 'OUT'}]"


def test_record_takes_names_with_spaces_and_only_mirrors_from_pip_settings(tmp_path: Path) -> None:
    (tmp_path / "my wheels").mkdir()
    _, order, *seen = record(
        tmp_path, "my results", WHEELS=str(tmp_path / "my wheels"), PIP_USER="1", PIP_TARGET="/x", PIP_NO_DEPS="1",
        PIP_INDEX_URL="https://mirror",
    )  # fmt: skip
    assert f"[--no-index][--find-links][{tmp_path / 'my wheels'}]" in order
    assert "[--require-hashes]" in order and f"[--requirement][{ROOT / 'locks' / 'record.txt'}]" in order
    assert seen == ["PIP_INDEX_URL=https://mirror", "PIP_REQUIRE_VIRTUALENV=0", "PIP_USER=0"]


def test_a_clone_has_the_ends_of_lines_that_a_shell_takes(tmp_path: Path) -> None:
    """As Git for Windows clones, for use under WSL."""
    if not (ROOT / ".git").exists():
        pytest.skip("this is no checkout")
    (tmp_path / "project").mkdir()
    names = [".gitattributes", "results/record.sh", "Makefile", "experiments/lbm.ipynb", "lib/roofbook/labs/lbm/tree.k"]
    names = [name for name in names if (ROOT / name).exists()]
    for name in names:
        (tmp_path / "project" / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, tmp_path / "project" / name)
    binary = tmp_path / "project" / "rows.parquet"
    binary.write_bytes(b"PAR1 text\nwith lines\n")
    identity = ["-c", "user.name=a", "-c", "user.email=a@b"]
    for words in (["init", "-q"], ["add", "-A"], ["commit", "-q", "-m", "a"]):
        subprocess.run(["git", *identity, *words], cwd=tmp_path / "project", check=True)
    subprocess.run(
        ["git", "-c", "core.autocrlf=true", "clone", "-q", "project", "clone"], cwd=tmp_path, check=True,
        env={**os.environ, "GIT_CONFIG_COUNT": "0"},
    )  # fmt: skip
    for name in (*names, "rows.parquet"):
        assert (tmp_path / "clone" / name).read_bytes() == (tmp_path / "project" / name).read_bytes(), name
