"""A kernel of one work-item as C for one thread: the device that its plan sees. Each lab's own tests check its results."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from roofbook.devices.find import host_cpu
from roofbook.peers import cc
from roofbook.peers.one_thread import FLAGS, OneThread
from roofbook.spec import registry
from roofbook.spec.plan import missing
from roofbook.spec.source import Source

from ..labs.c_program import needs_compiler

BASES = [
    pytest.param(registry.get(name), v, id=name)
    for name in registry.names()
    for v in registry.get(name).ladder
    if v.role == "base"
]
SUM = """\
KERNEL void add(GLOBAL const float *RESTRICT x, GLOBAL float *RESTRICT out, int n) {
  float sum = 0.0f;
  for (int i = 0; i < n; i++) sum += x[i];
  out[0] = MAX(sum, SQRT(x[0]));
}
"""


def built(folder: Path, text: str) -> tuple[OneThread, Any]:
    path = folder / "add.k"
    path.write_text(text)
    device = OneThread(host_cpu())
    return device, device.build(Source.of(path).render(device.backend)).kernel("add")


@needs_compiler
def test_a_sum_is_taken_in_the_order_of_the_loop(tmp_path: Path) -> None:
    """In single precision the loop's order gives 0 and most other orders do not: a vectorised sum would show."""
    device, kernel = built(tmp_path, SUM)
    x = np.tile(np.array([1e8, 1, -1e8, 0], np.float32), 64)
    queue, inputs, out = device.queue(), device.upload(x), device.empty(4)
    queue.launch(kernel, (1,), (1,), inputs, out, np.int32(x.size))
    right = np.float32(0)
    for term in x:
        right += term
    assert queue.read(out, np.empty(1, np.float32))[0] == max(right, np.float32(1e4))
    assert not any("fast-math" in flag or "associative" in flag for flag in FLAGS)


@needs_compiler
def test_it_keeps_the_contract_of_a_queue(tmp_path: Path) -> None:
    device, kernel = built(tmp_path, SUM)
    queue, one, copy = device.queue(), device.upload(np.arange(6, dtype=np.int32)), device.empty(24)
    queue.copy(copy, one)
    queue.send(copy, np.array([9], np.int32), offset=8)
    queue.receive(copy, got := np.zeros((2, 3), np.int32))
    queue.finish()
    assert got.tolist() == [[0, 1, 9], [3, 4, 5]] and queue.read(one, np.empty(2, np.int32), 16).tolist() == [4, 5]
    laps = queue.laps(*2 * [lambda: queue.launch(kernel, (1,), (1,), one, copy, np.int32(0))])
    assert len(laps) == 2 and all(0 < seconds < 100 for seconds in laps), "a call takes a thousand nanoseconds or more"
    with pytest.raises(AssertionError, match="one work-item"):
        queue.launch(kernel, (2,), (1,), one, copy, np.int32(0))
    one.release()
    assert device.identity() == host_cpu().identity()


@needs_compiler
def test_what_only_many_work_items_can_do_is_refused(tmp_path: Path) -> None:
    with pytest.raises(cc.BuildFailed, match="BARRIER"):
        built(tmp_path, SUM.replace("float sum", "BARRIER(); float sum"))


@pytest.mark.parametrize(("lab", "variant"), BASES)
def test_without_a_compiler_it_says_so(lab: Any, variant: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    case = lab.cases("test")[0]
    assert lab.skip_reason(variant, case) == cc.missing()
    monkeypatch.setenv("CC", "no-such-compiler")
    assert lab.skip_reason(variant, case) == missing(variant)
    assert "CC=no-such-compiler is not on the PATH" in lab.skip_reason(variant, case)


@pytest.mark.parametrize(("lab", "variant"), BASES)
def test_it_is_compared_with_the_same_text(lab: Any, variant: Any) -> None:
    """C for one thread and the kernel of one work-item have the same text, which a reader gets as plain C."""
    if variant.parent:
        one_work_item = lab.variant(variant.parent)
        assert (variant.source.sha256, dict(variant.options)) == (
            one_work_item.source.sha256,
            dict(one_work_item.options),
        )
        assert lab.traffic(case := lab.cases("quick")[0], variant) == lab.traffic(case, one_work_item)
        assert lab.units(case, variant, host_cpu()) == lab.units(case, one_work_item, host_cpu())
    assert variant.languages == {"c"} and "void sequential(" in variant.source.render("c")
