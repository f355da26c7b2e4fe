"""What makes a flame graph answer to clicks and searches. Fixed text: nothing of a traced program is put into it."""

# The geometry (width 1200, margin 10, 11.5 units of text) is that of the module flamegraph.
SCRIPT = r"""
(function () {
  "use strict";
  var WIDTH = 1180, MARGIN = 10, CHAR = 11.5 * 0.605;
  document.querySelectorAll("svg").forEach(function (svg) {
    var group = svg.querySelector(".frames");
    if (!group) { return; }
    var one = function (name) { return svg.querySelector(name); };
    var reset = one(".reset"), search = one(".search"), detail = one(".detail"), matched = one(".matched");
    var frames = Array.from(group.children).map(function (g) {
      return { g: g, rect: g.querySelector("rect"), text: g.querySelector("text"),
               tip: g.querySelector("title").textContent, name: g.dataset.name.replace(/_\[k\]$/, ""),
               at: +g.dataset.at, weight: +g.dataset.weight, depth: +g.dataset.depth };
    });
    if (!frames.length) { return; }
    var all = frames[0], pattern = null;

    function label(frame, width) {
      var room = Math.floor((width - 6) / CHAR);
      if (frame.name.length <= room) { return frame.name; }
      return room >= 3 ? frame.name.slice(0, room - 1) + "\u2026" : "";
    }
    function zoom(to) {
      var end = to.at + to.weight, scale = WIDTH / to.weight;
      frames.forEach(function (f) {
        var under = f.depth < to.depth && f.at <= to.at && f.at + f.weight >= end;
        var within = f.depth >= to.depth && f.at >= to.at && f.at + f.weight <= end;
        f.g.style.display = under || within ? "" : "none";
        f.g.classList.toggle("under", under);
        var x = under ? MARGIN : MARGIN + (f.at - to.at) * scale, width = under ? WIDTH : f.weight * scale;
        if (under || within) {
          f.rect.setAttribute("x", x);
          f.rect.setAttribute("width", width);
          f.text.setAttribute("x", x + 3);
          f.text.textContent = label(f, width);
        }
      });
      reset.setAttribute("visibility", to === all ? "hidden" : "visible");
    }
    function find(text) {
      try { pattern = text ? new RegExp(text, "i") : null; }
      catch (error) { pattern = new RegExp(text.replace(/[.*+?^${}()|[\]\\]/g, "\\$&"), "i"); }
      var sum = 0, until = -1;
      frames.forEach(function (f) {
        var hit = !!pattern && pattern.test(f.name);
        f.g.classList.toggle("found", hit);
        if (hit && f.at >= until) { sum += f.weight; until = f.at + f.weight; }
      });
      matched.textContent = pattern ? "matched: " + (100 * sum / all.weight).toFixed(2) + "%" : " ";
      search.textContent = pattern ? "clear search" : "search";
    }
    function ask() {
      if (pattern) { return find(""); }
      var text = window.prompt("Show the frames that match (a regular expression):", "");
      if (text) { find(text); }
    }
    frames.forEach(function (f) {
      f.g.addEventListener("click", function () { zoom(f); });
      f.g.addEventListener("keydown", function (e) { if (e.key === "Enter") { zoom(f); } });
      var tell = function () { detail.textContent = f.tip; };
      f.g.addEventListener("mouseover", tell);
      f.g.addEventListener("focus", tell);
      f.g.addEventListener("mouseout", function () { detail.textContent = " "; });
    });
    reset.addEventListener("click", function () { zoom(all); });
    search.addEventListener("click", ask);
    document.addEventListener("keydown", function (e) {
      if (e.key === "Escape") { zoom(all); find(""); }
      if (e.key === "/" || (e.key === "f" && (e.ctrlKey || e.metaKey))) { e.preventDefault(); ask(); }
    });
    svg.flame = { zoom: zoom, find: find, frames: frames };
  });
})();
"""
