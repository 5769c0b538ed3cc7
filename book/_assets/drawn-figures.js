// A figure that is HTML, as an SVG of its own: its boxes, lines and words where the page has them. figures.js loads this script for a
// reader who takes one away.
(() => {
  "use strict";
  const LEFT_OUT = ".opening-slider, .opening-step, .figure-files, figcaption, noscript, [hidden]";
  const one = (number) => +number.toFixed(1);
  const escaped = (text) => text.replace(/[&<>"]/g, (letter) => `&#${letter.codePointAt(0)};`);
  const ink = document.createElement("canvas").getContext("2d", { willReadFrequently: true });

  // Return a colour as SVG of any age has it, and its opacity: a page may mix colours.
  function plain(colour) {
    ink.clearRect(0, 0, 1, 1);
    ink.fillStyle = colour;
    ink.fillRect(0, 0, 1, 1);
    const [red, green, blue, opacity] = ink.getImageData(0, 0, 1, 1).data;
    return [`rgb(${red},${green},${blue})`, one(opacity / 255)];
  }

  function boxes(style, left, top, width, height) {
    const [fill, opacity] = plain(style.backgroundColor), parts = [];
    const radius = parseFloat(style.borderTopLeftRadius) || 0;
    const round = style.borderTopLeftRadius.endsWith("%") ? radius * width / 100 : Math.min(radius, width / 2);
    const sides = ["Top", "Right", "Bottom", "Left"].map((side) => {
      const [colour, seen] = plain(style[`border${side}Color`]), wide = parseFloat(style[`border${side}Width`]);
      return { colour, wide: seen && style[`border${side}Style`] !== "none" ? wide : 0, dashed: style[`border${side}Style`] === "dashed" };
    });
    const whole = sides.every(({ wide }) => wide), edge = whole ? ` stroke="${sides[0].colour}" stroke-width="${sides[0].wide}"` : "";
    const inset = whole ? sides[0].wide / 2 : 0;
    if (opacity || whole)
      parts.push(`<rect x="${one(left + inset)}" y="${one(top + inset)}" width="${one(width - 2 * inset)}" height="${one(height - 2 * inset)}"`
        + ` rx="${one(Math.min(round, height / 2))}" fill="${opacity ? fill : "none"}" fill-opacity="${opacity}"${edge}/>`);
    const ends = [[0, 0, 1, 0], [1, 0, 1, 1], [0, 1, 1, 1], [0, 0, 0, 1]];
    if (!whole) sides.forEach(({ colour, wide, dashed }, index) => {
      const [x0, y0, x1, y1] = ends[index];
      if (wide) parts.push(`<path d="M${one(left + x0 * width)} ${one(top + y0 * height)}L${one(left + x1 * width)} ${one(top + y1 * height)}"`
        + ` stroke="${colour}" stroke-width="${wide}"${dashed ? ' stroke-dasharray="4 3"' : ""}/>`);
    });
    return parts.join("");
  }

  // Return the lines of a text as the page breaks it.
  function words(node, style, frame) {
    const range = document.createRange(), lines = [];
    for (const { 0: word, index } of node.data.matchAll(/\S+/g)) {
      range.setStart(node, index);
      range.setEnd(node, index + word.length);
      const { left, top, height, width } = range.getBoundingClientRect();
      if (!width) continue;
      if (lines.at(-1)?.top === top) lines.at(-1).text += ` ${word}`;
      else lines.push({ left: left - frame.left, top, baseline: top - frame.top + height / 2 + 0.35 * parseFloat(style.fontSize), text: word });
    }
    const [fill] = plain(style.color), look = `font-size="${parseFloat(style.fontSize)}" font-weight="${style.fontWeight}" fill="${fill}"`
      + ` font-family="${escaped(style.fontFamily)}"`;
    return lines.map(({ left, baseline, text }) => `<text x="${one(left)}" y="${one(baseline)}" ${look}>${escaped(text)}</text>`).join("");
  }

  function drawing(svg, { left, top, width, height }) {
    const copy = svg.cloneNode(true), { fill } = getComputedStyle(svg);
    for (const [name, value] of Object.entries({ x: one(left), y: one(top), width: one(width), height: one(height), fill })) copy.setAttribute(name, value);
    svg.querySelectorAll("path").forEach((path, index) => {
      const { stroke, strokeWidth } = getComputedStyle(path);
      copy.querySelectorAll("path")[index].setAttribute("stroke", stroke === "none" ? stroke : plain(stroke)[0]);
      copy.querySelectorAll("path")[index].setAttribute("stroke-width", strokeWidth);
    });
    return new XMLSerializer().serializeToString(copy);
  }

  function part(element, frame) {
    if (element.matches(LEFT_OUT) || !element.checkVisibility()) return "";
    const { left, top, width, height } = element.getBoundingClientRect(), place = [left - frame.left, top - frame.top];
    if (element.localName === "svg") return drawing(element, { left: place[0], top: place[1], width, height });
    const style = getComputedStyle(element), parts = [boxes(style, ...place, width, height)];
    for (const pseudo of ["::before", "::after"]) {
      const of = getComputedStyle(element, pseudo);
      if (of.content === "none" || of.position !== "absolute") continue;
      const [x, y, wide, high] = [of.left, of.top, of.width, of.height].map(parseFloat);
      const [across, down] = of.boxSizing === "border-box" ? [0, 0]
        : [parseFloat(of.borderLeftWidth) + parseFloat(of.borderRightWidth), parseFloat(of.borderTopWidth) + parseFloat(of.borderBottomWidth)];
      parts.push(boxes(of, place[0] + x, place[1] + y, wide + across, high + down));
    }
    for (const child of element.childNodes) {
      if (child.nodeType === Node.TEXT_NODE) parts.push(words(child, style, frame));
      else if (child.nodeType === Node.ELEMENT_NODE) parts.push(part(child, frame));
    }
    return parts.join("");
  }

  window.roofbookDrawn = (figure) => {
    const frame = figure.getBoundingClientRect(), caption = figure.querySelector("figcaption");
    const height = Math.max(...[...figure.children].filter((child) => !child.matches(LEFT_OUT) && child.checkVisibility())
      .map((child) => child.getBoundingClientRect().bottom)) - frame.top + 8;
    const title = escaped(caption.textContent.trim().split(/[:.] /)[0]), width = Math.ceil(frame.width);
    const inside = [...figure.children].map((child) => part(child, frame)).join("");
    return { text: `<svg xmlns="http://www.w3.org/2000/svg" width="${width}" height="${one(height)}" viewBox="0 0 ${width} ${one(height)}">`
      + `<title>${title}</title>${inside}</svg>`, width, height, title };
  };
})();
