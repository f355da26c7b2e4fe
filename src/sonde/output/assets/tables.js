// A click on a heading sorts; the field above a table shows the rows that contain a text.
(function () {
  "use strict";
  document.querySelectorAll("table.map").forEach(function (table) {
    var body = table.tBodies[0];
    Array.from(table.tHead.rows[0].cells).forEach(function (head, column) {
      var down = false;
      head.addEventListener("click", function () {
        var value = function (row) { return row.cells[column].dataset.value || row.cells[column].textContent; };
        down = !down;
        Array.from(body.rows).sort(function (a, b) {
          var x = value(a), y = value(b), both = x !== "" && y !== "" && !isNaN(x) && !isNaN(y);
          return (both ? x - y : x < y ? -1 : x > y ? 1 : 0) * (down ? -1 : 1);
        }).forEach(function (row) { body.appendChild(row); });
      });
    });
    var filter = table.previousElementSibling;
    if (filter && filter.tagName === "INPUT") {
      filter.addEventListener("input", function () {
        var text = filter.value.toLowerCase();
        Array.from(body.rows).forEach(function (row) {
          row.style.display = row.textContent.toLowerCase().indexOf(text) < 0 ? "none" : "";
        });
      });
    }
  });
})();
