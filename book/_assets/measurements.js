// The page of all measurements of a lab on a device: fifty at a time, and a field that searches all of them. Without this script
// the page has them all, one below the other.
(() => {
  "use strict";
  const SIZE = 50;
  const cards = [...document.querySelectorAll("section.measured")];
  if (cards.length <= SIZE) return;
  const texts = cards.map((card) => card.querySelector("h2, .card-time").parentElement.textContent.toLowerCase());
  const make = (tag, attributes = {}, ...children) => {
    const element = document.createElement(tag);
    for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
    element.append(...children);
    return element;
  };
  const field = make("input", { type: "search", "aria-label": "Search the measurements" });
  const message = make("span", { role: "status" });
  const [before, after] = ["Previous", "Next"].map((word) => make("button", { type: "button" }, `${word} ${SIZE}`));
  let first = 0;

  function found() {
    const words = field.value.toLowerCase().split(/\s+/).filter(Boolean);
    return cards.filter((_, index) => words.every((word) => texts[index].includes(word)));
  }

  function show(from) {
    const hits = found();
    first = Math.min(Math.max(0, from), Math.max(0, Math.floor((hits.length - 1) / SIZE) * SIZE));
    const shown = new Set(hits.slice(first, first + SIZE));
    for (const card of cards) card.hidden = !shown.has(card);
    before.disabled = first === 0;
    after.disabled = first + SIZE >= hits.length;
    message.textContent = hits.length ? `${first + 1} to ${first + shown.size} of ${hits.length}` : "None of them has these words.";
  }

  function showTarget() {
    const target = document.getElementById(decodeURIComponent(location.hash.slice(1)));
    const index = cards.indexOf(target?.closest("section.measured"));
    if (index < 0) return;
    field.value = "";
    show(Math.floor(index / SIZE) * SIZE);
    target.scrollIntoView();
  }

  field.addEventListener("input", () => show(0));
  before.addEventListener("click", () => show(first - SIZE));
  after.addEventListener("click", () => show(first + SIZE));
  addEventListener("hashchange", showTarget);
  cards[0].before(make("div", { class: "pager", role: "search" }, make("label", {}, "Search ", field), before, after, message));
  show(0);
  showTarget();
})();
