/* Runs a step of a lab on the reader's device by WebGPU: verified, then timed beside its parent and an A/A control. run-buttons.js
   loads this file when a reader presses "Run it on this device". The kernels come from scripts of lib/roofbook/book/browser_runs.py.
   Nothing is sent anywhere. */
window.roofbookRunHere = (() => {
  "use strict";
  const SAMPLE_S = 0.02; // browsers round times to 0.1 ms, which is 0.5 % of it
  const BUDGET_S = 3;
  const LEAST_ROUNDS = 7, MOST_ROUNDS = 30, MOST_RUNS = 4096;
  // Systems stop a kernel that keeps a GPU for seconds, and a screen waits for it: so work is submitted in pieces of this length.
  const PIECE_S = 0.25;
  const HANG_S = 30; // after which a kernel is taken for one that never ends
  const MOST_KEPT = 20, MOST_LETTERS = 1 << 20, OWN = "this-device"; // runs of a lab that stay in this browser; their name as a device
  const steps = new Map(), waiting = new Map();

  /** What stops a run, in a sentence for the reader. */
  class Told extends Error {
    constructor(words, line) {
      super(/[.?!]$/.test(words) ? words : `${words}.`);
      this.line = line; // of the kernel's text, if it is about one
    }
  }

  const NO_MEMORY = "This tab has too little memory for this size: choose a smaller one.";

  // -- statistics, as lib/roofbook/measure/stats.py has them ------------------------------------------------------------------
  const LEVEL = 0.95, SIGN_LEVEL = 0.965, LEAST = 1.01, EQUAL = 1.05;
  const STUDENT_T = { 3: 6.205347, 4: 4.176535, 5: 3.495406 };

  // The largest k for which the k-th smallest and k-th largest of n values hold the median at the level; 0 for none.
  function rank(n, level) {
    let total = 0, term = 2 ** -n, k = 0;
    while (k < Math.floor(n / 2) && total + term <= (1 - level) / 2) {
      total += term;
      term = term * (n - k) / (k + 1);
      k += 1;
    }
    return k;
  }

  const ordered = (values) => [...values].sort((a, b) => a - b);
  const middles = (values) => [values[(values.length - 1) >> 1], values[values.length >> 1]];

  function medianCi(samples) {
    const values = ordered(samples), n = values.length, k = rank(n, LEVEL), [a, b] = middles(values);
    return { estimate: (a + b) / 2, low: values[Math.max(k, 1) - 1], high: values[n - Math.max(k, 1)] };
  }

  // a / b of samples that belong to the same rounds.
  function pairedRatio(a, b) {
    const ratios = ordered(a.map((value, index) => value / b[index])), n = ratios.length;
    const [lower, upper] = middles(ratios).map(Math.log), estimate = Math.exp((lower + upper) / 2);
    if (n < 3) return { estimate, low: 0, high: Infinity };
    let k = rank(n, SIGN_LEVEL), low = ratios[k - 1], high = ratios[n - k];
    if (n < 6) {
      const logs = ratios.map(Math.log), mean = logs.reduce((sum, log) => sum + log, 0) / n;
      const half = STUDENT_T[n] * Math.sqrt(logs.reduce((sum, log) => sum + (log - mean) ** 2, 0) / (n - 1) / n);
      [low, high] = [Math.exp(mean - half), Math.exp(mean + half)];
    }
    return { estimate, low: Math.min(low, estimate), high: Math.max(high, estimate) };
  }

  function relation({ low, high }) {
    if (low > LEAST) return "faster";
    if (high < 1 / LEAST) return "slower";
    return low >= 1 / EQUAL && high <= EQUAL ? "same" : "undecided";
  }

  // -- operands, as lib/roofbook/spec/browser_run.py draws them ---------------------------------------------------------------
  function draw(ranges, sizes, seed) {
    const mixed = (word) => {
      word = Math.imul(word ^ word >>> 16, 0x7feb352d);
      word = Math.imul(word ^ word >>> 15, 0x846ca68b);
      return (word ^ word >>> 16) >>> 0;
    };
    return Object.fromEntries(Object.entries(ranges).map(([name, [low, high]], stream) => {
      const key = mixed(seed + Math.imul(stream + 1, 0x9e3779b9) | 0), values = new Float32Array(sizes[name]);
      for (let i = 0; i < values.length; i++) {
        values[i] = low + Math.fround((high - low) * ((mixed(mixed(i) ^ key) >>> 8) * 2 ** -24));
      }
      return [name, values];
    }));
  }

  // The worker draws the operands, keeps them, and checks outputs against them in double precision. There may be two sets: the timed
  // one, and an unusual one on which mistakes show. Only the arrays of names in `wanted` are sent.
  function work(drawing, { check, arrays = (params, drawn) => drawn, unusual }) {
    const checkers = {};
    self.onmessage = ({ data: { params, drawn, wanted, set, outputs, allowed } }) => {
      if (drawn) {
        const numbers = drawing(...drawn), timed = arrays(params, numbers), sets = { timed, unusual: unusual?.(params, numbers) ?? timed };
        const chosen = (of) => Object.fromEntries(wanted.map((name) => [name, of[name]]));
        self.postMessage({ timed: chosen(sets.timed), unusual: chosen(sets.unusual) });
        checkers.timed = check(params, timed);
        checkers.unusual = unusual ? check(params, sets.unusual) : checkers.timed;
      } else self.postMessage(checkers[set](outputs, allowed));
    };
  }

  function startWorker(code) {
    const source = `(${work})(${draw}, ${code.replace(/;?\s*$/, "")});`;
    const address = URL.createObjectURL(new Blob([source], { type: "text/javascript" })), worker = new Worker(address);
    const ask = (message) => new Promise((resolve, reject) => {
      worker.onmessage = ({ data }) => resolve(data);
      worker.onerror = ({ message: words }) => reject(new Told(/RangeError|memory/.test(words) ? NO_MEMORY : `The check failed: ${words}`));
      worker.postMessage(message);
    });
    return { ask, end: () => { worker.terminate(); URL.revokeObjectURL(address); } };
  }

  // -- the device ------------------------------------------------------------------------------------------------------------
  // needs: limits above those of each device, which are asked for as far as the adapter has them.
  async function openDevice(needs, features) {
    if (!navigator.gpu) {
      throw new Told(isSecureContext
        ? "This browser has no WebGPU. Chrome and Edge have it, and Safari and Firefox in newer versions. It may be switched off: under Linux, " +
          "Chrome has it behind the flag enable-unsafe-webgpu of its page chrome://flags."
        : "A browser gives WebGPU only to pages by https or from this machine, and this page is neither.");
    }
    const adapter = await navigator.gpu.requestAdapter({ powerPreference: "high-performance" });
    if (!adapter) throw new Told("This browser has WebGPU, but found no GPU that it lets pages use. Acceleration by hardware may be " +
      "off in its settings, or its list of drivers may refuse yours; its page about:gpu says which.");
    const hasTimestamps = adapter.features.has("timestamp-query");
    const requiredLimits = Object.fromEntries(Object.entries(needs).filter(([name, need]) => need <= adapter.limits[name]));
    const requiredFeatures = [...features, ...(hasTimestamps ? ["timestamp-query"] : [])].filter((name) => adapter.features.has(name));
    let device;
    try {
      device = await adapter.requestDevice({ requiredFeatures, requiredLimits });
    } catch (error) {
      throw new Told(`The browser refused the device: ${error.message}`);
    }
    const lost = device.lost.then(({ reason, message }) => {
      const words = "A driver stops a kernel that runs for too long; load the page again.";
      throw Object.assign(new Told(`The device was lost (${message || reason}). ${words}`), { isOfDevice: true });
    });
    lost.catch(() => {}); // it is told where something waits for the device
    const alive = (promise) => Promise.race([promise, lost]);
    // Waits for a step's kernels, but no longer than for HANG_S and ten times as long as they are expected to take.
    function ended(promise, { variant }, expectedS = 0) {
      let timer;
      const words = `${variant} did not end within ${Math.round(HANG_S + 10 * expectedS)} s, and was given up. It may never end, or this size may be too large for this device. ` +
        "If the next run fails too, load the page again.";
      const late = new Promise((_, reject) => {
        timer = setTimeout(() => reject(Object.assign(new Told(words), { isOfDevice: true })), 1e3 * (HANG_S + 10 * expectedS));
      });
      return alive(Promise.race([promise, late])).finally(() => clearTimeout(timer));
    }
    return { device, adapter, hasTimestamps, alive, ended };
  }

  // Calls `make`, and raises what WebGPU only notes: wrong kernels and a lack of memory.
  async function guarded({ device, alive }, name, make) {
    const words = { validation: "The browser refuses", "out-of-memory": "The device has too little memory for", internal: "The driver failed at" };
    Object.keys(words).forEach((filter) => device.pushErrorScope(filter));
    const made = await make();
    for (const filter of Object.keys(words).reverse()) {
      const error = await alive(device.popErrorScope());
      const advice = filter === "out-of-memory" ? " Choose a smaller size." : "";
      if (error) throw new Told(`${words[filter]} ${name}: ${error.message.split("\n")[0]}${advice}`);
    }
    return made;
  }

  async function compiled({ device, alive }, step, code) {
    const module = device.createShaderModule({ code }), { messages } = await alive(module.getCompilationInfo());
    const error = messages.find(({ type }) => type === "error");
    if (error) throw new Told(`The browser's compiler refuses ${step.variant}, line ${error.lineNum}: ${error.message}`, error.lineNum);
    return module;
  }

  // The SHA-256 of a step's texts: what was compiled, whatever the page says of it.
  async function fingerprint(texts) {
    const digest = await crypto.subtle.digest("SHA-256", new TextEncoder().encode(texts.join("\0")));
    return [...new Uint8Array(digest)].map((byte) => byte.toString(16).padStart(2, "0")).join("");
  }

  const VIEWS = { float32: Float32Array, int32: Int32Array, uint32: Uint32Array, float16: Uint16Array };
  const FEATURES = { f16: "shader-f16", subgroups: "subgroups" };
  const featuresOf = (texts) => texts.flatMap((text) => [...text.matchAll(/^enable (\w+);/gm)]).map(([, word]) => FEATURES[word] ?? word);
  const LIMITS = {
    maxComputeInvocationsPerWorkgroup: "work-items a group", maxComputeWorkgroupStorageSize: "bytes of local memory",
    maxStorageBuffersPerShaderStage: "buffers of a kernel", maxComputeWorkgroupSizeX: "work-items along a side of a group",
    maxComputeWorkgroupSizeY: "work-items along a side of a group", maxComputeWorkgroupSizeZ: "work-items along a side of a group",
  };

  // What a step needs that this device lacks, in a sentence; undefined if it lacks nothing.
  function lackOf({ adapter, device }, { variant }, { needs, texts }) {
    const limit = Object.keys(needs).find((name) => needs[name] > device.limits[name]);
    if (limit) return `${variant} needs ${needs[limit]} ${LIMITS[limit]}; this browser allows ${adapter.limits[limit]} on this device.`;
    const feature = featuresOf(texts).find((name) => !device.features.has(name));
    return feature && `${variant} needs WebGPU's feature ${feature}; this browser does not have it on this device.`;
  }

  // A step on a case, ready to run.
  async function prepared(gpu, step, recorded, role) {
    const { device, alive, ended, hasTimestamps } = gpu, { COMPUTE } = GPUShaderStage;
    const { STORAGE, UNIFORM, COPY_SRC, COPY_DST, MAP_READ, QUERY_RESOLVE } = GPUBufferUsage;
    const create = (size, usage) => device.createBuffer({ size: Math.max(16, Math.ceil(size / 16) * 16), usage });
    const made = await guarded(gpu, step.variant, async () => {
      const modules = [];
      for (const text of recorded.texts) modules.push(await compiled(gpu, step, text));
      const buffers = recorded.buffers.map(({ bytes }) => create(bytes, STORAGE | COPY_SRC | COPY_DST));
      const launches = [], pipelines = new Map(); // launches that differ in numbers or buffers alone share a pipeline
      for (const launch of recorded.launches) {
        const layouts = launch.bindings.map(([binding, type]) => ({ binding, visibility: COMPUTE, buffer: { type } }));
        const entries = launch.bindings.map(([binding, , buffer]) => ({ binding, resource: { buffer: buffers[buffer] } }));
        if (launch.numbers.length) {
          const numbers = create(launch.numbers.length, UNIFORM | COPY_DST);
          device.queue.writeBuffer(numbers, 0, new Uint8Array(launch.numbers));
          layouts.push({ binding: entries.length, visibility: COMPUTE, buffer: { type: "uniform" } });
          entries.push({ binding: entries.length, resource: { buffer: numbers } });
        }
        const key = JSON.stringify([launch.text, launch.kernel, launch.constants, layouts]);
        if (!pipelines.has(key)) {
          const layout = device.createBindGroupLayout({ entries: layouts });
          const pipeline = await alive(device.createComputePipelineAsync({
            layout: device.createPipelineLayout({ bindGroupLayouts: [layout] }),
            compute: { module: modules[launch.text], entryPoint: launch.kernel, constants: launch.constants },
          }).catch((error) => { throw new Told(`The browser refuses the kernel of ${step.variant}: ${error.message.split("\n")[0]}`); }));
          pipelines.set(key, { layout, pipeline });
        }
        const { layout, pipeline } = pipelines.get(key);
        launches.push({ pipeline, group: device.createBindGroup({ layout, entries }), groups: launch.groups });
      }
      const ticks = hasTimestamps && { set: device.createQuerySet({ type: "timestamp", count: 2 }),
        resolved: create(16, QUERY_RESOLVE | COPY_SRC), read: create(16, MAP_READ | COPY_DST) };
      return { buffers, launches, ticks };
    });

    // Inputs, or equal words: NaNs where the plan writes nothing, so an element that no kernel writes is found.
    function reset(arrays) {
      for (const [index, { bytes, array, word }] of recorded.buffers.entries()) {
        const content = new Uint8Array(Math.ceil(bytes / 4) * 4);
        if (array) content.set(new Uint8Array(arrays[array].buffer, arrays[array].byteOffset, bytes));
        else new Uint32Array(content.buffer).fill(word);
        device.queue.writeBuffer(made.buffers[index], 0, content);
      }
    }

    async function read(buffer, bytes, expectedS) {
      const staging = create(bytes, MAP_READ | COPY_DST), encoder = device.createCommandEncoder();
      encoder.copyBufferToBuffer(made.buffers[buffer], 0, staging, 0, staging.size);
      device.queue.submit([encoder.finish()]);
      await ended(staging.mapAsync(GPUMapMode.READ), step, expectedS);
      const content = staging.getMappedRange().slice(0, bytes);
      staging.destroy();
      return content;
    }

    // Does `count` runs, and returns the seconds that they took on the device, or until the queue was done. Where the step's own host
    // waits or reads between kernels, so does this: the time has it too. What it read in the last run is in `taken`.
    // isFirst: pieces begin with one launch and grow while they are short, and each is waited for; those of later runs are as long as
    // this finds them to be.
    let taken, launchesOfPiece = 1, secondsOfRun = 0;
    async function run(count, order = recorded.order, isFirst = false) {
      const { ticks } = made;
      let slowest = 0, size = isFirst ? 1 : launchesOfPiece, launched = 0;
      const started = performance.now(), expectedS = count * secondsOfRun;
      const piece = async () => {
        const start = performance.now(), launches = launched;
        submit();
        launched = 0;
        if (!isFirst) return;
        await ended(device.queue.onSubmittedWorkDone(), step);
        const seconds = (performance.now() - start) / 1e3;
        if (seconds > PIECE_S / 16) slowest = Math.max(slowest, seconds / launches); // a shorter one is mostly the wait
        if (seconds < PIECE_S / 2) size *= 2;
        else size = Math.max(1, Math.floor(size * PIECE_S / 2 / seconds));
      };
      let encoder = null, pass = null, isMarked = false, begin;
      const commands = () => encoder ??= device.createCommandEncoder();
      const passOf = () => {
        const marks = ticks && { querySet: ticks.set, endOfPassWriteIndex: 1, ...(!isMarked && { beginningOfPassWriteIndex: 0 }) };
        isMarked = true;
        return commands().beginComputePass(marks ? { timestampWrites: marks } : {});
      };
      const endPass = () => { pass?.end(); pass = null; };
      const submit = () => {
        endPass();
        const finished = commands().finish();
        begin ??= performance.now();
        device.queue.submit([finished]);
        encoder = null;
      };
      for (let done = 0; done < count; done++) {
        taken = new Map();
        for (const item of order) {
          if (item.copy) {
            const [source, target] = item.copy.map((index) => made.buffers[index]);
            endPass();
            commands().copyBufferToBuffer(source, 0, target, 0, target.size);
          } else if (item.wait) {
            submit();
            await ended(device.queue.onSubmittedWorkDone(), step, expectedS);
            launched = 0;
          } else if ("read" in item) {
            submit();
            launched = 0;
            taken.set(item.read, [...(taken.get(item.read) ?? []), await read(item.read, recorded.buffers[item.read].bytes, expectedS)]);
          } else {
            const [index, repetitions] = item, { pipeline, group, groups } = made.launches[index];
            for (let left = repetitions; left > 0;) {
              const now = Math.min(left, size - launched);
              pass ??= passOf();
              pass.setPipeline(pipeline);
              pass.setBindGroup(0, group);
              for (let launch = 0; launch < now; launch++) pass.dispatchWorkgroups(...groups);
              left -= now;
              launched += now;
              if (launched >= size) await piece();
            }
          }
        }
      }
      endPass();
      if (ticks) {
        commands().resolveQuerySet(ticks.set, 0, 2, ticks.resolved, 0);
        commands().copyBufferToBuffer(ticks.resolved, 0, ticks.read, 0, 16);
      }
      submit();
      await ended(ticks ? ticks.read.mapAsync(GPUMapMode.READ) : device.queue.onSubmittedWorkDone(), step, expectedS);
      if (isFirst) {
        launchesOfPiece = slowest ? Math.max(1, Math.floor(PIECE_S / slowest)) : Infinity;
        secondsOfRun = (performance.now() - started) / 1e3;
      }
      if (!ticks) return (performance.now() - begin) / 1e3;
      const [first, last] = new BigUint64Array(ticks.read.getMappedRange().slice(0, 16));
      ticks.read.unmap();
      return Number(last - first) / 1e9;
    }

    async function outputs() {
      const found = {};
      for (const [name, { buffer, dtype, each }] of Object.entries(recorded.outputs)) {
        const contents = each ? taken.get(buffer) : [await read(buffer, recorded.buffers[buffer].bytes)];
        found[name] = new VIEWS[dtype](await new Blob(contents).arrayBuffer());
      }
      return found;
    }

    return { step, role, recorded, wgsl: await fingerprint(recorded.texts), reset, run, outputs, runs: 1, samples: [], rounds: [],
      status: "ok", reason: "", error: 0 };
  }

  // Runs a variant once from a set of inputs, and refuses it if an error is larger than its tolerance.
  async function verify(gpu, variant, checker, sets, set, isFirst = false) {
    variant.reset(sets[set]);
    await guarded(gpu, variant.step.variant, () => variant.run(1, variant.recorded.order, isFirst));
    const ratios = await checker.ask({ set, outputs: await variant.outputs(), allowed: variant.recorded.allowed });
    for (const [name, ratio] of Object.entries(ratios)) {
      variant.error = Math.max(variant.error, ratio);
      if (ratio <= 1) continue;
      const times = ratio < Infinity ? `${ratio.toPrecision(3)} times its tolerance` : "beyond any tolerance";
      Object.assign(variant, { status: "failed", reason: `wrong: ${name} is ${times}` });
      throw new Told(`${variant.step.variant} is ${variant.reason}. It has no time.`);
    }
  }

  // Finds how many runs make a sample long enough for the browser's clock; the runs before the last are the warm-up.
  async function calibrate(variant) {
    while (await sample(variant) < SAMPLE_S && variant.runs < MOST_RUNS) variant.runs *= 2;
  }
  const sample = ({ run, runs, recorded }) => run(runs, recorded.timed);

  function shuffled(values) {
    const drawn = values.map((value) => [crypto.getRandomValues(new Uint32Array(1))[0], value]);
    return drawn.sort(([a], [b]) => a - b).map(([, value]) => value);
  }

  // Verifies and times steps, and an A/A control: `twice` once more. progress: called with words and a share of the work. A refused
  // step ends the run, unless it is one of a ladder.
  async function measure(chosen, twice, caseName, progress, isStopped, isLadder = false) {
    const recordedOf = ({ cases }) => cases.find((recorded) => recorded.case === caseName);
    const all = chosen.map(recordedOf), recorded = recordedOf(twice), needs = {}, refused = [];
    for (const [name, need] of all.flatMap((of) => Object.entries(of.needs))) needs[name] = Math.max(need, needs[name] ?? 0);
    const gpu = await openDevice(needs, featuresOf(all.flatMap(({ texts }) => texts)));
    const seed = crypto.getRandomValues(new Uint32Array(1))[0] >>> 1, started = new Date(), checker = startWorker(twice.code);
    const lacking = chosen.map((step, index) => lackOf(gpu, step, all[index]));
    let variants = [];
    const goOn = () => { if (isStopped()) throw new Told("Stopped."); };
    const told = (error) => {
      if (!isLadder || !(error instanceof Told) || error.isOfDevice) throw error;
      refused.push(error.message);
    };
    try {
      if (isLadder ? lacking.every(Boolean) : lacking[0]) throw new Told(lacking[0]);
      refused.push(...lacking.filter(Boolean));
      chosen = chosen.filter((_, index) => !lacking[index]);
      if (!chosen.includes(twice)) [twice] = chosen;
      progress("Drawing the operands", 0);
      const wanted = all.flatMap(({ buffers }) => buffers.flatMap(({ array }) => array ?? []));
      const sets = await checker.ask({ params: recorded.params, drawn: [twice.ranges, recorded.inputs, seed], wanted });
      for (const [step, role] of [...chosen.map((step) => [step, step.role]), [twice, "again"]]) {
        goOn();
        progress(`Checking ${step.variant}`, 0);
        try {
          const variant = await prepared(gpu, step, recordedOf(step), role);
          await verify(gpu, variant, checker, sets, "unusual", true);
          variant.reset(sets.timed);
          await variant.run(1);
          variants.push(variant);
        } catch (error) { told(error); }
      }
      if (!variants.length) throw new Told(refused[0]);
      for (const variant of variants) {
        goOn();
        progress(`Warming up ${variant.step.variant}`, 0);
        await calibrate(variant);
      }
      let spent = 0, order = [];
      for (let round = 0; round < MOST_ROUNDS && (round < LEAST_ROUNDS || spent < BUDGET_S); round++) {
        order = round % 2 ? order.reverse() : shuffled(variants); // drawn in one round, mirrored in the next
        const seconds = [];
        for (const variant of order) seconds.push(await sample(variant));
        if (isStopped()) break;
        order.forEach((variant, index) => { variant.samples.push(seconds[index]); variant.rounds.push(round); });
        spent += seconds.reduce((sum, second) => sum + second, 0);
        progress(`Round ${round + 1}`, Math.max((round + 1) / MOST_ROUNDS, Math.min((round + 1) / LEAST_ROUNDS, spent / BUDGET_S)));
      }
      if (variants[0].samples.length < 3) throw new Told("Stopped.");
      for (const variant of variants) {
        progress(`Checking ${variant.step.variant} again`, 1);
        try { await verify(gpu, variant, checker, sets, "timed"); } catch (error) { told(error); }
      }
      variants = variants.filter(({ status }) => status === "ok");
      if (!variants.length) throw new Told(refused[0]);
      if (variants.some(({ samples }) => samples.some((sample) => !(sample > 0)))) {
        throw new Told("The browser's clock is too coarse: a sample took no time.");
      }
      return { gpu, variants, refused, seed, started };
    } catch (error) {
      if (error instanceof RangeError) throw new Told(NO_MEMORY);
      if (!(error instanceof Told)) await gpu.alive(new Promise((resolve) => { setTimeout(resolve, 100); })); // is the device lost?
      throw error;
    } finally {
      checker.end();
      gpu.device.destroy();
    }
  }

  // -- results ---------------------------------------------------------------------------------------------------------------
  const perUnit = ({ samples, runs, recorded }) => samples.map((sample) => sample / runs / recorded.params.units);
  const digits = (value) => Math.min(6, Math.max(0, 2 - Math.floor(Math.log10(value))));

  // 1.80 [1.72, 1.91]; with more digits if these would hide on which side of 1, or of a difference that counts, an end lies.
  function interval({ estimate, low, high }, limits = []) {
    const hides = (value, places) => limits.some((limit) => {
      const rounded = Number(value.toFixed(places));
      return value !== limit && (rounded === limit || (rounded > limit) !== (value > limit));
    });
    let places = digits(estimate);
    while (places < 5 && [low, high].some((end) => hides(end, places))) places += 1;
    return `${estimate.toFixed(places)} [${low.toFixed(places)}, ${high.toFixed(places)}]`;
  }
  const factor = (ratio) => interval(ratio, [1, LEAST, 1 / LEAST]);

  function time(variant) {
    const median = medianCi(perUnit(variant)), [unit, scale] = [["s", 1], ["ms", 1e-3], ["µs", 1e-6], ["ns", 1e-9]]
      .find(([, seconds]) => median.estimate >= seconds) ?? ["ns", 1e-9];
    return `${interval({ estimate: median.estimate / scale, low: median.low / scale, high: median.high / scale })} ${unit}`;
  }

  // The sentences of a result: one for each step, what was refused, the noise, and how it was measured.
  function* sentences({ variants, refused, gpu }) {
    const ratio = (a, b) => pairedRatio(perUnit(a), perUnit(b)), control = variants.find(({ role }) => role === "again");
    const timed = variants.filter(({ role }) => role !== "again"), named = (name) => timed.find(({ step }) => step.variant === name);
    for (const variant of timed) {
      const { variant: name, unit, against, parent: ownParent } = variant.step, parentName = against ?? ownParent, parent = named(parentName);
      const over = parent && ratio(parent, variant);
      yield `${name}: ${time(variant)} a ${unit}, verified` +
        (parent ? `; in one run on this device ${factor(over)} times as fast as ${parentName}: ${relation(over)}.` : ".");
    }
    yield* refused;
    const same = control && named(control.step.variant);
    if (same) {
      const noise = ratio(control, same), differs = ["faster", "slower"].includes(relation(noise));
      yield `${control.step.variant}, measured twice: ${factor(noise)}. The two are the same, so ` +
        (differs ? "something disturbed this run: do not rely on it." : "this is the noise.");
    }
    yield `${variants[0].samples.length} rounds on ${model(gpu)}, timed by ${gpu.hasTimestamps ? "timestamps of the device" : "the clock of the browser"}, with warm caches.`;
  }

  // The model of the GPU, as far as the browser tells it.
  function model({ adapter: { info: { vendor, architecture, device, description } } }) {
    return description || device || `${vendor} ${architecture}`.trim() || "a GPU of an unknown model";
  }

  // Rows with the fields of the book's store.
  function rows({ variants, gpu, seed, started }) {
    const { vendor, architecture, device, description, isFallbackAdapter } = gpu.adapter.info, name = model(gpu);
    return variants.map(({ step, role, recorded, wgsl, samples, rounds, runs, status, reason, error }) => ({
      run: started.toISOString(), started: started.toISOString(), lab: step.lab, variant: step.variant, case: recorded.case,
      parent: step.parent, role, dtype: step.dtype, device: name.toLowerCase().replace(/[^a-z0-9]+/g, "-"), device_name: name,
      device_kind: isFallbackAdapter ? "cpu" : "gpu", backend: "webgpu", timed: "kernels", unit: step.unit, units: runs * recorded.params.units,
      source_sha256: step.source_sha256, samples_s: samples, rounds, status, reason, error, bound: 1,
      extra: { seed, runs, cache: "warm", wgsl_sha256: wgsl, changed_text: step.text, timer: gpu.hasTimestamps ? "timestamps of the device" : "the browser's clock" },
      provenance: { browser: navigator.userAgent, vendor, architecture, device, description, page: document.title },
    }));
  }

  // Keeps the rows of a run in this browser; the oldest runs give way. Rows of a changed kernel are of no step, and not kept.
  function keep(measured) {
    const key = `roofbook-runs-${measured.variants[0].step.lab}`;
    if (measured.variants.some(({ step }) => step.text !== undefined)) return false;
    try {
      let runs = [...JSON.parse(localStorage.getItem(key) ?? "[]"), rows(measured)].slice(-MOST_KEPT);
      while (runs.length > 1 && JSON.stringify(runs).length > MOST_LETTERS) runs = runs.slice(1);
      localStorage.setItem(key, JSON.stringify(runs));
    } catch { return false; } // it stores nothing, or is full
    document.dispatchEvent(new CustomEvent("roofbook-runs"));
    return true;
  }

  // Where a kept run is drawn: in this page, if it has the switch of devices, or in the lab's story.
  function drawn(lab) {
    const select = document.querySelector(".device-bar select[name=against]");
    if (!select) return element("a", { href: `${window.roofbookRuns.storyOf(lab)}?against=${OWN}`, textContent: "Show it in the recorded ladder" });
    const button = element("button", { type: "button", textContent: "Show it in the ladder of this page" });
    button.addEventListener("click", () => {
      select.value = OWN;
      select.dispatchEvent(new Event("change"));
    });
    return button;
  }

  // -- the page --------------------------------------------------------------------------------------------------------------
  const element = (tag, fields = {}, ...children) => {
    const made = Object.assign(document.createElement(tag), fields);
    made.append(...children);
    return made;
  };

  function load(name) {
    if (steps.has(name)) return Promise.resolve(steps.get(name));
    return new Promise((resolve, reject) => {
      waiting.set(name, resolve);
      document.head.append(element("script", { src: window.roofbookRuns.addressOf(name), onerror: () => reject(new Told(`The script of ${name} could not be loaded.`)) }));
    });
  }

  // Kernels to write, by exercise: the text with a hole by case. Called by an exercise's script.
  const holed = new Map();
  function takeHoled(name, texts) {
    holed.set(name, texts);
  }

  async function loadHoled({ holed: name, script }) {
    if (!name || holed.has(name)) return holed.get(name);
    await new Promise((resolve, reject) => {
      const onerror = () => reject(new Told(`The kernel of ${name} could not be loaded.`));
      document.head.append(element("script", { src: window.roofbookRuns.addressOfScript(script), onload: resolve, onerror }));
    });
    return holed.get(name);
  }

  // Called by a step's script.
  function take(step) {
    steps.set(step.variant, step);
    waiting.get(step.variant)?.(step);
  }

  const running = { now: false }; // one run at a time: two would disturb each other

  async function open(root, button) {
    const status = element("p", { className: "run-status", textContent: "Loading…" });
    status.setAttribute("role", "status");
    root.append(status);
    try {
      const step = await load(root.dataset.kernel), { against } = root.dataset;
      const shown = against ? { ...step, against } : step, other = against ?? step.parent;
      build(root, button, status, shown, window.roofbookRuns.addressOf(other) ? await load(other) : null, await loadHoled(root.dataset));
    } catch (error) {
      status.textContent = error.message;
    }
  }

  // The kernel that a reader may change.
  const original = ({ cases }, size) => {
    const { texts, own } = cases.find(({ case: name }) => name === size);
    return texts[own];
  };

  // A step with the reader's text in place of the book's. It is compared with the step as it was.
  function changed(step, size, text) {
    const recorded = step.cases.find(({ case: name }) => name === size), texts = recorded.texts.with(recorded.own, text);
    return { ...step, variant: `${step.variant}, changed`, parent: step.variant, source_sha256: null, cases: [{ ...recorded, texts }], text };
  }

  function selectLine(text, line) {
    const lines = text.value.split("\n"), start = lines.slice(0, line - 1).reduce((sum, before) => sum + before.length + 1, 0);
    text.focus();
    text.setSelectionRange(start, start + (lines[line - 1] ?? "").length);
  }

  // The parts of a run that the page shows: a stop button, progress, status and result. `begin` returns what `measure` is called with.
  function controls(root, button, status, begin, failed = () => {}) {
    const stop = element("button", { type: "button", textContent: "Stop", hidden: true });
    const bar = element("progress", { max: 1, hidden: true }), result = element("ul", { className: "run-result" });
    bar.setAttribute("aria-label", "Progress of the run");
    let isStopped = false;
    stop.addEventListener("click", () => { isStopped = true; });
    root.append(result);

    async function run() {
      if (running.now) {
        status.textContent = "Another run is at work on this page: wait for it, or stop it.";
        return;
      }
      running.now = button.disabled = true;
      isStopped = stop.hidden = bar.hidden = false;
      result.replaceChildren();
      const progress = (words, share) => { status.textContent = `${words}…`; bar.value = share; };
      progress("Looking for a GPU", 0);
      try {
        const [chosen, twice, size, isLadder] = begin();
        const measured = await measure(chosen, twice, size, progress, () => isStopped, isLadder);
        status.textContent = isStopped ? "Stopped; these are the rounds until then." : "Done.";
        result.append(...[...sentences(measured)].map((text) => element("li", { textContent: text })), element("li", {}, download(measured)));
        if (keep(measured)) result.append(element("li", {}, "Kept in this browser. ", drawn(measured.variants[0].step.lab), "."));
      } catch (error) {
        status.textContent = (error instanceof Told ? error : new Told(`The run failed: ${error.message}`)).message;
        failed(error);
      } finally {
        running.now = button.disabled = false;
        stop.hidden = bar.hidden = true;
      }
    }

    button.addEventListener("click", run);
    return { run, stop, bar };
  }

  function chooser(cases) {
    return element("select", {}, ...cases.map((name) => element("option", { value: name, textContent: name })));
  }

  // All steps of the page; the one that most others are compared with is measured twice.
  async function openLadder(root, button) {
    const status = element("p", { className: "run-status", textContent: "Loading…" });
    status.setAttribute("role", "status");
    const part = element("div", {}, status);
    root.after(part);
    try {
      const all = await Promise.all(window.roofbookRuns.names.map(load));
      const sizes = chooser([...new Set(all.flatMap(({ cases }) => cases.map(({ case: name }) => name)))]);
      const { run, stop, bar } = controls(part, button, status, () => {
        const chosen = all.filter(({ cases }) => cases.some(({ case: name }) => name === sizes.value));
        const compared = ({ variant }) => chosen.filter(({ parent }) => parent === variant).length;
        const twice = chosen.reduce((most, step) => (compared(step) > compared(most) ? step : most));
        return [chosen, twice, sizes.value, true];
      });
      button.replaceWith(element("label", {}, "Size ", sizes), button, stop, bar);
      run();
    } catch (error) {
      status.textContent = error.message;
    }
  }

  // toWrite: the texts with a hole by case, for a step that a reader is to write.
  function build(root, button, status, step, parent, toWrite) {
    const both = step.cases.filter(({ case: name }) =>
      (!parent || parent.cases.some((recorded) => recorded.case === name)) && (!toWrite || toWrite[name]));
    const sizes = chooser(both.map(({ case: name }) => name));
    const text = element("textarea", { hidden: true, rows: 24, spellcheck: false, wrap: "off" });
    const change = element("button", { type: "button", textContent: "Change the kernel" });
    text.setAttribute("aria-label", `Kernel of ${step.variant} in WGSL`);
    Object.assign(text.style, { width: "100%", fontFamily: "monospace", fontSize: "0.8rem" });
    const fill = () => { text.value = toWrite?.[sizes.value] ?? original(step, sizes.value); };
    change.addEventListener("click", () => {
      text.hidden = !text.hidden;
      change.textContent = text.hidden ? "Change the kernel" : "Take the book's kernel";
      fill();
      text.focus();
    });
    sizes.addEventListener("change", fill); // sizes are constants of the text
    const isChanged = () => !text.hidden && text.value !== original(step, sizes.value);
    const { run, stop, bar } = controls(root, button, status, () => {
      if (isChanged()) return [[changed(step, sizes.value, text.value), step], step, sizes.value];
      return [parent ? [step, parent] : [step], parent ?? step, sizes.value];
    }, ({ line }) => { if (line && isChanged()) selectLine(text, line); });
    button.replaceWith(element("label", {}, "Size ", sizes), button, ...(toWrite || step.against ? [] : [change]), stop, bar);
    status.before(text);
    if (!toWrite) return run();
    fill();
    text.hidden = false;
    button.textContent = "Run it on this device";
    button.removeAttribute("aria-label");
    status.textContent = "Fill the hole, then run the kernel: it is compiled, checked, and timed beside the book's.";
    text.focus();
    return null;
  }

  function download(measured) {
    const text = JSON.stringify(rows(measured), null, 1), [{ step, recorded }] = measured.variants;
    return element("a", { textContent: "The rows, with all samples (JSON)", download: `${step.lab}-${step.variant}-${recorded.case}.json`,
      href: URL.createObjectURL(new Blob([text], { type: "application/json" })) });
  }

  return { take, takeHoled, open, openLadder, draw, medianCi, pairedRatio, relation };
})();
