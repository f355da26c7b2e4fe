// Charts of numbers over time: lines, and heat maps of histograms. Moments are [time, Map of key to [value, gains]], times
// seconds since the start, gains [low, high, count] of a histogram's ranges. All text is inserted as text.
var charts = (function () {
  "use strict";
  const NS = "http://www.w3.org/2000/svg", LEFT = 78, RIGHT = 8, TOP = 8, FOOT = 20, LINES = 170;
  const STEPS = [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14400];
  function made(tag, attributes, text) {
    const node = document.createElementNS(NS, tag);
    Object.keys(attributes).forEach((name) => node.setAttribute(name, attributes[name]));
    if (text !== undefined) { node.textContent = text; }
    return node;
  }
  function clock(seconds) {
    const whole = Math.max(0, Math.floor(seconds + 1e-6)), hours = Math.floor(whole / 3600);
    const two = (part) => String(part).padStart(2, "0");
    return (hours ? hours + ":" + two(Math.floor(whole / 60) % 60) : Math.floor(whole / 60)) + ":" + two(whole % 60);
  }
  // Round values from 0 (or below) to the top: of bytes powers of two, else 1, 2 or 5 times a power of ten.
  function ticks(low, high, unit) {
    const room = (high - low) / 3 || 1, base = /^K?B/.test(unit) ? 2 : 10;
    let step = Math.pow(base, Math.floor(Math.log(room) / Math.log(base) + 1e-9));
    if (base === 10) { step *= [1, 2, 5, 10].find((n) => step * n >= room * 0.999); }
    else if (step < room * 0.999) { step *= 2; }
    const found = [];
    for (let at = Math.ceil(low / step) * step; at <= high + step / 1e6; at += step) { found.push(at); }
    return found;
  }
  // What stands at an axis: large numbers without a unit are short too (1.2M, 1e+19).
  function axisText(value, unit) {
    const rate = /\/s$/.test(unit) ? "/s" : "", size = Math.abs(value);
    if (!value) { return "0"; }
    if (unit !== rate || size < 1e6) { return scaled(+value.toPrecision(6), unit); }
    return (size < 1e15 ? value.toLocaleString("en-US", { notation: "compact", maximumFractionDigits: 2 }) : value.toExponential()) + rate;
  }
  function timeTicks(from, to, width) {
    const step = STEPS.find((each) => (to - from) / each <= Math.max(2, width / 90)) || 86400, found = [];
    for (let at = Math.ceil(from / step) * step; at <= to; at += step) { found.push(at); }
    return found;
  }
  // A second more than three and a half times what usually lies between two looks: a longer time is a gap in a line.
  function longest(moments) {
    const gaps = moments.slice(1).map((m, i) => m[0] - moments[i][0]).sort((a, b) => a - b);
    return gaps.length ? gaps[gaps.length >> 1] * 3.5 + 1 : Infinity;
  }
  function axes(svg, box, span, low, high, unit, height) {
    ticks(low, high, unit).forEach((value) => {
      const y = box.y(value);
      svg.append(made("line", { "class": "grid", x1: LEFT, x2: box.width - RIGHT, y1: y, y2: y }),
                 made("text", { x: LEFT - 6, y: y + 4, "text-anchor": "end" }, axisText(value, unit)));
    });
    timeTicks(span[0], span[1], box.width - LEFT).forEach((time) => {
      const x = box.x(time);
      svg.append(made("text", { x: x, y: height - 5, "text-anchor": x > box.width - 24 ? "end" : "middle" }, clock(time)));
    });
  }
  function runs(moments, key, gap) {
    const found = [];
    let open = null, last = -Infinity;
    moments.forEach((m) => {
      const point = m[1].get(key);
      if (point === undefined) { open = null; return; }
      if (!open || m[0] - last > gap) { found.push(open = []); }
      open.push([m[0], point[0]]);
      last = m[0];
    });
    return found;
  }
  // series: [{key, name, colour}]; cursor: the time that is pointed at, or null.
  function lines(holder, moments, series, span, unit, cursor) {
    const width = Math.max(200, holder.clientWidth), gap = longest(moments), drawn = series.map((s) => runs(moments, s.key, gap));
    const values = drawn.flat(2).map((p) => p[1]), high = Math.max(...values, 0) || 1, low = Math.min(...values, 0);
    const box = { width: width, x: (t) => LEFT + (t - span[0]) / (span[1] - span[0] || 1) * (width - LEFT - RIGHT),
                  y: (v) => TOP + (high - v) / (high - low) * (LINES - TOP - FOOT) };
    const svg = made("svg", { viewBox: "0 0 " + width + " " + LINES, height: LINES });
    axes(svg, box, span, low, high, unit, LINES);
    drawn.forEach((parts, i) => parts.forEach((part) => {
      const points = part.length > 1 ? part : [part[0], [part[0][0] + (span[1] - span[0]) / 200, part[0][1]]];
      svg.append(made("polyline", { "class": "c" + series[i].colour,
                                    points: points.map((p) => box.x(p[0]).toFixed(1) + "," + box.y(p[1]).toFixed(1)).join(" ") }));
    }));
    if (cursor !== null) { svg.append(made("line", { "class": "cursor", x1: box.x(cursor), x2: box.x(cursor), y1: TOP, y2: LINES - FOOT })); }
    holder.replaceChildren(svg);
    return { time: (x) => span[0] + (x - LEFT) / (width - LEFT - RIGHT) * (span[1] - span[0]), x: box.x };
  }
  function rangesOf(moments, key) {
    const ranges = new Map();
    moments.forEach((m) => ((m[1].get(key) || [0, []])[1]).forEach((g) => ranges.set(g[0] + " " + g[1], [g[0], g[1]])));
    const order = (r) => r[0] === null ? -Infinity : Number(r[0]);
    return Array.from(ranges.values()).sort((a, b) => order(a) - order(b));
  }
  function bound(value, unit) { return value === null ? "..." : scaled(Number(value), unit); }
  function rangeText(range, unit) {
    if (range[0] !== null && Number(range[1]) - Number(range[0]) === 1) { return "[" + bound(range[0], unit) + "]"; }
    return (range[0] === null ? "(" : "[") + bound(range[0], unit) + ", " + bound(range[1], unit) + ")";
  }
  // A heat map on a canvas; what it returns says what is under a point: {time, from, range, count}.
  function heat(canvas, moments, key, span, unit, colours, ink) {
    const ranges = rangesOf(moments, key), width = Math.max(200, canvas.parentNode.clientWidth);
    const row = Math.max(2, Math.min(14, 280 / Math.max(1, ranges.length))), height = Math.ceil(row * ranges.length) + FOOT + 4;
    const dense = window.devicePixelRatio || 1, context = canvas.getContext("2d"), cells = [];
    const x = (t) => LEFT + Math.max(0, t - span[0]) / (span[1] - span[0] || 1) * (width - LEFT - RIGHT);
    const at = new Map(ranges.map((r, i) => [r[0] + " " + r[1], ranges.length - 1 - i])), gap = longest(moments);
    canvas.width = width * dense; canvas.height = height * dense; canvas.style.height = height + "px";
    context.scale(dense, dense);
    let most = 1;
    moments.forEach((m, i) => ((m[1].get(key) || [0, []])[1]).forEach((g) => {
      most = Math.max(most, g[2]);
      const before = i ? Math.max(moments[i - 1][0], m[0] - gap) : m[0] - 1;
      if (g[2] > 0) { cells.push({ from: before, time: m[0], row: at.get(g[0] + " " + g[1]), range: [g[0], g[1]], count: g[2] }); }
    }));
    cells.forEach((c) => {
      context.fillStyle = colours[Math.min(colours.length - 1, Math.floor(Math.log1p(c.count) / Math.log1p(most) * colours.length))];
      const left = x(c.from), right = x(c.time);
      context.fillRect(left, c.row * row + 2, Math.max(1, right - left - (right - left > 4 ? 0.5 : 0)), row - (row > 5 ? 0.5 : 0));
    });
    context.fillStyle = ink; context.font = "11px " + getComputedStyle(document.body).getPropertyValue("--mono"); context.textAlign = "right";
    const every = Math.ceil(13 / row);
    ranges.forEach((r, i) => { if (i % every === 0) { context.fillText(r[0] === null ? "..." : axisText(Number(r[0]), unit), LEFT - 6, (ranges.length - i) * row + 1); } });
    context.textAlign = "center";
    timeTicks(span[0], span[1], width - LEFT).forEach((t) => context.fillText(clock(t), Math.min(x(t), width - 20), height - 5));
    return { most: most, rows: ranges.length, under: (left, top) => {
      const time = span[0] + (left - LEFT) / (width - LEFT - RIGHT) * (span[1] - span[0]), line = Math.floor((top - 2) / row);
      return cells.find((c) => c.row === line && time > c.from && time <= c.time);
    } };
  }
  return { lines: lines, heat: heat, clock: clock, rangeText: rangeText };
})();
