"""Evidence for each claim of the lab's report, the variants that its figures belong to, and conclusions.

The report: D2Q9 lattice Boltzmann in OpenCL: University of Bristol, Advanced High Performance Computing.
"""

from collections.abc import Mapping

from ...analysis.between_devices import ConsumerCard
from ...analysis.conclusions import about_bases, peer_comparison
from ...analysis.evidence import HALF, LITTLE, Bandwidth, Best, Evidence, Intensity, NotTestable, Pair
from ...analysis.lab_data import Measured
from ...analysis.publication import Publication
from ...analysis.sentences import without_missing
from ...devices.contract import Device
from . import LAB

SMALL, MIDDLE, LARGE = GRIDS = ("128x128", "256x256", "1024x1024")
"""The three grids in the report's tables; a fourth was published."""
BEST = LAB.best
REPORTED = f"{BEST}@wg=32x1"
"""The best step with the work-group of the report's figures."""


FIRST = "partly-ported"
"""The report's first program."""
WHICH = "the tables do not say which kernels the first program ran; ours are those of the course's OpenCL program"
OPENACC = "GCC's OpenACC, on the GPU where the device is one; on a CPU it has one core, and the report's had a GPU"
SMALL_GAIN = "the rule takes so small a gain for none, so it holds where ours is as small a loss"
HOSTS = "launches in a loop in Python beside one in C; by OpenCL the C loop sets only the argument that changes"


def pair(slower: str, faster: str, kind: str | None = None, remark: str = "") -> tuple[Pair, ...]:
    """Return the pair on each of the three grids."""
    return tuple(Pair(slower, faster, grid, kind=kind, remark=remark) for grid in GRIDS)


EVIDENCE: Mapping[str, tuple[Evidence, ...]] = {
    "port": pair(FIRST, "ported", remark=WHICH),
    "clfinish": pair("ported", "no-finish"),
    "fusion": pair("no-finish", "fused"),
    "soa": pair("fused", "soa"),
    "host-bound": (Pair("soa", "no-compute", SMALL),),
    "arguments": (
        NotTestable(
            "the report queues from C; the lab queues from Python, so its times are those of the wrappers as well"
        ),
    ),
    "struct-3d": pair("one-buffer", "device-struct"),
    "tree": pair("no-count", "tree"),
    "partials": pair("tree", "kept-partials"),
    "chunks": pair("kept-partials", "chunks-1792", remark="time of a step; a sample with chunks has more steps"),
    "branch-free": tuple(Pair("kept-partials", "select", grid, below=LITTLE) for grid in GRIDS),
    "accelerate": pair("select", "accelerate-fused"),
    "bit-ops": pair("accelerate-fused", "bit-neighbours", remark=SMALL_GAIN),
    "hoisting": pair("accelerate-fused", "hoisted", remark=SMALL_GAIN),
    "shape": pair(f"{BEST}@wg=1x16", f"{BEST}@wg=16x1"),
    "32x1": tuple(Best("wg", ("32x1",), grid) for grid in GRIDS),
    "memory-bound": (
        Intensity(REPORTED, SMALL, "the report's own argument: it says nothing of what a run waits for"),
        *(Bandwidth(REPORTED, grid, HALF, numbered=False) for grid in GRIDS),
    ),
    "bandwidth": (
        Bandwidth(REPORTED, SMALL, remark="the report: of the data sheet's bandwidth"),
        *(Bandwidth(REPORTED, grid, HALF, remark="the report: of the data sheet's bandwidth") for grid in GRIDS[1:]),
    ),
    "openmp": pair(BEST, "openmp", kind="cpu", remark="the C + OpenMP program is ours, not the report's"),
    "consumer-card": (ConsumerCard(REPORTED, SMALL, "the report: a GeForce GTX 1660 Ti beside a Tesla V100"),),
    "openacc": pair(REPORTED, "openacc", remark=OPENACC),
    "python-host": (
        *(Pair("c-host", BEST, grid, remark=HOSTS) for grid in GRIDS[:-1]),
        Pair("c-host", BEST, LARGE, effect=1.0, remark=f"said to be as fast; {HOSTS}"),
    ),
    "total": pair(FIRST, REPORTED, remark=WHICH),
}


class CourseReport(Publication):
    """The lab's report."""

    evidence = EVIDENCE

    def mapping(self, device: Device) -> Mapping[str, str | tuple[str, str]]:
        best = LAB.best
        return {
            **super().mapping(device),
            "optimised, work-group 32x1": f"{best}@wg=32x1",
            "optimised vs given program": (f"{best}@wg=32x1", FIRST),
            "Python host": best,
            **({"optimised OpenCL on CPU": best} if device.kind == "cpu" else {}),
        }

    def counted(self, measured: Measured) -> Mapping[tuple[str, str, str], str]:
        small = LAB.work(LAB.cases("published")[0])
        return {
            ("bytes per iteration", "128x128", "bytes"): f"{small.bytes} B (modelled)",
            ("operations per iteration", "128x128", "flop"): f"{small.flops} FLOP (modelled)",
            ("operational intensity", "128x128", "intensity"): f"{small.flops / small.bytes:.2f} FLOP/B (modelled)",
        }

    def summary(self, measured: Measured) -> str:
        """Return one paragraph a case. Cases that were not measured are left out."""
        paragraphs = []
        for case in measured.cases:
            name = case.name
            fastest = measured.fastest(name)
            base = measured.base(name)
            comparisons = [f"{measured.times(fastest, base, name)} `{base}`"]
            comparisons.append(f"{measured.times(fastest, FIRST, name)} the report's first program")
            if measured.fastest_peer(name) != "openmp":
                comparisons.append(f"{measured.times(fastest, 'openmp', name)} C + OpenMP on the host's cores")
            compared_with = without_missing(comparisons, ", ")
            isolated = without_missing((
                f"the step without its arithmetic (`no-compute`) takes {measured.value('no-compute', name)} per step",
                f"`soa` takes {measured.value('soa', name)}",
            ))  # fmt: skip
            last = without_missing((
                f"one grid instead of two (`in-place`) is {measured.times('in-place', LAB.best, name)} `{LAB.best}`",
                f"fp16 storage (`half-storage`) is {measured.times('half-storage', 'in-place', name)} `in-place`",
            ))  # fmt: skip
            place = measured.runs_phrase(fastest, name)
            words = [f"The fastest kernel {place} is `{fastest}`: {measured.value(fastest, name)} per step"]
            words[0] += f", which is {compared_with}" if compared_with else ""
            words += [phrase[:1].upper() + phrase[1:] for phrase in (peer_comparison(measured, name), isolated, last)]
            paragraphs.append(f"**{name}.** " + " ".join(f"{word}." for word in words if word))
        return "\n\n".join([*paragraphs, *about_bases(LAB, measured)])


PUBLICATION = CourseReport(LAB)
