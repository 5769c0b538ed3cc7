// The page on a GPU that nobody measured. From a reader's numbers it says which steps apply, and scales the bound of each: the same
// bytes and operations over this GPU's rates. An estimated time keeps the share of the bound that the recorded device reached.
window.roofbookMyGpu = ({ device, presets, labs }) => {
  const form = document.querySelector(".my-gpu"), tables = form.querySelector(".my-gpu-tables");
  const { preset } = form.elements;
  const names = ["bandwidth", "rate", "tensor", "local", "capability"];
  const make = (tag, attributes = {}, ...children) => {
    const element = document.createElement(tag);
    for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
    element.append(...children);
    return element;
  };
  const duration = (seconds) => {
    const [size, unit] = [[1, "s"], [1e-3, "ms"], [1e-6, "µs"], [1e-9, "ns"]].find(([least]) => seconds >= least) ?? [1e-9, "ns"];
    return `${(seconds / size).toPrecision(3)} ${unit}`;
  };

  // Return why a step does not apply to the GPU; '' if it does.
  function obstacle(step, gpu) {
    const isNvidia = gpu.capability > 0;
    if ((step.nvidia || step.ptx) && !isNvidia) return step.ptx ? "its text has NVIDIA's PTX" : "it is in CUDA C++ alone";
    if (isNvidia && (gpu.capability < step.first || gpu.capability >= step.last)) {
      return `for compute capability ${step.first / 10}${step.last < 1000 ? " alone" : " or later"}`;
    }
    if (step.local > gpu.local * 1024) return `a group has ${Math.ceil(step.local / 1024)} KiB of local memory`;
    return step.dtype !== "float32" && !rateOf(step, gpu) ? `no rate for ${step.dtype} is given` : "";
  }

  // Return the operations per second in the step's precision: of fp32, or of the matrix units.
  function rateOf({ dtype }, gpu) {
    const factors = { float32: 0, float16: 1, bfloat16: 1, tfloat32: 0.5, int8: 2 };
    return dtype === "float32" ? gpu.rate * 1e12 : gpu.tensor * (factors[dtype] ?? 0) * 1e12;
  }

  function row(step, gpu) {
    const reason = obstacle(step, gpu);
    const name = make("th", { scope: "row" }, make("code", {}, step.name));
    if (reason) return make("tr", { class: "absent" }, name, make("td", { colspan: 3 }, `does not apply: ${reason}`));
    const here = Math.max(step.bytes / (gpu.bandwidth * 1e9), step.flops / rateOf(step, gpu));
    const there = Math.max(step.bytes / step.bandwidth, step.flops / step.rate);
    const cells = [duration(here), duration(step.seconds * here / there), duration(step.seconds)];
    return make("tr", {}, name, ...cells.map((text) => make("td", { class: "num" }, text)));
  }

  function table(lab, gpu) {
    const heads = ["Step", "Bound, estimated", "Time, estimated", `Measured on ${device}`];
    const head = make("tr", {}, ...heads.map((text, index) => make("th", { scope: "col", class: index ? "num" : "" }, text)));
    const rows = lab.steps.map((step) => row(step, gpu)), fits = rows.filter((line) => line.className !== "absent").length;
    const caption = make("caption", {}, `${lab.case}, per ${lab.unit}`);
    return make("details", {}, make("summary", {}, `${lab.title}: ${fits} of ${rows.length} steps apply`),
      make("div", { class: "table-scroll", tabindex: 0, role: "region", "aria-label": lab.title },
        make("table", { class: "roofbook" }, caption, make("thead", {}, head), make("tbody", {}, ...rows))));
  }

  function draw() {
    const gpu = Object.fromEntries(names.map((name) => [name, Number(form.elements[name].value) || 0]));
    const open = [...tables.querySelectorAll("details")].map((fold) => fold.open);
    if (!gpu.bandwidth || !gpu.rate) return void tables.replaceChildren("A bandwidth and a rate are needed.");
    tables.replaceChildren(...labs.map((lab) => table(lab, gpu)));
    tables.querySelectorAll("details").forEach((fold, index) => { fold.open = open[index] ?? index === 0; });
  }

  function fill() {
    for (const [name, value] of Object.entries(presets[preset.value] ?? {})) form.elements[name].value = value;
    draw();
  }

  form.addEventListener("submit", (event) => event.preventDefault());
  form.addEventListener("input", ({ target }) => {
    if (target === preset) return fill();
    preset.value = "";
    draw();
  });
  form.hidden = false;
  form.previousElementSibling.hidden = true;
  fill();
};
addEventListener("load", () => {
  document.head.append(Object.assign(document.createElement("script"), { src: "_static/my-gpu-data.js" }));
});
