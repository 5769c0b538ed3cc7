/* The kernels of a lab: the links to a kernel's texts become tabs, and a script loads the texts when a tab is opened. An address
   that ends in #NAME opens that kernel's difference, or its text if it has no parent. Without this script the links open files. */
(() => {
  "use strict";
  const LANGUAGE_KEY = "roofbook-language", kernels = new Map(), texts = new Map(), waiting = new Map();

  // Called by a kernel's script.
  window.roofbookKernel = (lab, name, kernelTexts) => {
    texts.set(name, kernelTexts);
    waiting.get(name)?.forEach((resolve) => resolve(kernelTexts));
  };

  function load(kernel) {
    const { kernel: name, script } = kernel.dataset;
    if (texts.has(name)) return Promise.resolve(texts.get(name));
    return new Promise((resolve, reject) => {
      waiting.set(name, [...(waiting.get(name) ?? []), resolve]);
      document.head.append(Object.assign(document.createElement("script"), { src: script, onerror: reject }));
    });
  }

  // The language that the reader chose last, otherwise that of the device that the reader chose on the book's pages.
  function language() {
    try {
      return localStorage.getItem(LANGUAGE_KEY) ?? localStorage.getItem("roofbook-device")?.split("/")[1] ?? "cuda";
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

  // Split a difference into lines, or a source into words, as spans with the classes that the theme colours.
  function coloured(text, isDifference) {
    if (isDifference) {
      return text.split(/(?<=\n)/).map((line) => {
        const kind = LINES.find(([, start]) => start.test(line));
        return kind ? span(kind[0], line) : line;
      });
    }
    const parts = [];
    let end = 0;
    for (const match of text.matchAll(WORDS)) {
      const kind = match.slice(1).findIndex((group) => group !== undefined);
      parts.push(text.slice(end, match.index), span(KINDS[kind][0], match[0]));
      end = match.index + match[0].length;
    }
    return [...parts, text.slice(end)];
  }

  function copy(text, message) {
    const done = () => { message.textContent = "Copied"; setTimeout(() => { message.textContent = ""; }, 3000); };
    const failed = () => { message.textContent = "This browser does not let a page copy: open the plain text."; };
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
    kernel.tabs.forEach((other) => { other.tabIndex = other === tab ? 0 : -1; });
    const { panel } = kernel, { tab: name } = tab.link.dataset;
    panel.setAttribute("aria-labelledby", tab.id);
    panel.hidden = false;
    panel.textContent = "Loading…";
    let text;
    try { text = (await load(kernel.root))[name]; } catch {
      panel.replaceChildren("The text could not be loaded; ", Object.assign(tab.link.cloneNode(), { textContent: "open it by itself" }), ".");
      return;
    }
    if (tab.getAttribute("aria-selected") !== "true") return;
    const message = span("kernel-said", "");
    message.setAttribute("role", "status");
    const button = Object.assign(document.createElement("button"), { type: "button", textContent: "Copy" });
    button.addEventListener("click", () => copy(text, message));
    const plain = Object.assign(tab.link.cloneNode(), { textContent: "Plain text" });
    const bar = document.createElement("p"), pre = document.createElement("pre"), block = document.createElement("div");
    bar.className = "kernel-bar";
    bar.append(button, plain, message);
    pre.tabIndex = 0;
    pre.setAttribute("role", "region");
    pre.setAttribute("aria-label", `${kernel.root.dataset.kernel}: ${tab.textContent}`);
    pre.append(...coloured(text, name.endsWith("-difference")));
    block.className = "highlight";
    block.append(pre);
    panel.replaceChildren(bar, block);
  }

  function choose(kernel, tab) {
    if (tab.getAttribute("aria-selected") === "true") return close(kernel);
    try { localStorage.setItem(LANGUAGE_KEY, tab.link.dataset.language); } catch { /* the browser stores no choices */ }
    return open(kernel, tab);
  }

  for (const root of document.querySelectorAll(".kernel")) {
    const files = root.querySelector(".kernel-files"), list = document.createElement("div"), panel = document.createElement("div");
    const kernel = { root, panel, tabs: [] }, name = root.dataset.kernel;
    list.setAttribute("role", "tablist");
    list.setAttribute("aria-label", `Texts of ${name}`);
    Object.assign(panel, { id: `text-of-${name}`, hidden: true, className: "kernel-text" });
    panel.setAttribute("role", "tabpanel");
    for (const [index, link] of [...files.querySelectorAll("a")].entries()) {
      const tab = Object.assign(document.createElement("button"), {
        type: "button", id: `tab-${index}-of-${name}`, textContent: link.textContent, tabIndex: index ? -1 : 0, link });
      tab.setAttribute("role", "tab");
      tab.setAttribute("aria-selected", "false");
      tab.setAttribute("aria-controls", panel.id);
      tab.addEventListener("click", () => choose(kernel, tab));
      kernel.tabs.push(tab);
      list.append(tab);
    }
    list.addEventListener("keydown", (event) => {
      const { tabs } = kernel, index = tabs.indexOf(document.activeElement);
      const moves = { ArrowRight: index + 1, ArrowLeft: index - 1 + tabs.length, Home: 0, End: tabs.length - 1 };
      if (!(event.key in moves) || index < 0) return;
      event.preventDefault();
      const tab = tabs[moves[event.key] % tabs.length];
      tab.focus();
      if (tab.getAttribute("aria-selected") !== "true") choose(kernel, tab);
    });
    files.hidden = true;
    root.append(list, panel);
    kernels.set(name, kernel);
  }

  async function openFromAddress() {
    const target = document.getElementById(decodeURIComponent(location.hash.slice(1)));
    const kernel = kernels.get(target?.querySelector(":scope > .kernel, :scope > * > .kernel")?.dataset.kernel);
    if (!kernel || !kernel.panel.hidden) return;
    const preferred = language();
    const rank = ({ link: { dataset } }) => 2 * dataset.tab.endsWith("-difference") + (dataset.language === preferred);
    await open(kernel, kernel.tabs.reduce((best, tab) => (rank(tab) > rank(best) ? tab : best)));
    target.scrollIntoView();
  }

  addEventListener("hashchange", openFromAddress);
  openFromAddress();
})();
