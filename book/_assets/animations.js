// Plays the animations of a page, or goes through their stages. The motion itself is CSS within each drawing; here are its button,
// its slider, and the sentence of the stage that is on. Readers who ask for less motion get no button to play; the slider jumps.
(() => {
  "use strict";
  const calm = matchMedia("(prefers-reduced-motion: reduce)");
  const make = (tag, attributes) => {
    const element = document.createElement(tag);
    for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
    return element;
  };

  function prepare(figure) {
    figure.dataset.ready = "";
    const drawing = figure.querySelector("svg"), captions = [...figure.querySelectorAll(".animation-stages > li")];
    const stage = 1000 * figure.dataset.stageSeconds, last = captions.length - 1;
    const title = drawing.querySelector("title").textContent, controls = make("div", { class: "animation-controls" });
    const play = make("button", { type: "button" });
    const slider = make("input", { type: "range", min: 0, max: last, step: 1, "aria-label": `Stage: ${title}` });
    const parts = () => drawing.getAnimations({ subtree: true });
    // Local times before 0 show no stage, and the delay that makes the still is negative: so all times are of the second loop.
    const startOf = (part) => captions.length * stage + part.effect.getTiming().delay;
    let timer = 0;

    function mark(index) {
      slider.value = index;
      slider.setAttribute("aria-valuetext", captions[index].textContent);
      captions.forEach((caption, other) => other === index ? caption.setAttribute("aria-current", "step") : caption.removeAttribute("aria-current"));
    }

    function goTo(index, share) {
      for (const part of parts()) part.currentTime = startOf(part) + (index + share) * stage;
      mark(index);
    }

    function follow() {
      const [part] = parts();
      if (part) mark(Math.floor((part.currentTime - startOf(part)) / stage + captions.length) % captions.length);
    }

    function setPlaying(isPlaying) {
      figure.toggleAttribute("data-playing", isPlaying);
      play.textContent = isPlaying ? "Stop" : "Play";
      play.setAttribute("aria-label", `${play.textContent}: ${title}`);
      clearInterval(timer);
      if (isPlaying) timer = setInterval(follow, 200);
    }

    play.addEventListener("click", () => {
      const isPlaying = figure.hasAttribute("data-playing");
      if (!isPlaying && Number(slider.value) === last) goTo(0, 0);
      setPlaying(!isPlaying);
    });
    slider.addEventListener("input", () => {
      setPlaying(false);
      goTo(Number(slider.value), 0.8);
    });
    const offerMotion = () => {
      play.hidden = calm.matches;
      if (calm.matches) setPlaying(false);
    };
    calm.addEventListener("change", offerMotion);
    addEventListener("beforeprint", () => setPlaying(false));
    controls.append(play, slider);
    drawing.after(controls);
    setPlaying(false);
    offerMotion();
    mark(last);
  }

  // The cells of another device or case come later, by a script of their own.
  function prepareAll() {
    for (const figure of document.querySelectorAll("figure.animation:not([data-ready])")) prepare(figure);
  }
  prepareAll();
  new MutationObserver(prepareAll).observe(document.querySelector("article, main") ?? document.body, { childList: true, subtree: true });
})();
