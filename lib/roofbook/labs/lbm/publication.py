"""Evidence for each claim of the lab's report, the variants that its figures belong to, and conclusions.

The report: D2Q9 lattice Boltzmann in OpenCL: University of Bristol, Advanced High Performance Computing.
"""

import math
from collections.abc import Iterable, Mapping, Sequence

from ...analysis import format as show
from ...analysis.between_devices import ConsumerCard
from ...analysis.conclusions import PARAGRAPH, baseline_notes, machine_note, peer_comparison
from ...analysis.evidence import HALF, LITTLE, Bandwidth, Best, Evidence, Intensity, OrElse, Pair
from ...analysis.lab_data import Measured
from ...analysis.publication import Publication
from ...analysis.readings import Speedup
from ...analysis.sentences import joined, without_missing
from ...devices.contract import Device
from . import LAB
from .whys import WHYS

SMALL, MIDDLE, LARGE = GRIDS = ("128x128", "256x256", "1024x1024")
"""The three grids in the report's tables; a fourth was published."""
BEST = LAB.best
REPORTED = f"{BEST}@wg=32x1"
"""The best step with the work-group of the report's figures."""
FROM_C = "c-host@c-wg=32x1"
"""The step of the report's figures from a loop in C, as in the report."""


FIRST = "partly-ported"
"""The report's first program."""
MOST_NAMED = 3
"""Most steps that the answer names for a grid."""
WHICH = "the tables do not say which kernels the first program ran; ours are those of the course's OpenCL program"
OPENACC = (
    "GCC's OpenACC, on the GPU where the device is one; on a CPU it has one core, and the report's had a GPU. Ours are parallel"
    " loops: the report's form, kernels, leaves them to the compiler, and GCC then makes no loop of this program parallel"
)
SMALL_GAIN = "the rule takes so small a gain for none, so it holds where ours is as small a loss"
OF_PEAK = "the report: of the data sheet's bandwidth"
HOSTS = "launches in a loop in Python beside one in C; by OpenCL the C loop sets only the argument that changes"


NO_WAITS = {"deep-halo-ptx": "deep-halo-no-waits", "on-chip-velocity": "on-chip-no-waits"}
"""Step -> its probe without waits for neighbours."""
EXCHANGES = {"deep-halo-ptx": "deep-halo-exchange"}
"""Step -> its probe that only exchanges words with neighbours."""
LAUNCHED_ALIKE = (
    "warp-sums", "compared-neighbours", "warps-momentum", "loads-at-once", "early-launch", "in-place-graph", "fours-graph",
    "fours-warps",
)  # fmt: skip
"""Steps that launch one kernel a time step, in a graph, in fp32; `graph`, from which they come, is left out."""
IN_PYTHON = "from a loop in Python"
IN_C = "c-host@step="


def pair(slower: str, faster: str, kind: str | None = None, remark: str = "") -> tuple[Pair, ...]:
    """Return the pair on each of the three grids."""
    return tuple(Pair(slower, faster, grid, kind=kind, remark=remark) for grid in GRIDS)


def from_c(
    slower: str, faster: str, grid: str, of_c: tuple[str, str], remark: str = "", below: float | None = None
) -> Evidence:
    """Return a pair on a grid: on all but the largest the two of `of_c`, whose loops are in C as in the report.

    There a loop in Python takes most of the time, and stands in only on devices without such measurements.
    """
    ours = Pair(slower, faster, grid, below, remark=remark)
    if grid == LARGE:
        return ours
    words = "; ".join(filter(None, (remark, "from a loop in C, as in the report")))
    return OrElse(Pair(*of_c, grid, below, remark=words), ours, IN_PYTHON)


def steps(slower: str, faster: str, remark: str = "", below: float | None = None) -> tuple[Evidence, ...]:
    """Return a pair of the report's steps on each of the three grids."""
    of_c = IN_C + slower, IN_C + faster
    return tuple(from_c(slower, faster, grid, of_c, remark, below) for grid in GRIDS)


