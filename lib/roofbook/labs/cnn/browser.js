// The check of a layer's outputs, in double precision, as problem.py has it for fp32: the largest error over its bound, the root
// mean square error over the allowed one, and the mean error of a filter over the allowed one. A NaN is Infinity.
({ check: ({ layer: { channels, filters, height, width, kernel } }, { x, weight, bias }) => {
  const ROUNDOFF = 2 ** -24, DEVIATIONS = 8, CLEARANCE = 1.5, ROUNDING = 1 / Math.sqrt(8 * Math.log(2));
  const across = width + kernel - 1, plane = (height + kernel - 1) * across, terms = channels * kernel * kernel;
  const rows = height >> 1, columns = width >> 1, count = filters * rows * columns;
  const right = new Float64Array(count), norms = new Float64Array(count), totals = new Float64Array(count);
  const sums = new Float64Array(2 * width), squares = new Float64Array(2 * width);
  for (let filter = 0, at = 0; filter < filters; filter++) {
    for (let row = 0; row < rows; row++) { // of pooled outputs
      sums.fill(bias[filter]);
      squares.fill(bias[filter] ** 2);
      for (let channel = 0, w = filter * terms; channel < channels; channel++) {
        for (let down = 0; down < kernel; down++) {
          for (let right = 0; right < kernel; right++, w++) {
            const factor = weight[w];
            for (let half = 0; half < 2; half++) {
              const from = channel * plane + (2 * row + half + down) * across + right;
              for (let column = 0; column < width; column++) {
                const product = factor * x[from + column];
                sums[half * width + column] += product;
                squares[half * width + column] += product * product;
              }
            }
          }
        }
      }
      for (let column = 0; column < columns; column++, at++) {
        for (const k of [2 * column, 2 * column + 1, width + 2 * column, width + 2 * column + 1]) {
          right[at] = Math.max(right[at], sums[k]);
          norms[at] = Math.max(norms[at], Math.sqrt(squares[k]));
          totals[at] = Math.max(totals[at], Math.abs(sums[k]));
        }
      }
    }
  }
  const n = terms + 1, independentAtMost = Math.min(filters * terms, channels * plane);
  const together = (live) => ((kernel >> 1) + 1) ** 2 / Math.max(live, 1) + 3 / terms;
  return ({ out }, { clearance }) => {
    let largest = 0, live = 0, squared = 0, expected = 0, ofFilters = 0, isWrong = false;
    for (let filter = 0, at = 0; filter < filters; filter++) {
      let liveHere = 0, errors = 0, variances = 0;
      for (const end = at + rows * columns; at < end; at++) {
        const error = out[at] - right[at];
        isWrong ||= Number.isNaN(error);
        if (error !== 0) largest = Math.max(largest, Math.abs(error) / (DEVIATIONS * ROUNDOFF * Math.sqrt(n) * (norms[at] + totals[at])));
        if (!(right[at] > 0)) continue;
        const variance = ROUNDING ** 2 * ROUNDOFF ** 2 * n * (totals[at] ** 2 / 3 + norms[at] ** 2 / 6);
        liveHere += 1;
        errors += error;
        squared += error * error;
        variances += variance;
      }
      live += liveHere;
      expected += variances;
      const allowed = DEVIATIONS * Math.sqrt(variances / Math.max(liveHere, 1) * together(liveHere));
      if (errors !== 0) ofFilters = Math.max(ofFilters, Math.abs(errors) / Math.max(liveHere, 1) / allowed);
    }
    const chance = 1 + DEVIATIONS * Math.sqrt(2 / Math.min(live, independentAtMost));
    return {
      "largest error of an output": isWrong ? Infinity : largest,
      "root mean square error of the outputs": isWrong ? Infinity : live ? Math.sqrt(squared / (expected * chance)) / CLEARANCE / clearance : 0,
      "mean error of a filter's outputs": isWrong ? Infinity : ofFilters / clearance,
    };
  };
} })
