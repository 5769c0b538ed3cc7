"""A reader before the built site, who clicks and looks. The class counts both, so that a task's way is a number."""

from __future__ import annotations

from pathlib import Path
from typing import Any


class Reader:
    """A reader with a page open.

    A screen is a window full of a page: the first of each page that is opened, and each further one that must be scrolled past
    to come to the next click or to the answer.
    """

    def __init__(self, tab: Any, site: Path) -> None:
        self.tab, self.site = tab, site
        self.clicks = self.screens = 0

    def open(self, name: str = "index.html") -> Any:
        """Open a page by its address, as a reader does who begins there."""
        self.tab.goto(f"file://{self.site}/{name}")
        self.screens += 1
        return self.tab

    def find(self, target: Any, **options: Any) -> Any:
        """Return the first element of a selector or locator, and scroll to it."""
        element = (self.tab.locator(target, **options) if isinstance(target, str) else target).first
        element.wait_for()
        top, height = element.evaluate("element => [element.getBoundingClientRect().top, innerHeight]")
        if not 0 <= top < height:
            self.screens += max(1, int(abs(top) // height))
            element.evaluate("element => element.scrollIntoView({ block: 'center', behavior: 'instant' })")
        return element

    def click(self, target: Any, **options: Any) -> None:
        """Click on an element, and wait for the page that it opens, if any."""
        element, page_before = self.find(target, **options), self._page()
        element.click()
        self._count(page_before)

    def choose(self, target: str, value: str) -> None:
        """Choose an option, which counts as a click."""
        self.find(target).select_option(value)
        self.clicks += 1

    def press(self, key: str) -> None:
        """Press a key, which counts as a click."""
        page_before = self._page()
        self.tab.keyboard.press(key)
        self._count(page_before)

    def read(self, target: Any, **options: Any) -> str:
        """Return the text of an element, with single spaces, as it is on the screen."""
        return " ".join(self.find(target, **options).inner_text().split(" ")).replace("\n", " ")

    def _page(self) -> str:
        return str(self.tab.url).partition("#")[0]

    def _count(self, page_before: str) -> None:
        self.clicks += 1
        self.tab.wait_for_load_state("domcontentloaded")
        self.screens += self._page() != page_before
