// Milliseconds of every step, split by stage; fast and slow steps as distributions.
import { count, figure, routeOf, share, ticks, typed } from './core.mjs';
import { FONT, PAD, axisX, axisY, canvas, choose, cursorKeys, cursorLine, data, h, hubOf, key, listener, panel, stepAt, theme, tooltip, xOf } from './ui.mjs';

const HUES = ['other', 'recent', 'selected', 'before', 'slow', 'sink'];

async function render({ model, el }) {
  const hub = await hubOf(model), parts = panel(el, 'timing', 'Slow-step timing'), events = listener(hub);
  const facts = hub.get('facts'), run = data.run(hub), height = model.get('height'), times = model.get('times');
  const all = typed(times.values, Float32Array), n = facts.steps, groups = times.groups;
  const of = (g, s) => all[g * n + s], total = Float32Array.from({ length: n }, (_, s) => groups.reduce((t, _g, g) => t + of(g, s), 0));
  const box = h('div', { class: 'sfi-canvas' });
  parts.body.append(box);
  const look = theme(el, () => view?.redraw());
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
  parts.statement.textContent = `${count(times.slow_steps)} slow of ${count(times.slow_steps + times.fast_steps)} steps take ${share(times.share_of_time ?? 0)} of the time · mean ${figure(times.slow_ms ?? 0)} ms slow, ${figure(times.fast_ms ?? 0)} ms fast (recorded, with the clock's own cost)`;
  events.on(['brush', 'cursor'], () => view.redraw());
  view.redraw();
  return () => { events.stop(); look.stop(); view.stop(); };
}
export default { render };
