// A page on paper: its tables and figures unfolded, in light colours. After printing the page is as before.
(() => {
  "use strict";
  const html = document.documentElement;
  let folded = [], theme;
  addEventListener("beforeprint", () => {
    folded = [...document.querySelectorAll("details:not([open]):has(table, figure)")];
    for (const details of folded) details.open = true;
    theme = html.dataset.theme;
    html.dataset.theme = "light";
  });
  addEventListener("afterprint", () => {
    for (const details of folded) details.open = false;
    html.dataset.theme = theme;
  });
})();
