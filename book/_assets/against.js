// Another device beside the one of a lab's page: at each step of a story, in its opening figure, and in each row of a table of
// steps. The ratios are across runs, by the rule of `unpaired_ratio` in measure/stats.py. The other device is in the address.
// devices-of-page.js loads this script for a reader who asks for another device.
(() => {
  "use strict";
  const bar = document.querySelector(".device-bar"), select = bar.querySelector("select[name=against]");
  const devices = bar.querySelector("select[name=device]"), cases = bar.querySelector("select[name=case]");
  const least = Number(select.dataset.least), equal = Number(select.dataset.equal), KEY = "roofbook-against";  // of this tab
  const OWN = "this-device";  // the reader's own runs, which own-runs.js draws
  let storage = null;
  try { storage = sessionStorage; } catch { /* this browser stores nothing */ }
  const message = bar.querySelector(".against-said"), loads = new Map(), arrivals = new Map();
  const optionOf = (name) => [...devices.options].find(({ value }) => value === name);
  const make = (tag, attributes = {}, ...children) => {
    const element = document.createElement(tag);
    for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
    element.append(...children);
    return element;
  };

  // Load the times of a device once: by case and variant.
  window.roofbookTimes = (name, times) => arrivals.get(`${name}.js`)?.(times);
  function load(script) {
    if (!loads.has(script)) {
      loads.set(script, new Promise((resolve, reject) => {
        arrivals.set(script, resolve);
        const onerror = () => { loads.delete(script); reject(); };
        document.head.append(make("script", { src: `${bar.dataset.scripts}../times/${script}` }));
        document.head.lastChild.onerror = onerror;
      }));
    }
    return loads.get(script);
  }

  // Load the scripts that draw the reader's own runs, in their order, once.
  let ownRuns;
  function loadOwnRuns() {
    const add = (src) => new Promise((resolve, reject) => {
      document.head.append(Object.assign(make("script", { src }), { onload: resolve, onerror: reject }));
    });
    ownRuns ??= (window.roofbookRunHere ? Promise.resolve() : add(bar.dataset.runHere)).then(() => add(bar.dataset.own));
    ownRuns.catch(() => { ownRuns = undefined; });
    return ownRuns;
  }

  function written(value, places) {
    const size = value > 0 ? 10 ** Math.floor(Math.log10(value) - 2) : 1;
    const [whole, part] = (value >= 1000 ? Math.round(value / size) * size : value).toFixed(places).split(".");
    return whole.replace(/\B(?=(\d{3})+$)/g, "\u202f") + (part ? `.${part}` : "");
  }
  const placesOf = (value) => Math.max(0, 2 - Math.floor(Math.log10(value) + 1e-9));
  // As `factor` of analysis/format.py: more digits where three would hide on which side of a limit an end lies.
  function factor(estimate, ...ends) {
    const hides = (value, places) => [1, least, 1 / least].some((limit) => {
      const rounded = Number(value.toFixed(places));
      return value !== limit && (rounded === limit || (rounded > limit) !== (value > limit));
    });
    let places = placesOf(estimate);
    while (places < 5 && ends.some((end) => hides(end, places))) places += 1;
    return [estimate, ...ends].map((value) => written(value, places));
  }
  function duration(seconds) {
    const [unit, size] = [["s", 1], ["ms", 1e-3], ["µs", 1e-6], ["ns", 1e-9]].find(([, size]) => seconds >= size) ?? ["ns", 1e-9];
    return `${written(seconds / size, placesOf(seconds / size))}\u202f${unit}`;
  }

  // Return how many times as fast the page's device is: the word for it, the ratio and its interval.
  function compare([, middle, low, high], [, otherMiddle, otherLow, otherHigh]) {
    if (low === undefined || otherLow === undefined) return null;
    const estimate = Math.exp(otherMiddle - middle), ends = [Math.min(otherLow / high, estimate), Math.max(otherHigh / low, estimate)];
    const word = ends[0] > least ? "faster" : ends[1] < 1 / least ? "slower" : ends[0] >= 1 / equal && ends[1] <= equal ? "same" : "undecided";
    return { word, estimate, ends };
  }

  function inWords(ratio) {
    if (!ratio) return ["too few samples to compare", ""];
    const { word, estimate, ends } = ratio, slow = word === "slower";
    const [text, low, high] = slow ? factor(1 / estimate, 1 / ends[1], 1 / ends[0]) : factor(estimate, ...ends);
    const words = { faster: `${text} times as fast`, slower: `${text} times as slow`, same: "as fast", undecided: "within the noise" }[word];
    return [words, `[${low}, ${high}]`];
  }

  // Add a bar for the other device's time below a step's own, on the same scale, and the ratio in words.
  function markLine(line, name, variant, own, other) {
    const ratio = compare(own, other), [words, ends] = inWords(ratio), bars = line.querySelector(".step-bars");
    if (bars) {
      const at = parseFloat(bars.querySelector(".own").style.getPropertyValue("--at")) * other[0] / own[0];
      bars.style.setProperty("--scale", Math.min(1, 100 / at));
      bars.append(make("i", { class: "against" }, name), make("b", { class: "against other", style: `--at:${at.toFixed(2)}%` }));
    }
    line.append(make("div", { class: `against verdict ${ratio?.word ?? ""}` },
      make("strong", {}, words), ` ${ends} as on ${name}, ${duration(other[0])}`));
  }

  function markFold(line, name, own, other) {
    const ratio = compare(own, other), [words, ends] = inWords(ratio);
    line.append(make("span", { class: `against verdict ${ratio?.word ?? ""}` }, ` · ${words} ${ends} as on ${name}`));
  }

  function markTable(table, name, times) {
    for (const head of table.tHead.rows) head.append(make("th", { scope: "col", class: "num against" }, `vs ${name}`));
    for (const row of table.tBodies[0].rows) {
      const [own, other] = times(row, row.dataset.variant), cell = make("td", { class: "num against", "data-head": `vs ${name}: ` });
      if (own && other) {
        const ratio = compare(own, other), text = ratio ? factor(ratio.estimate, ...ratio.ends) : ["–"];
        const interval = ratio ? `[${text[1]}, ${text[2]}]` : "";
        cell.classList.add("verdict", ratio?.word ?? "undecided");
        cell.append(["same", "undecided"].includes(ratio?.word) ? ratio.word : text[0], " ", make("span", { class: "interval" }, interval),
          make("small", {}, ` (${duration(other[0])} there)`));
      } else {
        cell.classList.toggle("empty", !other);
        cell.append(other ? make("small", {}, `${duration(other[0])} there`) : "–");
      }
      row.append(cell);
    }
  }

  // Draw the other device's times into the opening figure, on the axis that its own points have.
  function markOpening(figure, name, times) {
    const points = [...figure.querySelectorAll("a[data-step]")].map((point) => {
      const [own, other] = times(figure, point.dataset.step);
      return { item: point.parentElement, own: own?.[0], other: other?.[0], down: parseFloat(point.parentElement.style.top) };
    }).filter(({ own }) => own);
    const [first, last] = [(a, b) => a.own - b.own, (a, b) => b.own - a.own].map((order) => [...points].sort(order)[0]);
    if (!first || first.own === last.own) return;
    const slope = (last.down - first.down) / Math.log(last.own / first.own);
    for (const { item, other } of points) {
      const down = other ? first.down + slope * Math.log(other / first.own) : -1;
      if (down >= 0 && down <= 100)
        item.after(make("li", { class: "against", "aria-hidden": true, style: `left:${item.style.left};top:${down.toFixed(2)}%` }));
    }
    figure.querySelector("figcaption").append(make("span", { class: "against" }, ` Crosses: the same steps on ${name}.`));
  }

  let turn = 0;
  async function show() {
    const now = ++turn, [own, other] = [devices.value, select.value].map(optionOf);
    for (const option of select.options)
      option.disabled = option.hidden = option.value === own.value || (!["", OWN].includes(option.value) && option.value.endsWith("/large") !== own.value.endsWith("/large"));
    const isOwn = select.value === OWN;
    let timesOfBoth = [], recorded = {};
    message.classList.remove("as-chosen");
    if (other && other !== own) {
      message.textContent = "Loading…";
      try {
        timesOfBoth = await Promise.all([own, other].map((option) => load(option.dataset.script)));
      } catch {
        if (now === turn) message.textContent = `The times of ${other.text} could not be loaded.`;
        return;
      }
    }
    if (isOwn) {
      try {
        await loadOwnRuns();
      } catch {
        if (now === turn) message.textContent = "The script that draws your own runs could not be loaded.";
        return;
      }
      recorded = await load(own.dataset.script).catch(() => ({}));
    }
    if (now !== turn) return;
    window.roofbookOwnRuns?.clear();
    document.querySelectorAll(".on-device .against").forEach((mark) => mark.remove());
    document.querySelectorAll(".step-bars").forEach((bars) => bars.style.removeProperty("--scale"));
    let count = 0;
    if (timesOfBoth.length) {
      const name = other.text, only = Object.keys(timesOfBoth[0]);
      const times = (part, variant) => {
        const of = part.closest("[data-case]")?.dataset.case ?? (only.length === 1 ? only[0] : cases.value);
        const both = timesOfBoth.map((byCase) => byCase[of]?.[variant]);
        count += both.every(Boolean);
        return both;
      };
      for (const line of document.querySelectorAll(".step .effect > li[data-case]")) {
        const step = line.closest(".step").id.slice(5), [one, two] = times(line, step);
        if (one && two) markLine(line, name, step, one, two);
      }
      for (const line of document.querySelectorAll(".step-fold > summary [data-case]")) {
        const [one, two] = times(line, line.closest("summary").dataset.variant);
        if (one && two) markFold(line, name, one, two);
      }
      for (const table of document.querySelectorAll(".on-device table:has(tr[data-variant])")) markTable(table, name, times);
      for (const figure of document.querySelectorAll("figure.opening")) markOpening(figure, name, times);
      message.classList.toggle("as-chosen", count > 0);
      message.textContent = count ? `Beside each time: ${name}.` : `${name} has no time of what this page shows.`;
    } else if (isOwn) {
      const isDrawn = window.roofbookOwnRuns.draw(bar, recorded, { make, factor, duration, inWords, redraw: show });
      message.textContent = isDrawn ? "Beside the recorded steps: this device, measured in your browser, one run."
        : "This browser keeps no run of this lab that can be read.";
    } else message.textContent = "";
    document.dispatchEvent(new CustomEvent("roofbook-compared"));
  }

  function remember() {
    const address = new URL(location.href);
    if (select.value) address.searchParams.set("against", select.value);
    else address.searchParams.delete("against");
    history.replaceState(history.state, "", address);
    storage?.setItem(KEY, select.value);
  }

  const asked = select.value || new URLSearchParams(location.search).get("against") || storage?.getItem(KEY);
  const wanted = [...select.options].find(({ value }) => value && value === asked);
  if (wanted) select.value = wanted.value;
  if (wanted && wanted.value !== devices.value) remember();
  select.addEventListener("change", () => { remember(); show(); });
  document.addEventListener("roofbook-shown", show);
  document.addEventListener("roofbook-runs", () => { if (select.value === OWN) show(); });
  if (bar.dataset.shown !== undefined) show();
})();
