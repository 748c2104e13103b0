// Methods: quality against the share of keys read, a point a method and budget; below, the prompts behind a point.
import { count, figure, share, ticks, typed } from './core.mjs';
import { write } from './frames.mjs';
import { tooltip } from './tips.mjs';
import { PAD, axisX, axisY, canvas, h, key, panel, polyline, theme } from './ui.mjs';
import { shown } from './words.mjs';

// the figures' own series, and the same hues for a dark page; colour and marker together are a method's own
const SERIES = { light: ['#0b3c6f', '#e08a00', '#00a878', '#e58cc4', '#5fb2f0', '#70777f'], dark: ['#4f93dc', '#f0a020', '#35c79a', '#f09fd0', '#d6ecff', '#87909a'] };
const STROKES = [[], [5, 3], [1.5, 2], [6, 2, 1.5, 2]]; // variants of one method
const OUTLINES = { // about the unit circle; letters as matplotlib has them
  o: 'M1 0A1 1 0 1 1 -1 0A1 1 0 1 1 1 0Z', s: 'M-.88-.88H.88V.88H-.88Z', D: 'M0-1.2L1.2 0L0 1.2L-1.2 0Z', d: 'M0-1.3L.8 0L0 1.3L-.8 0Z',
  '^': 'M0-1.15L1.1 .85H-1.1Z', v: 'M0 1.15L1.1-.85H-1.1Z', '<': 'M-1.15 0L.85-1.1V1.1Z', '>': 'M1.15 0L-.85-1.1V1.1Z',
  P: 'M-.4-1.15H.4V-.4H1.15V.4H.4V1.15H-.4V.4H-1.15V-.4H-.4Z', X: 'M-1.1-.55L-.55-1.1L0-.55L.55-1.1L1.1-.55L.55 0L1.1 .55L.55 1.1L0 .55L-.55 1.1L-1.1 .55L-.55 0Z',
  h: 'M0-1.15L1-.575V.575L0 1.15L-1 .575V-.575Z', '*': 'M0-1.5L.34-.46L1.43-.46L.55 .18L.88 1.21L0 .57L-.88 1.21L-.55 .18L-1.43-.46L-.34-.46Z',
};
const QUALITIES = { score: 'score', kl: 'KL to dense (nats)', perplexity: 'perplexity / dense’s' };
const FLOOR = 1e-5; // nats; what is nearer to dense stands here on the logarithmic axis
const REACH = 16; // pixels from a point that still mean it
const WORDS = { score: 'score lost', kl: 'KL to dense', perplexity: 'perplexity' };

/** Rows of one group and length as objects, ascending in keys read; numbers that were not measured are NaN. */
export function rowsAt(points, group, length) {
  const at = typed(points.at, Int32Array), numbers = typed(points.numbers, Float32Array), n = at.length / 5;
  const wanted = points.groups.findIndex((g) => g.name === group), found = [];
  for (let i = 0; i < n; i++) {
    if (at[n + i] !== wanted || at[2 * n + i] !== length) continue;
    const row = { method: at[i], budget: at[3 * n + i], verdict: points.verdicts[at[4 * n + i]] };
    points.names.forEach((name, c) => { row[name] = numbers[c * n + i]; });
    found.push(row);
  }
  return found.sort((a, b) => a.method - b.method || a.read - b.read);
}

/** Labels shown after a click on some: alone, or with shift added and taken out; [] is every one. */
export function clicked(only, labels, some, shift) {
  const same = only.length === some.length && some.every((label) => only.includes(label));
  if (!shift) return same ? [] : some;
  const now = new Set(only.length ? only : labels), off = some.every((label) => now.has(label));
  for (const label of some) { if (off) now.delete(label); else now.add(label); }
  return now.size === labels.length || !now.size ? [] : labels.filter((label) => now.has(label));
}

