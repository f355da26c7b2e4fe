// A heading becomes a button that sorts; the field above a table shows the rows that contain a text.
(function () {
  "use strict";
  document.querySelectorAll("table.map").forEach(function (table) {
    var body = table.tBodies[0], heads = Array.from(table.tHead.rows[0].cells);
    heads.forEach(function (head, column) {
      var button = document.createElement("button");
      button.type = "button"; button.textContent = head.textContent; head.replaceChildren(button);
      if (body.rows.length && body.rows[0].cells[column].className === "number") { head.className = "number"; }
      button.addEventListener("click", function () {
        var value = function (row) { return row.cells[column].dataset.value || row.cells[column].textContent; };
        var down = head.getAttribute("aria-sort") !== "descending";
        heads.forEach(function (each) { each.removeAttribute("aria-sort"); });
        head.setAttribute("aria-sort", down ? "descending" : "ascending");
        Array.from(body.rows).sort(function (a, b) {
          var x = value(a), y = value(b), both = x !== "" && y !== "" && !isNaN(x) && !isNaN(y);
          return (both ? x - y : x < y ? -1 : x > y ? 1 : 0) * (down ? -1 : 1);
        }).forEach(function (row) { body.appendChild(row); });
      });
    });
    var filter = table.parentNode.previousElementSibling;
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
