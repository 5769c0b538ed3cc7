// Slides by the keyboard and by two buttons: the next or the previous one. Without this script they scroll.
(() => {
  "use strict";
  const slides = [...document.querySelectorAll(".slide")];
  const KEYS = { ArrowRight: 1, ArrowDown: 1, PageDown: 1, " ": 1, ArrowLeft: -1, ArrowUp: -1, PageUp: -1 };

  // The slide whose top is nearest to the top of the window.
  function current() {
    const distances = slides.map((slide) => Math.abs(slide.getBoundingClientRect().top));
    return distances.indexOf(Math.min(...distances));
  }

  function go(step) {
    const slide = slides[Math.max(0, Math.min(slides.length - 1, current() + step))];
    slide.scrollIntoView();
    history.replaceState(null, "", `#${slide.id}`);
  }

  for (const button of document.querySelectorAll("button[data-go]")) button.addEventListener("click", () => go(Number(button.dataset.go)));
  addEventListener("keydown", (event) => {
    if (event.altKey || event.ctrlKey || event.metaKey || event.shiftKey || event.target.closest("a, button")) return;
    const step = event.key === "Home" ? -slides.length : event.key === "End" ? slides.length : KEYS[event.key];
    if (!step) return;
    event.preventDefault();
    go(step);
  });
})();