/** How many methods these labels are, dense not among them: "13 methods beside dense (14 with variants)". */
export function counted(labels) {
  const arms = new Set(labels).size, methods = new Set(labels.map((label) => label.split(':')[0])).size;
  return `${methods} method${methods === 1 ? '' : 's'} beside dense${arms > methods ? ` (${arms} with variants)` : ''}`;
}

/** The place nearest to (x, y) within reach, or null; places: [{x, y, …}]. */
export function closest(places, x, y, reach) {
  let best = null, least = reach * reach;
  for (const p of places) {
    const d = (p.x - x) ** 2 + (p.y - y) ** 2;
    if (d <= least) { best = p; least = d; }
  }
  return best;
}

/** Tick values of a logarithmic axis from low to high: decades, with 2 and 5 between where they are few; finer about 1. */
export function logTicks(low, high) {
  const steps = high / low < 3 ? [1, 1.02, 1.05, 1.1, 1.2, 1.3, 1.5, 2, 3, 5, 7, 8, 9, 9.5] : high / low < 50 ? [1, 2, 5] : [1], found = [];
  for (let e = Math.floor(Math.log10(low)); e <= Math.ceil(Math.log10(high)); e++) {
    for (const s of steps) { const v = Number((s * 10 ** e).toPrecision(3)); if (v >= low && v <= high) found.push(v); }
  }
  return found;
}

/** Lowest and highest of a quality over rows, their intervals among them, with some room; null where none was measured. */
export function extent(rows, quality) {
  const all = rows.flatMap((r) => [r[quality], r[`${quality}_low`], r[`${quality}_high`]]).filter((v) => v === v);
  if (!all.length) return null;
  if (quality === 'perplexity') all.push(1);
  const low = Math.min(...all), high = Math.max(...all);
  if (quality === 'score') { const room = (high - low) * 0.06 || 0.05; return [Math.max(-0.02, low - room), high + room]; }
  return quality === 'kl' ? [Math.max(FLOOR, low) * 0.8, Math.max(FLOOR * 10, high) * 1.25] : [low * 0.97, high * 1.03];
}

const number = (v) => (v === v ? (Math.abs(v) < 10 && Math.abs(v) >= 0.001 ? v.toFixed(3) : figure(v)) : 'none');
const signed = (v) => (v > 0 ? '+' : v < 0 ? '−' : '±') + number(Math.abs(v));
const within = (low, high, as = number) => (low === low ? ` [${as(low)}, ${as(high)}]` : '');
/** One quality of a row in words, with its interval. */
const told = {
  score: (r) => `score ${number(r.score)}${r.difference === r.difference ? `, to dense ${signed(r.difference)}${within(r.score_low - r.score + r.difference, r.score_high - r.score + r.difference, signed)}` : within(r.score_low, r.score_high)}${r.verdict ? ` · ${r.verdict}` : ''}`,
  kl: (r) => `KL to dense ${number(r.kl)} nats${within(r.kl_low, r.kl_high)}`,
  perplexity: (r) => `perplexity ${number(r.perplexity)} × dense’s${within(r.perplexity_low, r.perplexity_high)}`,
};
const cost = (r) => `reads ${share(r.read)} of the keys${r.looked > 0 ? `, looks at ${share(r.looked)} more to choose` : ''} · keeps ${share(r.kept, 0)} of dense’s bytes`;

/** A method's line and marker as an SVG of the legend. */
function swatch(method) {
  const box = h('i', { 'aria-hidden': 'true', style: { display: 'inline-flex', flex: 'none' } }), dash = STROKES[method.variant % STROKES.length].join(' ');
  box.innerHTML = `<svg width="26" height="12" viewBox="-13 -6 26 12"><path d="M-13 0H13" fill="none" stroke-width="1.5" stroke-dasharray="${dash}"/><path d="${OUTLINES[method.marker] ?? OUTLINES.o}" transform="scale(4)" stroke-width="0.3"/></svg>`;
  return box;
}

