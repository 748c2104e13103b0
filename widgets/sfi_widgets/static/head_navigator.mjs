// Layer × KV head: a cell a head, coloured by a metric; click to look at it.
import { figure, mix, rgb, toggled, typed } from './core.mjs';
import { badge } from './kinds.mjs';
import { tooltip } from './tips.mjs';
import { FONT, canvas, chosenName, h, headColour, headName, hubOf, listener, panel, theme } from './ui.mjs';

const STOPS = ['#440154', '#3b528b', '#21918c', '#5ec962', '#fde725'].map(rgb); // viridis: even in lightness, safe for the colour-blind

/** Colour of t in [0, 1]. */
function viridis(t) {
  const x = Math.max(0, Math.min(1, t)) * (STOPS.length - 1), i = Math.min(STOPS.length - 2, Math.floor(x));
  return `rgb(${mix(STOPS[i], STOPS[i + 1], x - i)})`;
}

/** Grey stripes over a layer that has a window of its own. */
function hatch(context, colour, x, y, w, height) {
  context.save();
  context.beginPath(); context.rect(x, y, w, height); context.clip();
  context.strokeStyle = colour; context.globalAlpha = 0.55; context.beginPath();
  for (let d = -height; d < w; d += 6) { context.moveTo(x + d, y + height); context.lineTo(x + d + height, y); }
  context.stroke();
  context.restore();
}
const asRecorded = (m, layer) => (m?.recorded ?? []).includes(layer);
const kindOf = (m, layer) => (asRecorded(m, layer) ? 'recorded, not re-selected' : m.kind);

