// What the panels share in the browser: elements, the hub, themes, canvases.
import { typed, rowsOf, count } from './core.mjs';
import { painter } from './frames.mjs';
import { watchTabs } from './tabs.mjs';

/** An element: h('button', {class: 'x', onclick: f}, 'text', child). */
export function h(tag, attributes = {}, ...children) {
  const el = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value === undefined || value === null || value === false) continue;
    if (name.startsWith('on')) el.addEventListener(name.slice(2), value);
    else if (name === 'class') el.className = value;
    else if (name === 'style') Object.assign(el.style, value);
    else el.setAttribute(name, value === true ? '' : value);
  }
  el.append(...children.filter((c) => c !== null && c !== undefined));
  return el;
}

/** The shared model behind a panel. */
export async function hubOf(model) {
  return model.widget_manager.get_model(model.get('hub').replace('IPY_MODEL_', ''));
}

/** Listens on the hub and forgets when the view goes. */
export function listener(hub) {
  const pairs = [];
  return {
    on(names, run) {
      for (const name of [].concat(names)) { hub.on(`change:${name}`, run); pairs.push([`change:${name}`, run]); }
    },
    stop() { for (const [name, run] of pairs) hub.off(name, run); },
  };
}

const later = new WeakMap();
/** Sets shared choices: every panel follows at once, the kernel a moment later. */
export function choose(hub, values) {
  for (const [name, value] of Object.entries(values)) hub.set(name, value);
  clearTimeout(later.get(hub));
  later.set(hub, setTimeout(() => hub.save_changes(), 60));
}

/** K as it is being dragged, before the kernel has answered. */
export const liveK = (hub) => hub.get('k_live') ?? hub.get('k');

const decoded = new WeakMap();
function once(key, make) {
  if (!decoded.has(key)) decoded.set(key, make());
  return decoded.get(key);
}

/** Decoded arrays of the hub, each made once per message. */
export const data = {
  tokens: (hub) => once(hub.get('tokens'), () => {
    const t = hub.get('tokens');
    return { texts: t.text.split('\x1f'), sentence: typed(t.sentence, Int32Array) };
  }),
  run: (hub) => once(hub.get('run'), () => {
    const r = hub.get('run');
    return {
      count: r.count, reason: r.reason, slow: typed(r.slow, Uint8Array), position: typed(r.position, Int32Array),
      sentence: typed(r.sentence, Int32Array), available: typed(r.available, Int32Array), read: typed(r.read, Float32Array),
    };
  }),
  support: (hub) => once(hub.get('support'), () => {
    const s = hub.get('support');
    return { ...rowsOf(s), weights: typed(s.weights, Uint16Array), rest: typed(s.rest, Float32Array) };
  }),
  recorded: (hub) => once(hub.get('recorded'), () => {
    const r = hub.get('recorded');
    return { ...rowsOf(r), steps: typed(r.steps, Int32Array), heads: r.heads, k: r.k };
  }),
  /** The re-selection under the current settings, null where there is none. */
  now: (hub) => {
    const n = hub.get('now'), m = hub.get('mass');
    if (!n || !n.ids || !m || !m.kept) return null;
    const ranking = once(n, () => ({ ...n, ...rowsOf(n), steps: typed(n.steps, Int32Array), lam: typed(n.lam, Float32Array) }));
    const mass = once(m, () => ({
      ...m, byHead: typed(m.by_head, Float32Array), shownHeads: m.shown_heads ?? [], recentStart: typed(m.recent_start, Int32Array), kept: typed(m.kept, Float32Array), keptBefore: typed(m.kept_before, Float32Array),
      keysRead: typed(m.keys_read, Int32Array), keysBefore: typed(m.keys_before, Int32Array),
    }));
    return { ...ranking, ...mass };
  },
};

/** What the current settings read at every step, as core.supportCells takes it; null where nothing can be re-selected. */
export function memoryOf(hub) {
  const now = data.now(hub);
  if (!now) return null;
  return { position: data.run(hub).position, sink: now.sink, recentStart: now.recentStart, selection: now, k: liveK(hub) };
}

export const headName = (head, among = []) => (head >= 0 ? `KV head ${head}` : ['mean of KV heads', ...(among.length ? [among.join(', ')] : [])].join(' '));
/** The heads that the panels show, in words. */
export const chosenName = (hub) => headName(hub.get('kv_head'), hub.get('among') ?? []);

const HEAD_HUES = ['#56b4e9', '#7a5cc4', '#cc79a7', '#8c6d00', '#0072b2', '#d55e00', '#009e73', '#8f8f8f']; // told apart by the colour-blind
/** One colour for a KV head, the same in every panel and theme. */
export const headColour = (head) => HEAD_HUES[head % HEAD_HUES.length];

