"""The page of a lab's kernels: each variant's text in every language, what it changes, and files to open and to copy.

The page labs/LAB/kernels is written as Markdown, with a heading for each variant, so that search and links find it. The texts
lie in _build/kernels: plain files, and a script for each variant, which book/_assets/kernels.js loads when a tab is opened.
"""

import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path

from ..devices.backends import languages
from ..escaping import escape, file_name, markdown, markdown_code, raw_html
from ..paths import cache_key, write_whole
from ..report.html import with_code
from ..spec import registry
from ..spec.lab import Lab, Variant
from .input_hashes import InputHashes
from .kernel_texts import Text, constants, driven, script, size_of, texts, turned
from .manifest import Manifest

FOLDER = Path("_build", "kernels")
FILES = "kernels"
"""Of the site: the folder of plain texts, one a lab."""
SCRIPTS = "_static/kernels"


def page_of(root: Path, lab: str) -> Path:
    """The page of a lab's kernels."""
    return root / "book" / "labs" / lab / "kernels.md"


def renew(root: Path, manifest: Manifest, now: InputHashes) -> None:
    """Write the pages of labs whose code is another now, and their texts."""
    for lab in map(registry.get, registry.names()):
        page, made_from = page_of(root, lab.name), now.kernels(lab.name)
        if manifest.stale(page, made_from):
            manifest.forget(page)
            manifest.write(page, _written(lab, root / FOLDER / lab.name), made_from)


def copy(root: Path, site: Path) -> None:
    """The texts join the site; what is gone from them goes from it."""
    for target, pattern in ((site / FILES, "*.txt"), (site / SCRIPTS, "*.js")):
        files = {path.relative_to(root / FOLDER): path for path in (root / FOLDER).glob(f"*/{pattern}")}
        for old in target.glob("*/*"):
            if old.relative_to(target) not in files:
                old.unlink()
        for name, path in files.items():
            if not (target / name).exists() or _stamp(target / name) != _stamp(path):
                (target / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(path, target / name)


def _stamp(path: Path) -> tuple[int, int]:
    found = path.stat()
    return found.st_mtime_ns, found.st_size


def _written(lab: Lab, folder: Path) -> str:
    """Write the texts of a lab's kernels into `folder`; its page."""
    known = {each.name: texts(lab, each) for each in (*lab.ladder, *lab.peers)}
    scripts = {name: script(lab, lab.variant(name), found) for name, found in known.items() if found}
    files = {f"{file_name(name)}.js": text for name, text in scripts.items()}
    files |= {each.file: each.text for found in known.values() for each in found}
    for old in folder.glob("*"):
        if old.name not in files:
            old.unlink()
    for name, text in files.items():
        if not (folder / name).exists() or (folder / name).read_text("utf-8") != text:
            write_whole(folder / name, text)
    versions = {name: cache_key(text)[:8] for name, text in scripts.items()}
    return page(lab, known, versions)


def page(lab: Lab, known: dict[str, list[Text]], versions: dict[str, str]) -> str:
    """Markdown of a lab's page.

    known: the texts of each variant. versions: of each script a word that changes with it, so that no browser keeps an old one.
    """
    with_texts = [each for each in (*lab.ladder, *lab.peers) if known[each.name]]
    ladder, programs = ([each for each in with_texts if (each.role == "peer") == peer] for peer in (False, True))
    libraries = [each for each in (*lab.ladder, *lab.peers) if not known[each.name]]
    parts = [
        f"# {markdown(lab.title)}: kernels",
        raw_html(
            f'{_about(lab)}\n{_index(with_texts, known)}\n<script src="../../_static/kernels.js?v=" defer></script>'
        ),
    ]
    for title, shown in (("The steps of the ladder", ladder), ("Programs to compare with", programs)):
        parts += [f"## {title}"] if shown else []
        for each in shown:
            parts += [
                f"### {markdown_code(each.name)}",
                raw_html(_kernel(lab, each, known[each.name], versions[each.name])),
            ]
    if libraries:
        items = "\n".join(_item(each) for each in libraries)
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
        "<p>Each kernel as a compiler gets it, with macros and knobs expanded, in every language that it is for, and its "
        f"difference from the step that it changes. {size} What a launch sets besides, as the side of a tile, stands here "
        "with its default.</p>"
    )


