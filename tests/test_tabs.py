"""Tabs that tests share: nothing that an earlier test did is left."""

from __future__ import annotations

from pathlib import Path

import pytest

from .tabs import Tabs

STORED = "[localStorage.stored, sessionStorage.stored]"


@pytest.mark.site
def test_a_test_finds_nothing_of_the_test_before(tabs_of_all_tests: Tabs, tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    page.write_text("<!DOCTYPE html><title>T</title><p>text", encoding="utf-8")
    with tabs_of_all_tests.of_one_test() as tabs:
        tab = tabs.open(390, 844, color_scheme="dark")
        tab.goto(page.as_uri())
        tab.evaluate("localStorage.stored = sessionStorage.stored = 'by the first'")
        tab.reload()
        assert tab.evaluate(STORED) == ["by the first"] * 2, "the same test finds it again"
        second = tabs.open()
        second.goto(page.as_uri())
        assert second.evaluate(STORED) == ["by the first", None], "so does its second tab"
        tab.route("**/page.html", lambda route: route.abort())
    with tabs_of_all_tests.of_one_test() as tabs:
        again = tabs.open()
        again.goto(page.as_uri())
        assert again is tab and second.is_closed()
        assert again.evaluate(STORED) == [None] * 2
        assert again.evaluate("[innerWidth, matchMedia('(prefers-color-scheme: dark)').matches]") == [1280, False]


@pytest.mark.site
def test_an_error_of_a_page_fails_its_test_alone(tabs_of_all_tests: Tabs) -> None:
    with pytest.raises(AssertionError, match="no such name"), tabs_of_all_tests.of_one_test() as tabs:
        tab = tabs.open()
        with tab.expect_event("pageerror"):
            tab.evaluate("() => { setTimeout(() => { throw new Error('no such name'); }); }")
    with tabs_of_all_tests.of_one_test() as tabs:
        tabs.open()