// themes ---------------------------------------------------------------------------------------------------------------

const LIGHT = {
  back: '#ffffff', ink: '#14181d', text: '#24292f', faint: '#667079', line: '#d5dae0', sink: '#a8327d', recent: '#1467b3',
  selected: '#00805e', other: '#70777f', slow: '#c2410c', before: '#c98500', band: '#eef1f4', cursor: '#14181d',
};
const DARK = {
  back: '#16191d', ink: '#ffffff', text: '#e4e8ec', faint: '#9aa5af', line: '#3a424b', sink: '#e58cc4', recent: '#5fb2f0',
  selected: '#35c79a', other: '#98a2ac', slow: '#ff9b63', before: '#f2bd4a', band: '#22272d', cursor: '#ffffff',
};

function isDark(el) {
  for (let node = el; node; node = node.parentElement) {
    const colour = getComputedStyle(node).backgroundColor.match(/[\d.]+/g);
    if (colour && (colour.length < 4 || Number(colour[3]) > 0.5)) {
      return 0.299 * colour[0] + 0.587 * colour[1] + 0.114 * colour[2] < 128;
    }
  }
  return false;
}

/** Follows the page's theme: sets data-theme on the element and calls back on a change. */
export function theme(el, changed) {
  const state = { colours: LIGHT, stop() { watcher.disconnect(); clearTimeout(timer); } };
  let timer = 0, started = false;
  const look = () => {
    const dark = isDark(el.parentElement ?? el);
    if (el.dataset.theme === (dark ? 'dark' : 'light')) return;
    el.dataset.theme = dark ? 'dark' : 'light';
    state.colours = dark ? DARK : LIGHT;
    if (started) changed();
  };
  const watcher = new MutationObserver(() => { look(); clearTimeout(timer); timer = setTimeout(look, 400); });
  watcher.observe(document.body, { attributes: true });
  look();
  started = true;
  timer = setTimeout(look, 400);
  return state;
}

// panels ---------------------------------------------------------------------------------------------------------------

/** The frame of a panel: title, one-line statement, tools, legend, body. */
export function panel(el, name, title) {
  el.classList.add('sfi', `sfi-${name}`);
  el.dataset.panel = name;
  el.dataset.lmSuppressShortcuts = 'true'; // JupyterLab would take arrow keys and letters for its cells,
  el.addEventListener('keydown', (e) => e.stopPropagation()); // by two ways: a capturing listener and a bubbling one
  const statement = h('span', { class: 'sfi-statement', 'aria-live': 'polite' });
  const tools = h('span', { class: 'sfi-tools' });
  const legend = h('div', { class: 'sfi-legend' });
  const body = h('div', { class: 'sfi-body' });
  const section = h('section', { class: 'sfi-panel', 'aria-label': title },
    h('header', {}, h('h3', {}, title), statement, tools), legend, body);
  el.append(section);
  watchTabs(el);
  return { section, statement, tools, legend, body };
}

/** One entry of a legend. */
export const key = (kind, text, title) => h('span', { class: 'sfi-key', title }, h('i', { class: `sfi-swatch ${kind}` }), text);

/** A canvas that fills its box at the screen's own resolution; draw(context, width, height) in CSS pixels. */
export function canvas(box, height, label, draw) {
  const el = h('canvas', { tabindex: '0', role: 'img', 'aria-label': label, title: label, style: { height: `${height}px` } });
  box.append(el);
  const context = el.getContext('2d');
  let width = 0; // kept: reading it after the page has changed costs a layout
  const paint = () => {
    width ||= box.clientWidth;
    if (width < 20) return;
    const ratio = window.devicePixelRatio || 1;
    const w = Math.round(width * ratio), hh = Math.round(height * ratio);
    if (el.width !== w || el.height !== hh) { el.width = w; el.height = hh; }
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    context.clearRect(0, 0, width, height);
    const start = performance.now();
    draw(context, width, height, ratio);
    el.dataset.frame = String(Number(el.dataset.frame ?? 0) + 1);
    el.dataset.ms = (performance.now() - start).toFixed(1);
  };
  const job = painter(box, paint);
  const sizes = new ResizeObserver((changes) => { width = changes.at(-1).contentRect.width; job.ask(); });
  sizes.observe(box);
  return { el, context, redraw: job.ask, stop() { sizes.disconnect(); job.stop(); } };
}

// plots over steps -----------------------------------------------------------------------------------------------------

export const PAD = { left: 62, right: 14, top: 16, bottom: 34 };
export const FONT = '11px system-ui, -apple-system, "Segoe UI", "DejaVu Sans", sans-serif';

