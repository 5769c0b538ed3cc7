"""Below a step stands what it brought on the devices that a reader without JavaScript cannot choose."""

from __future__ import annotations

from roofbook.book.noscript import with_other_devices


def step(name: str, *lines: str) -> str:
    told = "".join(f'<li data-case="c">{line}</li>' for line in lines)
    return f'<div class="step" id="step-{name}"><h3>{name}</h3><ul class="effect">{told}</ul><p>After.</p></div>'


def test_each_step_has_a_line_a_device_of_its_largest_case() -> None:
    first = {"a": step("one", "1.0") + step("two", "2.0"), "b": "<p>No step.</p>"}
    others = {
        "GPU & Co": {"a": step("one", "3.0 small", '<span data-of="one~c">3.5</span> large') + step("two", "4.0")},
        "CPU": {"a": step("two", "5.0")},
    }
    found = with_other_devices(first, others)
    one, two = found["a"].split('id="step-two"')
    assert "<noscript><ul" in one and "<li>GPU &amp; Co: 3.5 large</li>" in one and "CPU" not in one
    assert "<li>GPU &amp; Co: 4.0</li><li>CPU: 5.0</li></ul></noscript><p>After.</p>" in two
    assert found["b"] == first["b"]


def test_a_step_that_no_other_device_has_stays_as_it_is() -> None:
    first = {"a": step("one", "1.0")}
    assert with_other_devices(first, {"CPU": {"a": step("two", "5.0")}}) == first == with_other_devices(first, {})


def test_a_step_without_lines_takes_none_of_the_next() -> None:
    first = {"a": '<div class="step" id="step-none"><p>Nothing.</p></div>' + step("two", "2.0")}
    found = with_other_devices(first, {"CPU": {"a": step("none", "9.0") + step("two", "5.0")}})["a"]
    assert "9.0" not in found and "CPU: 5.0" in found
