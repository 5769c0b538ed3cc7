"""Page of a lab's kernels: each variant's text in every language, its changes, files to open and to copy, a button to run it.

The page labs/LAB/kernels is Markdown, with a heading for each variant, so that search and links find it. The texts are in
_build/kernels: plain files, and a script for each variant, which book/_assets/kernels.js loads when a tab is opened. Those in
_build/runs are loaded when a reader runs a step in the browser (browser_runs.py).
"""

import json
import shutil
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from ..devices.backends import languages
from ..escaping import escape, file_name, markdown, markdown_code, raw_html
from ..paths import cache_key, write_whole
from ..report.html import with_code
from ..report.ladder_table import MARK
from ..report.technique_links import technique_links
from ..spec import registry
from ..spec.browser_run import browser_run
from ..spec.lab import Lab
from ..spec.plan import Variant
from ..spec.step_marks import LANGUAGES, marks
from ..spec.techniques import step_tags
from . import browser_exercises
from .browser_runs import scripts
from .input_hashes import InputHashes
from .kernel_texts import Text, constants, host_description, knob_changes, size_of, tab_script, texts
from .manifest import Manifest
from .run_buttons import HOLED, INDEX, RUN_SCRIPTS, RUNS, run_buttons

FOLDER = Path("_build", "kernels")
FILES = "kernels"
"""Folder of the site with a folder of plain texts for each lab."""
SCRIPTS = "_static/kernels"


def page_of(root: Path, lab: str) -> Path:
    """Return the path of the page of a lab's kernels."""
    return root / "book" / "labs" / lab / "kernels.md"


def update(root: Path, manifest: Manifest, now: InputHashes) -> None:
    """Write the pages and texts of labs whose code has changed."""
    for lab in map(registry.get, registry.names_of_site()):
        page, made_from = page_of(root, lab.name), now.kernels(lab.name)
        if manifest.stale(page, made_from):
            manifest.forget(page)
            manifest.write(page, _written(lab, root), made_from)


