// What makes a flame graph answer to clicks and searches.
//
// Its state (form, zoom, search) stands in the fragment of the address, #form=icicle&zoom=3.120&search=read, so that a
// link shows what its sender saw. On a page with several graphs the names of all but the first have the graph's number.
// The geometry (width 1200, margin 10, rows of 17, 11.5 units of text) is that of the module flamegraph, but that the
// width becomes the window's: letters and rows have their size in any, and what is higher than the window is scrolled.
(function () {
  "use strict";
  var WHOLE = 1200, CONTROLS = 330, MARGIN = 10, ROW = 17, TOP = 58, BOTTOM = 28, CHAR = 11.5 * 0.605, NS = "http://www.w3.org/2000/svg";

  function framesOf(group) {
    var open = [];
    return Array.from(group.children).map(function (g, i) {
      var depth = +g.dataset.depth, title = g.querySelector("title");
      open[depth] = i;
      return { g: g, rect: g.querySelector("rect"), text: g.querySelector("text"), tip: title.textContent,
               whole: g.dataset.name, name: g.dataset.name.replace(/_\[k\]$/, ""), at: +g.dataset.at,
               weight: +g.dataset.weight, depth: depth, below: depth ? open[depth - 1] : -1 };
    });
  }
  function made(tag, attributes) {
    var node = document.createElementNS(NS, tag);
    Object.keys(attributes).forEach(function (name) { node.setAttribute(name, attributes[name]); });
    return node;
  }
  // The same stacks joined from the innermost frame on. What a frame has beyond those above it is its own weight.
  function inverted(frames, group) {
    var own = frames.map(function (f) { return f.weight; }), unit = group.dataset.unit;
    frames.forEach(function (f) { if (f.below >= 0) { own[f.below] -= f.weight; } });
    var root = { frame: frames[0], weight: 0, children: new Map() };
    frames.forEach(function (f, i) {
      if (!i || own[i] <= 0) { return; }
      var node = root;
      root.weight += own[i];
      for (var j = i; j > 0; j = frames[j].below) {
        var key = frames[j].whole, child = node.children.get(key);
        if (!child) { node.children.set(key, child = { frame: frames[j], weight: 0, children: new Map() }); }
        child.weight += own[i];
        node = child;
      }
    });
    var out = made("g", { "class": "frames" }), pending = [[root, 0, 0]];
    while (pending.length) {
      var next = pending.pop(), node = next[0], at = next[2], above = [];
      var g = made("g", { "class": "frame", tabindex: 0 }), title = made("title", {});
      g.dataset.name = node.frame.whole; g.dataset.at = at; g.dataset.weight = node.weight; g.dataset.depth = next[1];
      title.textContent = node.frame.name + ": " + scaled(node.weight, unit) + " (" +
        (100 * node.weight / root.weight).toFixed(2) + "%)";
      var label = made("text", { "font-size": 11.5 });
      [title, made("rect", { "class": node.frame.rect.getAttribute("class"), height: ROW - 1 }), label]
        .forEach(function (part) { g.appendChild(part); });
      out.appendChild(g);
      Array.from(node.children.keys()).sort().forEach(function (key) {
        var child = node.children.get(key);
        if (child.weight * 10 * (WHOLE - 2 * MARGIN) >= root.weight) { above.push([child, next[1] + 1, at]); }
        at += child.weight;
      });
      pending = pending.concat(above.reverse());
    }
    return out;
  }

  Array.from(document.querySelectorAll("svg")).filter(function (svg) { return svg.querySelector(".frames"); })
    .forEach(function (svg, number) {
    var group = svg.querySelector(".frames"), height = +group.dataset.height, forms = { false: framesOf(group) };
    var one = function (name) { return svg.querySelector(name); };
    var reset = one(".reset"), search = one(".search"), detail = one(".detail"), matched = one(".matched");
    var icicle = one(".icicle"), invert = one(".invert"), suffix = number || "";
    if (!forms[false].length) { return; }
    var legends = Array.from(svg.querySelectorAll(".legend")); // the graph is at least as wide as these and the controls
    var narrowest = CONTROLS + Math.max.apply(null, legends.map(function (text) {
      return +text.getAttribute("x") + text.getComputedTextLength();
    }).concat([200]));
    var room = WHOLE - 2 * MARGIN, tall = svg.viewBox.baseVal.height;
    var beside = Array.from(svg.querySelectorAll(".control, .matched")).map(function (text) {
      return [text, WHOLE - text.getAttribute("x")];
    });
    var state = { icicle: false, inverted: false, zoom: "", search: "" }, frames = forms[false], pattern = null;

    function label(frame, width) {
      var room = Math.floor((width - 6) / CHAR);
      if (frame.name.length <= room) { return frame.name; }
      return room >= 3 ? frame.name.slice(0, room - 1) + "\u2026" : "";
    }
    function lay() {
      var to = frames.find(function (f) { return f.depth + "." + f.at === state.zoom; }) || frames[0];
      var end = to.at + to.weight, scale = room / to.weight;
      frames.forEach(function (f) {
        var under = f.depth < to.depth && f.at <= to.at && f.at + f.weight >= end;
        var within = f.depth >= to.depth && f.at >= to.at && f.at + f.weight <= end;
        f.g.style.display = under || within ? "" : "none";
        f.g.classList.toggle("under", under);
        if (!under && !within) { return; }
        var x = under ? MARGIN : MARGIN + (f.at - to.at) * scale, width = under ? room : f.weight * scale;
        var y = state.icicle ? TOP + ROW * f.depth : height - BOTTOM - ROW * (f.depth + 1);
        f.rect.setAttribute("x", x); f.rect.setAttribute("width", width); f.rect.setAttribute("y", y);
        f.text.setAttribute("x", x + 3); f.text.setAttribute("y", y + 12);
        f.text.textContent = label(f, width);
      });
      reset.setAttribute("visibility", to === frames[0] ? "hidden" : "visible");
    }
    function fit(text) { // one that is too long for the width becomes smaller
      var size = text.dataset.size = text.dataset.size || text.getAttribute("font-size");
      text.setAttribute("font-size", size);
      var length = text.getComputedTextLength();
      if (length > room) { text.setAttribute("font-size", Math.max(6, size * room / length)); }
    }
    function widen() {
      var page = svg === document.documentElement ? null : svg.parentNode;
      var bar = !page && tall > window.innerHeight ? 16 : 0; // of scrolling
      var whole = Math.max(narrowest, page ? page.clientWidth : window.innerWidth - bar);
      room = whole - 2 * MARGIN;
      svg.setAttribute("viewBox", "0 0 " + whole + " " + tall);
      svg.setAttribute("width", whole);
      beside.forEach(function (each) { each[0].setAttribute("x", whole - each[1]); });
      svg.querySelectorAll(".middle").forEach(function (text) { text.setAttribute("x", whole / 2); });
      svg.querySelectorAll(".title, [data-about]").forEach(fit);
      lay();
    }
    function mark() {
      var text = state.search, sum = 0, until = -1;
      try { pattern = text ? new RegExp(text, "i") : null; }
      catch (error) { pattern = new RegExp(text.replace(/[.*+?^${}()|[\]\\]/g, "\\$&"), "i"); }
      frames.forEach(function (f) {
        var hit = !!pattern && pattern.test(f.name);
        f.g.classList.toggle("found", hit);
        if (hit && f.at >= until) { sum += f.weight; until = f.at + f.weight; }
      });
      matched.textContent = pattern ? "matched: " + (100 * sum / frames[0].weight).toFixed(2) + "%" : " ";
      search.textContent = pattern ? "clear search" : "search";
    }
    function show() {
      if (!forms[state.inverted]) {
        var drawn = inverted(forms[false], group);
        group.parentNode.insertBefore(drawn, group.nextSibling);
        forms[true] = framesOf(drawn);
        forms[true].forEach(answer);
      }
      frames = forms[state.inverted];
      [false, true].forEach(function (each) {
        if (forms[each]) { forms[each][0].g.parentNode.style.display = each === state.inverted ? "" : "none"; }
      });
      icicle.textContent = state.icicle ? "flames" : "icicles";
      if (invert) { invert.textContent = state.inverted ? "from the root" : "inverted"; }
      lay();
      mark();
    }
    function read() {
      var found = new URLSearchParams(location.hash.slice(1)), form = (found.get("form" + suffix) || "").split(" ");
      state = { icicle: form.indexOf("icicle") >= 0, inverted: !!invert && form.indexOf("inverted") >= 0,
                zoom: found.get("zoom" + suffix) || "", search: found.get("search" + suffix) || "" };
      show();
    }
    function change(what) {
      Object.assign(state, what);
      var found = new URLSearchParams(location.hash.slice(1));
      var form = [state.icicle && "icicle", state.inverted && "inverted"].filter(Boolean).join(" ");
      [["form", form], ["zoom", state.zoom], ["search", state.search]].forEach(function (each) {
        if (each[1]) { found.set(each[0] + suffix, each[1]); } else { found.delete(each[0] + suffix); }
      });
      // In the frame of a notebook there is no address to write to.
      try { history.replaceState(null, "", "#" + found); } catch (error) { }
      show();
    }
    function ask() {
      if (pattern) { return change({ search: "" }); }
      var text = window.prompt("Show the frames that match (a regular expression):", "");
      if (text) { change({ search: text }); }
    }
    function answer(f) {
      var zoom = function () { change({ zoom: f.depth ? f.depth + "." + f.at : "" }); };
      var tell = function () { detail.textContent = f.tip; };
      f.tip = f.g.querySelector("title").textContent;
      f.g.addEventListener("click", zoom);
      f.g.addEventListener("keydown", function (e) { if (e.key === "Enter") { zoom(); } });
      f.g.addEventListener("mouseover", tell);
      f.g.addEventListener("focus", tell);
      f.g.addEventListener("mouseout", function () { detail.textContent = " "; });
    }
    frames.forEach(answer);
    reset.addEventListener("click", function () { change({ zoom: "" }); });
    search.addEventListener("click", ask);
    icicle.addEventListener("click", function () { change({ icicle: !state.icicle }); });
    if (invert) {
      invert.addEventListener("click", function () { change({ inverted: !state.inverted, zoom: "" }); });
    }
    document.addEventListener("keydown", function (e) {
      if (e.key === "Escape") { change({ zoom: "", search: "" }); }
      if (e.key === "/" || (e.key === "f" && (e.ctrlKey || e.metaKey))) { e.preventDefault(); ask(); }
    });
    window.addEventListener("hashchange", read);
    window.addEventListener("resize", widen);
    if (location.hash.length > 1) { read(); }
    widen();
  });
})();
