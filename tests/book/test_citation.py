"""Citation and downloads: the committed files follow the settings, and the Parquet file has the rows of the store."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import duckdb
import pytest

from roofbook.book import downloads
from roofbook.book.citation import Citation

from ..store.test_parquet import row

ROOT = Path(__file__).parents[2]


def test_the_files_of_the_repository_follow_the_settings() -> None:
    """Compare the files with the output of `make citation`."""
    citation = Citation.of(ROOT)
    assert (ROOT / "CITATION.cff").read_text(encoding="utf-8") == citation.cff()
    assert (ROOT / ".zenodo.json").read_text(encoding="utf-8") == citation.zenodo()
    assert {"title", "description", "creators", "upload_type", "license"} <= set(json.loads(citation.zenodo()))
    assert "MIT License" in (ROOT / "LICENSE").read_text() and citation.licence == "MIT"


def test_the_address_of_the_repository_is_set_once_and_followed(tmp_path: Path) -> None:
    address = "https://example.org/book"
    settings = (ROOT / "_config.yml").read_text().replace('repository_url: ""', f'repository_url: "{address}"')
    (tmp_path / "_config.yml").write_text(settings)
    citation = Citation.of(tmp_path)
    assert all(address in text for text in (citation.cff(), citation.zenodo(), citation.bibtex()))


def test_the_citation_file_is_valid(tmp_path: Path) -> None:
    program = shutil.which("cffconvert")
    if program is None:
        pytest.skip("no cffconvert on PATH; to validate CITATION.cff: pipx install cffconvert")
    subprocess.run([program, "--validate", "-i", str(ROOT / "CITATION.cff")], check=True)


def test_all_recorded_rows_are_in_one_file_that_duckdb_opens(tmp_path: Path) -> None:
    from roofbook.store.parquet import Store

    assert downloads.recorded_rows(tmp_path) == (b"", "")
    store = Store(tmp_path)
    store.append([row(scale="published")], "recorded")
    store.append([row("soa")])
    content, extent = downloads.recorded_rows(tmp_path)
    assert extent == "1 rows of 1 runs on 1 device" and "B): 1 rows" in downloads.file_list(
        {downloads.ROWS: content}, extent
    )
    path = tmp_path / downloads.ROWS
    path.write_bytes(content)
    page = (ROOT / "book" / "data.md").read_text()
    sql = page.split('duckdb.sql("')[1].split('")')[0].replace(f"'{downloads.ROWS}'", f"'{path}'")
    assert [line[2] for line in duckdb.connect().execute(sql).fetchall()] == [1]
    codecs = duckdb.connect().execute(f"select distinct compression from parquet_metadata('{path}')").fetchall()
    assert codecs == [("ZSTD",)]
