// The check of g after all passes, in double precision, as problem.py has it: the largest error over its tolerance, and the root
// mean square error over the allowed one. A NaN, or a change of the first or the last row, is Infinity.
({ check: ({ height, width, units: passes }, { r, b, g: start }) => ({ g }) => {
  const ROUNDOFF = 2 ** -24, ROOT_ULPS = 4, DEVIATIONS = 8, CLEARANCE = 1.5, inner = (height - 2) * width;
  let largest = 0, squares = 0, expected = 0, isWrong = false;
  for (let k = 0; k < height * width; k++) {
    if (k < width || k >= height * width - width) {
      isWrong ||= g[k] !== start[k];
      continue;
    }
    const root = 1 / Math.sqrt(r[k - width] + b[k + width]), first = Math.abs(start[k]);
    const error = g[k] - (start[k] + passes * root);
    const tolerance = ROUNDOFF * (passes * (first + passes * root) + passes * root * (2 * ROOT_ULPS + 0.5));
    const ratio = Math.abs(error) / tolerance;
    if (!(ratio <= largest)) largest = ratio; // also for a NaN
    isWrong ||= Number.isNaN(error);
    const rounding = ROUNDOFF * passes * ((first + (passes + 1) / 2 * root) / Math.sqrt(3) + ROOT_ULPS / 2 * root);
    squares += error * error;
    expected += rounding * rounding;
  }
  const chance = 1 + DEVIATIONS * Math.sqrt(2 / inner);
  return {
    "largest error of an element of g": isWrong ? Infinity : largest,
    "root mean square error of g": isWrong ? Infinity : Math.sqrt(squares / (expected * chance)) / CLEARANCE,
  };
} })