/** Pixel of a step's left edge, and back. */
export const xOf = (step, brush, left, width) => left + ((step - brush[0]) * width) / (brush[1] - brush[0]);
export const stepAt = (x, brush, left, width) => Math.floor(brush[0] + ((x - left) * (brush[1] - brush[0])) / width);

/** Tick labels under (or beside) an axis. */
export function axisX(context, colours, values, place, y, label, left, width) {
  context.font = FONT; context.fillStyle = colours.faint; context.strokeStyle = colours.line; context.textAlign = 'center';
  context.textBaseline = 'top';
  for (const v of values) {
    const x = place(v);
    context.beginPath(); context.moveTo(x, y); context.lineTo(x, y + 4); context.stroke();
    context.fillText(count(v), Math.max(left + 4, Math.min(left + width - 8, x)), y + 6);
  }
  if (label) { context.fillStyle = colours.text; context.fillText(label, left + width / 2, y + 19); }
}

export function axisY(context, colours, values, place, x, label, format = count, top = 0, height = 0) {
  context.font = FONT; context.fillStyle = colours.faint; context.strokeStyle = colours.line; context.textAlign = 'right';
  context.textBaseline = 'middle';
  for (const v of values) {
    const y = place(v);
    context.beginPath(); context.moveTo(x - 4, y); context.lineTo(x, y); context.stroke();
    context.fillText(format(v), x - 7, y);
  }
  if (label) {
    context.save();
    context.translate(10, top + height / 2); context.rotate(-Math.PI / 2);
    context.textAlign = 'center'; context.fillStyle = colours.text; context.fillText(label, 0, 0);
    context.restore();
  }
}

const PIECE = 32; // points of a line stroked together

/**
 * A line through (xs[i], ys[i]), broken where y is NaN. Stroked in pieces: a long jagged line as one path takes Chromium's
 * software raster several times as long, since its edges all cross.
 */
export function polyline(context, xs, ys, dash = []) {
  const period = dash.reduce((sum, d) => sum + d, 0);
  let points = 0, length = 0;
  context.setLineDash(dash);
  for (let i = 0; i < xs.length; i++) {
    if (ys[i] !== ys[i]) {
      if (points > 1) context.stroke();
      points = 0;
      continue;
    }
    if (!points) { length = 0; context.lineDashOffset = 0; context.beginPath(); context.moveTo(xs[i], ys[i]); points = 1; continue; }
    context.lineTo(xs[i], ys[i]);
    length += Math.hypot(xs[i] - xs[i - 1], ys[i] - ys[i - 1]);
    if (++points > PIECE) {
      context.stroke(); context.beginPath(); context.moveTo(xs[i], ys[i]);
      context.lineDashOffset = period ? length % period : 0; // the pattern goes on
      points = 1;
    }
  }
  if (points > 1) context.stroke();
  context.setLineDash([]); context.lineDashOffset = 0;
}

/** Alternating sentence bands along the steps. */
export function sentenceBands(context, colours, run, brush, left, width, y, height) {
  context.fillStyle = colours.band;
  for (let s = brush[0]; s < brush[1]; ) {
    let end = s + 1;
    while (end < brush[1] && run.sentence[end] === run.sentence[s]) end++;
    if (run.sentence[s] % 2) context.fillRect(xOf(s, brush, left, width), y, ((end - s) * width) / (brush[1] - brush[0]), height);
    s = end;
  }
}

/** The cursor's column: a frame as wide as the step, at least two pixels. */
export function cursorLine(context, colours, cursor, brush, left, width, y, height) {
  if (cursor < brush[0] || cursor >= brush[1]) return;
  const x = xOf(cursor, brush, left, width), w = Math.max(2, width / (brush[1] - brush[0]));
  context.strokeStyle = colours.cursor; context.lineWidth = 1;
  context.strokeRect(Math.round(x) - 0.5, y + 0.5, Math.round(w) + 1, height - 1);
}

/** Arrow keys move the cursor: handles the event and returns true if it was one of them. */
export function cursorKeys(event, hub, steps) {
  const move = { ArrowLeft: -1, ArrowRight: 1, PageUp: -10, PageDown: 10 }[event.key];
  const cursor = hub.get('cursor');
  let next = null;
  if (move && !event.ctrlKey && !event.metaKey && !event.altKey && !event.shiftKey) next = cursor + move;
  else if (event.key === 'Home') next = 0;
  else if (event.key === 'End') next = steps - 1;
  if (next === null) return false;
  event.preventDefault();
  event.stopPropagation();
  choose(hub, { cursor: Math.max(0, Math.min(steps - 1, next)) });
  return true;
}