def copy_texts(root: Path, site: Path) -> None:
    """Copy the texts into the site, and remove those that no longer exist."""
    copies = ((FOLDER, FILES, "*.txt"), (FOLDER, SCRIPTS, "*.js"), (RUNS, RUN_SCRIPTS, "*.js"))
    for folder, copied, pattern in copies:
        target = site / copied
        files = {path.relative_to(root / folder): path for path in (root / folder).glob(f"*/{pattern}")}
        for old in target.glob("*/*"):
            if old.relative_to(target) not in files:
                old.unlink()
        for name, path in files.items():
            if not (target / name).exists() or _stamp(target / name) != _stamp(path):
                (target / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(path, target / name)


def _stamp(path: Path) -> tuple[int, int]:
    stat = path.stat()
    return stat.st_mtime_ns, stat.st_size


def _written(lab: Lab, root: Path) -> str:
    """Write the texts of a lab's kernels, and the scripts that run them; return its page."""
    texts_by_variant = {variant.name: texts(lab, variant) for variant in (*lab.ladder, *lab.peers)}
    tabs = {
        name: tab_script(lab, lab.variant(name), variant_texts)
        for name, variant_texts in texts_by_variant.items()
        if variant_texts
    }
    runs, reasons, to_write = browser_scripts(lab)
    index = {"steps": [*runs], "holed": [*to_write], "version": cache_key(*runs.values(), *to_write.values())[:8]}
    files = {f"{file_name(name)}.js": text for name, text in tabs.items()}
    files |= {
        variant_text.file: variant_text.text
        for variant_texts in texts_by_variant.values()
        for variant_text in variant_texts
    }
    _write_folder(root / FOLDER / lab.name, files)
    run_files = {f"{file_name(name)}.js": text for name, text in runs.items()}
    run_files |= {f"{HOLED}{file_name(name)}.js": text for name, text in to_write.items()}
    _write_folder(root / RUNS / lab.name, {**run_files, INDEX: json.dumps(index)})
    addresses = {name: script_address(SCRIPTS, lab, name, text) for name, text in tabs.items()}
    run_addresses = {name: script_address(RUN_SCRIPTS, lab, name, runs[name]) for name in runs}
    return page(lab, texts_by_variant, addresses, run_addresses, reasons)


def browser_scripts(lab: Lab) -> tuple[dict[str, str], dict[str, str], dict[str, str]]:
    """Return the scripts of a lab's steps in a browser, reasons why other steps have none, and the scripts of exercises."""
    runs, reasons = scripts(lab)
    run = browser_run(lab)
    return runs, reasons, browser_exercises.scripts(lab, run, runs) if run else {}


def _write_folder(folder: Path, files: Mapping[str, str]) -> None:
    """Write files that changed into a folder, and remove all others."""
    for path in folder.glob("*"):
        if path.name not in files:
            path.unlink()
    for name, text in files.items():
        if not (folder / name).exists() or (folder / name).read_text("utf-8") != text:
            write_whole(folder / name, text)


def script_address(folder: str, lab: Lab, variant: str, text: str) -> str:
    """Return the address of a variant's script. It changes with the text, so that browsers load a new one."""
    return f"../../{folder}/{lab.name}/{file_name(variant)}.js?v={cache_key(text)[:8]}"


def page(
    lab: Lab,
    texts_by_variant: Mapping[str, list[Text]],
    addresses: Mapping[str, str],
    runs: Mapping[str, str],
    reasons: Mapping[str, str],
) -> str:
    """Return a lab's page as Markdown.

    texts_by_variant: texts of each variant. addresses: of the script with the texts of each variant that has any. runs: of the
    script of each step that runs in a browser. reasons: why the other steps that WGSL can say do not run there.
    """
    with_texts = [variant for variant in (*lab.ladder, *lab.peers) if texts_by_variant[variant.name]]
    titles = {"peer": "Programs to compare with", "dsl": "Kernels in today's languages"}
    libraries = [variant for variant in (*lab.ladder, *lab.peers) if not texts_by_variant[variant.name]]
    parts = [
        f"# {markdown(lab.title)}: kernels",
        raw_html(
            f"{_about(lab)}{_runs(lab, runs, reasons)}\n{_index(with_texts, texts_by_variant)}\n"
            f'<script src="../../_static/kernels.js?v=" defer>'
            f"</script>{run_buttons('../../') if runs else ''}"
        ),
    ]
    for title in ("The steps of the ladder", *titles.values()):
        variants = [variant for variant in with_texts if titles.get(variant.role, "The steps of the ladder") == title]
        parts += [f"## {title}"] if variants else []
        for variant in variants:
            parts += [
                f"### {markdown_code(variant.name)}",
                raw_html(
                    _kernel(
                        lab, variant, texts_by_variant[variant.name], addresses[variant.name], runs.get(variant.name)
                    )
                ),
            ]
    if libraries:
        items = "\n".join(_item(variant) for variant in libraries)
        parts += [
            "## Libraries to compare with",
            raw_html(f'<p>Their kernels are their own.</p>\n<dl class="kernel-libraries">\n{items}\n</dl>'),
        ]
    return "\n\n".join(parts) + "\n"


def _about(lab: Lab) -> str:
    if lab.sizes(case := size_of(lab)):
        size = f"Sizes of the problem that are constants are those of the case <strong>{escape(case.name)}</strong>, "
        size += "whichever case a result is of."
    else:
        size = "Sizes of the problem are arguments, or set by the launch."
    return (
        "<p>Each kernel as a compiler gets it, with macros and knobs expanded, in every language that it is for. Below it is "
        f"its difference from the step that it changes. {size} Other values that a launch sets, such as the side of a tile, "
        "have their defaults here.</p>"
    )


def _runs(lab: Lab, runs: Mapping[str, str], reasons: Mapping[str, str]) -> str:
    """Return how many steps a browser runs, and what keeps it from running others in WGSL; '' if it runs none."""
    if not runs:
        return ""
    steps = sum(variant.role == "step" for variant in lab.ladder)
    others = "".join(
        f" It does not run {', '.join(f'<code>{escape(name)}</code>' for name in reasons if reasons[name] == reason)}: "
        f"{escape(reason)}."
        for reason in dict.fromkeys(reasons.values())
    )
    return f'<p>A browser with WebGPU runs {len(runs)} of the {steps} steps (<a href="../../laptop.html">how</a>).{others}</p>'


def _index(variants: Sequence[Variant], texts_by_variant: Mapping[str, list[Text]]) -> str:
    items = "\n".join(
        f'<li><a href="#{escape(variant.name)}"><code>{escape(variant.name)}</code></a> '
        f"<span>{with_code(variant.change)}</span> "
        f"<small>{escape(_languages(texts_by_variant[variant.name]))}{_needs(variant)}</small></li>"
        for variant in variants
    )
    return f'<nav aria-label="Kernels of this page"><ul class="kernel-index">\n{items}\n</ul></nav>'


def _needs(variant: Variant) -> str:
    """Return what a variant needs of a device besides its languages, after them; '' if it needs nothing else."""
    needs = MARK.join(mark for mark in marks(variant) if mark not in LANGUAGES.values())
    return f' <span class="marks">{escape(needs)}</span>' if needs else ""


def _languages(variant_texts: Sequence[Text]) -> str:
    """Return the languages of texts, such as 'CUDA, OpenCL'."""
    names = dict.fromkeys(text.language for text in variant_texts)
    return ", ".join(languages()[name].label if name in languages() else name.capitalize() for name in names)


def _item(variant: Variant) -> str:
    return (
        f'<dt id="{escape(variant.name)}"><code>{escape(variant.name)}</code></dt><dd>{with_code(variant.change)}</dd>'
    )


def _kernel(lab: Lab, variant: Variant, variant_texts: Sequence[Text], address: str, run: str | None) -> str:
    """Return the description of a variant, and the links to its texts, which kernels.js turns into tabs and a button."""
    name = escape(variant.name)
    parent = lab.variant(variant.parent) if variant.parent else None
    over = f'Over <a href="#{escape(parent.name)}"><code>{escape(parent.name)}</code></a>. ' if parent else ""
    links = " · ".join(
        f'<a href="../../{FILES}/{lab.name}/{escape(text.file)}" data-tab="{escape(text.name)}" '
        f'data-language="{escape(text.language)}">{escape(text.label)}</a>'
        for text in variant_texts
    )
    notes = "\n".join(f'<p class="table-note">{line}</p>' for line in _notes(lab, variant, parent, variant_texts))
    run_address = f' data-run="{run}"' if run else ""
    return (
        f"<p>{over}{with_code(variant.change)}</p>\n{notes}\n"
        f'<div class="kernel" data-lab="{lab.name}" data-kernel="{name}" data-script="{address}"{run_address}>'
        f'<p class="kernel-files">As plain text: {links}</p></div>'
    )


def _notes(lab: Lab, variant: Variant, parent: Variant | None, variant_texts: Sequence[Text]) -> Iterator[str]:
    """Yield further differences, the host's part, techniques, knobs and constants, as HTML."""
    if differs := " ".join(_differs(variant, parent, variant_texts)):
        yield differs
    if links := technique_links(step_tags(lab).get(variant.name, ()), "../../"):
        yield f"Techniques: {links}."
    sizes, size = constants(lab, variant), size_of(lab)
    same_file = parent and parent.source and variant.source and parent.source.path == variant.source.path
    knobs = [
        f"<code>{name}={escape(str(value))}</code>{'' if parent_value is None else f' (was {escape(str(parent_value))})'}"
        for name, value, parent_value in knob_changes(variant, parent)
        if name not in lab.sizes(size) and (parent_value is not None or not same_file)
    ]
    if knobs:
        yield f"{'Knobs that it turns' if same_file else 'Knobs'}: {', '.join(knobs)}."
    if sizes:
        values = ", ".join(f"<code>{name}={value}</code>" for name, value in sizes.items())
        yield f"Constants of the case {escape(size.name)}: {values}."
    for compiler, reason in variant.same_code.items():
        yield (
            f"In the tests of this book {escape(compiler)} makes the same machine code of it as of "
            f"<code>{escape(variant.parent or '')}</code>, since {with_code(reason)}."
        )


def _differs(variant: Variant, parent: Variant | None, variant_texts: Sequence[Text]) -> Iterator[str]:
    """Yield sentences on how the host drives a kernel, and on a step's other differences from its parent."""
    words = with_code(host_description(variant))
    if parent is None:
        yield f"The host: {words}" if words else ""
        return
    if parent.source and variant.source and not any(text.name.endswith("-difference") for text in variant_texts):
        name = f"<code>{escape(parent.name)}</code>"
        shared = variant.languages & parent.languages
        yield (
            f"The kernel is the same as that of {name}."
            if shared
            else f"{name} is in another language, so there is no difference to show."
        )
    if "plan" in variant.differs:
        yield f"The host drives it otherwise{f': {words}' if words else '.'}"
    if "options" in variant.differs and (options := ", ".join(_options(variant, parent))):
        yield f"Options: {escape(options)}."


def _options(variant: Variant, parent: Variant) -> Iterator[str]:
    """Yield options that a variant adds or changes, and those of its parent that it leaves out.

    The option `device` is skipped: the plan names it.
    """
    for name, value in variant.options.items():
        if name != "device" and parent.options.get(name) != value:
            text = "x".join(map(str, value)) if isinstance(value, tuple) else str(value)
            yield name if value is True else f"{name} {text}"
    yield from (f"no {name}" for name in parent.options if name not in (*variant.options, "device"))
