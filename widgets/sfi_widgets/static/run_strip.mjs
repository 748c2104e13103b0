// The whole run: sentences as bands, slow steps as ticks with their reason, one metric as a line, the brush and the cursor.
import { count, figure, routeOf, ticks, typed } from './core.mjs';
import { painter, write } from './frames.mjs';
import { lettersOf, reasonLegend } from './reasons.mjs';
import { tooltip } from './tips.mjs';
import { FONT, PAD, axisX, axisY, canvas, choose, cursorKeys, cursorLine, data, h, hubOf, key, listener, panel, polyline, sentenceBands, stepAt, theme, xOf } from './ui.mjs';

async function render({ model, el }) {
  const hub = await hubOf(model), parts = panel(el, 'run', 'Run'), events = listener(hub);
  const facts = hub.get('facts'), run = data.run(hub), whole = [0, facts.steps], letters = lettersOf(run), why = reasonLegend(run), height = model.get('height');
  const take = () => model.get('metrics').map((m) => ({ ...m, values: typed(m.values, Float32Array) }));
  let metrics = take();
  const kept = { name: 'kept', title: 'mass kept under the settings', live: true };
  const box = h('div', { class: 'sfi-canvas' });
  parts.body.append(box);
  const look = theme(el, () => view?.redraw());
  const tip = tooltip(box);
  const view = canvas(box, height, 'The run: decode steps from left to right with sentences, slow steps and a metric', draw);
  const area = (w) => ({ left: PAD.left, width: w - PAD.left - PAD.right, top: 24, height: height - 24 - PAD.bottom });
  const chosen = () => (model.get('metric') === 'kept' ? kept : metrics.find((m) => m.name === model.get('metric')) ?? metrics[0] ?? kept);
  const valuesOf = (m) => (m.live ? data.now(hub)?.kept ?? new Float32Array(facts.steps).fill(NaN) : m.values);

  function draw(context, w) {
    const colours = look.colours, a = area(w), brush = hub.get('brush'), values = valuesOf(chosen());
    const x = (s) => xOf(s, whole, a.left, a.width);
    sentenceBands(context, colours, run, whole, a.left, a.width, a.top, a.height);
    let low = Infinity, high = -Infinity;
    for (const v of values) if (v === v) { low = Math.min(low, v); high = Math.max(high, v); }
    if (!(high >= low)) { low = 0; high = 1; }
    if (low > 0 && low < 0.6 * high) low = 0;
    if (high === low) high = low + 1;
    const y = (v) => a.top + a.height - ((v - low) * (a.height - 3)) / (high - low);
    context.strokeStyle = colours.recent; context.lineWidth = 1.4;
    polyline(context, Array.from(values, (_, s) => x(s + 0.5)), Array.from(values, y));
    context.lineWidth = 1;
    context.font = `600 9px ${FONT.slice(5)}`; context.textAlign = 'center'; context.textBaseline = 'bottom';
    let labelled = -99;
    for (let s = 0; s < facts.steps; s++) {
      if (!run.slow[s]) continue;
      context.fillStyle = colours.slow;
      context.fillRect(Math.round(x(s)), 12, 2, 12);
      if (x(s) - labelled > 9) { context.fillText(letters.get(run.reason[s]), Math.round(x(s)) + 1, 11); labelled = x(s); }
    }
    if (brush[0] > 0 || brush[1] < facts.steps) {
      context.fillStyle = colours.back; context.globalAlpha = 0.65;
      context.fillRect(a.left, a.top, x(brush[0]) - a.left, a.height);
      context.fillRect(x(brush[1]), a.top, a.left + a.width - x(brush[1]), a.height);
      context.globalAlpha = 1; context.strokeStyle = colours.recent;
      context.strokeRect(x(brush[0]), a.top + 0.5, x(brush[1]) - x(brush[0]), a.height - 1);
    }
    context.strokeStyle = colours.line;
    context.strokeRect(a.left - 0.5, a.top - 0.5, a.width + 1, a.height + 1);
    cursorLine(context, colours, hub.get('cursor'), whole, a.left, a.width, a.top - 3, a.height + 6);
    axisX(context, colours, ticks(0, facts.steps, a.width / 80).filter(Number.isInteger), x, a.top + a.height, 'decode step', a.left, a.width);
    axisY(context, colours, ticks(low, high, 3), y, a.left, null, (v) => (high >= 100 ? count(v) : String(Number(v.toPrecision(3)))));
  }
  const at = (e) => { const r = view.el.getBoundingClientRect(), a = area(r.width); return Math.max(0, Math.min(facts.steps - 1, stepAt(e.clientX - r.left, whole, a.left, a.width))); };
  let from = null;
  view.el.addEventListener('pointerdown', (e) => { from = at(e); view.el.setPointerCapture(e.pointerId); });
  view.el.addEventListener('pointermove', (e) => {
    const step = at(e);
    if (from !== null && Math.abs(step - from) > 1) { choose(hub, { brush: [Math.min(from, step), Math.max(from, step) + 1] }); tip.hide(); return; }
    const r = view.el.getBoundingClientRect(), m = chosen(), v = valuesOf(m)[step];
    tip.show(e.clientX - r.left, e.clientY - r.top, h('b', {}, `step ${step}`), ` ${routeOf(run, step)}`, h('br'), `writes ${JSON.stringify(data.tokens(hub).texts[run.position[step] + 1] ?? '')}`, h('br'), `${m.title}: ${v === v ? figure(v) : 'none'}`);
  });
  view.el.addEventListener('pointerup', (e) => { const step = at(e); if (from !== null && Math.abs(step - from) <= 1) choose(hub, { cursor: step }); from = null; });
  view.el.addEventListener('pointerleave', () => tip.hide());
  view.el.addEventListener('dblclick', () => choose(hub, { brush: whole }));
  view.el.addEventListener('keydown', (e) => { if (e.key === '0' || e.key === 'Escape') choose(hub, { brush: whole }); else cursorKeys(e, hub, facts.steps); });

  const select = h('select', { 'aria-label': 'Metric', title: 'What the line shows' }, ...[...metrics, kept].map((m) => h('option', { value: m.name }, m.title)));
  select.value = model.get('metric') || 'kept';
  select.addEventListener('change', () => { model.set('metric', select.value); model.save_changes(); });
  model.on('change:metrics', () => { metrics = take(); say(); view.redraw(); }); // the overlap comes when it is asked for
  model.on('change:metric', () => { select.value = model.get('metric'); say(); view.redraw(); });
  parts.tools.append(h('label', {}, 'line ', select), h('button', { type: 'button', title: 'Show all steps (key 0)', onclick: () => choose(hub, { brush: whole }) }, 'whole run'));
  parts.legend.append(key('tick', why.text, why.title), key('band', 'sentences, in turn'),
    h('span', { class: 'sfi-hint' }, 'drag to choose a range · click or arrow keys move the cursor'));
  const say = () => {
    const brush = hub.get('brush'), values = valuesOf(chosen()), m = chosen();
    let sum = 0, n = 0;
    for (let s = brush[0]; s < brush[1]; s++) if (values[s] === values[s]) { sum += values[s]; n++; }
    const kind = m.live ? (data.now(hub)?.kind ?? 'recording') : m.kind;
    write(parts.statement, `${facts.model}: ${count(facts.prompt)} prompt tokens, ${count(facts.steps)} steps, ${count(facts.slow)} slow · steps ${brush[0]}-${brush[1] - 1}: mean ${m.title} ${n ? figure(sum / n) : 'none'} (${kind})`);
  };
  const saying = painter(parts.section, say);
  events.on('cursor', () => view.redraw());
  events.on('brush', () => { saying.ask(); view.redraw(); });
  events.on(['now', 'mass'], () => { if (chosen().live) { saying.ask(); view.redraw(); } }); // other lines are the recording's
  say();
  view.redraw();
  return () => { events.stop(); look.stop(); saying.stop(); view.stop(); };
}
export default { render };
