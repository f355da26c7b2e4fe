// The page of sonde serve: a card for each table, with lines over time, a heat map of its histograms, rows that sort,
// filter and pin. What arrives is inserted as text, never as markup.
(function () {
  "use strict";
  const COLOURS = 8, views = new Map(), histories = new Map(), filter = document.getElementById("filter");
  let latest = null, waiting = null, paused = false, over = false, taken = 0;
  const at = function (id) { return document.getElementById(id); };
  function make(tag, text, name) {
    const node = document.createElement(tag);
    if (text !== undefined) { node.textContent = text; }
    if (name) { node.className = name; }
    return node;
  }
  function spark(values) {
    const ns = "http://www.w3.org/2000/svg", svg = document.createElementNS(ns, "svg");
    let run = [];
    svg.setAttribute("width", 120); svg.setAttribute("height", 16); svg.setAttribute("class", "spark"); svg.setAttribute("aria-hidden", "true");
    const known = values.filter((v) => v !== null), high = Math.max(...known, 0), low = Math.min(...known, 0);
    function flush() {
      if (!run.length) { return; }
      const line = document.createElementNS(ns, "polyline");
      if (run.length === 1) { run.push((+run[0].split(",")[0] + 1) + "," + run[0].split(",")[1]); }
      line.setAttribute("points", run.join(" ")); svg.appendChild(line); run = [];
    }
    values.forEach((v, i) => {
      if (v === null) { return flush(); }
      run.push(118 - (values.length - 1 - i) * 2 + "," + (15 - (high > low ? (v - low) / (high - low) * 14 : 0)).toFixed(1));
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
  function shown(table, column, cell) {
    const unit = table.symbols[column];
    return unit && isNumber(cell) ? scaled(Number(cell), unit) : String(cell);
  }
  function exact(table, column, cell) {
    const unit = table.symbols[column], text = String(cell);
    return unit && isNumber(cell) ? text.replace(/^-?\d+/, (n) => n.replace(/\B(?=(\d{3})+$)/g, ",")) + " " + unit : "";
  }
  function newView(table) {
    const v = { columns: table.columns.join("\n"), sort: -1, down: true, chosen: null, pinned: new Set(), lines: new Map(), heads: [], cursor: null };
    v.box = make("section", undefined, "card"); v.box.dataset.table = table.name;
    v.head = make("h2", table.name); v.note = make("p", "", "soft"); v.about = make("p", "", "soft");
    v.charts = make("figure"); v.charts.hidden = true;
    v.plot = make("div", undefined, "plot"); v.plot.tabIndex = 0; v.plot.setAttribute("role", "img");
    v.caption = make("figcaption"); v.tip = make("div", undefined, "tip"); v.tip.hidden = true;
    v.charts.append(v.caption, v.plot, v.tip);
    v.heatBox = make("figure"); v.heatBox.hidden = true;
    v.canvas = make("canvas", undefined, "plot"); v.canvas.setAttribute("role", "img");
    v.heatCaption = make("figcaption"); v.heatTip = make("div", undefined, "tip"); v.heatTip.hidden = true;
    v.heatBox.append(v.heatCaption, v.canvas, v.heatTip);
    v.table = make("table"); v.scroll = make("div", undefined, "scroll"); v.scroll.tabIndex = 0; v.scroll.append(v.table);
    v.scroll.setAttribute("role", "region"); v.scroll.setAttribute("aria-label", "rows of " + table.name);
    const row = v.table.createTHead().insertRow();
    row.append(make("td"), make("td"));
    table.columns.forEach((name, i) => {
      const head = make("th"), button = make("button", name);
      button.type = "button"; head.append(button); row.append(head); v.heads.push(head);
      button.addEventListener("click", () => {
        if (v.sort !== i) { v.sort = i; v.down = true; } else if (v.down) { v.down = false; } else { v.sort = -1; }
        show();
      });
    });
    row.append(make("th", table.rows.some((r) => r.spark.length) ? "over time" : ""));
    v.body = v.table.createTBody(); v.bars = make("div", undefined, "bars across"); v.bars.hidden = true;
    v.box.append(v.head, v.note, v.about, v.charts, v.heatBox, v.scroll, v.bars);
    at("tables").append(v.box);
    listen(v);
    return v;
  }
  function view(table) {
    let v = views.get(table.name);
    if (v && v.columns !== table.columns.join("\n")) { v.box.remove(); v = null; }
    if (!v) { views.set(table.name, v = newView(table)); }
    v.shown = table;
    return v;
  }
  function listen(v) {
    function point(time) { v.cursor = time; drawLines(v); }
    v.plot.addEventListener("mousemove", (event) => { if (v.scale) { point(v.scale.time(event.clientX - v.plot.getBoundingClientRect().left)); } });
    v.plot.addEventListener("mouseleave", () => point(null));
    v.plot.addEventListener("blur", () => point(null));
    v.plot.addEventListener("keydown", (event) => {
      const moments = history(v.shown.name), step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
      if (!step || !moments.length) { return; }
      event.preventDefault();
      const here = v.cursor === null ? moments.length : nearest(moments, v.cursor);
      point(moments[Math.max(0, Math.min(moments.length - 1, here + step))][0]);
    });
    v.canvas.addEventListener("mousemove", (event) => {
      const box = v.canvas.getBoundingClientRect(), cell = v.heat && v.heat.under(event.clientX - box.left, event.clientY - box.top);
      v.heatTip.hidden = !cell;
      if (cell) {
        v.heatTip.replaceChildren(make("div", charts.clock(cell.from) + " to " + charts.clock(cell.time)),
                                  make("div", charts.rangeText(cell.range, v.shown.symbol) + ": " + cell.count.toLocaleString("en-US")));
        beside(v.heatTip, event.clientX - box.left, box.width);
      }
    });
    v.canvas.addEventListener("mouseleave", () => { v.heatTip.hidden = true; });
  }
  function beside(tip, x, width) {
    tip.style.left = x < width / 2 ? x + 12 + "px" : "auto";
    tip.style.right = x < width / 2 ? "auto" : width - x + 12 + "px";
  }
  function history(name) { return (histories.get(name) || []).filter((m) => m[0] <= latest.elapsed + 0.01); }
  function nearest(moments, time) {
    let best = 0;
    moments.forEach((m, i) => { if (Math.abs(m[0] - time) < Math.abs(moments[best][0] - time)) { best = i; } });
    return best;
  }
  function remember(frames) {
    frames.forEach((frame) => {
      if (frame[0] <= taken) { return; } // again, after the connection was lost
      taken = frame[0];
      Object.entries(frame[1]).forEach(([name, moments]) => {
        if (!histories.has(name)) { histories.set(name, []); }
        const kept = histories.get(name);
        moments.forEach((m) => kept.push([m[0], new Map(m[1].map((p) => [p[0], [Number(p[1]), p[2].map((g) => [g[0], g[1], Number(g[2])])]]))]));
        kept.splice(0, kept.length - 1200);
      });
    });
  }
  function span() {
    let first = Infinity;
    histories.forEach((moments) => { first = Math.min(first, moments[0][0]); });
    return [Math.min(first, latest.elapsed - 10), latest.elapsed];
  }
  // The colours of the rows that are drawn: those that are pinned, the chosen one, and the first.
  function colour(v, rows) {
    const moments = history(v.shown.name), drawn = new Map();
    if (!moments.length) { return drawn; }
    const seen = new Set();
    moments.forEach((m) => m[1].forEach((point, key) => seen.add(key)));
    rows.filter((r) => v.pinned.has(r.id)).concat(rows.filter((r) => r.id === v.chosen), rows).forEach((r) => {
      if (seen.has(r.id) && drawn.size < COLOURS && !drawn.has(r.id)) { drawn.set(r.id, 0); }
    });
    const used = new Set(v.colours ? Array.from(v.colours).filter(([id]) => drawn.has(id)).map(([, c]) => c) : []);
    drawn.forEach((none, id) => { // a row keeps its colour as long as it is drawn
      let number = v.colours && v.colours.get(id);
      if (!number) { number = 1; while (used.has(number)) { number += 1; } used.add(number); }
      drawn.set(id, number);
    });
    return drawn;
  }
  function drawLines(v) {
    const moments = history(v.shown.name), series = Array.from(v.colours).map(([key, c]) => ({ key: key, name: key || v.shown.name, colour: c }));
    v.charts.hidden = !series.length || moments.length < 2;
    if (v.charts.hidden) { return; }
    const unit = v.shown.drawn, near = v.cursor === null ? null : moments[nearest(moments, v.cursor)];
    const counted = v.shown.columns.includes("count") ? "values that came" : "";
    v.caption.textContent = (/\/s$/.test(unit) ? (counted || "gain") + " per second" : counted || "value") +
      (series.length < v.shown.total ? " of " + series.length + " of " + v.shown.total + " rows" : "") + ", over time";
    v.scale = charts.lines(v.plot, moments, series, span(), unit, near && near[0]);
    v.plot.setAttribute("aria-label", v.shown.name + ", " + v.caption.textContent + ": " + series.map((s) => s.name).join(", "));
    v.tip.hidden = !near;
    if (near) {
      v.tip.replaceChildren(make("div", charts.clock(near[0])), ...series.map((s) => {
        const line = make("div"), mark = make("i", undefined, "c" + s.colour), point = near[1].get(s.key);
        line.append(mark, s.name + "  " + (point ? scaled(+point[0].toPrecision(4), unit) : "none"));
        return line;
      }));
      beside(v.tip, v.scale.x(near[0]), v.plot.clientWidth);
    }
  }
  function drawHeat(v, row) {
    const moments = history(v.shown.name), there = row && moments.some((m) => { const p = m[1].get(row.id); return p && p[1].some((g) => g[2] > 0); });
    v.heatBox.hidden = !there;
    v.heat = null;
    if (!there) { return; }
    const style = getComputedStyle(document.documentElement), ink = style.getPropertyValue("--soft");
    const heats = style.getPropertyValue("--heat").trim().split(/\s+/);
    v.heat = charts.heat(v.canvas, moments, row.id, span(), v.shown.symbol, heats, ink);
    const scale = make("i", undefined, "scale");
    scale.style.background = "linear-gradient(90deg, " + heats.join(", ") + ")";
    v.heatCaption.replaceChildren((row.id || v.shown.name) + ": values that came, by size, over time; 1 ", scale, " " + v.heat.most.toLocaleString("en-US"));
    v.canvas.setAttribute("aria-label", "heat map of " + v.heatCaption.textContent);
  }
  function drawBars(v, row) {
    v.bars.hidden = !row || !row.buckets.length;
    if (v.bars.hidden) { return; }
    const table = make("table");
    let most = 1;
    row.buckets.forEach((b) => { most = Math.max(most, b[1] === null ? 0 : b[1]); });
    row.buckets.forEach((b) => {
      const line = table.insertRow(), cell = make("td", undefined, "bar"), bar = make("i");
      line.append(make("td", b[0], "number"), make("td", b[1] === null ? "" : b[1].toLocaleString("en-US"), "number"), cell);
      bar.style.width = Math.max(0, b[1]) / most * 100 + "%"; bar.hidden = !b[1];
      cell.append(bar);
    });
    v.bars.replaceChildren(make("p", row.id, "soft"), table);
  }
  function newLine(v, id, width) {
    const line = make("tr"), pin = make("td", undefined, "pin"), button = make("button", "\u25C7"), swatch = make("td", undefined, "swatch");
    button.type = "button"; button.title = "pin this row to the top"; pin.append(button); swatch.append(make("i"));
    line.append(pin, swatch);
    for (let i = 0; i < width; i += 1) { line.append(make("td")); }
    line.append(make("td"));
    const turn = () => { if (!v.pinned.delete(id)) { v.pinned.add(id); } show(); };
    button.addEventListener("click", (event) => { event.stopPropagation(); turn(); });
    line.addEventListener("click", () => { v.chosen = v.chosen === id ? null : id; show(); });
    line.addEventListener("keydown", (event) => {
      if (event.target !== line) { return; }
      if (event.key === "Enter") { event.preventDefault(); v.chosen = id; show(); }
      if (event.key === "p") { event.preventDefault(); turn(); }
    });
    line.tabIndex = 0;
    return line;
  }
  function put(node, text) { if (node.textContent !== text) { node.textContent = text; } }
  function fillLine(v, line, r) {
    const table = v.shown, cells = line.cells, pinned = v.pinned.has(r.id), button = cells[0].firstChild, number = v.colours.get(r.id);
    put(button, pinned ? "\u25C6" : "\u25C7"); button.setAttribute("aria-pressed", pinned); button.setAttribute("aria-label", "pin " + (r.id || table.name));
    cells[1].firstChild.className = number ? "c" + number : "";
    r.cells.forEach((c, i) => {
      const cell = cells[i + 2], text = shown(table, i, c), told = exact(table, i, c) || (text.length > 40 ? text : "");
      put(cell, text); cell.className = isNumber(c) ? "number" : "";
      if (cell.title !== told) { cell.title = told; }
    });
    cells[cells.length - 1].replaceChildren(...(r.spark.length ? [spark(r.spark)] : []));
    line.className = "pick" + (pinned ? " pinned" : "");
  }
  function sorted(v, rows) {
    if (v.sort >= 0) {
      const way = v.down ? -1 : 1;
      rows = rows.slice().sort((a, b) => compare(a.cells[v.sort], b.cells[v.sort]) * way);
    }
    return rows.filter((r) => v.pinned.has(r.id)).concat(rows.filter((r) => !v.pinned.has(r.id)));
  }
  function matches(table, r, text) {
    return r.cells.some((c, i) => String(c).toLowerCase().includes(text) || shown(table, i, c).toLowerCase().includes(text));
  }
  function fill(table) {
    const v = view(table), text = filter.value.toLowerCase(), focus = document.activeElement, lines = new Map();
    const rows = sorted(v, table.rows.filter((r) => v.pinned.has(r.id) || !text || matches(table, r, text)));
    v.heads.forEach((head, i) => {
      head.className = table.rows.length && isNumber(table.rows[0].cells[i]) ? "number" : "";
      if (i === v.sort) { head.setAttribute("aria-sort", v.down ? "descending" : "ascending"); } else { head.removeAttribute("aria-sort"); }
    });
    v.colours = colour(v, rows);
    const chosen = rows.find((r) => r.id === v.chosen) || rows.find((r) => r.buckets.length) || null;
    rows.forEach((r, i) => {
      let name = r.id;
      while (lines.has(name)) { name += "\u0000"; } // keys that look alike
      const line = v.lines.get(name) || newLine(v, r.id, table.columns.length);
      lines.set(name, line);
      fillLine(v, line, r);
      line.classList.toggle("chosen", r === chosen && r.buckets.length > 0 || r.id === v.chosen);
      if (v.body.rows[i] !== line) { v.body.insertBefore(line, v.body.rows[i] || null); }
    });
    while (v.body.rows.length > rows.length) { v.body.lastChild.remove(); }
    v.lines = lines;
    if (focus !== document.activeElement && v.body.contains(focus)) { focus.focus({ preventScroll: true }); }
    drawLines(v); drawHeat(v, chosen); drawBars(v, chosen);
    const hidden = table.total - table.rows.length;
    put(v.note, table.note + "; " + table.total.toLocaleString("en-US") + (table.total === 1 ? " row" : " rows") +
      (text ? ", " + table.rows.filter((r) => matches(table, r, text)).length + " match" : "") +
      (hidden > 0 ? ", the " + table.rows.length + " greatest are shown" : "") + (table.total ? "" : ": nothing yet"));
    put(v.about, table.about); v.about.hidden = !table.about; v.scroll.hidden = !table.rows.length;
  }
  function show() {
    const s = latest;
    if (!s) { return; }
    at("title").textContent = s.title; document.title = s.title;
    at("clock").textContent = charts.clock(s.elapsed);
    at("fleet").hidden = !s.state; at("fleet").textContent = s.state;
    at("probes").hidden = at("cost").hidden = !!s.state;
    at("cost").textContent = "costs " + (s.share * 100).toFixed(2) + "% of a CPU";
    put(at("losses"), s.losses.join(" \u00B7 "));
    const there = new Set(s.tables.map((t) => t.name));
    s.tables.forEach(fill);
    views.forEach((v, name) => { if (!there.has(name)) { v.box.remove(); views.delete(name); } });
    const pre = at("lines"), end = pre.scrollTop + pre.clientHeight >= pre.scrollHeight - 4;
    at("output").hidden = !s.written;
    pre.textContent = (s.written > s.lines.length ? "... " + (s.written - s.lines.length) + " lines before\n" : "") + s.lines.join("\n");
    if (end) { pre.scrollTop = pre.scrollHeight; }
    at("costs").tBodies[0].replaceChildren(...s.costs.map((c) => {
      const line = make("tr");
      [c.name, c.runs.toLocaleString("en-US"), scaled(Math.round(c.ns_per_run), "ns"), (c.share * 100).toFixed(3), c.skipped].forEach((x, i) => {
        line.append(make("td", String(x), i ? "number" : ""));
      });
      return line;
    }));
  }
  function say(text, look) { put(at("state"), text); at("state").className = "state " + look; }
  function tell() {
    if (over) { say("ended" + (latest && latest.ended ? ": " + latest.ended : ""), "gone"); }
    else if (paused) { say("paused: the tracing goes on", "held"); } else { say("live", "live"); }
  }
  function hold() {
    paused = !paused; at("pause").textContent = paused ? "go on" : "pause";
    if (!paused && waiting) { latest = waiting; show(); }
    tell();
  }
  const events = new EventSource("events");
  events.onmessage = function (message) {
    waiting = JSON.parse(message.data);
    remember(waiting.frames);
    if (!paused || waiting.ended) { latest = waiting; show(); }
    tell();
  };
  events.addEventListener("over", () => { over = true; events.close(); latest = waiting; show(); tell(); });
  events.onerror = function () { if (!over) { say("no connection: what is shown is old", "gone"); } };
  at("pause").addEventListener("click", hold);
  filter.addEventListener("input", show);
  document.addEventListener("keydown", (event) => {
    const typing = event.target === filter;
    if (event.key === "Escape") { filter.value = ""; filter.blur(); show(); }
    if (typing || event.ctrlKey || event.metaKey || event.altKey) { return; }
    if (event.key === "/") { event.preventDefault(); filter.focus(); }
    if (event.key === "?") { at("help").open = !at("help").open; at("help").scrollIntoView({ block: "nearest" }); }
    if (event.key === " " && !/^(BUTTON|SUMMARY)$/.test(event.target.tagName)) { event.preventDefault(); hold(); }
  });
  window.addEventListener("resize", show);
  window.matchMedia("(prefers-color-scheme: dark)").addEventListener("change", show);
})();
