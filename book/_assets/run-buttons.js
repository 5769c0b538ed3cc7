/* Buttons that run steps in the browser: on the pages of a lab's kernels and exercises, and at the steps of its story. A press loads the machinery,
   run-here.js, and then the scripts of the steps. The steps are in the attributes of this script, or of the kernels. */
(() => {
  "use strict";
  const { run: machinery, steps = "", script = "" } = document.currentScript.dataset, parts = new Map();
  const site = new URL("..", document.currentScript.src);

  let loading;
  const load = () => loading ??= new Promise((resolve, reject) => {
    const onerror = () => { loading = undefined; reject(); };
    document.head.append(Object.assign(document.createElement("script"), { src: machinery, onload: resolve, onerror }));
  });

  function button(words, about, open) {
    const bar = document.createElement("p"), made = document.createElement("button"), said = document.createElement("span");
    made.append(words);
    if (about) made.setAttribute("aria-label", `${words}: ${about}`);
    said.setAttribute("role", "status");
    Object.assign(bar, { className: "run-bar" }).append(Object.assign(made, { type: "button" }), said);
    made.addEventListener("click", async function press() {
      said.textContent = "";
      try { await load(); } catch {
        said.textContent = "The script run-here.js could not be loaded: are you offline?";
        return;
      }
      made.removeEventListener("click", press);
      open(bar, made);
    });
    return bar;
  }

  const kernels = [...document.querySelectorAll(".kernel[data-run]")];
  const names = kernels.length ? kernels.map(({ dataset }) => dataset.kernel) : steps.split(" ").filter(Boolean);
  const addresses = new Map(kernels.map(({ dataset }) => [dataset.kernel, dataset.run]));
  /** Names of the steps that this lab's pages can run, and addresses: of a step's script (undefined for another step), of a script
   * beside those, and of a lab's story. */
  window.roofbookRuns = {
    names,
    addressOf: (name) => addresses.get(name) ?? (names.includes(name) ? script.replace("{}", name) : undefined),
    addressOfScript: (file) => script.replace("{}", file),
    storyOf: (lab) => new URL(`labs/${lab}.html`, site),
  };

  const WORDS = { holed: "Write it here, in WGSL", against: "Measure both on this device" };
  function ofStep(root) {
    const words = WORDS[["holed", "against"].find((kind) => kind in root.dataset)] ?? "Run it on this device";
    return button(words, root.dataset.kernel, (bar, made) => window.roofbookRunHere.open(root, made));
  }
  const ofAll = () => button("Run all steps on this device", "", (bar, made) => window.roofbookRunHere.openLadder(bar, made));
  for (const root of [...kernels, ...document.querySelectorAll(".exercise > .run-here")]) root.append(ofStep(root));
  if (kernels.length) document.querySelector(".kernel-index")?.parentElement.before(ofAll());
  if (kernels.length || !names.length) return;

  // A story's steps are written anew for another device; a reader's run stays at its step.
  function part(name, make) {
    if (!parts.has(name)) parts.set(name, make(Object.assign(document.createElement("div"), { className: "run-here" })));
    return parts.get(name);
  }
  function addButtons() {
    const figure = document.querySelector("figure.opening");
    if (figure && !figure.parentElement.querySelector(":scope > .run-here")) {
      figure.after(part("", (root) => { root.append(ofAll()); return root; }));
    }
    for (const step of document.querySelectorAll(".step:not([data-runs])")) {
      step.dataset.runs = "";
      const name = step.id.slice("step-".length);
      if (!names.includes(name)) continue;
      step.append(part(name, (root) => {
        root.dataset.kernel = name;
        root.append(ofStep(root));
        return root;
      }));
    }
  }
  addButtons();
  new MutationObserver(addButtons).observe(document.querySelector("article, main") ?? document.body, { childList: true, subtree: true });
})();
