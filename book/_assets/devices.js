/* The page that compares devices: draws what the reader picks of the data that a script brings, once all else is there. What is
   picked stands in the address, so that it can be linked:
   #lab=lbm&case=published/128x128&variants=fused,soa&devices=...&axis=linear */
window.roofbookDevices = ({ places, labs }) => {
  const form = document.getElementById("devices-pick");
  const { lab: labs_, case: cases_, log, find } = form.elements;
  const list = (name) => form.querySelector(`[data-list=${name}]`);
  const chart = form.querySelector(".pick-chart"), caption = form.querySelector("figcaption");
  const table = form.querySelector(".table-scroll");
  let picked = {};

  function make(tag, given = {}, ...inside) {
    const made = document.createElement(tag);
    for (const [name, value] of Object.entries(given)) made.setAttribute(name, value);
    made.append(...inside);
    return made;
  }

  /* From the address. What it does not say, or says of what there is not, is the default: null for a list. */
  function read() {
    const said = new URLSearchParams(location.hash.slice(1));
    const lab = labs.find((each) => each.name === said.get("lab")) ?? labs[0];
    const known = lab.cases.find((each) => each.id === said.get("case")) ?? lab.cases[0];
    const names = (key) => said.has(key) ? said.get(key).split(",").filter(Boolean) : null;
    picked = { lab, case: known, variants: names("variants"), devices: names("devices"), log: said.get("axis") !== "linear" };
  }

  function write() {
    const said = new URLSearchParams({ lab: picked.lab.name, case: picked.case.id });
    for (const key of ["variants", "devices"]) if (picked[key]) said.set(key, picked[key].join(","));
    if (!picked.log) said.set("axis", "linear");
    history.replaceState(null, "", `#${said.toString().replaceAll("%2F", "/").replaceAll("%2C", ",")}`);
  }

  const published = (at) => places[at][0].startsWith("published/");
  const look = (at) => `place-${present().filter((each) => published(each) === published(at)).indexOf(at) % 7}` +
    (published(at) ? " place-published" : "");
  const variants = () => Object.keys(picked.case.cells);
  const present = () => places.map((_, at) => at).filter((at) => variants().some((name) => at in picked.case.cells[name]));
  const chosenVariants = () => variants().filter((name) => (picked.variants ?? picked.case.start).includes(name));
  const chosenPlaces = () => present().filter((at) => !picked.devices || picked.devices.includes(places[at][0]));

  function fill() {
    const options = (of, key) => of.map((each) => make("option", { value: each[key] }, each.title ?? each.name));
    labs_.replaceChildren(...options(labs, "name"));
    cases_.replaceChildren(...options(picked.lab.cases, "id"));
    [labs_.value, cases_.value, log.checked] = [picked.lab.name, picked.case.id, picked.log];
    const box = (value, text, on, at) => {
      const input = make("input", { type: "checkbox", value });
      input.checked = on;
      return make("label", {}, input, ...(at === undefined ? [] : [make("i", { class: `pick-key ${look(at)}` })]), text);
    };
    list("devices").replaceChildren(
      ...present().map((at) => box(places[at][0], places[at][1], chosenPlaces().includes(at), at)));
    list("variants").replaceChildren(...variants().map((name) => box(name, name, chosenVariants().includes(name))));
    search();
  }

  function search() {
    for (const label of list("variants").children) label.hidden = !label.textContent.includes(find.value.trim().toLowerCase());
  }

  const together = (text) => text.replace(/\[([^\],]*), ([^\],]*)\]/g, "[$1,\u00a0$2]");  // an interval stays in one line
  const percent = (share) => `${(100 * Math.min(1, Math.max(0, share))).toFixed(2)}%`;

  /* The axis: from 0, or from the power of ten below the shortest time; where a time lies on it, from 0 to 1; its ticks. */
  function axis(times) {
    const top = Math.max(...times);
    if (picked.log) {
      const first = Math.floor(Math.log10(Math.min(...times)) - 0.05), last = Math.max(Math.ceil(Math.log10(top)), first + 1);
      const step = Math.ceil((last - first) / 4);
      const ticks = Array.from({ length: Math.floor((last - first) / step) + 1 }, (_, i) => 10 ** (first + i * step));
      return { at: (time) => (Math.log10(time) - first) / (last - first), ticks };
    }
    const size = 10 ** Math.floor(Math.log10(top)), step = size * [0.5, 1, 2, 5].find((each) => top / size / each <= 4);
    const ticks = Array.from({ length: Math.ceil(top / step) + 1 }, (_, i) => i * step);
    return { at: (time) => time / ticks.at(-1), ticks };
  }

  /* Of the places of a variant those that get a bar. A time of the host stands at each place that it is the host of, and is
     drawn once: as the host's own, where that is a place too. */
  function drawn(times, places_) {
    const same = (one, other) => [1, 2, 3].every((part) => times[one][part] === times[other][part]);
    return places_.filter((at, rank) => !times[at][4]
      || !places_.some((other, before) => other !== at && same(at, other) && (!times[other][4] || before < rank)));
  }

  function bar({ at, ticks }, place, [text, time, low, high, host]) {
    const lines = ticks.map((tick) => make("i", { style: `left: ${percent(at(tick))}` }));
    const track = make("span", { class: "pick-track" }, ...lines);
    track.append(make("b", { class: host ? "pick-host" : look(place), style: `width: ${percent(at(time))}` }));
    if (low !== undefined)
      track.append(make("u", { style: `left: ${percent(at(low))}; width: ${percent(at(high) - Math.max(0, at(low)))}` }));
    return make("div", { class: "pick-bar" }, make("span", {}, host ?? places[place][1]), track, make("span", {}, text));
  }

  function draw() {
    const { cells, unit, ratios, pairs } = picked.case, rows = chosenVariants(), columns = chosenPlaces();
    const bars = rows.map((name) => [name, drawn(cells[name], columns.filter((at) => cells[name][at]?.length > 1))]);
    const times = bars.flatMap(([name, own]) => own.flatMap((at) => cells[name][at].slice(1, 4)));
    caption.textContent = times.length
      ? `${picked.lab.title}, ${picked.case.name}: time in ${unit}, ${picked.log ? "logarithmic" : "linear"}; shorter is faster`
      : "No times to draw: choose at least one device and one variant that was measured there.";
    chart.replaceChildren();
    if (times.length) {
      const scale = axis(times);
      const words = (tick) => tick >= 1e7 ? tick.toExponential(0)
        : String(+tick.toPrecision(3)).replace(/\B(?=(\d{3})+$)/g, tick >= 1e4 ? "\u202f" : "");
      const labels = scale.ticks.map((tick) => make("i", { style: `left: ${percent(scale.at(tick))}` }, words(tick)));
      chart.append(...bars.map(([name, own]) =>
        make("div", { class: "pick-group" }, make("strong", {}, name), ...own.map((at) => bar(scale, at, cells[name][at])))));
      const track = make("span", { class: "pick-track" }, ...labels);
      chart.append(make("div", { class: "pick-bar pick-axis" }, make("span"), track, make("span")));
    }
    const held = Object.keys(pairs).filter((pair) => pair.split("/").every((at) => columns.includes(+at)));
    const ours = columns.filter((at) => !published(at)), theirs = columns.filter(published);
    const names = (of) => of.map((at) => places[at][1]);
    const [scale, of] = picked.case.id.split("/");
    const card = (name, at) => `labs/${picked.lab.name}/measurements/${places[at][0].replaceAll("/", ".")}` +
      `${scale === "large" ? ".large" : ""}.html#${`${name}~${of}`.replaceAll(" ", "_")}`;
    const time = (name, at) => {  // of a recorded measurement, whose card it leads to
      const [said, ...timed] = cells[name][at] ?? ["–"], text = together(said);
      return timed.length && scale !== "quick" && !published(at) ? make("a", { class: "of", href: card(name, at) }, text) : text;
    };
    const cell = (name, at) => make("td", { class: "num" }, time(name, at));
    const ratio = (found) => found
      ? make("td", { class: `num verdict ${found[0]}` }, `${found[0]} `, make("small", {}, together(found[1])))
      : make("td", { class: "num" }, "–");
    const line = (name) => make("tr", {}, make("th", { scope: "row" }, name),
      ...ours.map((at) => cell(name, at)), ...held.map((pair) => ratio(ratios[name]?.[pair])),
      ...theirs.map((at) => cell(name, at)));
    const heads = ["Variant", ...names(ours), ...held.map((pair) => pairs[pair]), ...names(theirs)];
    const head = heads.map((text, at) => make("th", { scope: "col", class: at ? "num" : "" }, text));
    const lines = rows.map(line);
    for (const each of lines) [...each.children].forEach((td, at) => {  // on a phone a line is a list of what there is
      if (at) td.setAttribute("data-head", `${heads[at]}: `);
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
    if (target === labs_) Object.assign(picked, { lab: labs.find((each) => each.name === target.value), variants: null });
    if (target === labs_ || target === cases_)
      picked.case = picked.lab.cases.find((each) => each.id === target.value) ?? picked.lab.cases[0];
    if (target === log) picked.log = log.checked;
    for (const name of ["devices", "variants"]) if (list(name).contains(target)) picked[name] = checked(name);
    if (target === labs_ || target === cases_) fill();
    write();
    draw();
  });
  for (const [name, on] of [["all", true], ["none", false]])
    form.elements[name].addEventListener("click", () => {
      const boxes = [...list("variants").children].filter((label) => !label.hidden).map((label) => label.firstChild);
      for (const input of boxes) input.checked = on;
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
