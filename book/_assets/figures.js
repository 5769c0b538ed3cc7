// What a point of a figure is: said where a reader points, taps or goes by the keyboard. A figure is one stop of the tab key;
// arrows go from point to point, Escape hides what is said.
(() => {
  "use strict";
  const REACH = 24; // pixels from a point at which it is meant
  const tip = document.createElement("div");
  tip.className = "figure-tip";
  tip.setAttribute("aria-hidden", "true"); // a point's label says the same
  tip.hidden = true;
  let now = null;

  const pointsOf = (figure) => [...figure.querySelectorAll("[data-tip]")];

  // Without this script a figure is one image, which its label describes.
  function prepare() {
    for (const figure of document.querySelectorAll("svg.roofbook-figure:not([data-points])")) {
      const points = pointsOf(figure);
      figure.dataset.points = points.length;
      if (!points.length) continue;
      figure.setAttribute("role", "group");
      points.forEach((point, at) => {
        point.setAttribute("role", "img");
        point.setAttribute("aria-label", point.dataset.tip);
        point.setAttribute("tabindex", at ? -1 : 0);
      });
    }
  }

  function show(point, more = "") {
    if (now !== point) now?.classList.remove("now");
    now = point;
    tip.hidden = !point;
    if (!point) return;
    point.classList.add("now");
    tip.textContent = point.dataset.tip + more;
    const at = point.getBoundingClientRect(), width = document.documentElement.clientWidth;
    const left = Math.min(Math.max(at.left + at.width / 2 - tip.offsetWidth / 2, 4), width - tip.offsetWidth - 4);
    const above = at.top - tip.offsetHeight - 8;
    tip.style.left = `${left + scrollX}px`;
    tip.style.top = `${(above < 60 ? at.bottom + 8 : above) + scrollY}px`; // the bars at the top of a page cover 60
  }

  function nearest({ clientX: x, clientY: y, target }) {
    const figure = target.closest?.("svg.roofbook-figure");
    let found = null, least = REACH;
    for (const point of figure ? pointsOf(figure) : []) {
      const { left, right, top, bottom } = point.getBoundingClientRect();
      const away = Math.hypot(Math.max(left - x, 0, x - right), Math.max(top - y, 0, y - bottom));
      if (away < least) [found, least] = [point, away];
    }
    return found;
  }

  function point(event) {
    if (tip.contains(event.target)) return;
    const found = nearest(event);
    if (found || !now?.matches(":focus-visible")) show(found);
  }

  function go(event) {
    const from = event.target.closest?.("[data-tip]");
    if (event.key === "Escape") return show(null);
    if (!from) return;
    const points = pointsOf(from.ownerSVGElement), at = points.indexOf(from), last = points.length - 1;
    const to = { ArrowRight: at + 1, ArrowDown: at + 1, ArrowLeft: at - 1, ArrowUp: at - 1, Home: 0, End: last }[event.key];
    if (to === undefined) return;
    event.preventDefault();
    const next = points[Math.min(Math.max(to, 0), last)];
    from.setAttribute("tabindex", -1);
    next.setAttribute("tabindex", 0);
    next.focus();
  }

  addEventListener("pointermove", point);
  addEventListener("pointerdown", point);
  addEventListener("keydown", go);
  addEventListener("focusin", ({ target }) => {
    if (!target.matches("[data-tip]:focus-visible")) return;
    const points = pointsOf(target.ownerSVGElement);
    show(target, ` (${points.indexOf(target) + 1} of ${points.length}, by arrow keys)`);
  });
  addEventListener("focusout", ({ target }) => target === now && show(null));
  document.body.append(tip);
  prepare();
  new MutationObserver(prepare).observe(document.querySelector("article, main") ?? document.body, { childList: true, subtree: true });
})();
