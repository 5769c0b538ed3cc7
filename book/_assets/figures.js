// Labels of the points of a figure, shown where a reader points, taps or goes by the keyboard. A figure is one stop of the Tab
// key; arrows go from point to point, Enter opens a point's step, Escape hides the label. And each figure as a file.
(() => {
  "use strict";
  const DRAWING = "svg.roofbook-figure";
  const REACH = 24; // most pixels between a pointer and the point that it chooses
  const tip = document.createElement("div");
  tip.className = "figure-tip";
  tip.setAttribute("aria-hidden", "true"); // the point's own label has the same text
  tip.hidden = true;
  let current = null;

  const pointsOf = (figure) => [...figure.querySelectorAll("[data-tip]")];

  // Without this script a figure is one image, which its label describes.
  function prepare() {
    for (const figure of document.querySelectorAll(`${DRAWING}:not([data-points])`)) {
      const points = pointsOf(figure);
      figure.dataset.points = points.length;
      if (!points.length) continue;
      figure.setAttribute("role", "group");
      points.forEach((point, index) => {
        if (point.localName !== "a") point.setAttribute("role", "img");
        point.setAttribute("aria-label", point.dataset.tip);
        point.setAttribute("tabindex", index ? -1 : 0);
      });
    }
  }

  // A figure as a drawing of its own: in the page's ink and font, with whole addresses and without labels.
  const LOOKS = ["fill", "stroke", "stroke-width", "stroke-linecap", "font-size", "text-anchor", "opacity"];
  function alone(figure) {
    const copy = figure.cloneNode(true), { color, fontFamily } = getComputedStyle(figure);
    if (!figure.matches(DRAWING)) { // a card's, whose style sheet stays behind
      const parts = [...copy.querySelectorAll("*")];
      figure.querySelectorAll("*").forEach((part, index) => {
        const style = getComputedStyle(part);
        for (const look of LOOKS) parts[index].style.setProperty(look, style.getPropertyValue(look));
      });
    }
    const [width, height] = figure.getAttribute("viewBox").split(" ").slice(2).map((side) => 1.5 * side);
    for (const [name, value] of Object.entries({ xmlns: "http://www.w3.org/2000/svg", width, height })) copy.setAttribute(name, value);
    Object.assign(copy.style, { color, fontFamily, maxWidth: "" });
    for (const point of pointsOf(copy)) {
      if (point.localName === "a") point.setAttribute("href", new URL(point.getAttribute("href"), location).href);
      for (const name of ["data-tip", "tabindex", "role", "class"]) point.removeAttribute(name);
    }
    return { text: new XMLSerializer().serializeToString(copy), width, height };
  }

  function save(blob, name, suffix) {
    const title = name.toLowerCase().replace(/[^a-z0-9.]+/g, "-");
    const link = Object.assign(document.createElement("a"), { download: `${title.slice(0, 80)}.${suffix}`, href: URL.createObjectURL(blob) });
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 60000);
  }

  // Return a figure's drawing and its name. A figure of HTML is drawn by a script of its own, which loads for the first of them.
  const { src } = document.currentScript;
  let loaded;
  const loadDrawn = () => loaded ??= new Promise((resolve, reject) => {
    const script = Object.assign(document.createElement("script"), { src: new URL(`drawn-figures.js${new URL(src).search}`, src).href });
    script.onload = resolve;
    script.onerror = () => { loaded = undefined; reject(new Error(`${script.src} does not load`)); };
    document.head.append(script);
  });

  async function drawn(figure) {
    const svg = figure.querySelector(":scope > svg:not([aria-hidden])");
    if (!svg) {
      await loadDrawn();
      const drawing = window.roofbookDrawn(figure), csv = figure.querySelector("a.csv");
      return { ...drawing, title: csv?.pathname.split("/").at(-1).replace(/\.csv$/, "") ?? drawing.title };
    }
    return { ...alone(svg), title: svg.querySelector("title")?.textContent ?? svg.getAttribute("aria-label") };
  }

  async function saveDrawing(figure) {
    const { text, title } = await drawn(figure);
    save(new Blob([text], { type: "image/svg+xml" }), title, "svg");
  }

  async function savePicture(figure) {
    const { text, width, height, title } = await drawn(figure), picture = new Image();
    const still = text.replace(/<style[^>]*>[^]*?<\/style>/, ""); // a picture of an animation is its still
    picture.src = `data:image/svg+xml;charset=utf-8,${encodeURIComponent(still)}`;
    await picture.decode();
    const canvas = document.createElement("canvas"), ink = canvas.getContext("2d");
    [canvas.width, canvas.height] = [2 * width, 2 * height];
    ink.fillStyle = getComputedStyle(document.body).backgroundColor;
    ink.fillRect(0, 0, canvas.width, canvas.height);
    ink.drawImage(picture, 0, 0, canvas.width, canvas.height);
    canvas.toBlob((blob) => save(blob, title, "png"));
  }

  const WRITERS = { SVG: saveDrawing, PNG: savePicture };

  function saveByButton({ target }) {
    const button = target.closest?.(".figure-files > button");
    if (button) WRITERS[button.textContent](button.closest("figure"));
  }

  const FIGURES = "figure:is(.opening, .found, .picked), figure.roofbook:has(> svg.roofbook-figure), dialog figure";
  function offerFiles() {
    for (const figure of document.querySelectorAll(`:is(${FIGURES}):not([data-files])`)) {
      figure.dataset.files = "";
      const files = document.createElement("span"), caption = figure.querySelector(":scope > figcaption");
      files.className = "figure-files";
      files.innerHTML = Object.keys(WRITERS).map((name) => `<button type="button">${name}</button>`).join("");
      const csv = caption.querySelector(":scope > a.csv");
      if (csv) csv.after(files);
      else if (figure.matches(".roofbook")) caption.firstChild.after(files);
      else figure.append(files);
    }
  }

  function show(point, more = "") {
    if (current !== point) current?.classList.remove("now");
    current = point;
    tip.hidden = !point;
    if (!point) return;
    point.classList.add("now");
    tip.textContent = point.dataset.tip + more;
    const box = point.getBoundingClientRect(), width = document.documentElement.clientWidth;
    const left = Math.min(Math.max(box.left + box.width / 2 - tip.offsetWidth / 2, 4), width - tip.offsetWidth - 4);
    const above = box.top - tip.offsetHeight - 8;
    tip.style.left = `${left + scrollX}px`;
    tip.style.top = `${(above < 60 ? box.bottom + 8 : above) + scrollY}px`; // the bars at the top of a page cover 60
  }

  function nearest({ clientX: x, clientY: y, target }) {
    const figure = target.closest?.(DRAWING);
    let closest = null, least = REACH;
    for (const point of figure ? pointsOf(figure) : []) {
      const { left, right, top, bottom } = point.getBoundingClientRect();
      const distance = Math.hypot(Math.max(left - x, 0, x - right), Math.max(top - y, 0, y - bottom));
      if (distance < least) [closest, least] = [point, distance];
    }
    return closest;
  }

  function followPointer(event) {
    if (tip.contains(event.target)) return;
    const point = nearest(event);
    if (point || !current?.matches(":focus-visible")) show(point);
  }

  function moveByKey(event) {
    const from = event.target.closest?.("[data-tip]");
    if (event.key === "Escape") return show(null);
    if (!from) return;
    const points = pointsOf(from.ownerSVGElement), index = points.indexOf(from), last = points.length - 1;
    const moves = { ArrowRight: index + 1, ArrowDown: index + 1, ArrowLeft: index - 1, ArrowUp: index - 1, Home: 0, End: last };
    if (!(event.key in moves)) return;
    event.preventDefault();
    const next = points[Math.min(Math.max(moves[event.key], 0), last)];
    from.setAttribute("tabindex", -1);
    next.setAttribute("tabindex", 0);
    next.focus();
  }

  // A click near a point opens what its label names. A first tap shows the label alone.
  let shownBefore = null, pressed = null; // at the start of a press: a focus that moves hides the label before the click
  function openPoint(event) {
    if (!event.target.closest?.(DRAWING)) return;
    const link = event.target.closest("a[data-tip]"), near = link ?? pressed;
    if (event.pointerType === "touch" && near !== shownBefore) return event.preventDefault();
    if (!link && near?.localName === "a" && near.ownerSVGElement.contains(event.target)) location.href = near.getAttribute("href");
  }

  addEventListener("pointermove", followPointer);
  addEventListener("pointerdown", (event) => { shownBefore = current; followPointer(event); pressed = current; });
  addEventListener("click", openPoint);
  addEventListener("click", saveByButton);
  addEventListener("keydown", moveByKey);
  addEventListener("focusin", ({ target }) => {
    if (!target.matches("[data-tip]:focus-visible")) return;
    const points = pointsOf(target.ownerSVGElement);
    show(target, ` (${points.indexOf(target) + 1} of ${points.length}, by arrow keys)`);
  });
  addEventListener("focusout", ({ target }) => target === current && show(null));
  document.body.append(tip);
  const prepareAll = () => { prepare(); offerFiles(); };
  prepareAll();
  document.addEventListener("roofbook-card", offerFiles);
  new MutationObserver(prepareAll).observe(document.querySelector("article, main") ?? document.body, { childList: true, subtree: true });
})();
