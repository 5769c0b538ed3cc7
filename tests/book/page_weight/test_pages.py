"""A page of the theme after it was reduced: it loads only files that it uses, and waits for no other."""

from roofbook.book.page_weight.pages import reduce_page, shorten_links

HEAD = """<html lang="en" data-content_root="../" data-theme="auto"><head>
<meta name="viewport" content="a" /><meta name="viewport" content="b" />
<link href="../_static/styles/theme.css?digest=1" rel="stylesheet" />
<link rel="stylesheet" type="text/css" href="../_static/roofbook.css?v=2" />
<link rel="preload" as="script" href="../_static/scripts/bootstrap.js" />
<link rel="next" href="next.html" />
<script>document.documentElement.dataset.theme = localStorage.getItem("theme") || "auto";</script>
<script src="../_static/doctools.js?v=1"></script>
<script defer src="../_static/scripts/fontawesome.js"></script>
<script src="../_static/copybutton.js"></script>
<script src="../searchindex.js"></script>
<script>DOCUMENTATION_OPTIONS.pagename = 'a';</script>
</head>"""


def test_one_style_sheet_replaces_all() -> None:
    page, sheets = reduce_page(HEAD)
    assert sheets == ("styles/theme.css", "roofbook.css")
    sheet, fallback = '<link rel="stylesheet" href="../_static/site.css?v="', "<noscript>"
    assert page.count('rel="stylesheet"') == 2 and f'{sheet} media="print" onload=' in page, "the page waits for none"
    assert f"{fallback}{sheet} />" in page, "but without JavaScript, which cannot wait for it"
    assert '<link rel="next" href="next.html" />' in page and "preload" not in page


def test_scripts_wait_and_those_without_a_use_are_left_out() -> None:
    page, _ = reduce_page(HEAD)
    assert '<script defer src="../_static/doctools.js?v=1"></script>' in page
    assert '<script type="module">DOCUMENTATION_OPTIONS.pagename' in page, "runs after the script that it needs"
    assert not [name for name in ("fontawesome", "copybutton", "searchindex", "bootstrap") if name in page]
    page, _ = reduce_page(HEAD + '<div class="highlight"></div>')
    assert "copybutton" in page and "searchindex" not in page
    page, _ = reduce_page(HEAD + '<div id="search-results"></div>')
    assert '<script defer src="../searchindex.js"></script>' in page


def test_bootstrap_only_for_more_than_tooltips_which_are_the_browsers_own() -> None:
    bootstrap = '<script defer src="bootstrap.js"></script>'
    page, _ = reduce_page(HEAD + '<button data-bs-toggle="tooltip" data-bs-title="Mode"></button>' + bootstrap)
    assert page.endswith('<button title="Mode"></button>')
    page, _ = reduce_page(HEAD + '<button data-bs-toggle="dropdown"></button>' + bootstrap)
    assert page.endswith(bootstrap)


def test_light_or_dark_before_the_first_paint() -> None:
    page, _ = reduce_page(HEAD)
    assert 'data-theme="light"' in page and "prefers-color-scheme: dark" in page
    assert page.count('name="viewport"') == 1


def test_the_toggle_of_a_labs_pages_has_a_name() -> None:
    page, _ = reduce_page(
        HEAD + '<details><summary><span class="toctree-toggle" role="presentation"></span></summary></details>'
    )
    assert '<summary aria-label="Its pages"><span class="toctree-toggle"' in page


def test_a_link_does_not_leave_its_folder_to_come_back() -> None:
    links = '<a href="../../labs/a/m/b.html#x"><a href="../../labs/b.html"><a href="../../_static/labs/a/s.css"><a href="#y">'
    nearby = '<a href="m/b.html#x"><a href="../../labs/b.html"><a href="../../_static/labs/a/s.css"><a href="#y">'
    assert shorten_links(links, "labs/a/results") == nearby
    assert shorten_links('<a href="../labs/a/x.html">', "labs/a") == '<a href="a/x.html">'
    assert shorten_links(links, "index") == links
