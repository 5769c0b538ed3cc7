/* The kernels of a lab: the links to a kernel's texts become tabs, whose texts a script brings when one is opened. An address
   that ends in #NAME opens that kernel's difference, or its text where it has no parent. Without this script the links open files. */
(() => {
  "use strict";
  const remembered = "roofbook-language", kernels = new Map(), texts = new Map(), waiting = new Map();

  // What a kernel's script calls.
  window.roofbookKernel = (lab, name, found) => {
    texts.set(name, found);
    waiting.get(name)?.forEach((done) => done(found));
  };

  function load(kernel) {
    const { kernel: name, script } = kernel.dataset;
    if (texts.has(name)) return Promise.resolve(texts.get(name));
    return new Promise((done, failed) => {
      waiting.set(name, [...(waiting.get(name) ?? []), done]);
      document.head.append(Object.assign(document.createElement("script"), { src: script, onerror: failed }));
    });
  }

  // The language that the reader looked at last, or else that of the device that the book's pages show.
  function language() {
    try {
      return localStorage.getItem(remembered) ?? localStorage.getItem("roofbook-device")?.split("/")[1] ?? "cuda";
    } catch { return "cuda"; }
  }

  const KINDS = [
    ["c1", /\/\/.*|\/\*[^]*?\*\//], ["s", /"(?:\\.|[^"\\\n])*"/], ["cp", /^[ \t]*#.*/],
    ["mi", /\b(?:0x[\da-fA-F]+|\d[\d.]*(?:[eE][+-]?\d+)?|\.\d+)[fFuUlL]*\b/],
    ["k", new RegExp(`\\b(?:${["asm", "break", "case", "const", "constexpr", "continue", "default", "do", "else", "enum", "extern",
      "for", "goto", "if", "inline", "namespace", "operator", "return", "sizeof", "static", "struct", "switch", "template",
      "typedef", "typename", "union", "using", "volatile", "while", "restrict", "__\\w+"].join("|")})\\b`)],
    ["kt", /\b(?:void|bool|char|short|int|long|float|double|half|signed|unsigned|u?(?:char|short|int|long)\d+|(?:float|double|half)\d+|size_t|u?int\d+_t)\b/],
  ];
  const WORDS = new RegExp(KINDS.map(([, kind]) => `(${kind.source})`).join("|"), "gm");
  const LINES = [["gh", /^(?:---|\+\+\+) /], ["gu", /^@@/], ["gi", /^\+/], ["gd", /^-/]];

  function span(css, text) {
    return Object.assign(document.createElement("span"), { className: css, textContent: text });
  }

  // Of a difference its lines, of a source its words, in the classes that the theme colours.
  function coloured(text, isDifference) {
    if (isDifference) {
      return text.split(/(?<=\n)/).map((line) => {
        const kind = LINES.find(([, start]) => start.test(line));
        return kind ? span(kind[0], line) : line;
      });
    }
    const parts = [];
    let end = 0;
    for (const found of text.matchAll(WORDS)) {
      parts.push(text.slice(end, found.index), span(KINDS[found.slice(1).findIndex((each) => each !== undefined)][0], found[0]));
      end = found.index + found[0].length;
    }
    return [...parts, text.slice(end)];
  }

  function copy(text, said) {
    const done = () => { said.textContent = "Copied"; setTimeout(() => { said.textContent = ""; }, 3000); };
    const failed = () => { said.textContent = "This browser does not let a page copy: open the plain text."; };
    navigator.clipboard ? navigator.clipboard.writeText(text).then(done, failed) : failed();
  }

  function close(kernel) {
    kernel.tabs.forEach((tab) => tab.setAttribute("aria-selected", "false"));
    kernel.panel.hidden = true;
    kernel.panel.replaceChildren();
  }

  async function open(kernel, tab) {
    close(kernel);
    tab.setAttribute("aria-selected", "true");
    kernel.tabs.forEach((each) => { each.tabIndex = each === tab ? 0 : -1; });
    const { panel } = kernel, { tab: name } = tab.link.dataset;
    panel.setAttribute("aria-labelledby", tab.id);
    panel.hidden = false;
    panel.textContent = "Loading…";
    let found;
    try { found = (await load(kernel.root))[name]; } catch {
      panel.replaceChildren("The text could not be loaded; ", Object.assign(tab.link.cloneNode(), { textContent: "open it by itself" }), ".");
      return;
    }
    if (tab.getAttribute("aria-selected") !== "true") return;
    const said = span("kernel-said", "");
    said.setAttribute("role", "status");
    const button = Object.assign(document.createElement("button"), { type: "button", textContent: "Copy" });
    button.addEventListener("click", () => copy(found, said));
    const plain = Object.assign(tab.link.cloneNode(), { textContent: "Plain text" });
    const bar = document.createElement("p"), pre = document.createElement("pre"), block = document.createElement("div");
    bar.className = "kernel-bar";
    bar.append(button, plain, said);
    pre.tabIndex = 0;
    pre.setAttribute("role", "region");
    pre.setAttribute("aria-label", `${kernel.root.dataset.kernel}: ${tab.textContent}`);
    pre.append(...coloured(found, name.endsWith("-difference")));
    block.className = "highlight";
    block.append(pre);
    panel.replaceChildren(bar, block);
  }

  function choose(kernel, tab) {
    if (tab.getAttribute("aria-selected") === "true") return close(kernel);
    try { localStorage.setItem(remembered, tab.link.dataset.language); } catch { /* a browser that keeps nothing */ }
    return open(kernel, tab);
  }

  for (const root of document.querySelectorAll(".kernel")) {
    const files = root.querySelector(".kernel-files"), list = document.createElement("div"), panel = document.createElement("div");
    const kernel = { root, panel, tabs: [] }, name = root.dataset.kernel;
    list.setAttribute("role", "tablist");
    list.setAttribute("aria-label", `Texts of ${name}`);
    Object.assign(panel, { id: `text-of-${name}`, hidden: true, className: "kernel-text" });
    panel.setAttribute("role", "tabpanel");
    for (const [at, link] of [...files.querySelectorAll("a")].entries()) {
      const tab = Object.assign(document.createElement("button"), {
        type: "button", id: `tab-${at}-of-${name}`, textContent: link.textContent, tabIndex: at ? -1 : 0, link });
      tab.setAttribute("role", "tab");
      tab.setAttribute("aria-selected", "false");
      tab.setAttribute("aria-controls", panel.id);
      tab.addEventListener("click", () => choose(kernel, tab));
      kernel.tabs.push(tab);
      list.append(tab);
    }
    list.addEventListener("keydown", (event) => {
      const { tabs } = kernel, at = tabs.indexOf(document.activeElement);
      const to = { ArrowRight: at + 1, ArrowLeft: at - 1 + tabs.length, Home: 0, End: tabs.length - 1 }[event.key];
      if (to === undefined || at < 0) return;
      event.preventDefault();
      const tab = tabs[to % tabs.length];
      tab.focus();
      if (tab.getAttribute("aria-selected") !== "true") choose(kernel, tab);
    });
    files.hidden = true;
    root.append(list, panel);
    kernels.set(name, kernel);
  }

  async function follow() {
    const aim = document.getElementById(decodeURIComponent(location.hash.slice(1)));
    const kernel = kernels.get(aim?.querySelector(":scope > .kernel, :scope > * > .kernel")?.dataset.kernel);
    if (!kernel || !kernel.panel.hidden) return;
    const wanted = language();
    const rank = ({ link: { dataset: { tab, language: own } } }) => 2 * tab.endsWith("-difference") + (own === wanted);
    await open(kernel, kernel.tabs.reduce((best, tab) => (rank(tab) > rank(best) ? tab : best)));
    aim.scrollIntoView();
  }

  addEventListener("hashchange", follow);
  follow();
})();
