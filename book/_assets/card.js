// The card of a measurement: a number that is clicked opens it. Its link leads to a page with the same, where there is no script.
(() => {
  "use strict";
  const place = new URL("..", document.currentScript.src);  // the site's root
  const KINDS = { code: "code", driver: "driver or libraries", machine: "machine" };
  const HEIGHT = 210, LEFT = 62, TOP = 10, BOTTOM = 30;
  const loaded = new Map(), waiting = new Map();
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

  // Numbers that a script put on the page become links, as those that the page came with; so do those that name no measurement,
  // which are of the one that their row's first link leads to.
  function link() {
    const bar = document.querySelector(".device-bar"), choice = bar?.querySelector("select");
    const page = bar && `${bar.dataset.lab}/${choice.selectedOptions[0].dataset.script.replace(/\.js$/, "")}`;
    for (const cell of document.querySelectorAll("[data-of]")) {
      const [own, of] = cell.dataset.of.split("#").reverse(), [lab, device] = (of ?? page ?? "").split("/");
      const text = cell.firstChild, rows = own ? null : cell.closest("tr")?.querySelector("a.of");
      delete cell.dataset.of;
      if (!(own ? device : rows) || text?.nodeType !== Node.TEXT_NODE) continue;
      const to = own ? new URL(`labs/${lab}/measurements/${device}.html`, place) : rows;
      if (own) to.hash = own;
      const shown = text.data.trimEnd();
      text.replaceWith(make("a", { class: "of", href: to.href }, shown), text.data.slice(shown.length));
    }
    for (const each of document.querySelectorAll("a.of")) {
      const group = each.closest("table, ul, dl");
      if (group && !("walked" in group.dataset)) walk(group);
    }
  }

  // A table, or a list, is one stop of the Tab key; arrows go from number to number.
  function walk(table) {
    table.dataset.walked = "";
    const all = () => [...table.querySelectorAll("a.of")], seen = (each) => each?.checkVisibility();
    const first = all().find((each) => !each.closest(".more, [hidden]")) ?? all()[0];  // asked of the page, not of its layout
    for (const each of all()) each.tabIndex = each === first ? 0 : -1;
    table.addEventListener("focusin", ({ target }) => {
      if (target.matches("a.of")) all().forEach((each) => { each.tabIndex = each === target ? 0 : -1; });
    });
    table.addEventListener("keydown", (event) => {
      const from = event.target.closest("a.of"), steps = { ArrowLeft: -1, ArrowRight: 1 };
      if (!table.rows) Object.assign(steps, { ArrowUp: -1, ArrowDown: 1 });
      if (!from || event.altKey || event.ctrlKey || event.metaKey) return;
      const links = all().filter(seen), row = from.closest("tr"), column = from.closest("td, th")?.cellIndex;
      let to;
      if (event.key in steps) to = links[links.indexOf(from) + steps[event.key]];
      else if (event.key === "ArrowDown" || event.key === "ArrowUp") {
        const rows = [...table.rows], forward = event.key === "ArrowDown";
        const others = forward ? rows.slice(row.rowIndex + 1) : rows.slice(0, row.rowIndex).reverse();
        to = others.map((each) => each.cells[column]?.querySelector("a.of")).find(seen);
      }
      if (!to) return;
      event.preventDefault();
      to.focus();
    });
  }

  // What a script of cards calls.
  window.roofbookCards = (cards) => {
    const key = `${cards.lab}/${cards.name}`;
    loaded.set(key, { ...cards, byId: new Map(cards.cards.map((each) => [each.id, each])) });
    waiting.get(key)?.(loaded.get(key));
  };

  function cardsOf(lab, name) {
    const key = `${lab}/${name}`;
    if (loaded.has(key)) return Promise.resolve(loaded.get(key));
    return new Promise((found, lost) => {
      waiting.set(key, found);
      const script = make("script", { src: new URL(`labs/${lab}/measurements/${name}.js`, place).href });
      script.onerror = () => { script.remove(); lost(new Error("not there")); };
      document.head.append(script);
    });
  }

  function styled() {
    const href = new URL("_static/card.css", place).href;
    if (document.querySelector(`link[href="${CSS.escape(href)}"], link[data-card]`)) return;
    document.head.append(make("link", { rel: "stylesheet", href, "data-card": "" }));
  }

  async function open(lab, name, id, from) {
    styled();
    let cards, card;
    try {
      cards = await cardsOf(lab, name);
      card = cards.byId.get(id);
    } catch { /* said by the link's own page, or not at all */ }
    if (!card) return void (from && location.assign(from.href));
    opener = from;
    if (!dialog) {
      dialog = make("dialog", { class: "measurement", "aria-labelledby": "measurement-name" });
      dialog.addEventListener("click", (event) => event.target === dialog && dialog.close());
      dialog.addEventListener("close", closed);
      document.addEventListener("keydown", (event) => {  // wherever the focus is: a click on a part may have taken it
        if (event.key !== "Escape" || !dialog.open) return;
        event.preventDefault();
        dialog.close();
      }, true);
      document.body.append(dialog);
    }
    dialog.replaceChildren(shown(cards, card));
    address = new URL(location.href);
    address.searchParams.set("measurement", `${lab}/${name}/${id}`);
    history.replaceState(history.state, "", address);
    if (!dialog.open) dialog.showModal();
    dialog.scrollTop = 0;
  }

  function closed() {
    const back = new URL(location.href);
    back.searchParams.delete("measurement");
    history.replaceState(history.state, "", back);
    opener?.focus();
  }

  function shown(cards, card) {
    const close = make("button", { type: "button", class: "card-close", "aria-label": "Close" }, "×");
    close.addEventListener("click", () => dialog.close());
    const parts = [close, make("h2", { id: "measurement-name" }, `${card.variant} on ${card.case}`)];
    parts.push(make("p", { class: "card-time" }, card.time || `no time: ${card.why}`));
    parts.push(make("p", { class: "card-on" }, `${cards.title}, ${cards.on}`));
    if (card.what) parts.push(make("p", {}, ...withCode(card.what)));
    parts.push(make("p", { class: "card-answer" }, card.answer));
    if (card.axis) parts.push(drawing(card));
    parts.push(again(cards, card), runs(cards, card), pairs(card.facts));
    const used = new Set(card.versions.flatMap((version) => version.runs).map((run) => run.machine));
    for (const [at, facts] of cards.machines.entries())
      if (used.has(at)) parts.push(make("details", {}, make("summary", {}, `Machine ${at + 1}`), pairs(facts)));
    return make("div", { class: "measured" }, ...parts);
  }

  // What stands in backquotes, such as the name of a step, as code.
  const withCode = (text) =>
    text.split(/`([^`]+)`/).map((part, at) => (at % 2 ? make("code", {}, part) : part));

  const pairs = (facts) =>
    make("dl", {}, ...facts.flatMap(([name, text]) => [make("dt", {}, name), make("dd", {}, text)]));

  function again(cards, card) {
    const line = make("div", { class: "card-again" }), said = make("span", { role: "status" });
    const code = make("code", {}, card.command);
    const copy = make("button", { type: "button" }, "Copy the command");
    copy.addEventListener("click", async () => {
      try {
        await navigator.clipboard.writeText(card.command);
        said.textContent = "Copied.";
      } catch {
        getSelection().selectAllChildren(code);
        said.textContent = "Selected: press Ctrl+C.";
      }
    });
    const used = card.versions.flatMap((version) => version.runs).map((run) => run.machine);
    const machines = Object.fromEntries(cards.machines.map((facts, at) => [at, Object.fromEntries(facts)])
      .filter(([at]) => used.includes(at)));
    const { byId, cards: all, machines: every, ...of } = cards;
    const text = JSON.stringify({ ...of, ...card, facts: Object.fromEntries(card.facts), machines }, null, 1);
    const name = `${cards.lab}.${cards.name}.${card.id}`.replace(/[^\w.@=~+-]+/g, "-");
    const json = make("a", { href: `data:application/json;charset=utf-8,${encodeURIComponent(text)}`, download: `${name}.json` },
      "All of it as JSON");
    line.append("Measure it again: ", code, copy, json, said);
    return line;
  }

  const HEADS = ["Run", "When (UTC)", "Commit", "Time", "Samples", "Clock, MHz", "°C", "Throttled", "Machine"];

  function runs(cards, card) {
    const body = make("tbody");
    card.versions.forEach((version, at) => {
      const because = version.changes.map(([kind, what]) => `${KINDS[kind]}: ${what}`);
      const ratio = version.ratio ? [`${version.word}: ${version.ratio}, ${version.how}`] : [];
      if (card.versions.length > 1)
        body.append(make("tr", { class: "change" }, make("th", { scope: "rowgroup", colspan: HEADS.length },
          make("div", {}, [`Version ${at + 1}`, ...because, ...ratio].join("; ")))));
      for (const run of version.runs) body.append(line(cards, card, run));
    });
    const head = make("thead", {}, make("tr", {}, ...HEADS.map((text) => make("th", { scope: "col" }, text))));
    return make("div", { class: "card-runs", tabindex: 0, role: "region", "aria-label": "Runs" }, make("table", {}, head, body));
  }

  function line(cards, card, run) {
    const commit = make("td"), short = make("code", {}, run.commit.slice(0, 10));
    const isHash = /^[0-9a-f]{7,64}$/.test(run.commit);
    if (run.commit)
      commit.append(cards.repository && isHash ? make("a", { href: `${cards.repository}/commit/${run.commit}` }, short) : short);
    if (run.fault) commit.append(` (${run.fault})`);
    const ends = (found) => [...new Set((found ?? []).map((each) => each.toFixed(0)))].join("–") || "not known";
    const count = `${run.samples?.length ?? 0}${run.left_out ? ` (${run.left_out} left out)` : ""}`;
    const where = run.machine < 0 ? "" : [String(run.machine + 1), ...(run.changes ?? []).map(([, what]) => what)];
    const texts = [run.time ? `${run.time} ${card.unit}` : "failed", count, ends(run.clock), ends(run.temperature),
      (run.throttle ?? ["no"]).join(", "), where && where.join("; ")];
    return make("tr", {}, make("td", {}, make("code", {}, run.run)), make("td", {}, run.started), commit,
      ...texts.map((text) => make("td", {}, text)));
  }

  // Samples run by run. roofbook.report.cards_page draws the same.
  function drawing(card) {
    const { axis, versions } = card, all = versions.flatMap((version) => version.runs);
    const along = (seconds) => axis.log ? Math.log(seconds) : seconds;
    const low = along(axis.low), high = along(axis.high);
    const width = Math.max(280, Math.min(640, innerWidth - 50)), step = (width - LEFT) / all.length;
    const y = (seconds) => TOP + (HEIGHT - TOP - BOTTOM) * (high - along(seconds)) / (high - low);
    const label = `Samples in ${card.unit}, ${all.length} run${all.length > 1 ? "s" : ""}${axis.log ? ", logarithmic" : ""}`;
    const svg = draw("svg", { viewBox: `0 0 ${width} ${HEIGHT}`, role: "img", "aria-label": label });
    for (const [at, text] of axis.ticks)
      svg.append(draw("path", { class: "grid", d: `M${LEFT} ${y(at)}H${width}` }), draw("text", { x: LEFT - 6, y: y(at) + 4 }, text));
    let at = 0;
    for (const version of versions) {
      const first = at;
      at += version.runs.length;
      if (first) svg.append(draw("path", { class: "new", d: `M${LEFT + first * step} ${TOP}V${HEIGHT - BOTTOM}` }));
      if (!version.seconds) continue;
      const [, least, most] = version.seconds;
      svg.append(draw("rect", { class: "band", x: LEFT + first * step + 3, y: y(most), width: (at - first) * step - 6,
        height: Math.max(1, y(least) - y(most)) }));
    }
    all.forEach((run, number) => {
      const middle = LEFT + (number + 0.5) * step;
      if (run.samples) {
        const wide = Math.min(0.6 * step, 90) / run.samples.length, start = middle - wide * (run.samples.length - 1) / 2;
        const [median, least, most] = run.seconds, half = Math.min(0.4 * step, 55);
        svg.append(
          draw("path", { class: "dots", d: run.samples.map((each, n) => `M${start + n * wide} ${y(each)}h0`).join("") }),
          draw("path", { class: "middle", d: `M${middle - half} ${y(median)}h${2 * half}M${middle} ${y(least)}V${y(most)}` }));
      }
      if (all.length <= width / 110 || number === 0 || number === all.length - 1)
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

  const asked = new URLSearchParams(location.search).get("measurement")?.match(/^([^/]+)\/([^/]+)\/(.+)$/);
  if (asked) open(asked[1], asked[2], asked[3], null);
  link();
  new MutationObserver(() => document.querySelector("[data-of]") && link()).observe(document.body, { childList: true, subtree: true });
})();
