// One refresh, stage by stage along the positions: evidence and prior, fused score, what NMS and exclusivity took, Top-K.
import { columnBits, columnMax, count, figure, share, ticks, typed } from './core.mjs';
import { painter, write } from './frames.mjs';
import { tooltip } from './tips.mjs';
import { FONT, axisX, axisY, canvas, choose, data, h, hubOf, key, listener, panel, polyline, theme } from './ui.mjs';

const BY_SCORE = 1, BY_NMS = 2, SELECTED = 4;

async function render({ model, el }) {
  const hub = await hubOf(model), parts = panel(el, 'anatomy', 'Selector anatomy'), events = listener(hub);
  const facts = hub.get('facts'), height = model.get('height');
  const box = h('div', { class: 'sfi-canvas' });
  const problem = h('p', { class: 'sfi-error' });
  parts.body.append(box, problem);
  const look = theme(el, () => view?.redraw());
  const tip = tooltip(box);
  const view = canvas(box, height, 'The stages of one refresh along the positions of the document', draw);
  let stage = null;

  function decode() {
    const s = model.get('stage');
    if (!s || !s.flags) { stage = null; return; }
    const curve = (c) => Float32Array.from(typed(c.codes, Uint16Array), (v) => c.low + ((c.high - c.low) * v) / 65535);
    stage = { ...s, flags: typed(s.flags, Uint8Array) };
    for (const name of ['evidence', 'prior', 'fused', 'log_score', 'suppressed', 'exclusive']) stage[name] = curve(s[name]);
    stage.by_nms = stage.log_score.map((z, i) => z - stage.suppressed[i]);
    stage.by_exclusivity = stage.suppressed.map((z, i) => z - stage.exclusive[i]);
  }
  const layout = (w) => {
    const left = 78, width = w - left - 14, gap = 12, strip = 16, axis = 34, rows = 4;
    const each = (height - axis - 8 - 3 * (strip + 4) - rows * gap) / rows;
    return { left, width, each, gap, strip, top: (i) => 8 + i * (each + gap), strips: 8 + rows * (each + gap) };
  };
  function line(context, a, i, values, span, low, high, colour, bars) {
    const top = a.top(i), n = Math.floor(a.width), cols = columnMax(values, stage.first, span[0], span[1], n);
    const y = (v) => top + a.each - ((v - low) * a.each) / (high - low || 1);
    context.fillStyle = colour; context.strokeStyle = colour;
    if (bars) {
      for (let x = 0; x < n; x++) if (cols[x] > low) context.fillRect(a.left + x, y(cols[x]), 1, top + a.each - y(cols[x]));
    } else {
      polyline(context, Array.from(cols, (_, i) => a.left + i + 0.5), Array.from(cols, y));
    }
  }
  function frame(context, a, i, label, low, high, format) {
    const colours = look.colours, top = a.top(i);
    context.strokeStyle = colours.line;
    context.strokeRect(a.left - 0.5, top - 0.5, a.width + 1, a.each + 1);
    const place = (v) => top + a.each - ((v - low) * a.each) / (high - low || 1);
    axisY(context, colours, ticks(low, high, 2).filter((v) => v <= high), place, a.left, label, format, top, a.each);
  }
  function draw(context, w) {
    if (!stage) return;
    const colours = look.colours, a = layout(w), span = hub.get('span');
    const floor = Math.max(-7, Math.min(stage.evidence.reduce((m, v) => Math.min(m, v), 0), stage.prior.reduce((m, v) => Math.min(m, v), 0)));
    const power = (v) => `1e${v}`;
    const range = (v) => v.reduce(([x, y], z) => [Math.min(x, z), Math.max(y, z)], [0, 0.01]);
    frame(context, a, 0, 'f, r', floor, 0, power);
    line(context, a, 0, stage.evidence, span, floor, 0, colours.selected, true);
    line(context, a, 0, stage.prior, span, floor, 0, colours.sink, false);
    frame(context, a, 1, 'fused s', floor, 0, power);
    line(context, a, 1, stage.fused, span, floor, 0, colours.recent, true);
    const [, nms] = range(stage.by_nms), [exLow, ex] = range(stage.by_exclusivity);
    frame(context, a, 2, 'NMS −', 0, nms, (v) => String(Number(v.toPrecision(2))));
    line(context, a, 2, stage.by_nms, span, 0, nms, colours.before, true);
    frame(context, a, 3, 'excl. −', Math.min(0, exLow), ex, (v) => String(Number(v.toPrecision(2))));
    line(context, a, 3, stage.by_exclusivity, span, Math.min(0, exLow), ex, colours.slow, true);
    const n = Math.floor(a.width), bits = columnBits(stage.flags, stage.first, span[0], span[1], n);
    const strips = [['by s', BY_SCORE, 0], ['after NMS', BY_NMS, BY_SCORE], ['selected', SELECTED, BY_NMS]];
    context.font = FONT;
    strips.forEach(([label, bit, before], i) => {
      const y = a.strips + i * (a.strip + 4);
      context.textAlign = 'right'; context.textBaseline = 'middle'; context.fillStyle = colours.text;
      context.fillText(label, a.left - 7, y + a.strip / 2);
      for (let x = 0; x < n; x++) {
        const b = bits[x];
        if (b & bit) { context.fillStyle = before && !(b & before) ? colours.selected : colours.other; context.fillRect(a.left + x, y, 1, a.strip); }
        else if (before && b & before) { context.fillStyle = colours.before; context.fillRect(a.left + x, y + a.strip - 5, 1, 5); }
      }
      context.strokeStyle = colours.line;
      context.strokeRect(a.left - 0.5, y - 0.5, a.width + 1, a.strip + 1);
    });
    const x = (p) => a.left + ((p - span[0]) * a.width) / (span[1] - span[0]), probe = hub.get('probe');
    if (probe >= span[0] && probe < span[1]) {
      context.fillStyle = colours.before;
      context.fillRect(x(probe), 4, Math.max(1, Math.min(3, a.width / (span[1] - span[0]))), a.strips + 3 * (a.strip + 4) - 4);
    }
    axisX(context, colours, ticks(span[0], span[1], a.width / 90).filter(Number.isInteger), x, a.strips + 3 * (a.strip + 4) - 3, 'position', a.left, a.width);
  }
  const positionAt = (e) => {
    const r = view.el.getBoundingClientRect(), a = layout(r.width), span = hub.get('span');
    return { x: e.clientX - r.left, y: e.clientY - r.top, p: Math.floor(span[0] + ((e.clientX - r.left - a.left) * (span[1] - span[0])) / a.width) };
  };
  view.el.addEventListener('pointermove', (e) => {
    const at = positionAt(e), i = at.p - (stage?.first ?? 0);
    if (!stage || i < 0 || i >= stage.candidates) { tip.hide(); return; }
    const f = stage.flags[i], words = f & SELECTED ? 'selected' : f & BY_NMS ? 'left to another head (exclusivity)' : f & BY_SCORE ? 'displaced by soft-NMS' : 'not among the K';
    tip.show(at.x, at.y, h('b', {}, JSON.stringify(data.tokens(hub).texts[at.p] ?? '')), ` position ${count(at.p)}: ${words}`, h('br'),
      `f ${figure(10 ** stage.evidence[i])} · r ${figure(10 ** stage.prior[i])} · s ${figure(10 ** stage.fused[i])}`, h('br'),
      `z ${stage.log_score[i].toFixed(2)} · z_nms ${stage.suppressed[i].toFixed(2)} · z_adj ${stage.exclusive[i].toFixed(2)}`);
  });
  view.el.addEventListener('pointerleave', () => tip.hide());
  view.el.addEventListener('click', (e) => choose(hub, { probe: positionAt(e).p }));
  parts.legend.append(key('selected', 'evidence f, or newly in'), key('sinkline', 'prior r'), key('recent', 'fused s'), key('before', 'taken by soft-NMS, or dropped'),
    key('slowbox', 'taken by exclusivity'), key('other', 'among the K'), h('span', { class: 'sfi-hint' }, 'zooms with the support map'));
  const show = () => {
    decode();
    problem.textContent = model.get('error'); problem.hidden = !model.get('error'); box.hidden = !stage;
    write(parts.statement, stage
      ? `refresh of step ${stage.step}, layer ${hub.get('layer')}, KV head ${stage.head}: ${count(stage.k)} of ${count(stage.candidates)} · λ ${figure(stage.lam)} · soft-NMS moved ${stage.moved_by_nms}, exclusivity ${stage.moved_by_exclusivity} · coverage ${stage.coverage.map((c) => share(c, 0)).join(' → ')} · duplication over heads ${stage.duplication.map((d) => share(d, 0)).join(' → ')} (${data.now(hub)?.kind ?? 'exact'})`
      : '');
    view.redraw();
  };
  const showing = painter(parts.section, show); // a stage and its error come in two events: decoded once
  model.on('change:stage', showing.ask);
  model.on('change:error', showing.ask);
  events.on(['span', 'probe'], () => view.redraw());
  show();
  return () => { model.off('change:stage', showing.ask); model.off('change:error', showing.ask); events.stop(); look.stop(); showing.stop(); view.stop(); };
}
export default { render };
