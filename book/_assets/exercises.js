/* The exercises: compares the reader's choice with the measurement, and shows the point of a sweep that a slider is at. They are
   about the device that the reader has chosen on a lab's page (devices-of-page.js), if it has the measurements. All data is in
   the page; without this script a reader opens the measurement, and a sweep is a table. */
(() => {
  let chosen = null;
  try { chosen = localStorage.getItem("roofbook-place"); } catch { /* the browser stores no choices */ }

  for (const exercise of document.querySelectorAll(".exercise[data-estimate]")) {
    const answers = JSON.parse(exercise.querySelector(".exercise-data").textContent);
    const ofDevice = answers.find(({ place }) => place === chosen);
    if (ofDevice) {
      for (const name of ["estimate", "low", "high", "said"]) exercise.dataset[name] = ofDevice[name];
      for (const device of exercise.querySelectorAll(".exercise-there")) device.textContent = ofDevice.there;
      exercise.querySelector(".exercise-measured").innerHTML = ofDevice.measured;
    }
    const { estimate, low, high, said: factor } = exercise.dataset;
    const answer = exercise.querySelector(".exercise-said");
    exercise.querySelector("fieldset").addEventListener("change", ({ target }) => {
      const from = Number(target.dataset.from), to = target.dataset.to ? Number(target.dataset.to) : Infinity;
      const right = Number(high) >= from && Number(low) < to;
      const verdict = right ? "Right" : Number(estimate) < from ? "Less than that" : "More than that";
      answer.textContent = `${verdict}: measured ${factor} times. You picked: ${target.parentNode.textContent.trim()}.`;
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
      const point = Number(input.value);
      output.textContent = points[point];
      input.setAttribute("aria-valuetext", [points[point], ...places.map(({ name, texts }) => `${name}: ${texts[point]}`)].join("; "));
      places.forEach(({ times, texts }, place) => {
        const measured = times.filter((time) => time !== null), best = Math.min(...measured), time = times[point];
        const { bar, text } = rows[place];
        bar.style.width = time === null ? "0" : `${(100 * time) / Math.max(...measured)}%`;
        bar.className = time === best ? "best" : "";
        const comparison = time === null ? "" : time === best ? ", the shortest" : `, ${(time / best).toFixed(2)} × the shortest`;
        text.textContent = texts[point] + comparison;
      });
    };
    input.addEventListener("input", draw);
    draw();
    knob.hidden = false;
    exercise.querySelector(".exercise-table").open = false;
  }
})();
