"""One style sheet combined from many: only rules that a page can match stay, in their order."""

import pytest

from roofbook.book.page_weight.style_sheet import combine, words


@pytest.mark.parametrize(
    ("css", "combined"),
    [
        (".a { color: red } .gone { color: red }", ".a{color:red}"),
        ("#b > .a { color: red; }", "#b>.a{color:red}"),
        ("#gone .a { color: red }", ""),
        (".gone, p, .a::after { margin: 0 1px }", "p,.a::after{margin:0 1px}"),
        (".a:not(.gone) { top: 0 }", ".a:not(.gone){top:0}"),
        (":is(.a, .gone) b { top: 0 }", ":is(.a,.gone) b{top:0}"),
        ('a[href=".gone"] { top: 0 }', 'a[href=".gone"]{top:0}'),
        (".w-1\\/2 { top: 0 }", ".w-1\\/2{top:0}"),
        ("@media print { .gone { top: 0 } }", ""),
        ("@media print { .gone { top: 0 } .a { top: 0 } }", "@media print{\n.a{top:0}\n}"),
        ("@font-face { font-family: x; src: url(x.woff2) }", ""),
        ("/* .a { } */ .a::before { content: '/* } */' }", ".a::before{content:'/* } */'}"),
        ("@keyframes k { from { top: 0 } } .a { animation: k 1s }", "@keyframes k{from{top:0}}\n.a{animation:k 1s}"),
        ("@keyframes k { from { top: 0 } to { top: 1px } } .gone { animation: k 1s }", ""),
        (".a { --used: 1; --unused: 2; top: var(--used) }", ".a{--used:1;top:var(--used)}"),
        (".a { --only: var(--first) } .b { --first: 1 }", ""),
        (".a { --elsewhere: 1 }", ".a{--elsewhere:1}"),
        ('.a { background: url("data:image/svg+xml,{;}") }', '.a{background:url("data:image/svg+xml,{;}")}'),
    ],
)
def test_rules_that_can_match_stay(css: str, combined: str) -> None:
    assert combine({"s.css": css}, {"a", "b", "w-1/2"}, "style='top: var(--elsewhere)'").strip() == combined


def test_sheets_and_their_imports_keep_their_order_and_addresses_start_at_the_combined_sheet() -> None:
    sheets = {
        "styles/theme.css": '@import "../basic.css";\n.a { top: 1px }',
        "own.css": ".made-up-by-a-script { top: 2px }",
        "basic.css": ".a { background: url(file.png) }",
        "styles/more.css": ".a { background: url('../x.png') }",
    }
    assert combine(sheets, {"a"}, keep_all=["own.css"]).splitlines() == [
        ".a{background:url(file.png)}",
        ".a{top:1px}",
        ".made-up-by-a-script{top:2px}",
        ".a{background:url(x.png)}",
    ]


def test_words_of_attributes_and_of_scripts() -> None:
    assert words("sd-tab open", "e.classList.add('pst-squeeze')") >= {"sd-tab", "open", "pst-squeeze"}
