// Goes through the opening figure of a lab's page step by step: a slider below it, and beside it what the page says of the step:
// its change, its changed lines, its bar beside its parent's, and the verdict. All of it is already on the page; without this
// script the figure is a still whose points are links. It also opens the folds of steps.
(() => {
  "use strict";
  const make = (tag, attributes = {}, ...children) => {
    const element = document.createElement(tag);
    for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
    element.append(...children);
    return element;
  };

  function prepare(figure) {
    figure.dataset.ready = "";
    const points = [...figure.querySelectorAll("a[data-step]")];
    if (points.length < 2) return;
    const slider = make("input", { type: "range", min: 0, max: points.length - 1, step: 1, "aria-label": "Step of the ladder" });
    const [back, forth] = ["‹", "›"].map((sign, index) =>
      make("button", { type: "button", "aria-label": index ? "Next step" : "Step before" }, sign));
    const panel = make("div", { class: "opening-step", "aria-live": "polite" });
    const fastest = points.findIndex((point) => "fastest" in point.dataset);

    function show(index) {
      slider.value = index;
      back.disabled = index === 0;
      forth.disabled = index === points.length - 1;
      points.forEach((point, other) => point.toggleAttribute("data-now", other === index));
      const point = points[index], name = point.dataset.step, step = document.getElementById(`step-${name}`);
      slider.setAttribute("aria-valuetext", point.getAttribute("aria-label"));
      const head = make("p", { class: "opening-name" }, make("strong", {}, name), ` ${point.dataset.time} · step ${index + 1} of ${points.length} `);
      if (point.dataset.needs) head.append(make("small", { class: "marks" }, `needs ${point.dataset.needs}`), " ");
      head.append(make("a", { href: point.getAttribute("href") }, step ? "in the story" : "its code"));
      const copies = [...(step?.querySelectorAll(":scope > p:not(.expected, .table-note), :scope > .step-lines") ?? [])];
      const shownCase = figure.closest("[data-case]")?.dataset.case;
      const effects = [...(step?.querySelectorAll(".effect > li:not(.against)") ?? [])];
      const effect = effects.find((line) => line.dataset.case === shownCase) ?? effects[0];
      const text = make("div", {}, head, ...copies.filter((copy) => copy.tagName === "P").map((copy) => copy.cloneNode(true)));
      const ownRun = step?.querySelector(".effect > li.against");
      for (const shown of [effect, ownRun].filter(Boolean)) {
        const line = make("div", { class: `effect-copy ${shown.className}` });
        line.innerHTML = shown.innerHTML;
        text.append(line);
      }
      panel.replaceChildren(text, ...copies.filter((copy) => copy.tagName === "DIV").map((copy) => copy.cloneNode(true)));
      panel.querySelectorAll("[tabindex]").forEach((part) => part.setAttribute("tabindex", -1));
    }

    slider.addEventListener("input", () => show(Number(slider.value)));
    document.addEventListener("roofbook-compared", () => figure.isConnected && show(Number(slider.value)));
    back.addEventListener("click", () => show(Number(slider.value) - 1));
    forth.addEventListener("click", () => show(Number(slider.value) + 1));
    points.forEach((point, index) => {
      point.tabIndex = -1;
      point.addEventListener("click", (event) => {
        event.preventDefault();
        show(index);
        slider.focus();
      });
    });
    figure.querySelector(".opening-plot").after(make("div", { class: "opening-slider" }, back, slider, forth), panel);
    show(fastest);
  }

  // A part in a fold opens it, and one of another case has a script of its own, which comes later: so look again.
  function prepareAll() {
    for (const figure of document.querySelectorAll("figure.opening:not([data-ready])")) {
      if (figure.offsetParent) prepare(figure);
    }
  }
  // A link to a step opens its fold. The steps of the chosen case that matter most are open.
  function unfold(hash = location.hash) {
    const target = document.getElementById(decodeURIComponent(hash.slice(1)));
    let fold = target?.closest("details:not([open])");
    if (!fold) return;
    for (; fold; fold = fold.parentElement.closest("details:not([open])")) fold.open = true;
    (target.closest(".step-fold") ?? target).scrollIntoView();
  }
  let all = false;
  function openFolds(shownCase) {
    for (const fold of document.querySelectorAll("details.step-fold")) {
      if (all || fold.dataset.opensOn?.split(" ").includes(shownCase)) fold.open = true;
    }
  }
  function offerAll() {
    const first = document.querySelector("details.step-fold")?.closest(".on-device, main");
    if (!first || document.querySelector(".step-folds")) return;
    const button = make("button", { type: "button", "aria-pressed": all }, "Open all of them");
    button.addEventListener("click", () => {
      all = button.ariaPressed !== "true";
      button.setAttribute("aria-pressed", all);
      button.textContent = all ? "Fold them" : "Open all of them";
      for (const fold of document.querySelectorAll("details.step-fold")) fold.open = all;
    });
    const place = document.querySelector(".step, details.step-fold").closest("details.step-fold, .step");
    place.before(make("p", { class: "table-note step-folds" },
      "The steps that gained most on the way to the fastest one are in full; a line stands for each of the others. ", button));
  }
  prepareAll();
  offerAll();
  unfold();
  addEventListener("hashchange", () => unfold());
  document.addEventListener("click", ({ target }) => {  // once more, if the reader has closed it
    const link = target.closest?.('a[href^="#step-"]');
    if (link && link.hash === location.hash) unfold();
  });
  document.addEventListener("roofbook-shown", ({ detail }) => {
    offerAll();
    openFolds(detail.case);
    unfold();
  });
  new MutationObserver(prepareAll).observe(document.querySelector("article, main") ?? document.body,
    { childList: true, subtree: true, attributes: true, attributeFilter: ["hidden"] });
})();
