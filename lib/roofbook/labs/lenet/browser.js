// Operands of the network from drawn numbers, as browser.py makes them, and the check of its maps and scores in double precision, as
// problem.py has it for fp32: the largest error over its bound, and the root mean square error of maps over the allowed one.
(() => {
  const ROUNDOFF = 2 ** -24, DEVIATIONS = 8, CLEARANCE = 1.5, ROUNDING = 1 / Math.sqrt(8 * Math.log(2));
  const KERNEL = 7, SIZE = 86, POOL1 = 2, POOL2 = 4, HIDDEN = 32, CLASSES = 10;
  const CONV1 = { channels: 1, filters: 4, size: SIZE }, CONV2 = { channels: 4, filters: 16, size: 40 };

  function arrays({ batch }, { x: images, ...weights }) {
    const x = new Float32Array(batch * SIZE ** 2);
    for (let begin = 0; begin < x.length; begin += images.length) x.set(images.subarray(0, x.length - begin), begin);
    return { x, ...weights };
  }

  // A convolution in double precision, with the bounds and the variances of a float32 result's errors.
  // input: channels x size x size values, and the bounds and variances of their own errors, if they have some.
  function convolved({ value: x, bound: e, variance: v }, weights, { channels, filters, size }) {
    const side = size - KERNEL + 1, plane = size ** 2, terms = channels * KERNEL ** 2, count = filters * side ** 2;
    const value = new Float64Array(count), bound = new Float64Array(count), variance = new Float64Array(count);
    const [sums, squares, bounds, variances] = Array.from({ length: 4 }, () => new Float64Array(side));
    for (let filter = 0, at = 0; filter < filters; filter++) {
      for (let row = 0; row < side; row++, at += side) {
        for (const line of [sums, squares, bounds, variances]) line.fill(0);
        for (let term = 0; term < terms; term++) {
          const factor = weights[filter * terms + term], tap = term % KERNEL ** 2, channel = (term - tap) / KERNEL ** 2;
          const from = channel * plane + (row + Math.floor(tap / KERNEL)) * size + tap % KERNEL;
          for (let column = 0; column < side; column++) {
            const product = factor * x[from + column];
            sums[column] += product;
            squares[column] += product * product;
          }
          if (!e) continue;
          for (let column = 0; column < side; column++) {
            bounds[column] += Math.abs(factor) * e[from + column];
            variances[column] += factor * factor * v[from + column];
          }
        }
        for (let column = 0; column < side; column++) {
          const sum = sums[column], norm = Math.sqrt(squares[column]);
          value[at + column] = sum;
          bound[at + column] = DEVIATIONS * ROUNDOFF * Math.sqrt(terms) * (norm + Math.abs(sum)) + bounds[column];
          variance[at + column] = (ROUNDING * ROUNDOFF) ** 2 * terms * (sum * sum / 3 + squares[column]) + variances[column];
        }
      }
    }
    return { value, bound, variance, weights: weights.length };
  }

  // ReLU, then the largest value of each pool x pool block; the last ones are cut off by the edge. ReLU and pool enlarge no error.
  function pooled({ value, bound, variance, weights }, maps, side, pool) {
    const small = Math.ceil(side / pool);
    const largest = (of) => {
      const out = new Float64Array(maps * small ** 2); // none of them is negative after ReLU
      for (let k = 0; k < of.length; k++) {
        const column = k % side, line = (k - column) / side, row = line % side, map = (line - row) / side;
        const at = (map * small + Math.floor(row / pool)) * small + Math.floor(column / pool);
        if (of[k] > out[at]) out[at] = of[k];
      }
      return out;
    };
    return { value: largest(value), bound: largest(bound), variance: largest(variance), weights };
  }

  // A dense layer: the errors of its input count as a random walk.
  function dense({ value: x, bound: e }, weights, bias, count) {
    const value = new Float64Array(count), bound = new Float64Array(count), length = x.length;
    for (let out = 0; out < count; out++) {
      let sum = bias[out], square = bias[out] ** 2, spread = 0;
      for (let k = 0; k < length; k++) {
        const factor = weights[out * length + k];
        sum += factor * x[k];
        square += (factor * x[k]) ** 2;
        spread += (factor * e[k]) ** 2;
      }
      value[out] = sum;
      bound[out] = DEVIATIONS * ROUNDOFF * Math.sqrt(length + 1) * (Math.sqrt(square) + Math.abs(sum)) + Math.sqrt(spread);
    }
    return { value, bound };
  }

  function forward(image, weights) {
    const conv1 = convolved({ value: image }, weights.conv1, CONV1), pool1 = pooled(conv1, CONV1.filters, 80, POOL1);
    const conv2 = convolved(pool1, weights.conv2, CONV2), pool2 = pooled(conv2, CONV2.filters, 34, POOL2);
    const hidden = dense(pool2, weights.fc1, weights.fc1_bias, HIDDEN);
    const relu = { ...hidden, value: hidden.value.map((value) => Math.max(value, 0)) };
    return { conv1, pool1, conv2, pool2, scores: dense(relu, weights.fc2, weights.fc2_bias, CLASSES) };
  }

  function check({ batch }, { x, ...weights }) {
    const DIFFERENT = 16, right = [];
    for (let image = 0; image < Math.min(batch, DIFFERENT); image++) {
      right.push(forward(x.subarray(image * SIZE ** 2, (image + 1) * SIZE ** 2), weights));
    }
    return (outputs) => {
      const ratios = {};
      for (const [name, out] of Object.entries(outputs)) {
        let largest = 0, squares = 0, expected = 0, isWrong = false;
        const length = right[0][name].value.length;
        for (let image = 0, at = 0; image < batch; image++) {
          const { value, bound, variance } = right[image % DIFFERENT][name];
          for (let k = 0; k < length; k++, at++) {
            const error = out[at] - value[k];
            if (error !== 0 && !(Math.abs(error) / bound[k] <= largest)) largest = Math.abs(error) / bound[k];
            isWrong ||= Number.isNaN(error);
            squares += error * error;
            if (variance) expected += variance[k];
          }
        }
        ratios[`largest error of ${name}`] = isWrong ? Infinity : largest;
        if (name === "scores") continue;
        const chance = 1 + DEVIATIONS * Math.sqrt(2 / Math.min(right[0][name].weights, out.length));
        ratios[`root mean square error of ${name}`] = isWrong ? Infinity : Math.sqrt(squares / (expected * chance)) / CLEARANCE;
      }
      return ratios;
    };
  }

  return { arrays, check };
})()
