// Overlap of supports against lag, within a sentence and across its end, with intervals.
import { ticks } from './core.mjs';
import { tooltip } from './tips.mjs';
import { axisX, axisY, canvas, h, hubOf, key, listener, panel, theme } from './ui.mjs';

async function render({ model, el }) {
  const hub = await hubOf(model), parts = panel(el, 'stability', 'Stability of supports'), events = listener(hub);
  const height = model.get('height');
  const box = h('div', { class: 'sfi-canvas' }), verdict = h('p', { class: 'sfi-hint', 'aria-live': 'polite' }), problem = h('p', { class: 'sfi-error' });
  parts.body.append(box, verdict, problem);
  const look = theme(el, () => view?.redraw());
  const tip = tooltip(box);
  const view = canvas(box, height, 'Overlap of supports against the steps between them, within and across sentences', draw);
  const area = (w) => ({ left: 62, top: 8, width: w - 76, height: height - 42 });
  const range = (c) => {
    const all = ['within', 'across', 'within_low', 'across_low', 'within_high', 'across_high'].flatMap((n) => c[n] ?? []).filter((v) => v !== null);
    const low = Math.min(...all), high = Math.max(...all), room = (high - low) * 0.08 || 0.05;
    return [Math.max(0, low - room), Math.min(1, high + room)];
  };
  function draw(context, w) {
    const c = model.get('curves');
    if (!c.lag) return;
    const colours = look.colours, a = area(w), [low, high] = range(c), lags = c.lag;
    const x = (l) => a.left + ((l - 0.5) * a.width) / lags.length, y = (v) => a.top + a.height - ((v - low) * a.height) / (high - low);
    for (const [name, colour] of [['across', colours.slow], ['within', colours.recent]]) {
      const lows = c[`${name}_low`], highs = c[`${name}_high`];
      if (lows) {
        context.fillStyle = colour; context.globalAlpha = 0.18; context.beginPath();
        const points = lags.map((l, i) => [x(l), lows[i], highs[i]]).filter((p) => p[1] !== null && p[2] !== null);
        points.forEach(([px, , top], i) => (i ? context.lineTo(px, y(top)) : context.moveTo(px, y(top))));
        [...points].reverse().forEach(([px, bottom]) => context.lineTo(px, y(bottom)));
        context.fill(); context.globalAlpha = 1;
      }
      context.strokeStyle = colour; context.fillStyle = colour; context.lineWidth = 1.8; context.setLineDash(name === 'across' ? [5, 3] : []); context.beginPath();
      let open = false;
      lags.forEach((l, i) => { const v = c[name][i]; if (v === null) { open = false; return; } if (open) context.lineTo(x(l), y(v)); else context.moveTo(x(l), y(v)); open = true; });
      context.stroke(); context.setLineDash([]); context.lineWidth = 1;
      lags.forEach((l, i) => { if (c[name][i] !== null) { context.beginPath(); context.arc(x(l), y(c[name][i]), 3, 0, 7); context.fill(); } });
    }
    context.strokeStyle = colours.line;
    context.strokeRect(a.left - 0.5, a.top - 0.5, a.width + 1, a.height + 1);
    axisX(context, colours, lags, x, a.top + a.height, 'steps apart', a.left, a.width);
    axisY(context, colours, ticks(low, high, 4).filter((v) => v <= high), y, a.left, 'overlap', (v) => v.toFixed(2), a.top, a.height);
  }
  view.el.addEventListener('pointermove', (e) => {
    const c = model.get('curves'), r = view.el.getBoundingClientRect(), a = area(r.width);
    if (!c.lag) return;
    const i = Math.floor(((e.clientX - r.left - a.left) * c.lag.length) / a.width);
    if (i < 0 || i >= c.lag.length) { tip.hide(); return; }
    const side = (n) => { const v = c[n][i], lo = c[`${n}_low`]?.[i], hi = c[`${n}_high`]?.[i]; return v === null ? `${n}: no pairs` : `${n}: ${v.toFixed(3)}${lo === null || lo === undefined ? '' : ` (${lo.toFixed(3)} to ${hi.toFixed(3)})`}`; };
    tip.show(e.clientX - r.left, e.clientY - r.top, h('b', {}, `${c.lag[i]} step${c.lag[i] > 1 ? 's' : ''} apart`), h('br'), side('within'), h('br'), side('across'));
  });
  view.el.addEventListener('pointerleave', () => tip.hide());
  parts.legend.append(h('span', { class: 'sfi-key' }, h('i', { class: 'sfi-swatch line', style: { borderTopColor: 'var(--recent)' } }), 'within a sentence'),
    h('span', { class: 'sfi-key' }, h('i', { class: 'sfi-swatch line before', style: { borderTopColor: 'var(--slow)' } }), 'across its end'), h('span', { class: 'sfi-hint' }, 'bands: 95 % intervals · follows the layer and the chosen range'));
  const SOURCES = { dense: 'every step was dense', true: "the audit's dense attention", qk: 'recomputed from queries and keys', read: 'what fast steps read: partly the memory’s own stability' };
  const show = () => {
    const c = model.get('curves'), brush = hub.get('brush');
    parts.statement.textContent = c.lag ? `layer ${c.layer}, steps ${brush[0]}-${brush[1] - 1}, 24 heaviest positions, from ${SOURCES[c.source] ?? c.source} (exact)${model.get('busy') ? ' · intervals under way' : ''}` : '';
    verdict.textContent = model.get('verdict');
    problem.textContent = model.get('error'); problem.hidden = !model.get('error'); box.hidden = !c.lag;
    view.redraw();
  };
  model.on('change', show);
  show();
  return () => { model.off('change', show); events.stop(); look.stop(); view.stop(); };
}
export default { render };
