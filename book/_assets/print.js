// A page on paper: its tables, figures, folded prose and the answers of a lesson unfolded, in light colours. Of an exercise only
// the kernel is unfolded: the sheet is for students. Below verdicts on claims the commands that repeat them stay folded. After printing the
// page is as before.
(() => {
  "use strict";
  const html = document.documentElement;
  const UNFOLDED = "details:not([open], .verdicts > details):is(.prose, :has(table, figure), .lesson-questions details, .exercise-kernel)";
  let folded = [], theme;
  addEventListener("beforeprint", () => {
    folded = [...document.querySelectorAll(UNFOLDED)].filter(
      (details) => !details.closest(".exercise") || details.matches(".exercise-kernel"));
    for (const details of folded) details.open = true;
    theme = html.dataset.theme;
    html.dataset.theme = "light";
  });
  addEventListener("afterprint", () => {
    for (const details of folded) details.open = false;
    html.dataset.theme = theme;
  });
})();
