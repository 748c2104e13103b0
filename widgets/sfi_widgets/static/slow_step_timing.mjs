// Milliseconds of every step, split by stage; fast and slow steps as distributions.
import { count, figure, routeOf, share, ticks, typed } from './core.mjs';
import { tooltip } from './tips.mjs';
import { FONT, PAD, axisX, axisY, canvas, choose, cursorKeys, cursorLine, data, h, hubOf, listener, panel, stepAt, theme, xOf } from './ui.mjs';

const STAGES = { attention: 'recent', selector: 'selected', topk: 'before', pack: 'sink', step: 'other' };
const HUES = ['other', 'recent', 'selected', 'before', 'slow', 'sink'];

async function render({ model, el }) {
  const hub = await hubOf(model), parts = panel(el, 'timing', 'Slow-step timing'), events = listener(hub);
  const facts = hub.get('facts'), run = data.run(hub), height = model.get('height'), times = model.get('times');
  const all = typed(times.values, Float32Array), n = facts.steps, groups = times.groups;
  const of = (g, s) => all[g * n + s], total = Float32Array.from({ length: n }, (_, s) => groups.reduce((t, _g, g) => t + of(g, s), 0));
  const box = h('div', { class: 'sfi-canvas' }), problem = h('p', { class: 'sfi-error', role: 'alert' });
  parts.body.append(box, problem);
  let streams = null;
  const look = theme(el, () => { view?.redraw(); streams?.redraw(); });
  const tip = tooltip(box);
  const view = canvas(box, height, 'Milliseconds of each step by stage, and the distribution of fast and slow steps', draw);
  const side = (w) => (w > 560 ? 230 : 0);
  const area = (w) => ({ left: PAD.left, width: w - PAD.left - PAD.right - side(w), top: 8, height: height - 8 - PAD.bottom });
  const sorted = (slow) => [...total].filter((t, s) => t === t && !!run.slow[s] === slow).sort((x, y) => x - y);
  const fast = sorted(false), slow = sorted(true);
  const at = (list, q) => (list.length ? list[Math.min(list.length - 1, Math.floor(q * list.length))] : NaN);
  const most = Math.max(at(fast, 0.995) || 0, at(slow, 0.995) || 0) * 1.1 || 1;

  function draw(context, w) {
    const colours = look.colours, a = area(w), brush = hub.get('brush');
    const x = (s) => xOf(s, brush, a.left, a.width), y = (v) => a.top + a.height - (Math.min(v, most) * a.height) / most;
    const bar = Math.max(1, a.width / (brush[1] - brush[0]) - 0.5);
    for (let s = brush[0]; s < brush[1]; s++) {
      let sum = 0;
      for (let g = 0; g < groups.length; g++) {
        const v = of(g, s);
        if (!(v > 0)) continue;
        context.fillStyle = colours[HUES[g]];
        context.fillRect(x(s), y(sum + v), bar, y(sum) - y(sum + v));
        sum += v;
      }
      if (sum > most) { context.fillStyle = colours.text; context.fillRect(x(s), a.top, bar, 2); }
    }
    const bound = model.get('bound');
    if (bound?.values) {
      const line = typed(bound.values, Float32Array);
      context.strokeStyle = colours.text; context.lineWidth = 2; context.beginPath();
      for (let s = brush[0]; s < brush[1]; s++) if (line[s] === line[s]) { context.moveTo(x(s), y(line[s])); context.lineTo(x(s + 1), y(line[s])); }
      context.stroke(); context.lineWidth = 1;
    }
    context.strokeStyle = colours.line;
    context.strokeRect(a.left - 0.5, a.top - 0.5, a.width + 1, a.height + 1);
    cursorLine(context, colours, hub.get('cursor'), brush, a.left, a.width, a.top - 3, a.height + 6);
    axisX(context, colours, ticks(brush[0], brush[1], a.width / 80).filter(Number.isInteger), x, a.top + a.height, 'decode step', a.left, a.width);
    const marks = ticks(0, most, 4);
    axisY(context, colours, marks, y, a.left, 'ms', (v) => String(v), a.top, a.height);
    if (!side(w)) return;
    const right = a.left + a.width + 40;
    [['fast', fast, colours.recent], ['slow', slow, colours.slow]].forEach(([name, list, colour], i) => {
      const centre = right + 34 + i * 96;
      context.fillStyle = colour; context.globalAlpha = 0.35;
      for (let j = 0; j < list.length; j++) context.fillRect(centre - 22 + ((j * 37) % 44), y(list[j]) - 1, 2, 2);
      context.globalAlpha = 1;
      for (const [q, half, thick] of [[0.5, 26, 2.5], [0.95, 16, 1.5], [0.05, 16, 1.5]]) {
        if (list.length) context.fillRect(centre - half, y(at(list, q)) - thick / 2, 2 * half, thick);
      }
      context.fillStyle = colours.text; context.font = FONT; context.textAlign = 'center'; context.textBaseline = 'top';
      context.fillText(`${name} (${count(list.length)})`, centre, a.top + a.height + 6);
      if (list.length) context.fillText(`p50 ${at(list, 0.5).toFixed(1)} ms`, centre, a.top + a.height + 19);
    });
  }
  const stepOf = (e) => { const r = view.el.getBoundingClientRect(), a = area(r.width); return { x: e.clientX - r.left, y: e.clientY - r.top, s: stepAt(e.clientX - r.left, hub.get('brush'), a.left, a.width), inside: e.clientX - r.left < a.left + a.width }; };
  view.el.addEventListener('pointermove', (e) => {
    const p = stepOf(e);
    if (!p.inside || !(total[p.s] === total[p.s])) { tip.hide(); return; }
    tip.show(p.x, p.y, h('b', {}, `step ${p.s}`), ` ${routeOf(run, p.s)}, ${figure(total[p.s])} ms`, ...groups.flatMap((g, i) => (of(i, p.s) > 0 ? [h('br'), `${g} ${figure(of(i, p.s))} ms`] : [])));
  });
  view.el.addEventListener('pointerleave', () => tip.hide());
  view.el.addEventListener('click', (e) => { const p = stepOf(e); if (p.inside) choose(hub, { cursor: Math.max(0, Math.min(n - 1, p.s)) }); });
  view.el.addEventListener('keydown', (e) => cursorKeys(e, hub, n));
  parts.legend.append(...groups.map((g, i) => h('span', { class: 'sfi-key' }, h('i', { class: 'sfi-swatch', style: { background: `var(--${HUES[i]})` } }), g)));
  const bandwidth = h('input', { type: 'number', min: '0', step: 'any', value: String(model.get('bandwidth')), 'aria-label': 'Memory bandwidth, GB/s', title: 'GB a second; 0 draws no line', style: { width: '76px' } });
  bandwidth.addEventListener('change', () => { model.set('bandwidth', Number(bandwidth.value)); model.save_changes(); });
  parts.tools.append(h('label', {}, 'memory GB/s ', bandwidth));
  const boundKey = h('span', { class: 'sfi-key' }, h('i', { class: 'sfi-swatch line', style: { borderTopColor: 'var(--text)' } }), h('span'));
  parts.legend.append(boundKey);
  const showBound = () => {
    const by = model.get('bound')?.times_bound ?? null, error = model.get('error');
    boundKey.hidden = !by;
    boundKey.lastChild.textContent = by ? `memory bound: reading keys and values alone (measured ÷ bound, median: ${Object.entries(by).map(([r, v]) => `${r} ${figure(v)}`).join(', ')})` : '';
    problem.textContent = error; problem.hidden = !error;
    view.redraw();
  };
  for (const name of ['bound', 'error']) model.on(`change:${name}`, showBound);
  model.on('change:bandwidth', () => { bandwidth.value = String(model.get('bandwidth')); });
  showBound();
  streams = model.get('profiles').length ? streamView(model, parts, look) : null;
  parts.statement.textContent = `${count(times.slow_steps)} slow of ${count(times.slow_steps + times.fast_steps)} steps take ${share(times.share_of_time ?? 0)} of the time · mean ${figure(times.slow_ms ?? 0)} ms slow, ${figure(times.fast_ms ?? 0)} ms fast (recorded, with the clock's own cost)`;
  events.on(['brush', 'cursor'], () => view.redraw());
  view.redraw();
  return () => { events.stop(); look.stop(); view.stop(); streams?.stop(); };
}
/** Lanes of a profiled step: what each stream did when. */
function streamView(model, parts, look) {
  const profiles = model.get('profiles'), lane = 30, box = h('div', { class: 'sfi-canvas' }), title = h('h4');
  const select = h('select', { 'aria-label': 'Profiled step' }, ...profiles.map((p, i) => h('option', { value: String(i) }, p.title)));
  select.addEventListener('change', () => { model.set('profile', Number(select.value)); model.save_changes(); });
  const whole = () => profiles[model.get('profile')] ?? profiles[0];
  const rowsOfProfile = () => whole().rows.filter((r) => r[2] !== 'step');
  const lanes = [...new Set(profiles.flatMap((p) => p.rows.map((r) => r[1])))];
  parts.body.append(h('div', { class: 'sfi-streams' }, h('div', { class: 'sfi-summary' }, title, select), box));
  const tip = tooltip(box), left = 72;
  const end = () => Math.max(...whole().rows.map((r) => r[4]));
  const view = canvas(box, 8 + lanes.length * lane + 34, 'Streams of a profiled step: time from left to right', (context, w) => {
    const colours = look.colours, width = w - left - 14, most = end(), x = (ms) => left + (ms * width) / most;
    for (const [, stream, stage, from, to] of rowsOfProfile()) {
      context.fillStyle = colours[STAGES[stage] ?? 'other'];
      context.fillRect(x(from), 8 + lanes.indexOf(stream) * lane + 3, Math.max(0.75, x(to) - x(from)), lane - 8);
    }
    context.font = FONT; context.textAlign = 'right'; context.textBaseline = 'middle'; context.fillStyle = colours.text;
    lanes.forEach((name, i) => context.fillText(name, left - 8, 8 + (i + 0.5) * lane - 1));
    context.strokeStyle = colours.line; context.strokeRect(left - 0.5, 7.5, width + 1, lanes.length * lane + 1);
    axisX(context, colours, ticks(0, most, 8), x, 8 + lanes.length * lane, 'ms', left, width);
  });
  view.el.addEventListener('pointermove', (e) => {
    const r = view.el.getBoundingClientRect(), px = e.clientX - r.left, py = e.clientY - r.top, ms = ((px - left) * end()) / (r.width - left - 14);
    const hit = rowsOfProfile().find(([, stream, , from, to]) => lanes[Math.floor((py - 8) / lane)] === stream && ms >= from && ms <= to);
    if (hit) tip.show(px, py, h('b', {}, hit[2]), ` layer ${hit[0]}`, h('br'), `${hit[3].toFixed(3)} to ${hit[4].toFixed(3)} ms (measured)`); else tip.hide();
  });
  view.el.addEventListener('pointerleave', () => tip.hide());
  const stages = [...new Set(profiles.flatMap((p) => p.rows.map((r) => r[2])))].filter((s) => s !== 'step');
  box.before(h('div', { class: 'sfi-legend' }, ...stages.map((s) => h('span', { class: 'sfi-key' }, h('i', { class: 'sfi-swatch', style: { background: `var(--${STAGES[s] ?? 'other'})` } }), s))));
  const show = () => { select.value = String(model.get('profile')); select.hidden = profiles.length < 2; title.textContent = `Streams of a profiled step, ${figure(end())} ms (measured)${profiles.length < 2 ? `: ${whole().title}` : ''}`; view.redraw(); };
  model.on('change:profile', show);
  show();
  return view;
}
export default { render };
