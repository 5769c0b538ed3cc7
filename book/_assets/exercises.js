/* The exercises: compares what the reader picks with the measurement, and shows the point of a sweep that a slider is at. They are
   of the device that the reader has chosen on a lab's page (devices-of-page.js), where they have it. All data stands in the page; without this script a reader opens the measurement, and a sweep is a table. */
(() => {
  let chosen = null;
  try { chosen = localStorage.getItem("roofbook-place"); } catch { /* a browser that keeps nothing */ }

  for (const exercise of document.querySelectorAll(".exercise[data-estimate]")) {
    const of = JSON.parse(exercise.querySelector(".exercise-data").textContent).find(({ place }) => place === chosen);
    if (of) {
      for (const name of ["estimate", "low", "high", "said"]) exercise.dataset[name] = of[name];
      for (const there of exercise.querySelectorAll(".exercise-there")) there.textContent = of.there;
      exercise.querySelector(".exercise-measured").innerHTML = of.measured;
    }
    const { estimate, low, high, said } = exercise.dataset;
    const answer = exercise.querySelector(".exercise-said");
    exercise.querySelector("fieldset").addEventListener("change", ({ target }) => {
      const from = Number(target.dataset.from), to = target.dataset.to ? Number(target.dataset.to) : Infinity;
      const right = Number(high) >= from && Number(low) < to;
      const verdict = right ? "Right" : Number(estimate) < from ? "Less than that" : "More than that";
      answer.textContent = `${verdict}: measured ${said} times. You picked: ${target.parentNode.textContent.trim()}.`;
      answer.className = `exercise-said ${right ? "right" : "missed"}`;
      exercise.querySelector("details").open = true;
    });
  }

  for (const knob of document.querySelectorAll(".exercise-knob")) {
    const exercise = knob.closest(".exercise");
    const { points, places } = JSON.parse(exercise.querySelector(".exercise-data").textContent);
    places.sort((one, other) => other.name.startsWith(`${chosen}, `) - one.name.startsWith(`${chosen}, `));
    const input = knob.querySelector("input"), output = knob.querySelector("output");
    const rows = places.map(({ name }) => {
      const row = document.createElement("div"), label = document.createElement("span");
      const track = document.createElement("span"), bar = document.createElement("b"), text = document.createElement("span");
      label.textContent = name;
      track.className = "exercise-track";
      track.append(bar);
      row.append(label, track, text);
      knob.querySelector(".exercise-bars").append(row);
      return { bar, text };
    });
    const draw = () => {
      const at = Number(input.value);
      output.textContent = points[at];
      input.setAttribute("aria-valuetext", [points[at], ...places.map(({ name, texts }) => `${name}: ${texts[at]}`)].join("; "));
      places.forEach(({ times, texts }, place) => {
        const known = times.filter((time) => time !== null), best = Math.min(...known);
        rows[place].bar.style.width = times[at] === null ? "0" : `${(100 * times[at]) / Math.max(...known)}%`;
        rows[place].bar.className = times[at] === best ? "best" : "";
        const beside = times[at] === null ? "" : times[at] === best ? ", the shortest" : `, ${(times[at] / best).toFixed(2)} × the shortest`;
        rows[place].text.textContent = texts[at] + beside;
      });
    };
    input.addEventListener("input", draw);
    draw();
    knob.hidden = false;
    exercise.querySelector(".exercise-table").open = false;
  }
})();
