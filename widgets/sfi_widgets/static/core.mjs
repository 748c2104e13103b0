// Pure functions of the panels: arrays in, arrays out. No DOM, so `node --test` runs them.

export const MEAN = -1;
export const CLASS = { none: 0, sink: 1, recent: 2, selected: 3, other: 4, sparse: 5, half: 6 }; // the last two: cells partly selected
export const CLASS_NAMES = ['not read', 'sink', 'recent', 'selected', 'not in memory'];

// arrays from the kernel -----------------------------------------------------------------------------------------------

/** A typed array over a DataView's own bytes; copied, since the offset may not be aligned. */
export function typed(view, Type) {
  if (!view) return new Type(0);
  const bytes = new Uint8Array(view.buffer, view.byteOffset, view.byteLength);
  return new Type(bytes.slice().buffer);
}

/** {offsets, ids} of lists of unequal length. */
export function rowsOf(data) {
  if (!data || !data.ids) return { offsets: new Uint32Array(1), ids: new Uint16Array(0) };
  return { offsets: typed(data.offsets, Uint32Array), ids: typed(data.ids, data.wide ? Int32Array : Uint16Array) };
}

/** Weight in [0, 1] from its 16-bit square root. */
export const weightOf = (v) => (v / 65535) ** 2;

/** Level 1 … 255 of a weight on a log scale from 1e-4 to 1. */
export function level(weight) {
  if (!(weight > 0)) return 1;
  return Math.max(1, Math.min(255, Math.round(1 + (254 * (Math.log10(weight) + 4)) / 4)));
}

let LEVELS = null;
/** Levels of all 65,536 coded weights. */
export function levelTable() {
  if (!LEVELS) LEVELS = Uint8Array.from({ length: 65536 }, (_, v) => level(weightOf(v)));
  return LEVELS;
}

// selections -----------------------------------------------------------------------------------------------------------

/** Index of the last refresh at or before `step`, -1 before the first. `steps` ascending. */
export function refreshAt(steps, step) {
  let low = 0, high = steps.length;
  while (low < high) {
    const mid = (low + high) >> 1;
    if (steps[mid] <= step) low = mid + 1; else high = mid;
  }
  return low - 1;
}

/** The first k ids of every head at a refresh, each once: Set of positions. */
export function chosen(selection, refresh, k) {
  const found = new Set();
  if (refresh < 0) return found;
  const { offsets, ids, heads } = selection;
  for (let row = refresh * heads; row < (refresh + 1) * heads; row++) {
    const end = Math.min(offsets[row] + k, offsets[row + 1]);
    for (let i = offsets[row]; i < end; i++) found.add(ids[i]);
  }
  return found;
}

/**
 * How full each of `n` cells over positions [first, last) is with the first k ids of a refresh: 0 none, 1 sparse … 3 full
 * (share of the cell's positions, mean over heads).
 */
export function chosenCells(selection, refresh, k, first, last, n) {
  const cells = new Uint8Array(n);
  if (refresh < 0) return cells;
  const counts = new Uint16Array(n), { offsets, ids, heads } = selection, scale = n / (last - first);
  for (let row = refresh * heads; row < (refresh + 1) * heads; row++) {
    const end = Math.min(offsets[row] + k, offsets[row + 1]);
    for (let i = offsets[row]; i < end; i++) {
      const id = ids[i];
      if (id >= first && id < last) counts[Math.floor((id - first) * scale)]++;
    }
  }
  const whole = heads / scale;
  for (let i = 0; i < n; i++) if (counts[i]) cells[i] = Math.min(3, Math.max(1, Math.ceil((3 * counts[i]) / whole - 0.01)));
  return cells;
}

/** How two sets differ: ids in both, only in a, only in b. */
export function compareSets(a, b) {
  let both = 0;
  for (const id of a) if (b.has(id)) both++;
  return { both, onlyA: a.size - both, onlyB: b.size - both };
}

/** Why a step may read a position: a CLASS. */
export function classOf(position, step, memory, picked) {
  if (position > memory.position[step]) return CLASS.none;
  if (position < memory.sink) return CLASS.sink;
  if (position >= memory.recentStart[step]) return CLASS.recent;
  return picked.has(position) ? CLASS.selected : CLASS.other;
}

const TINTS = [0, CLASS.sparse << 8, CLASS.half << 8, CLASS.selected << 8];

/** A step's route in words. */
export function routeOf(run, step) {
  if (run.slow[step]) return `slow (${run.reason[step].replaceAll('_', ' ')})`;
  return run.reason[step] === 'prompt' ? 'the prompt' : 'fast';
}

// the maps -------------------------------------------------------------------------------------------------------------

/** How many cells an axis has: one per unit where there is room, else one per pixel. */
export const cellsFor = (first, last, pixels) => Math.max(1, Math.min(last - first, Math.floor(pixels)));

