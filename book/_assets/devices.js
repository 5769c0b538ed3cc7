/* The page that compares devices: draws the cases, variants and devices that the reader picks. A script loads the data after the
   rest of the page. The reader's picks are in the address, so that they can be linked:
   #lab=lbm&case=published/128x128&variants=fused,soa&devices=...&axis=linear */
window.roofbookDevices = ({ bands: [least, equal], places, labs }) => {
  const form = document.getElementById("devices-pick");
  const { lab: labs_, case: cases_, log, find } = form.elements;
  const list = (name) => form.querySelector(`[data-list=${name}]`);
  const chart = form.querySelector(".pick-chart"), caption = form.querySelector("figcaption");
  const table = form.querySelector(".table-scroll"), legend = form.querySelector(".pick-legend");
  let picked = {};

  function make(tag, attributes = {}, ...children) {
    const element = document.createElement(tag);
    for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
    element.append(...children);
    return element;
  }

  /* Read the picks from the address. For a missing or an unknown name the default is taken: null for a list. */
  function read() {
    const parameters = new URLSearchParams(location.hash.slice(1));
    const lab = labs.find(({ name }) => name === parameters.get("lab")) ?? labs[0];
    const labCase = lab.cases.find(({ id }) => id === parameters.get("case")) ?? lab.cases[0];
    const names = (key) => parameters.has(key) ? parameters.get(key).split(",").filter(Boolean) : null;
    const isLog = parameters.get("axis") !== "linear";
    picked = { lab, case: labCase, variants: names("variants"), devices: names("devices"), log: isLog };
  }

  function write() {
    const parameters = new URLSearchParams({ lab: picked.lab.name, case: picked.case.id });
    for (const key of ["variants", "devices"]) if (picked[key]) parameters.set(key, picked[key].join(","));
    if (!picked.log) parameters.set("axis", "linear");
    history.replaceState(null, "", `#${parameters.toString().replaceAll("%2F", "/").replaceAll("%2C", ",")}`);
  }

  /* A place, that is a device and its backend, or a publication, is known by its index in `places`. */
  const isPublished = (place) => places[place][0].startsWith("published/");
  /* Return how a time compares with that of the reference, which is the first chosen device: its bar has that colour. */
  function effect([, , , , low, high], reference) {
    const [, , , , otherLow, otherHigh] = reference ?? [];
    if (!low || !otherLow) return "same";
    return otherLow / high > least ? "faster" : otherHigh / low < 1 / least ? "slower" : "same";
  }
  const variants = () => Object.keys(picked.case.cells);
  const presentPlaces = () =>
    places.map((_, place) => place).filter((place) => variants().some((name) => place in picked.case.cells[name]));
  const chosenVariants = () => variants().filter((name) => (picked.variants ?? picked.case.start).includes(name));
  const chosenPlaces = () =>
    presentPlaces().filter((place) => !picked.devices || picked.devices.includes(places[place][0]));

  function fill() {
    const options = (choices, key) => choices.map((choice) => make("option", { value: choice[key] }, choice.title ?? choice.name));
    labs_.replaceChildren(...options(labs, "name"));
    cases_.replaceChildren(...options(picked.lab.cases, "id"));
    [labs_.value, cases_.value, log.checked] = [picked.lab.name, picked.case.id, picked.log];
    const box = (value, text, isChecked) => {
      const input = make("input", { type: "checkbox", value });
      input.checked = isChecked;
      return make("label", {}, input, text);
    };
    list("devices").replaceChildren(
      ...presentPlaces().map((place) => box(places[place][0], places[place][1], chosenPlaces().includes(place))));
    list("variants").replaceChildren(...variants().map((name) => box(name, name, chosenVariants().includes(name))));
    search();
  }

  function search() {
    for (const label of list("variants").children) label.hidden = !label.textContent.includes(find.value.trim().toLowerCase());
  }

  const unbroken = (text) => text.replace(/\[([^\],]*), ([^\],]*)\]/g, "[$1,\u00a0$2]");  // an interval stays in one line
  const percent = (share) => `${(100 * Math.min(1, Math.max(0, share))).toFixed(2)}%`;

  /* Return an axis for these times, from 0 or from the power of ten below the shortest: its ticks, and a function `at` that gives
     the position of a time from 0 to 1. */
  function axis(times) {
    const top = Math.max(...times);
    if (picked.log) {
      const first = Math.floor(Math.log10(Math.min(...times)) - 0.05), last = Math.max(Math.ceil(Math.log10(top)), first + 1);
      const step = Math.ceil((last - first) / 4);
      const ticks = Array.from({ length: Math.floor((last - first) / step) + 1 }, (_, i) => 10 ** (first + i * step));
      return { at: (time) => (Math.log10(time) - first) / (last - first), ticks };
    }
    const size = 10 ** Math.floor(Math.log10(top)), step = size * [0.5, 1, 2, 5].find((factor) => top / size / factor <= 4);
    const ticks = Array.from({ length: Math.ceil(top / step) + 1 }, (_, i) => i * step);
    return { at: (time) => time / ticks.at(-1), ticks };
  }

  /* Return the places of a variant that get a bar. A time of a host is listed at each device of this host, but drawn only once:
     at the place of the host itself, if it is there. */
  function placesWithBar(times, candidates) {
    const isEqual = (one, other) => [1, 2, 3].every((part) => times[one][part] === times[other][part]);
    return candidates.filter((place, rank) => !times[place][6]
      || !candidates.some((other, before) => other !== place && isEqual(place, other) && (!times[other][6] || before < rank)));
  }

  function bar({ at, ticks }, place, times, reference) {
    const [text, time, low, high, , , host] = times;
    const lines = ticks.map((tick) => make("i", { style: `left: ${percent(at(tick))}` }));
    const track = make("span", { class: "pick-track" }, ...lines);
    track.append(make("b", { class: `${host ? "same pick-host" : effect(times, reference)}${isPublished(place) ? " published" : ""}`, style: `width: ${percent(at(time))}` }));
    if (low !== undefined)
      track.append(make("u", { style: `left: ${percent(at(low))}; width: ${percent(at(high) - Math.max(0, at(low)))}` }));
    return make("div", { class: "pick-bar" }, make("span", {}, host ?? places[place][1]), track, make("span", {}, text));
  }

  function draw() {
    const { cells, cards, unit, ratios, pairs } = picked.case, rows = chosenVariants(), columns = chosenPlaces();
    const bars = rows.map((name) => [name, placesWithBar(cells[name], columns.filter((place) => cells[name][place]?.length > 1))]);
    const times = bars.flatMap(([name, barPlaces]) => barPlaces.flatMap((place) => cells[name][place].slice(1, 4)));
    caption.textContent = times.length
      ? `${picked.lab.title}, ${picked.case.name}: time in ${unit}, ${picked.log ? "logarithmic" : "linear"}; shorter is faster`
      : "No times to draw: choose at least one device and one variant that was measured there.";
    const reference = columns.find((place) => !isPublished(place));
    const key = (word, text) => [make("i", { class: `outcome-key ${word}`, "aria-hidden": true }), text];
    legend.replaceChildren(...(reference === undefined ? [] : [...key("faster", `faster than on ${places[reference][1]}`), ...key("slower", "slower"),
      ...key("same", "that device itself, the same, undecided, or without an interval (hollow: published)")]));
    chart.replaceChildren();
    if (times.length) {
      const scale = axis(times);
      const tickText = (tick) => tick >= 1e7 ? tick.toExponential(0)
        : String(+tick.toPrecision(3)).replace(/\B(?=(\d{3})+$)/g, tick >= 1e4 ? "\u202f" : "");
      const labels = scale.ticks.map((tick) => make("i", { style: `left: ${percent(scale.at(tick))}` }, tickText(tick)));
      const isPeer = (name) => picked.lab.peers.includes(name);
      chart.append(...bars.map(([name, barPlaces]) => make("div", { class: "pick-group" },
        make("strong", isPeer(name) ? { class: "peer" } : {}, name, isPeer(name) ? " (peer)" : ""),
        ...barPlaces.map((place) => bar(scale, place, cells[name][place], cells[name][reference])))));
      const track = make("span", { class: "pick-track" }, ...labels);
      chart.append(make("div", { class: "pick-bar pick-axis" }, make("span"), track, make("span")));
    }
    const shownPairs = Object.keys(pairs).filter((pair) => pair.split("/").every((place) => columns.includes(+place)));
    const devices = columns.filter((place) => !isPublished(place)), publications = columns.filter(isPublished);
    const names = (columnPlaces) => columnPlaces.map((place) => places[place][1]);
    const time = (name, place) => {
      const [display, ...seconds] = cells[name][place] ?? ["–"], text = unbroken(display), [page, ids] = cards[place] ?? [];
      return page && seconds.length ? make("a", { class: "of", href: `${page}#${ids[name]}` }, text) : text;
    };
    const cell = (name, place) => make("td", { class: "num" }, time(name, place));
    const ratioCell = (ratio) => ratio
      ? make("td", { class: `num verdict ${ratio[0]}` }, `${ratio[0]} `, make("small", {}, unbroken(ratio[1])))
      : make("td", { class: "num" }, "–");
    const line = (name) => make("tr", {}, make("th", { scope: "row" }, name),
      ...devices.map((place) => cell(name, place)), ...shownPairs.map((pair) => ratioCell(ratios[name]?.[pair])),
      ...publications.map((place) => cell(name, place)));
    const heads = ["Variant", ...names(devices), ...shownPairs.map((pair) => pairs[pair]), ...names(publications)];
    const head = heads.map((text, column) => make("th", { scope: "col", class: column ? "num" : "" }, text));
    const lines = rows.map(line);
    for (const row of lines) [...row.children].forEach((td, column) => {  // on a phone a row is a list of its filled cells
      if (column) td.setAttribute("data-head", `${heads[column]}: `);
      td.classList.toggle("empty", td.textContent === "–");
    });
    table.replaceChildren(make("table", { class: "roofbook comparison stack" }, make("caption", {}, `Time in ${unit}`),
      make("thead", {}, make("tr", {}, ...head)), make("tbody", {}, ...lines)));
  }

  form.addEventListener("submit", (event) => event.preventDefault());
  find.addEventListener("input", search);
  form.addEventListener("change", ({ target }) => {
    const checked = (name) => [...list(name).querySelectorAll("input:checked")].map((input) => input.value);
    if (target === find) return;
    if (target === labs_) Object.assign(picked, { lab: labs.find(({ name }) => name === target.value), variants: null });
    if (target === labs_ || target === cases_)
      picked.case = picked.lab.cases.find(({ id }) => id === target.value) ?? picked.lab.cases[0];
    if (target === log) picked.log = log.checked;
    for (const name of ["devices", "variants"]) if (list(name).contains(target)) picked[name] = checked(name);
    if (target === labs_ || target === cases_) fill();
    write();
    draw();
  });
  for (const [name, isChecked] of [["all", true], ["none", false]])
    form.elements[name].addEventListener("click", () => {
      const boxes = [...list("variants").children].filter((label) => !label.hidden).map((label) => label.firstChild);
      for (const input of boxes) input.checked = isChecked;
      boxes[0]?.dispatchEvent(new Event("change", { bubbles: true }));
    });
  const restore = () => { read(); fill(); draw(); };
  addEventListener("hashchange", () => location.hash.startsWith("#lab=") && restore());
  restore();
  form.previousElementSibling.hidden = true;
  form.hidden = false;
};
addEventListener("load", () => {
  document.head.append(Object.assign(document.createElement("script"), { src: "_static/devices-data.js" }));
});
