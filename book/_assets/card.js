// The card of a measurement: a click on its number opens it. Without this script the link leads to a page with the same contents.
(() => {
  "use strict";
  const siteRoot = new URL("..", document.currentScript.src);
  const UNPREPARED = ":is(table, ul, dl) a.of:not([tabindex])";
  const loads = new Map();
  let arrived, dialog, opener;

  function make(name, attributes = {}, ...children) {
    const element = document.createElement(name);
    for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
    element.append(...children);
    return element;
  }

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

  // Load a script of cards once, and return the arguments of its call.
  window.roofbookCards = (...content) => { arrived = content; };
  function load(file) {
    if (!loads.has(file)) {
      loads.set(file, new Promise((resolve, reject) => {
        const script = make("script", { src: new URL(file, siteRoot).href });
        script.onload = () => { script.remove(); resolve(arrived); };
        script.onerror = () => { script.remove(); loads.delete(file); reject(); };
        document.head.append(script);
      }));
    }
    return loads.get(file);
  }

  function addStyleSheet() {
    const href = new URL("_static/card.css", siteRoot).href;
    if (document.querySelector(`link[href="${CSS.escape(href)}"], link[data-card]`)) return;
    document.head.append(make("link", { rel: "stylesheet", href, "data-card": "" }));
  }

  async function open(lab, name, id, link) {
    addStyleSheet();
    let cards = {}, machines;
    try {
      [cards, machines] = await load(`labs/${lab}/measurements/${name}.cards.js`);
    } catch { /* the page that the link leads to remains */ }
    if (!cards[id]) return void (link && location.assign(link.href));
    opener = link;
    if (!dialog) {
      dialog = make("dialog", { class: "measurement", "aria-labelledby": "measurement-name" });
      dialog.addEventListener("click", (event) => event.target === dialog && dialog.close());
      dialog.addEventListener("close", forget);
      document.addEventListener("keydown", (event) => {  // wherever the focus is: a click on a part may have taken it
        if (event.key !== "Escape" || !dialog.open) return;
        event.preventDefault();
        dialog.close();
      }, true);
      document.body.append(dialog);
    }
    dialog.innerHTML = cards[id];
    complete(dialog.firstElementChild, machines, lab, name, id);
    const address = new URL(location.href);
    address.searchParams.set("measurement", `${lab}/${name}/${id}`);
    history.replaceState(history.state, "", address);
    document.dispatchEvent(new Event("roofbook-card")); // figures.js offers its figure as a file
    if (!dialog.open) dialog.showModal();
    dialog.scrollTop = 0;
  }

  function forget() {
    const address = new URL(location.href);
    address.searchParams.delete("measurement");
    history.replaceState(history.state, "", address);
    opener?.focus();
  }

  // Add to a card what needs a script: a button to close it, one to copy its command, all of it as JSON, and its machines.
  function complete(card, machines, lab, name, id) {
    const close = make("button", { type: "button", class: "card-close", "aria-label": "Close" }, "×");
    close.addEventListener("click", () => dialog.close());
    card.prepend(close);
    card.querySelector("h2").id = "measurement-name";
    const code = card.querySelector(".card-again code"), message = make("span", { role: "status" });
    const copy = make("button", { type: "button" }, "Copy the command");
    copy.addEventListener("click", async () => {
      try {
        await navigator.clipboard.writeText(code.textContent);
        message.textContent = "Copied.";
      } catch {
        getSelection().selectAllChildren(code);
        message.textContent = "Selected: press Ctrl+C.";
      }
    });
    const json = make("button", { type: "button" }, "All of it as JSON");
    json.addEventListener("click", () => download(lab, name, id));
    code.parentElement.append(copy, json, message);
    const links = [...card.querySelectorAll('a[href^="#machine-"]')];
    for (const number of new Set(links.map((link) => link.textContent))) {
      const details = make("details", {}, make("summary", {}, `Machine ${number}`));
      details.insertAdjacentHTML("beforeend", machines[number]);
      details.querySelector("h3").remove();
      card.append(details);
    }
    for (const link of links) link.replaceWith(link.textContent);
  }

  // Save a measurement with the facts of its device and of its machines.
  async function download(lab, name, id) {
    const [{ cards, machines, ...shared }] = await load(`labs/${lab}/measurements/${name}.js`);
    const card = cards.find((measurement) => measurement.id === id);
    const used = new Set(card.versions.flatMap(({ runs }) => runs.map(({ machine }) => machine)));
    const factsByMachine = machines.map((facts, number) => [number, Object.fromEntries(facts)]).filter(([number]) => used.has(number));
    const content = { ...shared, ...card, facts: Object.fromEntries(card.facts), machines: Object.fromEntries(factsByMachine) };
    const href = `data:application/json;charset=utf-8,${encodeURIComponent(JSON.stringify(content, null, 1))}`;
    make("a", { href, download: `${`${lab}.${name}.${id}`.replace(/[^\w.@=~+-]+/g, "-")}.json` }).click();
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
