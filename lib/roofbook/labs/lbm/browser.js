// The state and the obstacles of a grid from drawn numbers, as browser.py makes them, and the check of populations and mean speeds after
// all steps, as problem.py has it: a run in double precision, and bounds for fp32, or for populations that are stored in fp16.
(() => {
  const ROUNDOFF = 2 ** -24, HALF_ROUNDOFF = 2 ** -11, DEVIATIONS = 8, CLEARANCE = 1.5;
  const EX = [0, 1, 0, -1, 0, 1, -1, -1, 1], EY = [0, 0, 1, 0, -1, 1, 1, -1, -1], OPPOSITE = [0, 3, 4, 1, 2, 7, 8, 5, 6];
  const WEIGHTS = [4 / 9, 1 / 9, 1 / 9, 1 / 9, 1 / 9, 1 / 36, 1 / 36, 1 / 36, 1 / 36];

  // The blocked cells of the course's grids: the perimeter, and a column of the largest one.
  function blocked({ nx, ny }) {
    return Int8Array.from({ length: nx * ny }, (_, i) => {
      const x = i % nx, y = (i - x) / nx;
      return x === 0 || x === nx - 1 || y === 0 || y === ny - 1 || (nx === 1024 && x === 341);
    });
  }

  function state({ nx, ny, density }, { disturbance }) {
    const f = new Float32Array(9 * nx * ny), cells = nx * ny;
    for (let k = 0; k < 9; k++) {
      const rest = Math.fround(WEIGHTS[k] * density);
      for (let i = k * cells; i < (k + 1) * cells; i++) f[i] = rest * Math.fround(1 + disturbance[i]);
    }
    return f;
  }

  // Six fluid cells of row ny-2 may not be driven: three have too little from the start, three once the first step's collision has taken
  // what flows in with its opposite.
  function withThinCells({ nx, ny, density, accel }, f, obstacles) {
    const row = ny - 2, free = [...Array(nx).keys()].filter((x) => !obstacles[row * nx + x]);
    const chosen = [1, 2, 3, 4, 5, 6].map((number) => free[Math.floor(number * free.length / 7)]);
    const at = (k, x, y) => (k * ny + (y + ny) % ny) * nx + (x + nx) % nx;
    for (const [number, k] of [3, 6, 7].entries()) {
      f[at(k, chosen[number], row)] = density * accel * WEIGHTS[k] / 4;
      for (const i of [k, OPPOSITE[k]]) f[at(i, chosen[3 + number] - EX[i], row - EY[i])] = 4 * WEIGHTS[i] * density;
    }
    return f;
  }

  // fp16 by bits, rounded to nearest, ties to even; there is no overflow here.
  function toHalf(value) {
    const size = Math.abs(value), even = (number) => (number + 2 ** 52) - 2 ** 52, sign = value < 0 || Object.is(value, -0) ? 0x8000 : 0;
    if (size < 2 ** -14) return sign | even(size * 2 ** 24);
    let exponent = Math.floor(Math.log2(size));
    if (2 ** exponent > size) exponent -= 1;
    if (2 ** (exponent + 1) <= size) exponent += 1;
    return sign | (exponent + 15 << 10) + even(size * 2 ** (10 - exponent)) - 1024;
  }

  function fromHalf(bits) {
    const exponent = bits >> 10 & 31, fraction = bits & 1023, sign = bits & 0x8000 ? -1 : 1;
    if (exponent === 31) return fraction ? NaN : sign * Infinity;
    return sign * (exponent ? (1024 + fraction) * 2 ** (exponent - 25) : fraction * 2 ** -24);
  }

  // The state in each layout and the obstacles in each type, made when a step needs them.
  function layouts({ nx, ny, density }, f, obstacles) {
    const cells = nx * ny;
    return {
      f,
      get "f by cells"() {
        return new Float32Array(9 * cells).map((_, at) => f[at % 9 * cells + Math.floor(at / 9)]);
      },
      get "f in halves"() {
        return new Uint16Array(9 * cells).map((_, i) => toHalf((f[i] - WEIGHTS[Math.floor(i / cells)] * density) * 1024));
      },
      get obstacles() { return Int32Array.from(obstacles); },
      "obstacle bytes": obstacles,
    };
  }

  function arrays(params, drawn) {
    return layouts(params, state(params, drawn), blocked(params));
  }

  function unusual(params, drawn) {
    const obstacles = blocked(params);
    return layouts(params, withThinCells(params, state(params, drawn), obstacles), obstacles);
  }

  // All steps in double precision: the last state, the mean speed of each step, and how far populations are from rest at the start and
  // after each step, as the root mean square and the largest share.
  function followed({ nx, ny, units: steps, density, accel, omega }, start, obstacles) {
    const cells = nx * ny, fluid = obstacles.reduce((count, solid) => count + (solid ? 0 : 1), 0);
    const speeds = new Float64Array(steps), spread = new Float64Array(steps + 1), farthest = new Float64Array(steps + 1);
    const pushes = [0, 1, 0, -1, 0, 1, -1, -1, 1].map((way, k) => way * density * accel * WEIGHTS[k]), moved = new Float64Array(9);
    const lines = new Int32Array(9);
    let f = Float64Array.from(start), after = new Float64Array(9 * cells);
    const distance = (k, value) => value / (WEIGHTS[k] * density) - 1;
    for (let i = 0; i < 9 * cells; i++) {
      const from = distance(Math.floor(i / cells), f[i]);
      spread[0] += from * from;
      farthest[0] = Math.max(farthest[0], Math.abs(from));
    }
    for (let step = 0; step < steps; step++) {
      for (let i = (ny - 2) * nx; i < (ny - 1) * nx; i++) {
        if (obstacles[i] || [3, 6, 7].some((k) => !(f[k * cells + i] + pushes[k] > 0))) continue;
        for (let k = 1; k < 9; k++) f[k * cells + i] += pushes[k];
      }
      let total = 0, squares = 0, largest = 0;
      for (let y = 0, i = 0; y < ny; y++) {
        for (let k = 0; k < 9; k++) lines[k] = k * cells + (y - EY[k] + ny) % ny * nx;
        for (let x = 0; x < nx; x++, i++) {
          const west = x ? x - 1 : nx - 1, east = x + 1 < nx ? x + 1 : 0;
          for (let k = 0; k < 9; k++) moved[k] = f[lines[k] + (EX[k] > 0 ? west : EX[k] < 0 ? east : x)];
          if (obstacles[i]) {
            for (let k = 0; k < 9; k++) after[k * cells + i] = moved[OPPOSITE[k]];
          } else {
            let rho = 0;
            for (let k = 0; k < 9; k++) rho += moved[k];
            const ux = (moved[1] + moved[5] + moved[8] - (moved[3] + moved[6] + moved[7])) / rho;
            const uy = (moved[2] + moved[5] + moved[6] - (moved[4] + moved[7] + moved[8])) / rho;
            const level = 1 - 1.5 * (ux * ux + uy * uy);
            for (let k = 0; k < 9; k++) {
              const eu = 3 * (EX[k] * ux + EY[k] * uy), equilibrium = WEIGHTS[k] * rho * (level + eu + 0.5 * eu * eu);
              after[k * cells + i] = moved[k] + omega * (equilibrium - moved[k]);
            }
            total += Math.sqrt(ux * ux + uy * uy); // a collision keeps momentum and density
          }
          for (let k = 0; k < 9; k++) {
            const from = distance(k, after[k * cells + i]);
            squares += from * from;
            if (Math.abs(from) > largest) largest = Math.abs(from);
          }
        }
      }
      [f, after] = [after, f];
      speeds[step] = total / fluid;
      spread[step + 1] = squares;
      farthest[step + 1] = largest;
    }
    return { f, speeds, spread: spread.map((squares) => Math.sqrt(squares / (9 * cells))), farthest, fluid };
  }

  // The allowed largest error of a population, root mean square error, and error of a mean speed.
  function tolerance({ speeds, spread, farthest, fluid }, omega, isHalf) {
    const steps = speeds.length, left = spread.map((_, step) => 7 / 12 + 5 / 12 * (1 - omega) ** (2 * (steps - step)));
    const weighed = (of) => of.reduce((sum, value, step) => sum + left[step] * value * value, 0);
    const speed = Math.max(...speeds, ROUNDOFF), variance = isHalf ? HALF_ROUNDOFF ** 2 / 3 : 0;
    const single = ROUNDOFF ** 2 * (3.5 ** 2 * left.slice(1).reduce((sum, value) => sum + value, 0) + (0.3 * steps) ** 2);
    const drift = Math.sqrt(variance * spread.reduce((sum, value) => sum + value * value, 0) / 36 / fluid);
    return {
      largest: ROUNDOFF * (64 * Math.sqrt(steps) + 2 * steps) + DEVIATIONS * Math.sqrt(variance * weighed(farthest)),
      meanSquare: single + variance * weighed(spread),
      speeds: ROUNDOFF * ((1 + Math.sqrt(steps) / 4 + steps / 50) / speed + Math.sqrt(fluid)) + DEVIATIONS * drift / speed,
    };
  }

  // The mean speeds from what a step's host reads: sums of all groups, or of each group and step, with or without counts of fluid cells.
  function meanSpeeds({ totals, sums, counts }, steps, fluid) {
    const sum = (of, step) => of.subarray(step * of.length / steps, (step + 1) * of.length / steps).reduce((a, b) => a + b, 0);
    return Array.from({ length: steps }, (_, step) => (totals ? totals[step] : sum(Float64Array.from(sums), step)) /
      (counts ? sum(counts, step) : fluid));
  }

  function check(params, { f: start, "obstacle bytes": obstacles }) {
    const { nx, ny, units: steps, density, omega } = params, cells = nx * ny, right = followed(params, start, obstacles);
    const mean = right.f.reduce((sum, value) => sum + value, 0) / cells, speed = Math.max(...right.speeds, ROUNDOFF);
    return (outputs) => {
      const { f, "f by cells": byCells, "f in halves": inHalves } = outputs, allowed = tolerance(right, omega, Boolean(inHalves));
      let largest = 0, squares = 0;
      for (let k = 0, i = 0; k < 9; k++) {
        for (let cell = 0; cell < cells; cell++, i++) {
          const value = f ? f[i] : byCells ? byCells[9 * cell + k] : fromHalf(inHalves[i]) / 1024 + WEIGHTS[k] * density;
          const error = (value - right.f[i]) / (WEIGHTS[k] * mean);
          if (!(Math.abs(error) <= largest)) largest = Math.abs(error); // also for a NaN
          squares += error * error;
        }
      }
      const errors = meanSpeeds(outputs, steps, right.fluid).map((value, step) => Math.abs(value - right.speeds[step]) / speed);
      const chance = 1 + DEVIATIONS * Math.sqrt(2 / (9 * cells)), ratio = (value) => Number.isNaN(value) ? Infinity : value;
      return {
        "largest error of a population": ratio(largest / allowed.largest + 0 * squares),
        "root mean square error of the populations": ratio(Math.sqrt(squares / (9 * cells) / (allowed.meanSquare * chance)) / CLEARANCE),
        "largest error of a mean speed": ratio(Math.max(...errors) / allowed.speeds),
      };
    };
  }

  return { arrays, unusual, check };
})()
