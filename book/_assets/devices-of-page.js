// The device that a lab's page is about: chosen in its bar, kept in the address and remembered from page to page.
(() => {
  "use strict";
  const bar = document.querySelector(".device-bar");
  if (!bar) return;
  const choice = bar.querySelector("select"), said = bar.querySelector(".device-said");
  const options = [...choice.options], initial = options[0].value, remembered = "roofbook-device";
  const known = new Map([[initial, cellsOf(document)]]);
  const root = document.documentElement.dataset.content_root ?? "";  // of the site, which a script's links do not know
  let wanted = initial;

  function cellsOf(page) {
    return Object.fromEntries([...page.querySelectorAll(".on-device")].map((cell) => [cell.dataset.cell, cell.innerHTML]));
  }

  // What a device's script calls.
  window.roofbookShow = (lab, device, cells) => {
    if (lab !== bar.dataset.lab) return;
    known.set(device, cells);
    if (device === wanted) show(device);
  };

  function show(device) {
    const cells = known.get(device);
    for (const cell of document.querySelectorAll(".on-device")) {
      cell.innerHTML = (cells[cell.dataset.cell] ?? "").replaceAll('href="site:/', `href="${root}`);
    }
    toLegend();
    document.body.classList.toggle("on-this-machine", device === "here");
    if (typeof addCopyButtonToCodeCells === "function") {  // sphinx-copybutton's, which has been through the page before
      document.querySelectorAll("button.copybtn").forEach((button) => button.remove());
      addCopyButtonToCodeCells();
    }
    choice.value = device;
    said.textContent = device === initial ? "" : `All of this page is now of ${choice.selectedOptions[0].text}.`;
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

  function choose(device, keep) {
    const option = options.find((each) => each.value === device);
    if (!option) return;
    wanted = device;
    choice.value = device;
    if (keep) {
      const address = new URL(location.href);
      address.searchParams.set("device", device);
      history.replaceState(history.state, "", address);
      try { localStorage.setItem(remembered, device); } catch { /* a browser that keeps nothing */ }
    }
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

  function first() {
    const asked = new URLSearchParams(location.search).get("device");
    if (asked) return asked;
    try { return localStorage.getItem(remembered); } catch { return null; }
  }

  choice.parentElement.hidden = false;
  choice.addEventListener("change", () => choose(choice.value, true));
  const device = first();
  if (device && device !== initial) choose(device, false);
})();
