// Labels of the points of a figure, shown where a reader points, taps or goes by the keyboard. A figure is one stop of the Tab
// key; arrows go from point to point, Escape hides the label.
(() => {
  "use strict";
  const REACH = 24; // most pixels between a pointer and the point that it chooses
  const tip = document.createElement("div");
  tip.className = "figure-tip";
  tip.setAttribute("aria-hidden", "true"); // the point's own label has the same text
  tip.hidden = true;
  let current = null;

  const pointsOf = (figure) => [...figure.querySelectorAll("[data-tip]")];

  // Without this script a figure is one image, which its label describes.
  function prepare() {
    for (const figure of document.querySelectorAll("svg.roofbook-figure:not([data-points])")) {
      const points = pointsOf(figure);
      figure.dataset.points = points.length;
      if (!points.length) continue;
      figure.setAttribute("role", "group");
      points.forEach((point, index) => {
        point.setAttribute("role", "img");
        point.setAttribute("aria-label", point.dataset.tip);
        point.setAttribute("tabindex", index ? -1 : 0);
      });
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
    const figure = target.closest?.("svg.roofbook-figure");
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

  addEventListener("pointermove", followPointer);
  addEventListener("pointerdown", followPointer);
  addEventListener("keydown", moveByKey);
  addEventListener("focusin", ({ target }) => {
    if (!target.matches("[data-tip]:focus-visible")) return;
    const points = pointsOf(target.ownerSVGElement);
    show(target, ` (${points.indexOf(target) + 1} of ${points.length}, by arrow keys)`);
  });
  addEventListener("focusout", ({ target }) => target === current && show(null));
  document.body.append(tip);
  prepare();
  new MutationObserver(prepare).observe(document.querySelector("article, main") ?? document.body, { childList: true, subtree: true });
})();
