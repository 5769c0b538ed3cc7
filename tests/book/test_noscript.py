"""Lines below a step with its effect on the other devices, which a reader without JavaScript cannot choose."""

from __future__ import annotations

from roofbook.book.noscript import with_other_devices


def step(name: str, *lines: str) -> str:
    lines_of_effect = "".join(f'<li data-case="c">{line}</li>' for line in lines)
    return f'<div class="step" id="step-{name}"><h3>{name}</h3><ul class="effect">{lines_of_effect}</ul><p>After.</p></div>'


def test_each_step_has_one_line_for_each_device_on_its_largest_case() -> None:
    first = {"a": step("one", "1.0") + step("two", "2.0"), "b": "<p>No step.</p>"}
    cells_by_device = {
        "GPU & Co": {"a": step("one", "3.0 small", '<span data-of="one~c">3.5</span> large') + step("two", "4.0")},
        "CPU": {"a": step("two", "5.0")},
    }
    cells = with_other_devices(first, cells_by_device)
    one, two = cells["a"].split('id="step-two"')
    assert "<noscript><ul" in one and "<li>GPU &amp; Co: 3.5 large</li>" in one and "CPU" not in one
    assert "<li>GPU &amp; Co: 4.0</li><li>CPU: 5.0</li></ul></noscript><p>After.</p>" in two
    assert cells["b"] == first["b"]


def test_a_step_without_other_devices_is_unchanged() -> None:
    first = {"a": step("one", "1.0")}
    assert with_other_devices(first, {"CPU": {"a": step("two", "5.0")}}) == first == with_other_devices(first, {})


def test_a_step_without_lines_takes_none_of_the_next_step() -> None:
    first = {"a": '<div class="step" id="step-none"><p>Nothing.</p></div>' + step("two", "2.0")}
    cell = with_other_devices(first, {"CPU": {"a": step("none", "9.0") + step("two", "5.0")}})["a"]
    assert "9.0" not in cell and "CPU: 5.0" in cell
