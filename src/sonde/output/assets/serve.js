(function () {
  "use strict";
  var latest = null, paused = false, over = false, views = {}, filter = document.getElementById("filter");
  var at = function (id) { return document.getElementById(id); };
  function make(tag, text, name) {
    var node = document.createElement(tag);
    if (text !== undefined) { node.textContent = text; }
    if (name) { node.className = name; }
    return node;
  }
  function spark(values) {
    var ns = "http://www.w3.org/2000/svg", svg = document.createElementNS(ns, "svg"), run = [];
    svg.setAttribute("width", 120); svg.setAttribute("height", 16); svg.setAttribute("class", "spark");
    var known = values.filter(function (v) { return v !== null; });
    var high = Math.max.apply(null, known.concat([0])), low = Math.min.apply(null, known.concat([0]));
    function flush() {
      if (!run.length) { return; }
      var line = document.createElementNS(ns, "polyline");
      if (run.length === 1) { run.push((+run[0].split(",")[0] + 1) + "," + run[0].split(",")[1]); }
      line.setAttribute("points", run.join(" ")); svg.appendChild(line); run = [];
    }
    values.forEach(function (v, i) {
      if (v === null) { return flush(); }
      var x = 118 - (values.length - 1 - i) * 2, y = 15 - (high > low ? (v - low) / (high - low) * 14 : 0);
      run.push(x + "," + y.toFixed(1));
    });
    flush();
    return svg;
  }
  function isNumber(cell) { return typeof cell === "number" || /^-?\d{16,20}$/.test(cell); }
  function compare(a, b) {
    if (isNumber(a) && isNumber(b)) { return a - b; }
    if (isNumber(a)) { return -1; }
    if (isNumber(b)) { return 1; }
    return a < b ? -1 : a > b ? 1 : 0;
  }
  function view(table) {
    var v = views[table.name];
    if (v && v.columns === table.columns.join("\n")) { return v; }
    if (v) { v.box.remove(); }
    v = views[table.name] = { columns: table.columns.join("\n"), sort: -1, down: true, chosen: null };
    v.box = make("section"); v.box.dataset.table = table.name;
    v.head = make("h2", table.name + " "); v.note = make("span", "", "soft"); v.head.appendChild(v.note);
    v.table = make("table"); var row = v.table.createTHead().insertRow();
    table.columns.forEach(function (name, i) {
      var head = make("th", name); row.appendChild(head);
      head.addEventListener("click", function () {
        v.down = v.sort === i ? !v.down : true; v.sort = i; show();
      });
    });
    row.appendChild(make("th", ""));
    v.body = v.table.createTBody(); v.bars = make("div", "", "bars"); v.bars.hidden = true;
    [v.head, v.table, v.bars].forEach(function (part) { v.box.appendChild(part); });
    at("tables").appendChild(v.box);
    return v;
  }
  function bars(v, row) {
    v.bars.hidden = !row || !row.buckets.length;
    if (v.bars.hidden) { return; }
    var table = make("table"), most = 1;
    row.buckets.forEach(function (b) { most = Math.max(most, b[1] === null ? 0 : b[1]); });
    row.buckets.slice(-120).forEach(function (b) {
      var line = table.insertRow(), cell;
      line.appendChild(make("td", b[0], "number")); line.appendChild(make("td", b[1] === null ? "" : b[1], "number"));
      cell = make("td"); var bar = make("i"); bar.style.width = Math.max(0, b[1]) / most * 320 + "px";
      cell.appendChild(bar); line.appendChild(cell);
    });
    v.bars.replaceChildren(make("div", v.table.tHead.rows[0].cells.length > 1 && row.id ? row.id : "", "soft"), table);
  }
  function fill(table) {
    var v = view(table), text = filter.value.toLowerCase(), chosen = null;
    var rows = table.rows.filter(function (r) { return !text || r.cells.join(" ").toLowerCase().indexOf(text) >= 0; });
    if (v.sort >= 0) {
      var way = v.down ? -1 : 1;
      rows = rows.slice().sort(function (a, b) { return compare(a.cells[v.sort], b.cells[v.sort]) * way; });
    }
    Array.from(v.table.tHead.rows[0].cells).forEach(function (head, i) {
      if (i === v.sort) { head.setAttribute("aria-sort", v.down ? "descending" : "ascending"); }
      else { head.removeAttribute("aria-sort"); }
    });
    var out = document.createDocumentFragment();
    rows.forEach(function (r, i) {
      var line = make("tr"), pick = r.buckets.length > 0;
      r.cells.forEach(function (c) { line.appendChild(make("td", String(c), isNumber(c) ? "number" : "")); });
      var cell = make("td"); if (r.spark.length) { cell.appendChild(spark(r.spark)); } line.appendChild(cell);
      if (pick) {
        line.className = "pick";
        if (v.chosen === null ? i === 0 : v.chosen === r.id) { chosen = r; line.classList.add("chosen"); }
        line.addEventListener("click", function () { v.chosen = r.id; show(); });
      }
      out.appendChild(line);
    });
    v.body.replaceChildren(out);
    bars(v, chosen);
    var hidden = table.total - table.rows.length;
    v.note.textContent = table.note + ", " + table.total + (table.total === 1 ? " row" : " rows") +
      (rows.length < table.rows.length ? ", " + rows.length + " match" : "") +
      (hidden > 0 ? ", the " + table.rows.length + " greatest are shown" : "");
  }
  function show() {
    var s = latest;
    if (!s) { return; }
    at("title").textContent = s.title; document.title = s.title;
    var seconds = Math.floor(s.elapsed);
    at("clock").textContent = Math.floor(seconds / 60) + ":" + String(seconds % 60).padStart(2, "0");
    at("fleet").hidden = !s.state; at("fleet").textContent = s.state;
    at("probes").hidden = at("cost").hidden = !!s.state;
    at("cost").textContent = "costs " + (s.share * 100).toFixed(2) + "% of a CPU";
    at("losses").textContent = s.losses.join(" · ");
    var there = {};
    s.tables.forEach(function (t) { there[t.name] = true; fill(t); });
    Object.keys(views).forEach(function (n) { if (!there[n]) { views[n].box.remove(); delete views[n]; } });
    var pre = at("lines"), end = pre.scrollTop + pre.clientHeight >= pre.scrollHeight - 4;
    at("output").hidden = !s.written;
    pre.textContent = (s.written > s.lines.length ? "... " + (s.written - s.lines.length) + " lines before\n" : "") +
      s.lines.join("\n");
    if (end) { pre.scrollTop = pre.scrollHeight; }
    at("costs").tBodies[0].replaceChildren.apply(at("costs").tBodies[0], s.costs.map(function (c) {
      var line = make("tr");
      [c.name, c.runs, c.ns_per_run.toFixed(0), (c.share * 100).toFixed(3), c.skipped].forEach(function (x, i) {
        line.appendChild(make("td", String(x), i ? "number" : ""));
      });
      return line;
    }));
  }
  function say() {
    at("state").textContent = over ? "ended" + (latest && latest.ended ? ": " + latest.ended : "") :
      paused ? "paused: the tracing goes on" : "live";
  }
  var events = new EventSource("events"), waiting = null;
  events.onmessage = function (message) {
    waiting = JSON.parse(message.data);
    if (!paused || waiting.ended) { latest = waiting; show(); }
    say();
  };
  events.addEventListener("over", function () { over = true; events.close(); latest = waiting; show(); say(); });
  events.onerror = function () { if (!over) { at("state").textContent = "no connection: what is shown is old"; } };
  at("pause").addEventListener("click", function () {
    paused = !paused; at("pause").textContent = paused ? "go on" : "pause";
    if (!paused && waiting) { latest = waiting; show(); }
    say();
  });
  filter.addEventListener("input", show);
})();
