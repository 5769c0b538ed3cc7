// The device and the case that a lab's page is about: chosen in its bar, kept in the address and remembered. The device goes along
// to all pages, the case to the other pages of the same lab.
(() => {
  "use strict";
  const bar = document.querySelector(".device-bar"), PLACE = "roofbook-place";
  if (!bar) return mark();
  const choice = bar.querySelector("select[name=device]"), ofCase = bar.querySelector("select[name=case]");
  const said = bar.querySelector(".device-said"), options = [...choice.options], initial = options[0].value, ALL = "all";
  const memory = { device: "roofbook-device", case: `roofbook-case-${bar.dataset.lab}` };
  const known = new Map([[initial, cellsOf(document)]]);
  const root = document.documentElement.dataset.content_root ?? "";  // of the site, which a script's links do not know
  let wanted = initial, wantedCase = asked("case");
  // What a link leads to stands below the bar, in however many lines that is.
  new ResizeObserver(() => document.documentElement.style.setProperty("--device-bar", `${bar.offsetHeight}px`)).observe(bar);

  function cellsOf(page) {
    return Object.fromEntries([...page.querySelectorAll(".on-device")].map((cell) => [cell.dataset.cell, cell.innerHTML]));
  }

  // What a device's script calls.
  window.roofbookShow = (lab, device, cells) => {
    if (lab !== bar.dataset.lab) return;
    known.set(device, cells);
    if (device === wanted) show(device);
  };

  // What a script of one case calls.
  const brought = new Map(), requested = new Set();
  window.roofbookShowCase = (lab, device, name, places) => {
    if (lab !== bar.dataset.lab) return;
    brought.set(`${device} ${name}`, places);
    if (device === choice.value) showCase();
  };

  // Put what is of a case in its places; false where its script is still on the way.
  function bring(name) {
    const places = [...document.querySelectorAll(".on-device [data-place]")].filter((each) =>
      JSON.parse(each.dataset.scripts)[name] && ![...each.children].some((one) => one.dataset.case === name));
    const address = places.length && bar.dataset.scripts + JSON.parse(places[0].dataset.scripts)[name];
    const found = brought.get(`${choice.value} ${name}`);
    if (places.length && !found && !requested.has(address)) {
      requested.add(address);
      document.head.append(Object.assign(document.createElement("script"), { src: address, onerror: () => {
        said.textContent = `What this page shows of ${name} could not be loaded.`;
      } }));
    }
    for (const each of found ? places : []) {
      const of = document.createElement("div");
      of.dataset.case = name;
      of.innerHTML = (found[each.dataset.place] ?? "").replaceAll('href="site:/', `href="${root}`);
      each.append(of);
    }
    return !places.length || Boolean(found);
  }

  function show(device) {
    const cells = known.get(device);
    for (const cell of document.querySelectorAll(".on-device")) {
      cell.innerHTML = (cells[cell.dataset.cell] ?? "").replaceAll('href="site:/', `href="${root}`);
    }
    toLegend();
    if (device !== initial) linkTerms();
    document.body.classList.toggle("on-this-machine", device === "here");
    if (typeof addCopyButtonToCodeCells === "function") {  // sphinx-copybutton's, which has been through the page before
      document.querySelectorAll("button.copybtn").forEach((button) => button.remove());
      addCopyButtonToCodeCells();
    }
    choice.value = device;
    showCase();
  }

  // Hide what is of another case than the chosen one. A case that this page or this device does not have is its main one.
  function showCase() {
    let each = [...document.querySelectorAll(".on-device :is([data-case], [data-place])")];  // small cases come first
    const names = [...new Set(each.flatMap((one) => one.dataset.case ?? Object.keys(JSON.parse(one.dataset.scripts))))];
    const main = each.find((one) => one.hasAttribute("data-main"))?.dataset.case ?? names[0];
    const chosen = names.length < 2 || wantedCase === ALL ? ALL : names.includes(wantedCase) ? wantedCase : main;
    const there = (chosen === ALL ? names : [chosen]).map(bring).every(Boolean);
    toLegend();
    each = document.querySelectorAll(".on-device [data-case]");
    for (const one of each) one.hidden = chosen !== ALL && one.dataset.case !== chosen;
    ofCase.replaceChildren(...names.map((name) => new Option(name)), new Option("all cases", ALL));
    ofCase.value = chosen;
    ofCase.parentElement.hidden = names.length < 2;
    const told = choice.value === initial ? [] : [`All of this page is now of ${choice.selectedOptions[0].text}.`];
    if (names.length > 1 && chosen !== main) told.push(chosen === ALL ? "All cases are shown." : `The case is ${chosen}.`);
    if (!there) told.push("Loading…");
    said.textContent = told.join(" ");
    bar.dataset.device = choice.selectedOptions[0].text + (names.length > 1 && chosen !== ALL ? `, case ${chosen}` : "");  // for paper
  }

  // A link to something of another case shows that case.
  function reveal() {
    const target = location.hash && document.getElementById(decodeURIComponent(location.hash.slice(1)));
    const hidden = target && target.closest("[data-case][hidden]");
    if (!hidden) return;
    wantedCase = hidden.dataset.case;
    showCase();
    target.scrollIntoView();
  }

  // Notes that say the same of all tables stand once, in the page's legend; the first of them links there in its place.
  function toLegend() {
    const legend = document.querySelector("section.legend");
    if (!legend) return;
    const list = legend.querySelector("ul"), known = new Set([...list.children].map((each) => each.textContent));
    for (const note of document.querySelectorAll(".on-device .standing")) {
      if (!known.has(note.textContent)) list.append(Object.assign(document.createElement("li"), { textContent: note.textContent }));
      known.add(note.textContent);
      if (document.querySelector(`.on-device a[href="#${legend.id}"]`)) { note.remove(); continue; }
      note.classList.remove("standing");
      note.replaceChildren(Object.assign(document.createElement("a"), {
        href: `#${legend.id}`, textContent: legend.querySelector("h2").firstChild.textContent }));
    }
  }

  // Link the first use of a term in each section to what it means, as the builder does in the cells that it writes itself.
  let terms;
  window.roofbookTerms = (words) => {  // what _static/terms.js calls
    const longest = Object.keys(words).sort((one, other) => other.length - one.length);
    const escaped = longest.map((word) => word.replace(/[.*+?^${}()|[\]\\]/g, "\\$&").replace(/ +/g, "\\s+"));
    terms = { words, pattern: new RegExp(`(?<![\\w/.-])(?:${escaped.join("|")})(?![\\w/-])`, "gi") };
    if (wanted !== initial) linkTerms();
  };

  function linkTerms() {
    if (!terms) {
      document.head.append(Object.assign(document.createElement("script"), { src: `${root}_static/terms.js` }));
      return;
    }
    const kept = "a, button, caption, code, figure, h1, h2, h3, h4, kbd, label, nav, pre, summary, svg, table, .table-note";
    for (const cell of document.querySelectorAll(".on-device")) {
      const before = [...(cell.closest("section") ?? document).querySelectorAll("a:has(> .std-term)")].filter((link) =>
        !link.closest(".on-device") && link.compareDocumentPosition(cell) & Node.DOCUMENT_POSITION_FOLLOWING);
      const seen = new Map([[null, new Set(before.map((link) => link.hash))]]);
      const within = (part) => {  // what is linked in a folded part does not count outside it
        if (!seen.has(part)) seen.set(part, new Set(within(part.parentElement.closest(".on-device details"))));
        return seen.get(part);
      };
      const texts = document.createTreeWalker(cell, NodeFilter.SHOW_TEXT), prose = [];
      while (texts.nextNode()) {
        const { parentElement } = texts.currentNode;
        if (parentElement.closest("p, li, dd") && !parentElement.closest(kept)) prose.push(texts.currentNode);
      }
      for (const text of prose) link(text, within(text.parentElement.closest(".on-device details")));
    }
  }

  function link(text, seen) {
    let rest = text, done = 0;
    for (const match of [...text.data.matchAll(terms.pattern)]) {
      const made = Object.assign(document.createElement("a"), {
        className: "reference internal", href: root + terms.words[match[0].toLowerCase().split(/\s+/).join(" ")] });
      if (seen.has(made.hash)) continue;
      seen.add(made.hash);
      made.append(Object.assign(document.createElement("span"), { className: "xref std std-term", textContent: match[0] }));
      const word = rest.splitText(match.index - done);
      rest = word.splitText(match[0].length);
      word.replaceWith(made);
      done = match.index + match[0].length;
    }
  }

  function choose(device, keep) {
    const option = options.find((each) => each.value === device);
    if (!option) return;
    wanted = device;
    choice.value = device;
    if (keep) remember("device", device);
    if (known.has(device)) return show(device);
    said.textContent = "Loading…";
    const script = document.createElement("script");
    script.src = bar.dataset.scripts + option.dataset.script;
    script.onerror = () => {
      choose(initial, false);
      said.textContent = `What this page shows of ${option.text} could not be loaded.`;
    };
    document.head.append(script);
  }

  function remember(what, value) {
    const address = new URL(location.href);
    address.searchParams.set(what, value);
    history.replaceState(history.state, "", address);
    try {
      localStorage.setItem(memory[what], value);
      if (what === "device") localStorage.setItem(PLACE, choice.selectedOptions[0].text.replace(/, \w+ sizes$/, ""));
    } catch { /* a browser that keeps nothing */ }
  }

  // On other pages the lines of the chosen device stand out of the tables of all devices.
  function mark() {
    let place = null;
    try { place = localStorage.getItem(PLACE); } catch { /* a browser that keeps nothing */ }
    for (const row of place ? document.querySelectorAll("table.roofbook tbody tr") : []) {
      const name = row.querySelector("th")?.textContent ?? "";
      if (name === place || (name.endsWith(", this machine") && place === "This machine")) {
        row.classList.add("of-chosen-device");
        row.setAttribute("aria-current", "true");
      }
    }
  }

  function asked(what) {
    const found = new URLSearchParams(location.search).get(what);
    if (found) return found;
    try { return localStorage.getItem(memory[what]); } catch { return null; }
  }

  choice.parentElement.hidden = false;
  choice.addEventListener("change", () => choose(choice.value, true));
  ofCase.addEventListener("change", () => {
    wantedCase = ofCase.value;
    remember("case", wantedCase);
    showCase();
  });
  addEventListener("hashchange", reveal);
  showCase();
  const device = asked("device");
  if (device && device !== initial) choose(device, false);
  reveal();
})();
