// As units.py: times and bytes in the unit that suits their size, to three digits; other numbers as they are.
var scaled = (function () {
  "use strict";
  var TIMES = [["s", 1e9], ["ms", 1e6], ["\u00b5s", 1e3], ["ns", 1]];
  var SIZES = [["TiB", 1099511627776], ["GiB", 1073741824], ["MiB", 1048576], ["KiB", 1024], ["B", 1]];
  var SCALES = { ns: [TIMES, 1], "\u00b5s": [TIMES, 1e3], ms: [TIMES, 1e6], s: [TIMES, 1e9], B: [SIZES, 1],
                 KB: [SIZES, 1024] };
  return function scaled(value, unit) {
    if (/\/s$/.test(unit)) { return scaled(value, unit.slice(0, -2)) + "/s"; }
    if (!Object.prototype.hasOwnProperty.call(SCALES, unit)) {
      return value.toLocaleString("en-US") + (unit && " ") + (value === 1 ? unit.replace(/s$/, "") : unit);
    }
    var scale = SCALES[unit][0], least = value * SCALES[unit][1], size = Math.abs(least);
    var step = scale.find(function (each) { return size >= 0.9995 * each[1]; }) || scale[scale.length - 1];
    var part = least / step[1], digits = Math.abs(part) >= 99.95 ? 0 : Math.abs(part) >= 9.995 ? 1 : 2;
    return (+part.toFixed(digits)).toLocaleString("en-US") + " " + step[0];
  };
})();
