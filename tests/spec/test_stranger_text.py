"""The text of a stranger's kernel: it includes the lab's kernel files and the dialect, and no other file by any way."""

from __future__ import annotations

from pathlib import Path

import pytest

from roofbook.spec.source import TextError, stranger_text

SECRET = "SECRET_TOKEN"


@pytest.fixture
def lab(tmp_path: Path) -> Path:
    """A lab's folder with a header and a secret, beside the folder of a stranger's text."""
    folder = tmp_path / "lab"
    folder.mkdir()
    (folder / "own.h").write_text("#define OWN 7\n")
    (folder / "piece.inc").write_text("int piece;\n")
    (folder / "problem.py").write_text(f"{SECRET} = 1\n")
    (folder / "link.h").symlink_to(folder / "problem.py")
    (tmp_path / "secret.h").write_text(f"{SECRET}\n")
    (tmp_path / "text").mkdir()
    (tmp_path / "text" / "beside.h").write_text(f"{SECRET}\n")
    return folder


def expanded(lab: Path, text: str) -> str:
    file = lab.parent / "text" / "answer.k"
    file.write_text(text)
    return stranger_text(file, (("COUNT", 3),), "opencl", lab)


def test_the_labs_files_and_harmless_directives_are_taken(lab: Path) -> None:
    text = expanded(
        lab,
        '#include "own.h"\n#include "piece.inc"\n#pragma OPENCL EXTENSION cl_khr_fp16 : enable\n#pragma unroll\n'
        'int a = OWN + COUNT; // #include "problem.py"\n/* #include <x> */ int b = \'#\'; _Pragma("unroll") int c;\n',
    )
    assert "int a = 7 + 3;" in text and "int piece;" in text and "#pragma unroll" in text and "problem" not in text


WAYS = {
    "a file that is no kernel": '#include "problem.py"',
    "in angle brackets": "#include <problem.py>",
    "an absolute path": '#include "{root}/secret.h"',
    "an absolute path in angle brackets": "#include <{root}/secret.h>",
    "a path upwards": '#include "../secret.h"',
    "beside the text": '#include "beside.h"',
    "a link": '#include "link.h"',
    "by a macro": '#define WHAT "problem.py"\n#include WHAT',
    "by a macro of pieces": "#define TEXT(a) #a\n#define MADE(a, b) TEXT(a.b)\n#include MADE(problem, py)",
    "in angle brackets by a macro": "#define WHAT <problem.py>\n#include WHAT",
    "the text itself": "#include __FILE__",
    "import": '#import "problem.py"',
    "include_next": '#include_next "problem.py"',
    "embed": 'char a[] = {\n#embed "problem.py"\n};',
    "a digraph": '%:include "problem.py"',
    "a trigraph": '??=include "problem.py"',
    "a trigraph of pieces": '#define PASTE(a, b) a##b\nPASTE(??,=)include "problem.py"',
    "a sign by a macro": '#define SIGN #\nSIGN include "problem.py"',
    "a digraph by a macro": '#define SIGN %:\nSIGN include "problem.py"',
    "behind a comment": '/* */ #include "problem.py"',
    "over two lines": '#inc\\\nlude "problem.py"',
    "a pragma": '#pragma GCC dependency "problem.py"',
    "a pragma as a word": '_Pragma("GCC dependency \\"problem.py\\"") int a;',
    "a line number of another file": '#line 1 "problem.py\\"\nint',
}


@pytest.mark.parametrize("way", WAYS)
def test_no_other_file_is_read_by_any_way(lab: Path, way: str) -> None:
    text = f"{WAYS[way].replace('{root}', str(lab.parent))}\nint after;\n"
    with pytest.raises(Exception) as error:
        expanded(lab, text)
    assert SECRET not in str(error.value)
    assert isinstance(error.value, TextError) or "problem.py" not in str(error.value)


def test_no_condition_tells_whether_a_file_is_there(lab: Path) -> None:
    condition = '#if __has_include("{}")\nint there;\n#endif\nint after;\n'
    assert expanded(lab, condition.format("problem.py")) == expanded(lab, condition.format("none.py"))
