// The choice of a device and a case on a lab's page. The book's build wrote every device's outputs as finished HTML
// (book/device_pages.py); this script loads them and puts them into the page. The choice is kept in the address and remembered:
// the device for all pages, the case for the pages of its lab.
(() => {
  "use strict";
  const bar = document.querySelector(".device-bar"), CHOSEN_NAME = "roofbook-place", ALL = "all";
  if (!bar) return markChosenDevice();
  const devices = bar.querySelector("select[name=device]"), cases = bar.querySelector("select[name=case]");
  const message = bar.querySelector(".device-said"), first = devices.options[0].value;
  const storageKeys = { device: "roofbook-device", case: `roofbook-case-${bar.dataset.lab}` };
  let shownDevice = first, wantedCase = remembered("case");
  // A link's target comes to rest below the bar, which has one line or more.
  new ResizeObserver(() => document.documentElement.style.setProperty("--device-bar", `${bar.offsetHeight}px`)).observe(bar);

  // Load a script of this page once, and return the HTML that it brings, by place.
  const loads = new Map(), arrivals = new Map();
  window.roofbookCells = (script, places) => arrivals.get(script)?.(places);
  function load(script) {
    if (!loads.has(script)) {
      loads.set(script, new Promise((resolve, reject) => {
        arrivals.set(script, resolve);
        const onerror = () => { loads.delete(script); reject(); };
        document.head.append(Object.assign(document.createElement("script"), { src: bar.dataset.scripts + script, onerror }));
      }));
    }
    return loads.get(script);
  }

  async function showDevice(name) {
    const option = [...devices.options].find(({ value }) => value === name);
    if (!option) return;
    devices.value = name;
    message.textContent = "Loading…";
    let places;
    try {
      places = await load(option.dataset.script);
    } catch {
      devices.value = shownDevice;
      await showCase();
      message.textContent = `What this page shows of ${option.text} could not be loaded.`;
      return;
    }
    if (devices.value !== name) return;  // the reader has chosen another one since
    shownDevice = bar.dataset.chosen = name;
    for (const place of document.querySelectorAll(".on-device")) place.innerHTML = places[place.dataset.cell] ?? "";
    cases.innerHTML = places.cases;
    if (typeof addCopyButtonToCodeCells === "function") {  // of sphinx-copybutton
      document.querySelectorAll("button.copybtn").forEach((button) => button.remove());
      addCopyButtonToCodeCells();
    }
    await showCase();
  }

  // Show the wanted case alone, or the main case if this device does not have it.
  async function showCase() {
    const options = [...cases.options], device = shownDevice;
    const option = options.find(({ value }) => value === wantedCase) ?? options.find(({ defaultSelected }) => defaultSelected);
    if (option) option.selected = true;
    cases.parentElement.hidden = !option;
    for (const part of document.querySelectorAll(".on-device [data-case]")) {
      part.hidden = Boolean(option) && option.value !== ALL && part.dataset.case !== option.value;
    }
    const late = options.filter(({ value, dataset }) => dataset.script && [value, ALL].includes(option.value));
    if (late.length) message.textContent = "Loading…";
    try {
      for (const places of await Promise.all(late.map(({ dataset }) => load(dataset.script)))) {
        if (shownDevice !== device) return;
        for (const [key, html] of Object.entries(places)) {
          const place = document.querySelector(`.on-device [data-cell="${key}"]`);
          if (place) place.innerHTML = html;
          place?.removeAttribute("data-cell");
        }
      }
    } catch {
      message.textContent = `What this page shows of ${option.text} could not be loaded.`;
      return;
    }
    const deviceName = devices.selectedOptions[0].text, sentences = [];
    if (shownDevice !== first) sentences.push(`All of this page is now of ${deviceName}.`);
    if (option?.value === ALL) sentences.push("All cases are shown.");
    else if (option && !option.defaultSelected) sentences.push(`The case is ${option.text}.`);
    message.textContent = sentences.join(" ");
    bar.dataset.device = deviceName + (option && option.value !== ALL ? `, case ${option.text}` : "");  // printed
    bar.dataset.shown = "";
    document.dispatchEvent(new CustomEvent("roofbook-shown", { detail: { case: option?.value ?? null } }));  // for other scripts
  }

  // A link to a part of another case shows that case.
  async function revealTarget() {
    const target = location.hash && document.getElementById(decodeURIComponent(location.hash.slice(1)));
    const part = target && target.closest("[data-case][hidden]");
    if (!part) return;
    wantedCase = part.dataset.case;
    await showCase();
    target.scrollIntoView();
  }

  function remember(name, value) {
    const address = new URL(location.href);
    address.searchParams.set(name, value);
    history.replaceState(history.state, "", address);
    try {
      localStorage.setItem(storageKeys[name], value);
      if (name === "device") localStorage.setItem(CHOSEN_NAME, devices.selectedOptions[0].text.replace(/, \w+ sizes$/, ""));
    } catch { /* this browser stores nothing */ }
  }

  function remembered(name) {
    const asked = new URLSearchParams(location.search).get(name);
    if (asked) return asked;
    try { return localStorage.getItem(storageKeys[name]); } catch { return null; }
  }

  // Mark the chosen device in tables of all devices on other pages.
  function markChosenDevice() {
    let chosen = null;
    try { chosen = localStorage.getItem(CHOSEN_NAME); } catch { /* this browser stores nothing */ }
    for (const row of chosen ? document.querySelectorAll("table.roofbook tbody tr") : []) {
      const name = row.querySelector("th")?.textContent ?? "";
      if (name === chosen || (name.endsWith(", this machine") && chosen === "This machine")) {
        row.classList.add("of-chosen-device");
        row.setAttribute("aria-current", "true");
      }
    }
  }

  // Another device beside this one has a script of its own, which loads for a reader who asks for it.
  const against = bar.querySelector("select[name=against]");
  function loadAgainst() {
    if (!bar.dataset.against) return;
    document.head.append(Object.assign(document.createElement("script"), { src: bar.dataset.against }));
    delete bar.dataset.against;
  }
  // The reader's own runs in this browser are one more device, until the reader removes them.
  function offerOwnRuns() {
    let kept = null;
    try { kept = localStorage.getItem(`roofbook-runs-${bar.dataset.lab}`); } catch { /* this browser stores nothing */ }
    const option = against.querySelector("option[value=this-device]"), wasChosen = option?.selected;
    if (kept && !option) against.append(new Option("This device, in your browser", "this-device"));
    if (!kept) option?.remove();
    against.parentElement.hidden = against.options.length < 2;
    if (!kept && wasChosen) against.dispatchEvent(new Event("change"));
  }
  function offerAgainst() {
    if (!against || !document.querySelector(".on-device :is(.step, tr[data-variant])")) return;
    offerOwnRuns();
    document.addEventListener("roofbook-runs", offerOwnRuns);
    let chosen = new URLSearchParams(location.search).get("against");
    try { chosen ||= sessionStorage.getItem("roofbook-against"); } catch { /* this browser stores nothing */ }
    if (chosen) loadAgainst();
    for (const event of ["focus", "pointerenter", "change"]) against.addEventListener(event, loadAgainst, { once: true });
  }

  devices.parentElement.hidden = false;
  offerAgainst();
  devices.addEventListener("change", () => {
    remember("device", devices.value);
    showDevice(devices.value);
  });
  cases.addEventListener("change", () => {
    wantedCase = cases.value;
    remember("case", wantedCase);
    showCase();
  });
  addEventListener("hashchange", revealTarget);
  const device = remembered("device");
  (device && device !== first ? showDevice(device) : showCase()).then(revealTarget);
})();