/**
 * Steps × positions as cells, column by column: out[x * rows + y] = class << 8 | level; level 0 = may be read, no listed weight.
 * view {s0, s1, p0, p1} whole numbers; memory {position, sink, recentStart, selection, k}; support {offsets, ids, weights}.
 * A cell that holds several steps or positions shows the heaviest weight.
 */
export function supportCells(out, columns, rows, view, memory, support) {
  const { s0, s1, p0, p1 } = view, scale = rows / (p1 - p0), levels = levelTable();
  const cell = (p) => Math.max(0, Math.min(rows, Math.floor((p - p0) * scale)));
  const cellEnd = (p) => Math.max(0, Math.min(rows, Math.ceil((p - p0) * scale)));
  out.fill(0);
  let refresh = -2, picked = null;
  for (let x = 0; x < columns; x++) {
    const from = s0 + Math.floor((x * (s1 - s0)) / columns);
    const to = Math.max(from + 1, s0 + Math.floor(((x + 1) * (s1 - s0)) / columns));
    const last = to - 1, base = x * rows;
    if (memory) {
      const now = refreshAt(memory.selection.steps, last);
      if (now !== refresh) {
        refresh = now;
        picked = chosenCells(memory.selection, now, memory.k, p0, p1, rows);
      }
      for (let y = 0; y < rows; y++) if (picked[y]) out[base + y] = TINTS[picked[y]];
      out.fill(CLASS.sink << 8, base + cell(0), base + cellEnd(memory.sink));
      out.fill(CLASS.recent << 8, base + cell(memory.recentStart[last]), base + cellEnd(memory.position[last] + 1));
    }
    for (let s = from; s < to; s++) {
      const recentStart = memory ? memory.recentStart[s] : Infinity, sink = memory ? memory.sink : 0;
      for (let i = support.offsets[s]; i < support.offsets[s + 1]; i++) {
        const id = support.ids[i];
        if (id < p0 || id >= p1) continue;
        const at = base + Math.floor((id - p0) * scale);
        const l = levels[support.weights[i]];
        if ((out[at] & 255) >= l) continue;
        let kind = CLASS.other;
        if (memory) {
          if (id < sink) kind = CLASS.sink;
          else if (id >= recentStart) kind = CLASS.recent;
          else if (picked && picked[at - base]) kind = CLASS.selected;
        }
        out[at] = (kind << 8) | l;
      }
    }
  }
  return out;
}

export const PICK = { none: 0, both: 1, now: 2, recorded: 3 };

/** Selected positions by step, now against recorded: out[x * rows + y] = PICK << 2 | how full the cell is, 1 … 3. One column a step or a pixel. */
export function selectionCells(out, columns, rows, view, now, nowK, recorded, recordedK) {
  const { s0, s1, p0, p1 } = view;
  out.fill(0);
  let a = -2, b = -2, cellsA = null, cellsB = null, column = -1;
  for (let x = 0; x < columns; x++) {
    const last = s0 + Math.max(Math.floor((x * (s1 - s0)) / columns), Math.floor(((x + 1) * (s1 - s0)) / columns) - 1);
    const nowAt = now ? refreshAt(now.steps, last) : -1, recordedAt = refreshAt(recorded.steps, last);
    const base = x * rows;
    if (nowAt === a && recordedAt === b && column >= 0) {
      out.copyWithin(base, column, column + rows);
      continue;
    }
    if (nowAt !== a) cellsA = now ? chosenCells(now, nowAt, nowK, p0, p1, rows) : new Uint8Array(rows);
    if (recordedAt !== b) cellsB = chosenCells(recorded, recordedAt, recordedK, p0, p1, rows);
    a = nowAt; b = recordedAt; column = base;
    for (let y = 0; y < rows; y++) {
      const a3 = cellsA[y], b3 = cellsB[y];
      if (a3 && b3 && Math.abs(a3 - b3) < 2) out[base + y] = (PICK.both << 2) | Math.max(a3, b3);
      else if (a3 > b3) out[base + y] = (PICK.now << 2) | a3;
      else if (b3) out[base + y] = (PICK.recorded << 2) | b3;
    }
  }
  return out;
}

/** Colours a column-major grid into a row-major RGBA image. lut: colours by cell value. */
export function colourCells(cells, columns, rows, lut, out) {
  for (let x = 0, i = 0; x < columns; x++) for (let y = 0, o = x; y < rows; y++, i++, o += columns) out[o] = lut[cells[i]];
  return out;
}

// colours --------------------------------------------------------------------------------------------------------------

/** [r, g, b] of "#rrggbb". */
export const rgb = (hex) => [1, 3, 5].map((i) => parseInt(hex.slice(i, i + 2), 16));
export const mix = (a, b, t) => a.map((v, i) => Math.round(v + (b[i] - v) * t));
/** One little-endian RGBA word. */
export const word = ([r, g, b], alpha = 255) => ((alpha << 24) | (b << 16) | (g << 8) | r) >>> 0;