EVIDENCE: Mapping[str, tuple[Evidence, ...]] = {
    "port": tuple(from_c(FIRST, "ported", grid, (FIRST, f"{IN_C}ported"), WHICH) for grid in GRIDS),
    "clfinish": steps("ported", "no-finish"),
    "fusion": steps("no-finish", "fused"),
    "soa": steps("fused", "soa"),
    "host-bound": steps("soa", "no-compute")[:1],
    "arguments": tuple(
        Pair(f"queue@c-{slower}", f"queue@c-{faster}", SMALL, remark=remark)
        for slower, faster, remark in (
            ("buffers=24", "buffers=1", "queued from C; by its ends, whatever lies between"),
            ("integers=24", "integers=1", "queued from C; by its ends, whatever lies between"),
            ("buffers=24", "integers=24", "queued from C"),
        )
    ),
    "struct-3d": steps("one-buffer", "device-struct"),
    "tree": steps("no-count", "tree"),
    "partials": steps("tree", "kept-partials"),
    "chunks": steps(
        "kept-partials",
        "cell-speeds-1792",
        "a speed of each cell, as in the report; a sample with chunks has more steps",
    ),
    "branch-free": steps("kept-partials", "select", below=LITTLE),
    "accelerate": steps("select", "accelerate-fused"),
    "bit-ops": steps("accelerate-fused", "bit-neighbours", SMALL_GAIN),
    "hoisting": steps("accelerate-fused", "hoisted", SMALL_GAIN),
    "shape": tuple(
        from_c(f"{BEST}@wg=1x16", f"{BEST}@wg=16x1", grid, ("c-host@c-wg=1x16", "c-host@c-wg=16x1")) for grid in GRIDS
    ),
    "32x1": tuple(
        OrElse(Best("c-wg", ("32x1",), grid, remark="from a loop in C"), Best("wg", ("32x1",), grid), IN_PYTHON)
        for grid in GRIDS
    ),
    "memory-bound": (
        Intensity(REPORTED, SMALL, "the report's own argument: it says nothing of what a run waits for"),
        *(
            OrElse(
                Bandwidth(FROM_C, grid, HALF, numbered=False, remark="from a loop in C"),
                Bandwidth(REPORTED, grid, HALF, numbered=False),
                IN_PYTHON,
            )
            for grid in GRIDS
        ),
    ),
    "bandwidth": tuple(
        OrElse(
            Bandwidth(FROM_C, grid, 0.0 if grid == SMALL else HALF, remark=f"{OF_PEAK}; from a loop in C"),
            Bandwidth(REPORTED, grid, 0.0 if grid == SMALL else HALF),
            IN_PYTHON,
        )
        for grid in GRIDS
    ),
    "openmp": pair(BEST, "openmp", kind="cpu", remark="the C + OpenMP program is ours, not the report's"),
    "consumer-card": (ConsumerCard(REPORTED, SMALL, "the report: a GeForce GTX 1660 Ti beside a Tesla V100"),),
    "openacc": tuple(from_c(REPORTED, "openacc", grid, (FROM_C, "openacc"), OPENACC) for grid in GRIDS),
    "python-host": (
        *(Pair("c-host", BEST, grid, remark=HOSTS) for grid in GRIDS[:-1]),
        Pair("c-host", BEST, LARGE, effect=1.0, remark=f"said to be as fast; {HOSTS}"),
    ),
    "total": tuple(from_c(FIRST, REPORTED, grid, (FIRST, FROM_C), WHICH) for grid in GRIDS),
}


def rate_text(rate: float, unit: str, basis: str) -> str:
    """Return a rate per second in thousand millions, with its basis."""
    return f"{show.number(rate / 1e9)}{show.THIN}{unit} ({basis})"


