// A page on paper: its tables unfolded, light whatever the screen is. As it was before, afterwards.
(() => {
  "use strict";
  const html = document.documentElement;
  let folded = [], theme;
  addEventListener("beforeprint", () => {
    folded = [...document.querySelectorAll("details:not([open]):has(table)")];
    for (const each of folded) each.open = true;
    theme = html.dataset.theme;
    html.dataset.theme = "light";
  });
  addEventListener("afterprint", () => {
    for (const each of folded) each.open = false;
    html.dataset.theme = theme;
  });
})();
