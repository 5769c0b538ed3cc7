"""Names that steps of several labs have: they are found, and described in a few words."""

from roofbook.spec import registry
from roofbook.spec.shared_names import described, shared_names


def test_a_name_of_several_labs_is_described_by_its_change_and_no_other_name_is() -> None:
    assert {"unrolled", "tiled", "strips", "fused"} <= shared_names() and "deep-halo" not in shared_names()
    words = {lab: described(registry.get(lab).variant("unrolled")) for lab in ("cnn", "convpool", "lenet")}
    assert len(set(words.values())) == 3 and words["cnn"] == "The loop over filters is unrolled"
    assert words["lenet"].startswith("The input is unrolled into a matrix") and words["lenet"].endswith("…")
    assert all(len(text) <= 60 for text in words.values())
    assert described(registry.get("cnn").variant("unrolled"), 20) == "The loop over…"
    assert described(registry.get("lbm").variant("deep-halo")) == ""