def about_waits(measured: Measured, cases: Iterable[str]) -> str:
    """Return which share of a time remains without waits for neighbours, and the gain that this leaves; '' without a probe.

    It is of the fastest step of a case, or of the next one near it that has a probe. Shares are of shared runs, if any.
    """
    ratios_by_step: dict[str, dict[str, Speedup]] = {}
    for case in cases:
        near = [measured.fastest(case), *measured.near_fastest(case)]
        step = next((step for step in near if step in NO_WAITS), "")
        if step and (ratio := measured.ratio(NO_WAITS[step], step, case)):
            ratios_by_step.setdefault(step, {})[case] = ratio
    if not ratios_by_step:
        return ""
    shares = [f"{_shares(ratios)} for `{step}` (`{NO_WAITS[step]}`)" for step, ratios in ratios_by_step.items()]
    gain = max(ratio.estimate for ratios in ratios_by_step.values() for ratio in ratios.values())
    sentences = [
        "How much of a step is waiting for neighbours? Without these waits a share of the time remains: "
        f"{', '.join(shares)}.",
        f"So if all words of neighbours were there in time, a step would be {show.factor(gain)} times as fast at most: "
        "the rest is a group's own work.",
    ]
    for step in ratios_by_step:
        probe = EXCHANGES.get(step, "")
        compared = {case: measured.ratio(probe, step, case) for case in ratios_by_step[step]} if probe else {}
        if ratios := {case: ratio for case, ratio in compared.items() if ratio}:
            sentences.append(
                f"Exchanges without any cell take {_shares(ratios)} (`{probe}`). Both probes send words and store sums, so "
                "their shares overlap."
            )
    return " ".join(sentences)


def _shares(ratios: Mapping[str, Speedup]) -> str:
    """Return the share of a step's time that a probe takes on each case, in words. ratios: of step to probe, by case."""
    return joined([
        f"{show.percent(1 / ratio.estimate)} on {case}{f' {ratio.how}' * bool(ratio.how)}" for case, ratio in ratios.items()
    ])  # fmt: skip