async function render({ model, el }) {
  const hub = await hubOf(model), parts = panel(el, 'heads', 'Heads'), events = listener(hub);
  const facts = hub.get('facts'), kinds = model.get('layer_kinds'), heads = facts.kv_heads, layers = kinds.length;
  let metrics = [];
  const take = () => { metrics = model.get('metrics').map((m) => ({ ...m, values: typed(m.values, Float32Array) })); };
  take();
  const shownHeads = () => { const head = hub.get('kv_head'), among = hub.get('among') ?? []; return head >= 0 ? [head] : among.length ? among : Array.from({ length: heads }, (_, i) => i); };
  const chosen = () => metrics.find((m) => m.name === model.get('metric')) ?? metrics[0];
  const cell = Math.max(12, Math.min(18, Math.floor(150 / heads))), height = 18 + heads * cell + 32;
  const box = h('div', { class: 'sfi-canvas' });
  parts.body.append(box);
  const look = theme(el, () => view?.redraw());
  const tip = tooltip(box);
  const view = canvas(box, height, 'Heads: layers from left to right, KV heads from top to bottom; arrow keys choose, digits add a head to the mean or take it out, Escape is the mean of all', draw);
  const area = (w) => ({ left: 62, top: 6, width: w - 76, height: heads * cell });
  const span = (m) => {
    let low = Infinity, high = -Infinity;
    for (const v of m.values) if (v === v) { low = Math.min(low, v); high = Math.max(high, v); }
    return low > high ? [NaN, NaN] : [low, high > low ? high : low + 1];
  };
  function draw(context, w) {
    const colours = look.colours, a = area(w), step = a.width / layers, m = chosen();
    const [low, high] = m ? span(m) : [0, 1];
    context.font = FONT; context.textBaseline = 'middle'; context.textAlign = 'right';
    for (let head = 0; head < heads; head++) {
      context.fillStyle = colours.faint;
      context.fillText(`KV ${head}`, a.left - 14, a.top + (head + 0.5) * cell);
      context.fillStyle = headColour(head);
      context.fillRect(a.left - 10, a.top + head * cell + 3, 6, cell - 6);
      for (let l = 0; l < layers; l++) {
        const v = m ? m.values[l * heads + head] : NaN, x = a.left + l * step, y = a.top + head * cell;
        const filled = kinds[l] === 'full' && v === v, small = filled && asRecorded(m, l);
        if (!filled || small) { context.fillStyle = colours.band; context.fillRect(x + 0.5, y + 0.5, Math.max(1, step - 1), cell - 1); }
        if (!filled) continue;
        const inset = small ? [Math.min(step, cell) * 0.24, cell * 0.24] : [0.5, 0.5];
        context.fillStyle = viridis((v - low) / (high - low));
        context.fillRect(x + inset[0], y + inset[1], Math.max(1, step - 2 * inset[0]), cell - 2 * inset[1]);
      }
    }
    for (let l = 0; l < layers; l++) if (kinds[l] !== 'full') hatch(context, colours.faint, a.left + l * step + 0.5, a.top, Math.max(1, step - 1), heads * cell);
    const layer = hub.get('layer');
    context.strokeStyle = colours.cursor; context.lineWidth = 2;
    if (shownHeads().length === heads) context.strokeRect(a.left + layer * step, a.top, step, heads * cell);
    else for (const head of shownHeads()) context.strokeRect(a.left + layer * step, a.top + head * cell, step, cell);
    context.lineWidth = 1;
    context.textAlign = 'center'; context.textBaseline = 'top';
    const every = Math.ceil(26 / step);
    for (let l = 0; l < layers; l++) {
      if (l % every && l !== layer) continue;
      if (l !== layer && Math.abs(l - layer) * step < 20) continue;
      context.fillStyle = l === layer ? colours.text : colours.faint;
      context.fillText(String(l), a.left + (l + 0.5) * step, a.top + a.height + 4);
    }
    context.fillStyle = colours.slow;
    for (const l of facts.qk_layers) context.fillRect(a.left + (l + 0.5) * step - 2, a.top - 5, 4, 3);
    context.fillStyle = colours.text;
    context.fillText('layer', a.left + a.width / 2, a.top + a.height + 18);
  }
  const locate = (e) => {
    const r = view.el.getBoundingClientRect(), a = area(r.width), x = e.clientX - r.left, y = e.clientY - r.top;
    return { x, y, layer: Math.floor(((x - a.left) * layers) / a.width), head: Math.floor((y - a.top) / cell), inside: x >= a.left && x < a.left + a.width && y >= a.top && y < a.top + a.height };
  };
  function show(layer, head, among) {
    hub.set('among', among); hub.set('layer', layer); hub.set('kv_head', head);
    hub.save_changes();
  }
  function pick(layer, head, add) {
    if (!facts.layers.includes(layer)) return;
    const here = hub.get('layer') === layer;
    if (!add) { show(layer, here && hub.get('kv_head') === head ? -1 : head, []); return; }
    const next = here ? toggled(hub.get('kv_head'), hub.get('among') ?? [], head, heads) : { head, among: [] };
    show(layer, next.head, next.among);
  }
  view.el.addEventListener('click', (e) => { const at = locate(e); if (at.inside) pick(at.layer, at.head, e.shiftKey); });
  view.el.addEventListener('pointermove', (e) => {
    const at = locate(e), m = chosen();
    if (!at.inside) { tip.hide(); return; }
    const v = m?.values[at.layer * heads + at.head];
    const what = kinds[at.layer] !== 'full' ? `${kinds[at.layer]} window: never made sparse` : v === v ? `${m.title} ${figure(v)} (${kindOf(m, at.layer)})` : facts.layers.includes(at.layer) ? `${m?.title ?? 'metric'}: none here` : 'not recorded';
    tip.show(at.x, at.y, h('b', {}, `layer ${at.layer}, ${headName(at.head)}`), h('br'), what, h('br'), kinds[at.layer] !== 'full' ? '' : facts.qk_layers.includes(at.layer) ? 'queries and keys kept: other settings can be tried' : facts.layers.includes(at.layer) ? 'support only: other settings can\'t be tried' : '');
  });
  view.el.addEventListener('pointerleave', () => tip.hide());
  view.el.addEventListener('keydown', (e) => {
    const move = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] }[e.key];
    if (/^\d$/.test(e.key) && Number(e.key) < heads) { e.preventDefault(); pick(hub.get('layer'), Number(e.key), true); return; }
    if (e.key === 'Escape') { e.preventDefault(); show(hub.get('layer'), -1, []); return; }
    if (!move) return;
    e.preventDefault();
    const at = facts.layers.indexOf(hub.get('layer'));
    const layer = facts.layers[Math.max(0, Math.min(facts.layers.length - 1, at + move[0]))];
    show(layer, Math.max(-1, Math.min(heads - 1, hub.get('kv_head') + move[1])), move[1] ? [] : hub.get('among') ?? []);
  });
  const low = h('span'), high = h('span');
  const stripes = h('span', { class: 'sfi-key', title: 'sliding or chunked attention: the model reads a window there anyway, so it is never made sparse', hidden: kinds.every((k) => k === 'full') },
    h('i', { class: 'sfi-swatch', style: { background: 'repeating-linear-gradient(135deg, var(--band) 0 3px, var(--faint) 3px 4px)' } }), 'layers with a window of their own');
  const smaller = h('span', { class: 'sfi-key', title: 'layers without queries and keys can\'t be re-selected: what the run itself did there', hidden: true }, h('i', { class: 'sfi-swatch', style: { background: 'var(--selected)', border: '3px solid var(--band)' } }), 'recorded, not re-selected');
  parts.legend.append(low, h('i', { class: 'sfi-swatch sfi-viridis' }), high, h('span', { class: 'sfi-key', title: 'other settings can be tried on these layers' }, h('i', { class: 'sfi-swatch qk' }), 'layers with queries and keys'), smaller, stripes,
    h('span', { class: 'sfi-hint' }, 'click a head to look at it, again for the mean of its layer; shift-click, or a digit, adds heads to a mean'));
  const line = h('span', { class: 'sfi-hint', 'aria-live': 'polite' }), bar = h('progress', { max: '1', 'aria-label': 'Layers done' });
  parts.body.append(h('div', { class: 'sfi-summary' }, bar, line));
  const select = h('select', { 'aria-label': 'Metric of the heads', title: 'What the cells\' colours mean' });
  const options = () => select.replaceChildren(...metrics.map((m) => h('option', { value: m.name }, m.title)));
  options();
  select.addEventListener('change', () => { model.set('metric', select.value); model.save_changes(); });
  parts.tools.append(h('label', {}, 'colour ', select));
  const say = () => {
    const m = chosen();
    if (!m) { parts.statement.textContent = 'no refresh was recorded, so there is nothing to compare'; return; }
    select.value = m.name;
    const [a, b] = span(m), layer = hub.get('layer');
    low.textContent = a === a ? figure(a) : ''; high.textContent = b === b ? figure(b) : '';
    select.title = m.meaning;
    const mine = shownHeads(), own = mine.reduce((x, i) => x + m.values[layer * heads + i], 0) / mine.length;
    parts.statement.textContent = `${m.title}: ${m.meaning} · layer ${layer}, ${chosenName(hub)}: ${own === own ? `${figure(own)}${kindOf(m, layer) ? ` (${kindOf(m, layer)})` : ''}` : 'none'}`;
    smaller.hidden = !(m.recorded ?? []).length;
  };
  const sum = () => {
    const busy = model.get('busy'), kind = model.get('summary_kind');
    bar.hidden = !busy; bar.value = model.get('progress');
    line.replaceChildren(busy ? 'all layers under the current settings …' : model.get('summary'), ' ', kind && !busy ? badge(kind) : '');
  };
  model.on('change:metrics', () => { take(); options(); say(); view.redraw(); });
  model.on('change:metric', () => { say(); view.redraw(); });
  for (const name of ['summary', 'summary_kind', 'busy', 'progress']) model.on(`change:${name}`, sum);
  events.on(['layer', 'kv_head', 'among'], () => { say(); view.redraw(); });
  sum();
  say();
  view.redraw();
  return () => { events.stop(); look.stop(); view.stop(); };
}
export default { render };
