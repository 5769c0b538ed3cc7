"""Mistakes of students in lattice Boltzmann: directions, walls, the drive and its condition, digits of constants."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from roofbook.spec.plan import Case

from ...mutants import Emulated, Mutant, Outputs
from .test_problem import float32_run

CASE = "40x24"


def stepped(omega: float = 1.0, steps: int = 0, accel: float = 1.0) -> Callable[[Case, Mapping[str, Any]], Outputs]:
    """Return a run in float32 with omega and acceleration times these factors, and so many steps more."""

    def compute(case: Case, inputs: Mapping[str, Any]) -> Outputs:
        params = inputs["params"]
        params = replace(params, omega=params.omega * omega, accel=params.accel * accel)
        f, av_vels = float32_run(params, inputs["obstacles"], case.units + steps, inputs["f"])
        return {"f": f, "av_vels": av_vels[-case.units :]}

    return compute


MISTAKES: tuple[Mutant | Emulated, ...] = (
    Mutant("sequential", "sequential.k", "!obstacles[i] && f[3] - w1 > 0.0f && f[6] - w2 > 0.0f && f[7] - w2 > 0.0f",
           "!obstacles[i]", "when a cell is not driven"),
    Mutant("ported", "accelerate.h", " && TO(3, i) - w1 > 0.0f && TO(6, i) - w2 > 0.0f && TO(7, i) - w2 > 0.0f", "",
           "when a cell is not driven"),
    Mutant("fused", "accelerate.h", " && TO(3, i) - w1 > 0.0f", "", "that f3 may be too small to drive a cell"),
    Mutant("fused", "accelerate.h", " && TO(6, i) - w2 > 0.0f", "", "that f6 may be too small to drive a cell"),
    Mutant("fused", "accelerate.h", " && TO(7, i) - w2 > 0.0f", "", "that f7 may be too small to drive a cell"),
    Mutant("flat-grid", "accelerate_cell.inc", " & (g3 - w1 > 0.0f) & (g6 - w2 > 0.0f) & (g7 - w2 > 0.0f)", "",
           "when a cell is not driven"),
    Mutant("flat-grid", "accelerate_cell.inc", " & (g3 - w1 > 0.0f)", "", "that f3 may be too small to drive a cell"),
    Mutant("flat-grid", "accelerate_cell.inc", " & (g6 - w2 > 0.0f)", "", "that f6 may be too small to drive a cell"),
    Mutant("flat-grid", "accelerate_cell.inc", " & (g7 - w2 > 0.0f)", "", "that f7 may be too small to drive a cell"),
    Mutant("fused", "accelerate.h", "TO(3, i) - w1 > 0.0f", "TO(3, i) > 0.0f", "what the drive takes of f3"),
    Mutant("flat-grid", "accelerate_cell.inc", "g3 - w1 > 0.0f", "g3 > 0.0f", "what the drive takes of f3",
           survives="no population is between nothing and what the drive takes, in the cells of any case"),
    Mutant("half-storage", "accelerate_cell.inc", " & (g3 - w1 > 0.0f) & (g6 - w2 > 0.0f) & (g7 - w2 > 0.0f)", "",
           "when a cell is not driven"),
    Mutant("flat-grid", "accelerate_cell.inc", "y == ny - 2", "y == ny - 1", "which row is driven"),
    Mutant("fused", "accelerate.h", "(ny - 2) * nx", "(ny - 3) * nx", "which row is driven"),
    Mutant("fused", "accelerate.h", "!obstacles[i] && ", "", "that obstacles are not driven"),
    Mutant("vectors", "accelerate_cell.inc", " & !solid", "", "that obstacles are not driven"),
    Mutant("flat-grid", "d2q9.h", "(u) * (u) * 4.5f - u_sq * 1.5f", "0.0f * u_sq", "the terms of second order"),
    Mutant("fused", "d2q9.h", "(u) * (u) / (2.0f * SOUND * SOUND) - u_sq / (2.0f * SOUND)", "0.0f * u_sq",
           "the terms of second order"),
    Mutant("half-storage", "d2q9.h", "(u) * (u) * 4.5f - u_sq * 1.5f", "0.0f * u_sq", "the terms of second order"),
    Mutant("half-storage", "d2q9.h", "u_sq * 1.5f", "u_sq * 1.0f", "half of u squared"),
    Mutant("fused", "d2q9.h", "#define W2 (1.0f / 36.0f)", "#define W2 0.02778f", "the last digits of a weight"),
    Mutant("half-storage", "plans.py", "np.float32(params.omega)\n", "np.float32(params.omega * 1.0005)\n",
           "digits of omega"),
    Mutant("fused", "plans.py", "np.float32(params.omega)\n", "np.float32(params.omega * 1.00001)\n", "digits of omega"),
    Mutant("fused", "cell_branch.inc", "g5 = f7;", "g5 = f5;", "to send a population back"),
    Mutant("fused", "cell_branch.inc", "EQUILIBRIUM(W2, -ux + uy)", "EQUILIBRIUM(W2, ux + uy)", "a sign"),
    Mutant("flat-grid", "cell_select.inc", "EQUILIBRIUM(W1, uy) - f2), f4, solid", "EQUILIBRIUM(W1, uy) - f2), f2, solid",
           "to send a population back"),
    Mutant("fused", "fused.k", "FROM(2, south * nx + x)", "FROM(2, north * nx + x)", "which way is north"),
    Mutant("fused", "fused.k", "(x == 0 ? n - 1 : x - 1)", "(x == 0 ? 0 : x - 1)", "that the grid goes on at its other side"),
    Mutant("tree", "reduce_tree.inc", "reach = GROUP_SIZE / 2", "reach = GROUP_SIZE / 4", "half of the partial sums"),
    Mutant("fused", "reduce_serial.inc", "n < GROUP_SIZE", "n < GROUP_SIZE - 32", "partial sums at the end of a group"),
    Mutant("kept-partials", "total.k", "group < groups;", "group < groups - 2;", "the last two groups' sums"),
    Mutant("ported", "separate.k", "PUT(8, i, FROM(6, i));", "PUT(8, i, FROM(8, i));", "to send a population back"),
    Mutant("ported", "separate.k", "fluid = 1;", "fluid = 2;", "how many cells are fluid"),
    Mutant("ported", "separate.k", "speed = SQRT(ux * ux + uy * uy)", "speed = ux", "that a speed has two parts"),
    Mutant("in-place", "in_place.k", "PUT(5, south + west, g7);", "PUT(5, south + west, g5);",
           "that a population lies in its opposite's place"),
    Mutant("in-place", "in_place.k", "f5 = TO(7, i), f6 = TO(8, i)", "f5 = TO(5, i), f6 = TO(8, i)",
           "that a population lies in its opposite's place"),
    Mutant("half-storage", "grid.h", "#define AT_REST(k) REST * WEIGHT_##k", "#define AT_REST(k) 0.999f * REST * WEIGHT_##k",
           "digits of the density at rest"),
    Mutant("vectors", "vectors.k", "f1.s0 = FROM(1, y * nx + nx - 1)", "f1.s0 = FROM(1, y * nx + nx - 2)",
           "where the grid goes on"),
    Mutant("vectors", "vectors.k", "x + lanes >= column * WIDTH", "x + lanes >= 0", "that cells of two vectors count once"),
    Mutant("several-steps", "walk.inc", "front >= first - steps + 2 * t - 1", "front >= first - steps + 2 * t",
           "a row that the neighbour needs"),
    Mutant("several-steps", "rows.h", "(y) + 3 * STEPS) % 3", "(y) + 2 * STEPS) % 2", "that three rows of a step are read"),
    Mutant("several-steps", "walk.inc", "if (y >= first && y < last) speeds", "if (y < last) speeds",
           "that rows computed twice count once"),
    Mutant("bands", "rows.h", "row[5 * STRIDE - 1] = row[5 * STRIDE + NX - 1]", "row[5 * STRIDE - 1] = row[5 * STRIDE]",
           "where the grid goes on"),
    Mutant("bands", "bands.py", "np.ones((ny, rows.across), np.int8)", "np.zeros((ny, rows.across), np.int8)",
           "that lanes behind the end of a row are no cells"),
    Mutant("paired", "cell_pairs.inc", "(rest5 - (to5 * 9.0f) * xy)", "(rest5 + (to5 * 9.0f) * xy)", "a sign"),
    Mutant("paired", "cell_pairs.inc", "(to5 * 4.5f) * square", "(to1 * 4.5f) * square", "which weight"),
    Mutant("team", "team.py", "ceil_div(self.units, self.most)", "self.units // self.most", "which grid has the last step"),
    Mutant("team", "team.k", "walk % 2 ? even : odd", "walk % 2 ? odd : even", "to exchange the grids"),
    Mutant("team-neighbours", "team.k", "if (first <= steps - 2 || last + steps >= NY - 1)", "if (first <= steps - 2)",
           "who reads the driven row"),
    Mutant("team-neighbours", "team.k", "(long)number * all_steps + step + t", "(long)number * all_steps + t", "which step"),
    Mutant("walk-down", "walk_down.k", "get3[kept + 3 * LINE + 2]", "get3[kept + 3 * LINE]", "which way is east"),
    Mutant("walk-down", "walk_down.k", "(turn + 1) % 4 * LINE", "(turn + 2) % 4 * LINE", "how long a row waits"),
    Mutant("walk-down", "walk_down.k", "own && row >= top && row < bottom", "own", "that rows computed twice count once"),
    Mutant("walk-paired", "cell_walled.inc", "(rest5 - (to5 * 9.0f) * xy)", "(rest5 + (to5 * 9.0f) * xy)", "a sign"),
    Mutant("walk-momentum", "cell_momentum.inc", "FMA(-9.0f * to5, xy, around)", "FMA(9.0f * to5, xy, around)", "a sign"),
    Mutant("walk-momentum", "cell_momentum.inc", "FMA(volume, -1.5f * to0 * jj, share0)", "share0", "what rests"),
    Mutant("walk-half", "walk_down.k", "t == STEPS - 1 ? last1 : w1", "w1", "that the last step drives nothing"),
    Mutant("flat-grid", "plans.py", "(none, none) if last else (self.w1, self.w2)", "(self.w1, self.w2)",
           "that the last step drives nothing"),
    Mutant("accelerate-fused", "plans.py", "if self.separate or step == 0:", "if self.separate:", "to drive the first step"),
    Mutant("fused", "plans.py", "        self.now = 1 - self.now\n", "        self.now = 0\n", "to exchange the grids"),
    Mutant("fused", "plans.py", "self.w1 = np.float32(params.density * params.accel / 9)",
           "self.w1 = np.float32(params.accel / 9)", "the density in the drive"),
    Mutant("kept-partials", "plans.py", "totals / self.fluid_cells", "totals / (self.params.nx * self.params.ny)",
           "that obstacles do not count"),
    Mutant("ported", "plans.py", "self.local, *target, *source, self.obstacles, self.nx, self.ny, self.omega)",
           "self.local, *source, *target, self.obstacles, self.nx, self.ny, self.omega)", "which grid a collision reads"),
    Mutant("fused", "plans.py", "obstacles.astype(self.solid)", "(~obstacles).astype(self.solid)",
           "what an obstacle is marked by"),
    Mutant("partly-ported", "partly_ported.py", "            queue.write(source, self.cells)\n",
           "            _ = step or queue.write(source, self.cells)\n", "to take the grid to the device after the first step"),
    Mutant("partly-ported", "partly_ported.py", "queue.read(target, self.moved)", "queue.read(source, self.moved)",
           "which grid comes back"),
    Mutant("fused", "fused.k", "((x + 1) % n)", "(x + 1 < n ? x + 1 : x)", "where the grid goes on in the east"),
    Mutant("in-place", "in_place.k", "(y + 1) % ny * nx", "(y + 1) % nx * nx", "which side is how long"),
    Mutant("fused", "fused.k", "FROM(6, south * nx + east)", "FROM(6, south * nx + west)", "from which corner one comes"),
    Mutant("in-place", "in_place.k", "PUT(7, north + east, g5);", "PUT(7, north + east, g7);",
           "that a population lies in its opposite's place, of the last direction"),
    Mutant("vectors", "vectors.k", "if (x + WIDTH == nx)", "if (x + WIDTH == nx && y)", "one row's last cell"),
    Mutant("chunks-1792", "total.k", "totals[first + step]", "totals[step]", "which step a chunk begins with"),
    Mutant("chunks-1792", "plans.py", "(np.int32(step % self.chunk),)", "(np.int32(0),)", "a slot for each step"),
    Mutant("chunks-3584", "plans.py", "self.add_up(step - step % self.chunk, step % self.chunk + 1)",
           "self.add_up(step - step % self.chunk, step % self.chunk)", "the last step of a chunk"),
    Mutant("kept-partials", "total.k", "for (int group = lane; group < groups; group += GROUP_SIZE)",
           "for (int group = lane; group < GROUP_SIZE; group += GROUP_SIZE)", "groups behind the first 64"),
    Mutant("fused", "plans.py", "np.float32(params.omega)\n", "np.float32(1.85)\n", "that omega is the case's"),
    Mutant("fused", "plans.py", "self.w1 = np.float32(params.density * params.accel / 9)",
           "self.w1 = np.float32(0.1 * params.accel / 9)", "that the density is the case's"),
    Mutant("ported", "plans.py", "self.w2 = np.float32(params.density * params.accel / 36)",
           "self.w2 = np.float32(params.density * 0.005 / 36)", "that the drive is the case's"),
    Mutant("half-storage", "plans.py", 'f"{float(self.params.density)!r}f"', '"0.1f"', "that the rest is the case's"),
    Mutant("flat-grid", "plans.py", "self.groups = self.size[0] * self.size[1] // self.group_size",
           "self.groups = self.params.nx * self.params.ny // self.group_size", "that a row has whole groups"),
    Mutant("fused", "fused.k", "if (x < nx && y < ny)", "if (x < nx && y < ny && i != 777)", "one cell"),
    Mutant("fused", "fused.k", "i = y * nx + x", "i = y * nx + nx - 1 - x", "which cell an obstacle is in"),
    Mutant("accelerate-fused", "accelerate_cell.inc", "y == ny - 2", "y == nx - 2", "that the driven row goes by the height"),
    Emulated("persistent", stepped(omega=1.0005), stepped(), "digits of omega"),
    Emulated("persistent", stepped(accel=1.001), stepped(), "digits of the drive"),
    Emulated("graph", stepped(steps=1), stepped(), "that a recorded graph has run once already"),
)  # fmt: skip
"""All mistakes; the last text of each names the thing forgotten or confused."""