class CourseReport(Publication):
    """The lab's report."""

    evidence = EVIDENCE
    whys = WHYS
    same_launches: Mapping[str, Sequence[str]] = dict.fromkeys(("triton-steps", "numba-steps"), LAUNCHED_ALIKE)
    stand_ins: Mapping[str, str] = {f"cell-speeds-{steps}": f"chunks-{steps}" for steps in (1792, 3584)}

    def mapping(self, device: Device) -> Mapping[str, str | tuple[str, str]]:
        best = LAB.best
        return {
            **super().mapping(device),
            "optimised, work-group 32x1": f"{best}@wg=32x1",
            "optimised vs given program": (f"{best}@wg=32x1", FIRST),
            "Python host": best,
            **({"optimised OpenCL on CPU": best} if device.kind == "cpu" else {}),
        }

    def in_c(self, variant: str) -> str | None:
        ours = {REPORTED: FROM_C, BEST: "c-host"}.get(variant, f"{IN_C}{variant}")
        return ours if any(candidate.name == ours for candidate in LAB.all_variants()) else None

    def counted(self, measured: Measured) -> Mapping[tuple[str, str, str], str]:
        small = LAB.work(LAB.cases("published")[0])
        published = {
            ("bytes per iteration", "128x128", "bytes"): f"{small.bytes} B (modelled)",
            ("operations per iteration", "128x128", "flop"): f"{small.flops} FLOP (modelled)",
            ("operational intensity", "128x128", "intensity"): f"{small.flops / small.bytes:.2f} FLOP/B (modelled)",
        }
        if peak := measured.peak_bandwidth():
            published["peak memory bandwidth", "", "bandwidth"] = rate_text(peak, "GB/s", "the fastest stream")
        for case in LAB.cases("published"):
            names = (name for name in (FROM_C, REPORTED) if measured.seconds(name, case.name))
            if case.name not in GRIDS or not (name := next(names, None)):
                continue
            work, seconds = LAB.work(case), measured.seconds(name, case.name) or math.inf
            key = "achieved bandwidth", case.name, "bandwidth"
            published[key] = rate_text(work.bytes / seconds, "GB/s", f"modelled bytes, {name}")
            if case.name == SMALL:
                text = rate_text(work.flops / seconds, "GFLOP/s", f"modelled operations, {name}")
                published["achieved rate", SMALL, "rate"] = text
        return published

    def lack(self, variant: str, case: str, metric: str) -> str | None:
        return {
            "peak double-precision rate used for the ridge": "a data sheet's, of a precision that no kernel here uses",
            "Haskell host": "not measured: needs GHC",
        }.get(variant)

    def finding(self, measured: Measured) -> str:
        """Return for each grid the share that each step brings of the way from the report's first program to the memory bound.

        Shares are of the logarithm, so that two steps of the same factor bring equally much.
        """
        ways = dict[str, str]()
        for case in measured.cases:
            if way := self._way(measured, case.name, is_first=not ways):
                ways[case.name] = way
        return PARAGRAPH.join(filter(None, [*ways.values(), about_waits(measured, ways), machine_note(measured, ways)]))

    @staticmethod
    def _way(measured: Measured, case: str, is_first: bool) -> str:
        """Return the way on a case; '' without its ends. Only the first one in an answer says what a way is."""
        first, bound = measured.seconds(FIRST, case), measured.memory_bound(BEST, case)
        fastest = measured.fastest(case)
        seconds = measured.seconds(fastest, case)
        if not (first and bound and seconds and first > bound):
            return ""
        whole = math.log(first / bound)
        gains = [gain for gain in measured.way(case) if (measured.seconds(gain.step, case) or math.inf) < first]
        largest = sorted(gains, key=lambda gain: -gain.ratio.estimate)[:MOST_NAMED]
        shares = [f"`{gain.step}` ({show.percent(math.log(gain.ratio.estimate) / whole)})" for gain in largest]
        factor = show.factor(first / bound)
        words, parts = f"On {case} the way is a factor of {factor}, to {show.duration(bound)}. ", "Its largest parts"
        if is_first:
            words = (
                f"On {case} the way from the report's first program to the memory bound of one pass a time step, "
                f"{show.duration(bound)}, is a factor of {factor}. "
            )
            parts = "Parts of it are measured on a logarithmic scale. The largest"
        words += f"{parts} are {joined(shares)}. " * bool(shares)
        name, limit = f"`{fastest}`, {measured.time_text(fastest, case)},", measured.share_of_bound(fastest, case)
        if seconds < bound:
            words += (
                f"{name} is past that bound: it takes several time steps with each pass, or none from memory at all"
            )
            is_arithmetic = limit is not None and limit[1] != "memory"
            return f"{words}, so {'arithmetic' if is_arithmetic else 'the chip'} is the limit."
        covered = show.percent(math.log(first / seconds) / whole)
        return f"{words}{name} is the fastest: {covered} of the way."

    def summary(self, measured: Measured) -> str:
        """Return one paragraph a case. Cases that were not measured are left out."""
        paragraphs = []
        for case in measured.cases:
            name = case.name
            fastest = measured.fastest(name)
            base = measured.base(name)
            comparisons = [f"{measured.ratio_text(fastest, base, name)} `{base}`"]
            comparisons.append(f"{measured.ratio_text(fastest, FIRST, name)} the report's first program")
            if measured.fastest_peer(name) != "openmp":
                comparisons.append(f"{measured.ratio_text(fastest, 'openmp', name)} C + OpenMP on the host's cores")
            compared_with = without_missing(comparisons, ", ")
            isolated = without_missing((
                f"the step without its arithmetic (`no-compute`) takes {measured.time_text('no-compute', name)} per step",
                f"`soa` takes {measured.time_text('soa', name)}",
            ))  # fmt: skip
            last = without_missing((
                f"one grid instead of two (`in-place`) is {measured.ratio_text('in-place', LAB.best, name)} `{LAB.best}`",
                f"fp16 storage (`half-storage`) is {measured.ratio_text('half-storage', 'in-place', name)} `in-place`",
            ))  # fmt: skip
            place = measured.runs_phrase(fastest, name)
            words = [f"The fastest kernel {place} is `{fastest}`: {measured.time_text(fastest, name)} per step"]
            words[0] += f", which is {compared_with}" if compared_with else ""
            words += [phrase[:1].upper() + phrase[1:] for phrase in (peer_comparison(measured, name), isolated, last)]
            paragraphs.append(f"**{name}.** " + " ".join(f"{word}." for word in words if word))
        return "\n\n".join([*paragraphs, *baseline_notes(LAB, measured)])


PUBLICATION = CourseReport(LAB)