async function render({ model, el }) {
  const parts = panel(el, 'methods', 'Methods: quality against keys read'), points = model.get('points'), height = model.get('height');
  const methods = points.methods, arms = methods.filter((m) => m.series >= 0), labels = arms.map((m) => m.label);
  const box = h('div', { class: 'sfi-canvas' }), problem = h('p', { class: 'sfi-hint' }), list = h('div', { class: 'sfi-samples' });
  const aloud = h('span', { 'aria-live': 'polite', class: 'sfi-aloud', style: { position: 'absolute', width: '1px', height: '1px', overflow: 'hidden', clipPath: 'inset(50%)' } }); // the keys' point, for those who can't see the tip
  parts.body.append(aloud, box, problem, list);
  let rows = [], span = null, places = [], lit = -1, over = null; // lit: the method that stands out; over: the row under the pointer or the keys
  const look = theme(el, () => { dress(); view?.redraw(); });
  const tip = tooltip(box);
  const view = canvas(box, height, 'Quality against the share of keys read, a point a method and budget. Arrow keys walk over the points, Enter lists a point’s prompts, Escape steps back.', draw);
  const hue = (m) => (m.series < 0 ? look.colours.text : SERIES[el.dataset.theme === 'dark' ? 'dark' : 'light'][m.series]);
  const quality = () => model.get('quality'), only = () => model.get('only');
  const seen = (m) => !only().length || only().includes(m.label);
  const area = (w) => ({ left: PAD.left, top: 10, width: w - PAD.left - PAD.right, height: height - 10 - PAD.bottom });
  const save = (values) => { for (const [name, v] of Object.entries(values)) model.set(name, v); model.save_changes(); };
  const isChosen = (r) => { const s = model.get('selected'); return s.length === 2 && s[0] === methods[r.method].label && s[1] === r.budget; };
  const scale = (a) => {
    const q = quality(), f = q === 'score' ? (v) => v : (v) => Math.log(Math.max(v, q === 'kl' ? FLOOR : 1e-9)), [low, high] = span.map(f);
    const at = rows.filter((r) => r.budget >= 0), least = Math.log(0.8 * Math.min(...at.map((r) => r.read))), most = Math.log(1.15 * Math.max(1, ...at.map((r) => r.read + r.looked)));
    return { x: (v) => a.left + ((Math.log(v) - least) * a.width) / (most - least), y: (v) => a.top + a.height - ((f(v) - low) * a.height) / (high - low), least: Math.exp(least) };
  };
  const isSfi = (m) => m.label.split(':')[0] === 'sfi'; // its variants are often where it is: larger, and below it
  const layer = (m) => 2 * (methods.indexOf(m) === lit) + isSfi(m); // what others may not cover is drawn last
  const topmost = (x, y) => closest([...places].sort((p, q) => layer(p.method) - layer(q.method)), x, y, REACH);
  const dense = () => rows.find((r) => methods[r.method].series < 0);

  function draw(context, w) {
    places = [];
    if (!span) return;
    const colours = look.colours, a = area(w), { x, y, least } = scale(a), q = quality(), d = dense();
    const line = q === 'perplexity' ? 1 : q === 'score' && d ? d.score : NaN;
    context.save(); context.beginPath(); context.rect(a.left, a.top, a.width, a.height); context.clip();
    if (q === 'score' && d && d.score_low === d.score_low) { context.fillStyle = colours.band; context.fillRect(a.left, y(d.score_high), a.width, y(d.score_low) - y(d.score_high)); }
    if (line === line) { context.strokeStyle = colours.text; context.lineWidth = 1; const at = Math.round(y(line)) - 0.5; polyline(context, [a.left, a.left + a.width], [at, at], [6, 4]); }
    context.restore();
    context.strokeStyle = colours.line; context.lineWidth = 1; context.strokeRect(a.left - 0.5, a.top - 0.5, a.width + 1, a.height + 1);
    const percents = [1, 2, 5, 10, 20, 50, 100].filter((v) => v / 100 >= least);
    axisX(context, colours, percents, (v) => x(v / 100), a.top + a.height, 'keys read, % of those available', a.left, a.width);
    let marks = q === 'score' ? ticks(span[0], span[1], 5).filter((v) => v >= span[0] && v <= span[1]) : logTicks(...span);
    if (q !== 'score') marks = marks.filter((v, i) => i === 0 || y(marks[i - 1]) - y(v) > 11 || v === 1);
    axisY(context, colours, marks, y, a.left, QUALITIES[q], (v) => (v && Math.abs(v) < 0.001 ? v.toExponential(0) : String(Number(v.toPrecision(3)))), a.top, a.height);
    const groups = arms.filter(seen).map((m) => [m, rows.filter((r) => methods[r.method] === m && r[q] === r[q])]);
    for (const [m, mine] of groups) for (const r of mine) places.push({ x: x(r.read), y: y(r[q]), row: r, method: m });
    for (const [m, mine] of groups.sort(([one], [two]) => layer(one) - layer(two))) series(context, m, mine, x, y, q, lit >= 0 && methods.indexOf(m) !== lit);
    for (const p of places) {
      if (!isChosen(p.row) && p.row !== over) continue;
      context.strokeStyle = colours.ink; context.lineWidth = p.row === over ? 1 : 2; context.beginPath(); context.arc(p.x, p.y, 9, 0, 7); context.stroke();
    }
    if (line === line) { context.fillStyle = colours.text; context.textAlign = 'right'; context.textBaseline = 'bottom'; context.fillText('dense', a.left + a.width - 4, y(line) - 2); }
    context.lineWidth = 1;
  }
  function series(context, m, mine, x, y, q, dim) {
    const colour = hue(m), size = isSfi(m) ? 3.7 : 4.8, hollow = mine.some((r) => r.looked > 0), shape = new Path2D(OUTLINES[m.marker] ?? OUTLINES.o);
    context.globalAlpha = dim ? 0.16 : 1; context.strokeStyle = colour; context.lineWidth = 1.7;
    polyline(context, mine.map((r) => x(r.read)), mine.map((r) => y(r[q])), STROKES[m.variant % STROKES.length]);
    for (const r of mine) {
      const px = x(r.read), py = y(r[q]);
      context.lineWidth = 1.2; context.globalAlpha = dim ? 0.12 : 0.65;
      if (r[`${q}_low`] === r[`${q}_low`]) { context.beginPath(); context.moveTo(px, y(r[`${q}_low`])); context.lineTo(px, y(r[`${q}_high`])); context.stroke(); }
      context.globalAlpha = dim ? 0.16 : 1; context.lineWidth = 1;
      if (r.looked > 0) { const end = x(r.read + r.looked); polyline(context, [px, end], [py, py], [1.5, 2.5]); context.fillStyle = colour; context.fillRect(Math.round(end) - 1, py - 5, 2, 10); }
      context.save(); context.translate(px, py); context.scale(size, size);
      context.globalAlpha = 1; context.fillStyle = look.colours.back; if (!dim) context.fill(shape);
      context.globalAlpha = dim ? 0.16 : 1; context.fillStyle = hollow ? look.colours.back : colour; context.lineWidth = 0.32; context.fill(shape); context.stroke(shape); context.restore();
    }
    context.globalAlpha = 1; context.lineWidth = 1;
  }

  // pointing ------------------------------------------------------------------------------------------------------------
  const facts = (r) => [quality(), ...Object.keys(QUALITIES).filter((q) => q !== quality())].filter((q) => r[q] === r[q]).map((q) => told[q](r)).concat(cost(r));
  const name = (m, r) => `${m.name}, budget ${r.budget}`;
  function point(p, row) {
    if (over !== row) { over = row; lit = row ? row.method : -1; underline(); view.redraw(); }
    if (!p) { tip.hide(); return; }
    tip.show(p.x, p.y, h('b', {}, name(p.method, p.row)), ` · ${count(p.row.n)} prompts`, ...facts(p.row).flatMap((text) => [h('br'), text]));
  }
  const locate = (e) => { const r = view.el.getBoundingClientRect(); return [e.clientX - r.left, e.clientY - r.top, r.width]; };
  view.el.addEventListener('pointermove', (e) => {
    const [px, py, w] = locate(e), p = topmost(px, py), d = dense();
    if (!p && span && d && quality() === 'score') {
      const a = area(w);
      if (px > a.left && px < a.left + a.width && Math.abs(py - scale(a).y(d.score)) < 6) { point(null, null); tip.show(px, py, h('b', {}, 'Dense'), ` · ${count(d.n)} prompts`, h('br'), told.score(d), h('br'), 'reads every key'); return; }
    }
    point(p, p ? p.row : null);
  });
  view.el.addEventListener('pointerleave', () => point(null, null));
  const pick = (p) => save({ selected: isChosen(p.row) ? [] : [p.method.label, p.row.budget] });
  view.el.addEventListener('click', (e) => { const [px, py] = locate(e), p = topmost(px, py); if (p) pick(p); });
  view.el.addEventListener('keydown', (e) => {
    const at = places.findIndex((p) => p.row === over);
    let next = null;
    if (e.key === 'ArrowRight' || e.key === 'ArrowLeft') next = at < 0 ? places[0] : places[(at + (e.key === 'ArrowRight' ? 1 : places.length - 1)) % places.length];
    else if (e.key === 'ArrowDown' || e.key === 'ArrowUp') {
      const ms = [...new Set(places.map((p) => p.method))], m = at < 0 ? ms[0] : ms[(ms.indexOf(places[at].method) + (e.key === 'ArrowDown' ? 1 : ms.length - 1)) % ms.length];
      next = places.find((p) => p.method === m && at >= 0 && p.row.budget === places[at].row.budget) ?? places.find((p) => p.method === m);
    } else if (e.key === 'Home') next = places[0]; else if (e.key === 'End') next = places.at(-1);
    else if ((e.key === 'Enter' || e.key === ' ') && at >= 0) { e.preventDefault(); pick(places[at]); return; }
    else if (e.key === 'Escape') { e.preventDefault(); back(); return; }
    if (next) { e.preventDefault(); point(next, next.row); write(aloud, [name(next.method, next.row), ...facts(next.row)].join(' · ')); }
  });
  const back = () => { if (over) point(null, null); else if (model.get('selected').length) save({ selected: [] }); else if (only().length) save({ only: [] }); };

  // choices -------------------------------------------------------------------------------------------------------------
  const select = (label, title, change) => { const s = h('select', { 'aria-label': label, title, onchange: () => change(s.value) }); parts.tools.append(h('label', { title }, `${label} `, s)); return s; };
  const measured = (group, q) => { const g = points.groups.find((one) => one.name === group); return rowsAt(points, group, g.lengths[0]).some((r) => r.budget >= 0 && r[q] === r[q]); };
  const kind = select('quality', 'What is drawn upwards: the tasks’ score, the KL divergence to dense, or the perplexity over dense’s', (v) => save({ quality: v }));
  const group = select('tasks', 'All kinds of tasks that have answers, or one kind', (v) => {
    const g = points.groups.find((one) => one.name === v), fits = Object.keys(QUALITIES).filter((q) => measured(v, q));
    save({ group: v, length: g.lengths.includes(model.get('length')) ? model.get('length') : g.lengths[0], quality: fits.includes(quality()) || !fits.length ? quality() : fits[0] });
  });
  const length = select('length', 'Length of the prompts in tokens', (v) => save({ length: Number(v) }));
  const all = h('button', { type: 'button', title: 'Show every method again (Escape)', onclick: () => save({ only: [] }) }, 'show all');
  parts.tools.append(all);
  group.append(...points.groups.map((g) => h('option', { value: g.name }, g.title)));
  const FLAT = { border: '0', background: 'none', padding: '0 3px', minHeight: '20px', fontSize: '11.5px', display: 'inline-flex', gap: '4px', alignItems: 'center' };
  const TIGHT = { whiteSpace: 'nowrap', paddingRight: '10px' };
  const entries = [];
  const underline = () => { for (const { b, some } of entries) b.style.textDecoration = some.length === 1 && lit >= 0 && some[0] === methods[lit].label ? 'underline' : ''; };
  function entry(text, title, some, ...before) {
    const b = h('button', { type: 'button', title, style: FLAT, onclick: (e) => save({ only: clicked(only(), labels, some, e.shiftKey) }) }, ...before, text);
    b.addEventListener('pointerenter', () => { if (some.length === 1) { lit = methods.findIndex((m) => m.label === some[0]); view.redraw(); } });
    b.addEventListener('pointerleave', () => { lit = -1; view.redraw(); });
    b.addEventListener('keydown', (e) => { if (e.key === 'Escape') back(); });
    entries.push({ b, some });
    return b;
  }
  const swatches = [];
  for (const family of [...new Set(arms.map((m) => m.family))]) {
    const mine = arms.filter((m) => m.family === family);
    parts.legend.append(h('span', { role: 'group', 'aria-label': family, 'data-family': family, style: { display: 'inline-flex', flexWrap: 'wrap', alignItems: 'center' } },
      entry(h('b', {}, family), `${family}: click to show this family alone, shift-click to add it or take it out`, mine.map((m) => m.label)),
      ...mine.map((m) => { const s = swatch(m); swatches.push([s, m]); const b = entry(m.name, `${m.name}: click to show it alone, shift-click to add it or take it out`, [m.label], s); b.dataset.method = m.label; return b; })));
  }
  parts.legend.append(key('band', 'dense, 95 % interval', 'The dashed line is dense decoding, the band its interval'),
    h('span', { class: 'sfi-hint' }, 'bars: 95 % intervals · hollow: looks at more keys only to choose, up to the upright tick · click a point for its prompts'));
  const dress = () => { for (const [s, m] of swatches) { const c = hue(m); for (const p of s.querySelectorAll('path')) { p.setAttribute('stroke', c); if (p.getAttribute('fill') !== 'none') p.setAttribute('fill', c); } } };

  // below: prompts ------------------------------------------------------------------------------------------------------
  function prompts() {
    const [label, budget] = model.get('selected'), found = model.get('worst');
    list.hidden = !label;
    if (!label) { list.replaceChildren(); return; }
    const m = methods.find((one) => one.label === label), head = h('h4', {}), q = quality();
    const fresh = found.of && JSON.stringify(found.of) === JSON.stringify([label, budget, model.get('group'), model.get('length'), q]);
    const close = h('button', { type: 'button', title: 'Close the list of prompts', 'aria-label': 'Close the list of prompts', onclick: () => save({ selected: [] }) }, 'close');
    const bar = h('div', { style: { display: 'flex', justifyContent: 'space-between', gap: '8px', alignItems: 'center', margin: '6px 0 2px' } }, head, close);
    const where = `${m.name}, budget ${budget}`;
    if (!fresh || found.note) { head.textContent = `${where}: ${found.note && fresh ? found.note : model.sent ? 'prompts of another point need the notebook’s kernel' : 'prompts are on their way'}`; list.replaceChildren(bar); return; }
    head.textContent = `${where}: ${count(found.losing)} of ${count(found.total)} prompts ${q === 'kl' ? 'differ from' : 'lose to'} dense · listed: ${found.rows.length < found.total ? `${count(found.rows.length)} of all ${count(found.total)}` : 'all'}, ordered by ${WORDS[q]}`;
    const ratio = found.rows.some((r) => r[4] !== null), scored = found.rows.some((r) => r[1] !== null);
    const names = ['task', ...(scored ? ['score', 'dense'] : []), 'KL', ...(ratio ? ['perplexity ×'] : []), 'text; below it dense’s'];
    const cell = (v, lost) => h('td', { style: lost ? { ...TIGHT, color: 'var(--slow)', fontWeight: '600' } : TIGHT }, v === null ? '' : number(v));
    const row = ([task, score, of, kl, times, text, other]) => h('tr', {}, h('th', { scope: 'row', style: { minWidth: '110px' } }, task), ...(scored ? [cell(score, score < of), cell(of)] : []), cell(kl), ...(ratio ? [cell(times)] : []),
      h('td', {}, shown(text ?? ''), h('div', { class: 'sfi-hint' }, other === text ? 'dense’s begins the same' : shown(other ?? ''))));
    list.replaceChildren(bar, h('div', { role: 'region', tabindex: '0', 'aria-label': `Prompts of ${where}`, style: { maxHeight: '260px', overflow: 'auto', border: '1px solid var(--line)', borderRadius: '4px', padding: '0 8px' } },
      h('table', { class: 'sfi-table', style: { width: '100%', overflowWrap: 'anywhere', margin: '2px 0' } }, h('thead', {}, h('tr', {}, ...names.map((n, i) => h('th', { scope: 'col', style: i && i < names.length - 1 ? TIGHT : {} }, n)))), h('tbody', {}, ...found.rows.map(row)))));
  }
  function say() {
    const at = rows.filter((r) => r.budget >= 0), d = dense(), most = Math.max(0, ...at.map((r) => r.n));
    write(parts.statement, span ? `${count(most)} prompts · ${counted(at.map((r) => methods[r.method].label))} · budgets ${[...new Set(at.map((r) => r.budget))].sort((a, b) => a - b).join(', ')}${quality() !== 'score' ? ` · dense is at ${quality() === 'kl' ? 0 : 1}` : d ? ` · dense ${told.score(d)}` : ''}` : '');
  }
  function fill() {
    const g = points.groups.find((one) => one.name === model.get('group'));
    rows = rowsAt(points, g.name, model.get('length'));
    span = extent(rows.filter((r) => r.budget >= 0 || quality() === 'score'), quality());
    if (!rows.some((r) => r.budget >= 0 && r[quality()] === r[quality()])) span = null;
    over = null; lit = -1; tip.hide();
    kind.replaceChildren(...Object.entries(QUALITIES).map(([value, text]) => h('option', { value, disabled: !measured(g.name, value) }, text)));
    length.replaceChildren(...g.lengths.map((n) => h('option', { value: String(n) }, n ? `${count(n)} tokens` : 'all')));
    kind.value = quality(); group.value = g.name; length.value = String(model.get('length'));
    problem.textContent = span ? '' : `${QUALITIES[quality()]} was not measured for ${g.title}`; problem.hidden = !!span; box.hidden = !span;
    all.hidden = !only().length;
    for (const { b, some } of entries) { b.setAttribute('aria-pressed', String(only().length > 0 && some.every((l) => only().includes(l)))); b.style.opacity = some.some((l) => seen({ label: l })) ? '1' : '0.4'; }
    say(); view.redraw();
  }
  for (const n of ['quality', 'group', 'length', 'only']) model.on(`change:${n}`, fill);
  const again = () => { prompts(); view.redraw(); };
  for (const n of ['worst', 'selected', 'quality', 'group', 'length']) model.on(`change:${n}`, again);
  dress(); fill(); prompts();
  return () => {
    for (const n of ['quality', 'group', 'length', 'only']) model.off(`change:${n}`, fill);
    for (const n of ['worst', 'selected', 'quality', 'group', 'length']) model.off(`change:${n}`, again);
    look.stop(); view.stop();
  };
}
export default { render };
