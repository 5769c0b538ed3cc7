/* The reader's own runs, which run-here.js keeps in this browser, drawn into the recorded ladder. against.js loads this file when a
   reader chooses them as the other device. Most are of smaller sizes than the recorded ones, so factors between steps are drawn, each
   from one run. What is stored may be anything: each row is looked at, and shown as text. */
window.roofbookOwnRuns = (() => {
  "use strict";
  const { medianCi, pairedRatio, relation } = window.roofbookRunHere, MARK = "measured in your browser, one run";
  const keyOf = (lab) => `roofbook-runs-${lab}`;

  const isTime = (value) => Number.isFinite(value) && value > 0;
  const isRow = (row) => row && ["lab", "variant", "case", "device_name"].every((name) => typeof row[name] === "string") &&
    row.status === "ok" && isTime(row.units) && Array.isArray(row.samples_s) && row.samples_s.length > 2 && row.samples_s.every(isTime);

  // The runs of a lab, oldest first, each a list of rows.
  function stored(lab) {
    try {
      const runs = JSON.parse(localStorage.getItem(keyOf(lab)));
      return runs.map((rows) => rows.filter((row) => isRow(row) && row.lab === lab)).filter((rows) => rows.length);
    } catch { return []; }
  }

  const perUnit = ({ samples_s, units }) => samples_s.map((sample) => sample / units);

  // By case: the newest time of each step, and its ratio to its parent, if that run has the parent.
  function readings(runs) {
    const byCase = new Map();
    for (const rows of runs) {
      const steps = new Map(rows.filter(({ role }) => role === "step").map((row) => [row.variant, row]));
      for (const row of steps.values()) {
        if (!byCase.has(row.case)) byCase.set(row.case, new Map());
        const parent = steps.get(row.parent), isPaired = parent?.case === row.case && parent.samples_s.length === row.samples_s.length;
        byCase.get(row.case).set(row.variant, { row, parent: isPaired ? row.parent : null, time: medianCi(perUnit(row)),
          parentTime: isPaired && medianCi(perUnit(parent)), ratio: isPaired ? pairedRatio(perUnit(parent), perUnit(row)) : null });
      }
    }
    return byCase;
  }

  // The ratio as against.js words it.
  const worded = (ratio) => ({ word: relation(ratio), estimate: ratio.estimate, ends: [ratio.low, ratio.high] });

  function markStep(step, name, { row, parent, time, parentTime, ratio }, { make, inWords, duration }) {
    const list = step.querySelector("ul.effect");
    if (!list) return;
    const line = make("li", { class: `against verdict ${ratio ? relation(ratio) : ""}` });
    if (ratio && ratio.low > 0) {
      const longest = Math.max(time.estimate, parentTime.estimate), at = (seconds) => `${(100 * Math.min(1, seconds / longest)).toFixed(2)}%`;
      const ends = [ratio.high, ratio.low].map((end) => at(parentTime.estimate / end));
      line.append(make("div", { class: "step-bars", "aria-hidden": true }, make("i", {}, parent), make("b", { style: `--at:${at(parentTime.estimate)}` }),
        make("i", {}, name), make("b", { class: "own", style: `--at:${at(time.estimate)};--low:${ends[0]};--high:${ends[1]}` })));
    }
    if (ratio) {
      const [words, ends] = inWords(worded(ratio));
      line.append(make("strong", {}, words[0].toUpperCase() + words.slice(1)), ` ${ends}, ${duration(parentTime.estimate)} → ${duration(time.estimate)} `);
    } else line.append(`${duration(time.estimate)} `);
    line.append(make("span", { class: "on-case" }, `on this device, ${row.case}, ${MARK}`));
    list.append(line);
  }

  function markLadder(table, steps, size, { make, factor, duration }) {
    const head = make("th", { scope: "col", class: "num against" }, "this device ", make("small", {}, `${size}, ${MARK}`));
    for (const row of table.tHead.rows) row.append(head);
    for (const row of table.tBodies[0].rows) {
      const reading = steps.get(row.dataset.variant), cell = make("td", { class: "num against", "data-head": "this device: " });
      if (reading && !row.classList.contains("control")) {
        const { ratio, time, parent } = reading;
        cell.append(duration(time.estimate));
        if (ratio) {
          const { word, estimate, ends } = worded(ratio), [text, ...interval] = factor(estimate, ...ends);
          cell.classList.add("verdict", word);
          cell.append(make("small", {}, ` ${["same", "undecided"].includes(word) ? word : text} [${interval.join(", ")}] vs ${parent}`));
        }
      } else {
        cell.classList.add("empty");
        cell.append("–");
      }
      row.append(cell);
    }
  }

  // Crosses at the steps of the opening figure. The first step that both have lies on its recorded point, so distances are factors.
  function markOpening(figure, steps, size, recorded, { make }) {
    const points = [...figure.querySelectorAll("a[data-step]")].map((point) => ({
      item: point.parentElement, step: point.dataset.step, down: parseFloat(point.parentElement.style.top),
      recorded: recorded[point.dataset.step]?.[0], own: steps.get(point.dataset.step)?.time.estimate,
    })).filter((point) => point.recorded);
    const byTime = [...points].sort((a, b) => a.recorded - b.recorded), [first, last] = [byTime[0], byTime.at(-1)];
    const anchor = points.find(({ own }) => own);
    if (!anchor || first.recorded === last.recorded) return;
    const slope = (last.down - first.down) / Math.log(last.recorded / first.recorded);
    let outside = 0;
    for (const { item, own } of points.filter((point) => point.own)) {
      const down = anchor.down + slope * Math.log(own / anchor.own);
      if (down < 0 || down > 100) outside += 1;
      else item.after(make("li", { class: "against", "aria-hidden": true, style: `left:${item.style.left};top:${down.toFixed(2)}%` }));
    }
    const beyond = outside ? ` ${outside} of them lie outside the figure.` : "";
    figure.querySelector("figcaption").append(make("span", { class: "against" },
      ` Crosses: this device, ${size}, ${MARK}. ${anchor.step} lies on its recorded point, so the distances are factors.${beyond}`));
  }

  function download(rows, name, make) {
    const address = URL.createObjectURL(new Blob([JSON.stringify(rows, null, 1)], { type: "application/json" }));
    make("a", { href: address, download: name }).click();
    setTimeout(() => URL.revokeObjectURL(address), 1000);
  }

  // What these runs are, and what a reader can do with them.
  function panel(bar, lab, runs, byCase, size, isRecorded, redraw, helpers) {
    const { make } = helpers, rows = runs.flat(), steps = byCase.get(size), { device_name: device } = [...steps.values()].at(-1).row;
    const button = (words, press) => {
      const made = make("button", { type: "button" }, words);
      made.addEventListener("click", press);
      return made;
    };
    const tools = make("p", { class: "run-bar" });
    if (byCase.size > 1) {
      const sizes = make("select", {}, ...[...byCase.keys()].map((name) => make("option", { value: name }, name)));
      sizes.value = size;
      sizes.addEventListener("change", () => redraw(sizes.value));
      tools.append(make("label", {}, "Size of your runs ", sizes));
    }
    tools.append(button("Save them as JSON", () => download(rows, `${lab}-this-device.json`, make)),
      button("Remove them from this browser", () => {
        localStorage.removeItem(keyOf(lab));
        document.dispatchEvent(new CustomEvent("roofbook-runs"));
      }));
    bar.after(make("section", { class: "own-runs", "aria-label": "Your own runs" },
      make("p", { class: "table-note" }, make("strong", {}, device), `, by WebGPU: ${steps.size} ${steps.size === 1 ? "step" : "steps"} of this lab on ${size}, ${MARK}. ` +
        `Runs are kept in this browser alone. Factors between steps compare with those of the page's device: ${isRecorded
          ? "its caches were emptied before each sample, and yours were not." : "its sizes are others."}`), tools));
  }

  function clear() {
    document.querySelector(".own-runs")?.remove();
  }

  let chosen;
  /** Draws the runs of the page's lab; recorded: its recorded times by case and variant. Returns whether there is one. */
  function draw(bar, recorded, helpers) {
    clear();
    const { lab } = bar.dataset, runs = stored(lab), byCase = readings(runs);
    if (!byCase.size) return false;
    const most = [...byCase.keys()].reduce((best, name) => (byCase.get(name).size >= byCase.get(best).size ? name : best));
    const size = byCase.has(chosen) ? chosen : most, steps = byCase.get(size);
    panel(bar, lab, runs, byCase, size, size in recorded, (name) => { chosen = name; helpers.redraw(); }, helpers);
    for (const step of document.querySelectorAll(".on-device .step")) {
      const name = step.id.slice("step-".length);
      if (steps.has(name)) markStep(step, name, steps.get(name), helpers);
    }
    for (const table of document.querySelectorAll(".on-device table.ladder:has(tr[data-variant])")) markLadder(table, steps, size, helpers);
    for (const figure of document.querySelectorAll(".on-device figure.opening")) {
      const shown = figure.closest("[data-case]")?.dataset.case ?? Object.keys(recorded)[0];
      markOpening(figure, steps, size, recorded[shown] ?? {}, helpers);
    }
    return true;
  }

  return { draw, clear };
})();
