// The card of a measurement: a click on its number opens it. Without this script the link leads to a page with the same contents.
(() => {
  "use strict";
  const siteRoot = new URL("..", document.currentScript.src);
  const KINDS = { code: "code", driver: "driver or libraries", machine: "machine" };
  const HEIGHT = 210, LEFT = 62, TOP = 10, BOTTOM = 30;
  const UNPREPARED = ":is(table, ul, dl) a.of:not([tabindex])";
  const loaded = new Map(), waiting = new Map();  // by "lab/device": its cards, and the functions that wait for them
  let dialog, opener, address;

  const make = (name, attributes = {}, ...children) => {
    const element = document.createElement(name);
    for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
    element.append(...children);
    return element;
  };
  const draw = (name, attributes, text = "") => {
    const element = document.createElementNS("http://www.w3.org/2000/svg", name);
    for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
    element.textContent = text;
    return element;
  };

  // Complete the links of a row that lead to the card of its first link, and prepare new tables for the keyboard.
  function linkNumbers() {
    for (const link of document.querySelectorAll("a.of:not([href])")) {
      link.href = link.closest("tr").querySelector("a.of[href]").href;
    }
    for (const link of document.querySelectorAll(UNPREPARED)) addArrowKeys(link.closest("table, ul, dl"));
  }

  // Make a table, or a list, one stop of the Tab key; arrows move the focus from number to number.
  function addArrowKeys(table) {
    if ("walked" in table.dataset) return;
    table.dataset.walked = "";
    const allLinks = () => [...table.querySelectorAll("a.of")], isVisible = (link) => link?.checkVisibility();
    const first = allLinks().find((link) => !link.closest(".more, [hidden]")) ?? allLinks()[0];  // without a layout of the page
    for (const link of allLinks()) link.tabIndex = link === first ? 0 : -1;
    table.addEventListener("focusin", ({ target }) => {
      if (target.matches("a.of")) allLinks().forEach((link) => { link.tabIndex = link === target ? 0 : -1; });
    });
    table.addEventListener("keydown", (event) => {
      const from = event.target.closest("a.of"), steps = { ArrowLeft: -1, ArrowRight: 1 };
      if (!table.rows) Object.assign(steps, { ArrowUp: -1, ArrowDown: 1 });
      if (!from || event.altKey || event.ctrlKey || event.metaKey) return;
      const links = allLinks().filter(isVisible), row = from.closest("tr"), column = from.closest("td, th")?.cellIndex;
      let target;
      if (event.key in steps) target = links[links.indexOf(from) + steps[event.key]];
      else if (event.key === "ArrowDown" || event.key === "ArrowUp") {
        const rows = [...table.rows], forward = event.key === "ArrowDown";
        const nextRows = forward ? rows.slice(row.rowIndex + 1) : rows.slice(0, row.rowIndex).reverse();
        target = nextRows.map((next) => next.cells[column]?.querySelector("a.of")).find(isVisible);
      }
      if (!target) return;
      event.preventDefault();
      target.focus();
    });
  }

  // Called by the script of a device's cards.
  window.roofbookCards = (cards) => {
    const key = `${cards.lab}/${cards.name}`;
    loaded.set(key, { ...cards, byId: new Map(cards.cards.map((card) => [card.id, card])) });
    waiting.get(key)?.(loaded.get(key));
  };

  function cardsOf(lab, name) {
    const key = `${lab}/${name}`;
    if (loaded.has(key)) return Promise.resolve(loaded.get(key));
    return new Promise((resolve, reject) => {
      waiting.set(key, resolve);
      const script = make("script", { src: new URL(`labs/${lab}/measurements/${name}.js`, siteRoot).href });
      script.onerror = () => { script.remove(); reject(new Error("the cards could not be loaded")); };
      document.head.append(script);
    });
  }

  function addStyleSheet() {
    const href = new URL("_static/card.css", siteRoot).href;
    if (document.querySelector(`link[href="${CSS.escape(href)}"], link[data-card]`)) return;
    document.head.append(make("link", { rel: "stylesheet", href, "data-card": "" }));
  }

  async function open(lab, name, id, from) {
    addStyleSheet();
    let cards, card;
    try {
      cards = await cardsOf(lab, name);
      card = cards.byId.get(id);
    } catch { /* the link's own page is opened below, if there is a link */ }
    if (!card) return void (from && location.assign(from.href));
    opener = from;
    if (!dialog) {
      dialog = make("dialog", { class: "measurement", "aria-labelledby": "measurement-name" });
      dialog.addEventListener("click", (event) => event.target === dialog && dialog.close());
      dialog.addEventListener("close", restorePage);
      document.addEventListener("keydown", (event) => {  // on the document, as a click may have moved the focus
        if (event.key !== "Escape" || !dialog.open) return;
        event.preventDefault();
        dialog.close();
      }, true);
      document.body.append(dialog);
    }
    dialog.replaceChildren(contents(cards, card));
    address = new URL(location.href);
    address.searchParams.set("measurement", `${lab}/${name}/${id}`);
    history.replaceState(history.state, "", address);
    if (!dialog.open) dialog.showModal();
    dialog.scrollTop = 0;
  }

  function restorePage() {
    const pageAddress = new URL(location.href);
    pageAddress.searchParams.delete("measurement");
    history.replaceState(history.state, "", pageAddress);
    opener?.focus();
  }

  function contents(cards, card) {
    const close = make("button", { type: "button", class: "card-close", "aria-label": "Close" }, "×");
    close.addEventListener("click", () => dialog.close());
    const parts = [close, make("h2", { id: "measurement-name" }, `${card.variant} on ${card.case}`)];
    parts.push(make("p", { class: "card-time" }, card.time || `no time: ${card.why}`));
    parts.push(make("p", { class: "card-on" }, `${cards.title}, ${cards.on}`));
    if (card.what) parts.push(make("p", {}, ...withCode(card.what)));
    parts.push(make("p", { class: "card-answer" }, card.answer));
    if (card.axis) parts.push(drawing(card));
    parts.push(commandLine(cards, card), runsTable(cards, card), factList(card.facts));
    const used = machinesOf(card);
    for (const [index, facts] of cards.machines.entries())
      if (used.has(index)) parts.push(make("details", {}, make("summary", {}, `Machine ${index + 1}`), factList(facts)));
    return make("div", { class: "measured" }, ...parts);
  }

  // Split a text into nodes, with parts in backquotes, such as the name of a step, as code.
  const withCode = (text) =>
    text.split(/`([^`]+)`/).map((part, index) => (index % 2 ? make("code", {}, part) : part));

  const factList = (facts) =>
    make("dl", {}, ...facts.flatMap(([name, text]) => [make("dt", {}, name), make("dd", {}, text)]));

  const machinesOf = (card) => new Set(card.versions.flatMap((version) => version.runs).map((run) => run.machine));

  // The command that repeats the measurement, a button that copies it, and the card as JSON.
  function commandLine(cards, card) {
    const line = make("div", { class: "card-again" }), message = make("span", { role: "status" });
    const code = make("code", {}, card.command);
    const copy = make("button", { type: "button" }, "Copy the command");
    copy.addEventListener("click", async () => {
      try {
        await navigator.clipboard.writeText(card.command);
        message.textContent = "Copied.";
      } catch {
        getSelection().selectAllChildren(code);
        message.textContent = "Selected: press Ctrl+C.";
      }
    });
    const used = machinesOf(card);
    const machines = Object.fromEntries(cards.machines.map((facts, index) => [index, Object.fromEntries(facts)])
      .filter(([index]) => used.has(index)));
    const { byId, cards: allCards, machines: allMachines, ...deviceFields } = cards;
    const text = JSON.stringify({ ...deviceFields, ...card, facts: Object.fromEntries(card.facts), machines }, null, 1);
    const name = `${cards.lab}.${cards.name}.${card.id}`.replace(/[^\w.@=~+-]+/g, "-");
    const json = make("a", { href: `data:application/json;charset=utf-8,${encodeURIComponent(text)}`, download: `${name}.json` },
      "All of it as JSON");
    line.append("Measure it again: ", code, copy, json, message);
    return line;
  }

  const HEADS = ["Run", "When (UTC)", "Commit", "Time", "Samples", "Clock, MHz", "°C", "Throttled", "Machine"];

  function runsTable(cards, card) {
    const body = make("tbody");
    card.versions.forEach((version, index) => {
      const reasons = version.changes.map(([kind, text]) => `${KINDS[kind]}: ${text}`);
      const ratio = version.ratio ? [`${version.word}: ${version.ratio}, ${version.how}`] : [];
      if (card.versions.length > 1)
        body.append(make("tr", { class: "change" }, make("th", { scope: "rowgroup", colspan: HEADS.length },
          make("div", {}, [`Version ${index + 1}`, ...reasons, ...ratio].join("; ")))));
      for (const run of version.runs) body.append(runRow(cards, card, run));
    });
    const head = make("thead", {}, make("tr", {}, ...HEADS.map((text) => make("th", { scope: "col" }, text))));
    return make("div", { class: "card-runs", tabindex: 0, role: "region", "aria-label": "Runs" }, make("table", {}, head, body));
  }

  function runRow(cards, card, run) {
    const commit = make("td"), short = make("code", {}, run.commit.slice(0, 10));
    const isHash = /^[0-9a-f]{7,64}$/.test(run.commit);
    if (run.commit)
      commit.append(cards.repository && isHash ? make("a", { href: `${cards.repository}/commit/${run.commit}` }, short) : short);
    if (run.fault) commit.append(` (${run.fault})`);
    const range = (values) => [...new Set((values ?? []).map((value) => value.toFixed(0)))].join("–") || "not known";
    const count = `${run.samples?.length ?? 0}${run.left_out ? ` (${run.left_out} left out)` : ""}`;
    const machine = run.machine < 0 ? [] : [String(run.machine + 1), ...(run.changes ?? []).map(([, text]) => text)];
    const texts = [run.time ? `${run.time} ${card.unit}` : "failed", count, range(run.clock), range(run.temperature),
      (run.throttle ?? ["no"]).join(", "), machine.join("; ")];
    return make("tr", {}, make("td", {}, make("code", {}, run.run)), make("td", {}, run.started), commit,
      ...texts.map((text) => make("td", {}, text)));
  }

  // A figure of the samples, run by run. roofbook.report.cards_page draws the same figure.
  function drawing(card) {
    const { axis, versions } = card, runs = versions.flatMap((version) => version.runs);
    const scaled = (seconds) => axis.log ? Math.log(seconds) : seconds;
    const low = scaled(axis.low), high = scaled(axis.high);
    const width = Math.max(280, Math.min(640, innerWidth - 50)), step = (width - LEFT) / runs.length;
    const y = (seconds) => TOP + (HEIGHT - TOP - BOTTOM) * (high - scaled(seconds)) / (high - low);
    const label = `Samples in ${card.unit}, ${runs.length} run${runs.length > 1 ? "s" : ""}${axis.log ? ", logarithmic" : ""}`;
    const svg = draw("svg", { viewBox: `0 0 ${width} ${HEIGHT}`, role: "img", "aria-label": label });
    for (const [seconds, text] of axis.ticks)
      svg.append(draw("path", { class: "grid", d: `M${LEFT} ${y(seconds)}H${width}` }),
        draw("text", { x: LEFT - 6, y: y(seconds) + 4 }, text));
    let end = 0;
    for (const version of versions) {
      const first = end;
      end += version.runs.length;
      if (first) svg.append(draw("path", { class: "new", d: `M${LEFT + first * step} ${TOP}V${HEIGHT - BOTTOM}` }));
      if (!version.seconds) continue;
      const [, least, most] = version.seconds;
      svg.append(draw("rect", { class: "band", x: LEFT + first * step + 3, y: y(most), width: (end - first) * step - 6,
        height: Math.max(1, y(least) - y(most)) }));
    }
    runs.forEach((run, number) => {
      const middle = LEFT + (number + 0.5) * step;
      if (run.samples) {
        const gap = Math.min(0.6 * step, 90) / run.samples.length, start = middle - gap * (run.samples.length - 1) / 2;
        const [median, least, most] = run.seconds, half = Math.min(0.4 * step, 55);
        svg.append(
          draw("path", { class: "dots", d: run.samples.map((sample, n) => `M${start + n * gap} ${y(sample)}h0`).join("") }),
          draw("path", { class: "middle", d: `M${middle - half} ${y(median)}h${2 * half}M${middle} ${y(least)}V${y(most)}` }));
      }
      if (runs.length <= width / 110 || number === 0 || number === runs.length - 1)
        svg.append(draw("text", { class: "when", x: Math.min(middle, width - 28), y: HEIGHT - 10 }, run.started.slice(2, 10)));
    });
    return make("figure", {}, svg, make("figcaption", {}, `${label}. A bar is the median of a run, a whisker its interval, a `
      + "band that of a version over its runs."));
  }

  document.addEventListener("click", (event) => {
    const from = event.target.closest?.("a.of");
    if (!from || event.button || event.ctrlKey || event.metaKey || event.shiftKey || event.altKey) return;
    const [, lab, name] = from.pathname.match(/labs\/([^/]+)\/measurements\/(.+)\.html$/) ?? [];
    if (!lab) return;
    event.preventDefault();
    open(lab, name, decodeURIComponent(from.hash.slice(1)), from);
  });

  const [, lab, device, id] = new URLSearchParams(location.search).get("measurement")?.match(/^([^/]+)\/([^/]+)\/(.+)$/) ?? [];
  if (lab) open(lab, device, id, null);
  linkNumbers();
  new MutationObserver(() => document.querySelector(UNPREPARED) && linkNumbers()).observe(document.body, { childList: true, subtree: true });
})();