def _index(shown: Sequence[Variant], known: dict[str, list[Text]]) -> str:
    items = "\n".join(
        f'<li><a href="#{escape(each.name)}"><code>{escape(each.name)}</code></a> <span>{with_code(each.change)}</span> '
        f"<small>{escape(_languages(known[each.name]))}</small></li>"
        for each in shown
    )
    return f'<nav aria-label="Kernels of this page"><ul class="kernel-index">\n{items}\n</ul></nav>'


def _languages(found: Sequence[Text]) -> str:
    """'CUDA, OpenCL'."""
    names = dict.fromkeys(each.language for each in found)
    return ", ".join(languages()[name].label if name in languages() else name.capitalize() for name in names)


def _item(variant: Variant) -> str:
    return (
        f'<dt id="{escape(variant.name)}"><code>{escape(variant.name)}</code></dt><dd>{with_code(variant.change)}</dd>'
    )


def _kernel(lab: Lab, variant: Variant, found: Sequence[Text], version: str) -> str:
    """What there is to say of a variant, and the links to its texts, which kernels.js makes tabs of."""
    name = escape(variant.name)
    parent = lab.variant(variant.parent) if variant.parent else None
    over = f'Over <a href="#{escape(parent.name)}"><code>{escape(parent.name)}</code></a>. ' if parent else ""
    links = " · ".join(
        f'<a href="../../{FILES}/{lab.name}/{escape(each.file)}" data-tab="{escape(each.name)}" '
        f'data-language="{escape(each.language)}">{escape(each.label)}</a>'
        for each in found
    )
    said = "\n".join(f'<p class="table-note">{line}</p>' for line in _notes(lab, variant, parent, found))
    address = f"../../{SCRIPTS}/{lab.name}/{file_name(variant.name)}.js?v={version}"
    return (
        f"<p>{over}{with_code(variant.change)}</p>\n{said}\n"
        f'<div class="kernel" data-lab="{lab.name}" data-kernel="{name}" data-script="{address}">'
        f'<p class="kernel-files">As plain text: {links}</p></div>'
    )


def _notes(lab: Lab, variant: Variant, parent: Variant | None, found: Sequence[Text]) -> Iterator[str]:
    """What else differs, how it is driven, what it is compiled with, as HTML."""
    if differs := " ".join(_differs(variant, parent, found)):
        yield differs
    sizes, size = constants(lab, variant), size_of(lab)
    same_file = parent and parent.source and variant.source and parent.source.path == variant.source.path
    knobs = [
        f"<code>{name}={escape(str(value))}</code>{'' if before is None else f' (was {escape(str(before))})'}"
        for name, value, before in turned(variant, parent)
        if name not in lab.sizes(size) and (before is not None or not same_file)
    ]
    if knobs:
        yield f"{'Knobs that it turns' if same_file else 'Knobs'}: {', '.join(knobs)}."
    if sizes:
        values = ", ".join(f"<code>{name}={value}</code>" for name, value in sizes.items())
        yield f"Constants of the case {escape(size.name)}: {values}."
    for compiler, why in variant.same_code.items():
        yield (
            f"In the tests of this book {escape(compiler)} makes the same machine code of it as of "
            f"<code>{escape(variant.parent or '')}</code>, since {with_code(why)}."
        )


def _differs(variant: Variant, parent: Variant | None, found: Sequence[Text]) -> Iterator[str]:
    """In sentences, how the host drives a kernel, and of a step in what else it differs from its parent."""
    words = with_code(driven(variant))
    if parent is None:
        yield f"The host: {words}" if words else ""
        return
    if parent.source and variant.source and not any(each.name.endswith("-difference") for each in found):
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
    """The options that a variant has and its parent has not, or with another value, and those that it leaves out.

    Not where it runs: the plan says that.
    """
    for name, value in variant.options.items():
        if name != "device" and parent.options.get(name) != value:
            said = "x".join(map(str, value)) if isinstance(value, tuple) else str(value)
            yield name if value is True else f"{name} {said}"
    yield from (f"no {name}" for name in parent.options if name not in (*variant.options, "device"))
