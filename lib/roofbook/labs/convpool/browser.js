// Operands of the sparse layer from drawn numbers, as browser.py makes them, and the exact check of its outputs. The unusual operands
// have lists of non-zeros that differ in length, as `irregular` of problem.py has them: an empty slice and a full one, and a filter of
// zeros before one that has none.
(() => {
  const NEURON_DENSITY = 204 / 1024;

  // Whole numbers, of which those that come first in the order are not zero in each `group` of neighbours.
  function sparse(order, value, group, density) {
    const kept = new Int16Array(order.length), count = Math.max(1, Math.round(density * group));
    for (let begin = 0; begin < order.length; begin += group) {
      const places = new Uint32Array(group).map((_, k) => begin + k).sort((a, b) => order[a] - order[b] || a - b);
      for (const k of places.subarray(0, count)) kept[k] = whole(value[k]);
    }
    return kept;
  }
  const whole = (value) => Math.floor(value) + (value >= 0 ? 1 : 0);

  function operands(drawn, groups) {
    return Object.fromEntries(Object.entries(groups).map(([name, [group, density]]) =>
      [name, sparse(drawn[`order of ${name}`], drawn[`value of ${name}`], group, density)]));
  }

  function padded(x, { depth, size, kernel }) {
    const border = kernel >> 1, across = size + 2 * border, wide = new Int16Array(depth * across * across);
    for (let line = 0; line < depth * size; line++) {
      const channel = Math.floor(line / size), row = line % size + border;
      wide.set(x.subarray(line * size, (line + 1) * size), (channel * across + row) * across + border);
    }
    return wide;
  }

  function arrays({ layer }, drawn) {
    const { x, weight } = operands(drawn, { x: [layer.size ** 2, NEURON_DENSITY], weight: [layer.kernel ** 2, 1 / layer.kernel ** 2] });
    return { "padded x": padded(x, layer), weight };
  }

  function unusual({ layer }, drawn) {
    const { depth, filters, size, kernel } = layer, taps = kernel ** 2;
    const { x, weight } = operands(drawn, { x: [depth * size ** 2, NEURON_DENSITY], weight: [filters * depth * taps, 1 / taps] });
    const values = drawn["value of weight"];
    for (const [length, chosen] of [[taps, Math.floor(filters * depth / 3)], [depth * taps, filters >> 1]]) {
      const begin = chosen * length;
      if (begin + 2 * length > weight.length) continue;
      weight.fill(0, begin, begin + length);
      for (let k = begin + length; k < begin + 2 * length; k++) weight[k] = whole(values[k]);
    }
    return { "padded x": padded(x, layer), weight };
  }

  // Sums of integers below 2 ** 53 are exact.
  function check({ layer: { depth, filters, size, kernel } }, { "padded x": x, weight }) {
    const across = size + kernel - 1, side = size >> 1, right = new Int32Array(filters * side * side);
    const sums = new Float64Array(size * size);
    for (let filter = 0, w = 0; filter < filters; filter++) {
      sums.fill(0);
      for (let channel = 0; channel < depth; channel++) {
        for (let tap = 0; tap < kernel ** 2; tap++, w++) {
          const factor = weight[w], begin = (channel * across + Math.floor(tap / kernel)) * across + tap % kernel;
          if (!factor) continue;
          for (let row = 0, k = 0; row < size; row++) {
            for (let from = begin + row * across, end = from + size; from < end; from++, k++) sums[k] += factor * x[from];
          }
        }
      }
      for (let row = 0, at = filter * side * side; row < side; row++) {
        for (let column = 0; column < side; column++, at++) {
          const k = 2 * (row * size + column);
          right[at] = Math.max(0, sums[k], sums[k + 1], sums[k + size], sums[k + size + 1]);
        }
      }
    }
    return ({ out }) => {
      const wrong = right.reduce((count, value, k) => count + (out[k] !== value), 0);
      return { [`error of an output (${wrong} of ${right.length} are wrong)`]: wrong ? Infinity : 0 };
    };
  }

  return { arrays, unusual, check };
})()
