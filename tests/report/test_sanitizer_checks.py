"""Tables of compute-sanitizer's results on the page about the method, and the prose below them."""

import re
from collections import defaultdict

from roofbook.paths import project_root
from roofbook.report import sanitizer_checks


def test_the_page_explains_each_step_with_a_report_and_no_other() -> None:
    tools_by_step = defaultdict(set)
    labs, others = sanitizer_checks.read(project_root() / "results")
    for report in [report for lab in labs for report in lab.reports]:
        tools_by_step[report.lab, report.variant].add(report.tool)
    page = (project_root() / "book" / "method.md").read_text()
    prose = page.split("````{fragments} sanitizer-checks.html", 1)[1].split("\n## ", 1)[0]
    explained = {
        (lab, step): text
        for steps, lab, text in re.findall(r"^- ((?:`[\w-]+`[, and]*)+) of (\w+): (.*(?:\n  .*)*)", prose, re.MULTILINE)
        for step in re.findall("`(.*?)`", steps)
    }
    assert labs and not others and set(explained) == set(tools_by_step)
    for step, tools in tools_by_step.items():
        assert all(tool in explained[step] for tool in tools), step


def test_a_step_that_no_small_case_fits_is_not_said_to_have_changed() -> None:
    labs, _ = sanitizer_checks.read(project_root() / "results")
    stencil = next(lab for lab in labs if lab.name == "stencil")
    assert stencil.without_case == ["tasks-16"]
    html = sanitizer_checks.checks(project_root() / "results")
    assert "Not checked in stencil on a case at scale test, as none fits: tasks-16." in html
