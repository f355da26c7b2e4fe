// Clicking a column shows its counts as bars beside the rows; clicking it again shows the totals.
(function () {
  "use strict";
  document.querySelectorAll(".heat").forEach(function (heat) {
    var bars = Array.from(heat.querySelectorAll(".bar")), tips = bars.map(function (b) { return b.firstChild; });
    var caption = heat.querySelector(".caption"), total = caption.textContent, chosen = null;
    var totals = bars.map(function (b) { return +b.dataset.count; });
    var percentiles = heat.querySelector(".percentiles"), whole = percentiles.textContent;
    var allSaid = tips.map(function (t) { return t.textContent; });
    function show(counts, text, shares, said) {
      var most = Math.max.apply(null, counts.concat([1]));
      bars.forEach(function (b, i) {
        b.setAttribute("width", Math.max(0, counts[i]) / most * +heat.dataset.panel);
        tips[i].textContent = said ? b.dataset.span + ": " + said[i] : allSaid[i];
      });
      caption.textContent = text;
      percentiles.textContent = shares;
    }
    heat.querySelectorAll(".column").forEach(function (column) {
      column.addEventListener("click", function () {
        if (chosen) { chosen.classList.remove("chosen"); }
        chosen = chosen === column ? null : column;
        if (!chosen) { return show(totals, total, whole); }
        column.classList.add("chosen");
        show(column.dataset.counts.split(" ").map(function (c) { return c === "-" ? null : +c; }), column.dataset.time,
             column.dataset.percentiles, column.dataset.said.split("|"));
      });
    });
  });
})();