/** Colours of class << 8 | level: level 0 is a faint tint, 1 … 255 run from a light tint to the class's strongest colour. */
export function classColours(palette) {
  const lut = new Uint32Array(7 * 256), back = rgb(palette.back), ink = rgb(palette.ink);
  const hues = [palette.back, palette.sink, palette.recent, palette.selected, palette.other].map(rgb);
  for (let c = 0; c < 5; c++) {
    lut[c << 8] = c === CLASS.none ? word(back, 0) : word(mix(back, hues[c], c === CLASS.selected ? 0.24 : 0.16));
    for (let l = 1; l < 256; l++) {
      const t = (l - 1) / 254;
      lut[(c << 8) | l] = word(t < 0.6 ? mix(back, hues[c], 0.3 + (0.7 * t) / 0.6) : mix(hues[c], ink, (t - 0.6) * 1.6));
    }
  }
  lut[CLASS.sparse << 8] = word(mix(back, hues[CLASS.selected], 0.07));
  lut[CLASS.half << 8] = word(mix(back, hues[CLASS.selected], 0.15));
  return lut;
}

/** What shift-click makes of the heads shown: {head, among}; head -1 is the mean over `among`, of all heads where that is empty. */
export function toggled(head, among, clicked, heads) {
  const now = new Set(head >= 0 ? [head] : among);
  if (now.has(clicked)) now.delete(clicked); else now.add(clicked);
  if (now.size === 1) return { head: [...now][0], among: [] };
  return { head: -1, among: now.size === heads ? [] : [...now].sort((a, b) => a - b) };
}

// axes and numbers -----------------------------------------------------------------------------------------------------

/** Round tick values inside [first, last], about `count` of them. */
export function ticks(first, last, count) {
  const span = last - first;
  if (!(span > 0)) return [first];
  const rough = span / Math.max(1, count), power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((m) => m * power).find((s) => s >= rough);
  const out = [];
  for (let v = Math.ceil(first / step - 1e-9) * step; v <= last + step * 1e-9; v += step) out.push(Number(v.toFixed(10)));
  return out;
}

/** A count with thin groups: 12,345. */
export const count = (n) => Math.round(n).toString().replace(/\B(?=(\d{3})+$)/g, ',');
export const share = (x, digits = 1) => `${(100 * x).toFixed(digits)} %`;
/** A weight in three figures, small ones as powers. */
export const figure = (x) => (x === 0 ? '0' : x >= 0.001 ? x.toPrecision(3) : x.toExponential(1));

/** Keeps [first, last) inside [0, end) with at least `least` in it. Whole numbers. */
export function clampRange(first, last, end, least = 1) {
  const size = Math.min(end, Math.max(least, Math.round(last - first)));
  const start = Math.max(0, Math.min(end - size, Math.round(first)));
  return [start, start + size];
}

/** Zooms [first, last) by `factor` about `at`; whole numbers, at least `least` wide. */
export function zoomRange([first, last], at, factor, end, least = 4) {
  const size = Math.max(least, Math.min(end, (last - first) * factor));
  const share01 = (at - first) / (last - first);
  return clampRange(at - share01 * size, at - share01 * size + size, end, least);
}

/** The stops of a slider over 1 … end that is fine at the bottom and coarse at the top. */
export function stops(end) {
  const out = [];
  for (let v = 1; v < end; v += Math.max(1, 2 ** Math.floor(Math.log2(v) - 3))) out.push(v);
  out.push(end);
  return out;
}

/** Index of the stop nearest to a value. */
export function nearest(values, value) {
  let best = 0;
  for (let i = 1; i < values.length; i++) if (Math.abs(values[i] - value) < Math.abs(values[best] - value)) best = i;
  return best;
}

// curves along positions ----------------------------------------------------------------------------------------------

/** How full each of n pixel columns is with values over [first, last): the largest value of each, NaN where there is none. */
export function columnMax(values, origin, first, last, n) {
  const out = new Float32Array(n).fill(NaN), scale = n / (last - first);
  for (let p = Math.max(first, origin); p < Math.min(last, origin + values.length); p++) {
    const v = values[p - origin], from = Math.floor((p - first) * scale), to = Math.max(from + 1, Math.floor((p + 1 - first) * scale));
    for (let x = from; x < to && x < n; x++) if (!(out[x] >= v)) out[x] = v;
  }
  return out;
}

/** Bits of the flags of positions in each pixel column. */
export function columnBits(flags, origin, first, last, n) {
  const out = new Uint8Array(n), scale = n / (last - first);
  for (let p = Math.max(first, origin); p < Math.min(last, origin + flags.length); p++) {
    const from = Math.floor((p - first) * scale), to = Math.max(from + 1, Math.floor((p + 1 - first) * scale));
    for (let x = from; x < to && x < n; x++) out[x] |= flags[p - origin];
  }
  return out;
}
