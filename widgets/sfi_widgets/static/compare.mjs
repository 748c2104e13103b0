// A against B: who selected what, the numbers of both, and where their tokens part.
import { PICK, cellsFor, chosen, colourCells, compareSets, count, figure, refreshAt, rgb, rowsOf, selectionCells, ticks, typed, word } from './core.mjs';
import { painter, write } from './frames.mjs';
import { badge } from './kinds.mjs';
import { tooltip } from './tips.mjs';
import { PAD, axisX, axisY, canvas, choose, chosenName, cursorKeys, cursorLine, data, h, hubOf, key, listener, panel, sentenceBands, stepAt, theme, xOf } from './ui.mjs';

const side = (s) => (s?.ids ? { ...s, ...rowsOf(s), steps: typed(s.steps, Int32Array) } : null);
const number = (name, v) => (v === null ? 'none' : name === 'refreshes' || name === 'keys' ? count(v) : name === 'kept' || name === 'missed' ? `${(100 * v).toFixed(2)} %` : figure(v));
const signed = (name, a, b) => (a === null || b === null ? '' : b === a ? '±0' : (b > a ? '+' : '−') + number(name, Math.abs(b - a)));

async function render({ model, el }) {
  const hub = await hubOf(model), parts = panel(el, 'compare', 'Compare A and B'), events = listener(hub);
  const facts = hub.get('facts'), height = model.get('height'), top = 12;
  let a = null, b = null, cells = new Uint16Array(0), image = null;
  const off = document.createElement('canvas'), offContext = off.getContext('2d');
  const box = h('div', { class: 'sfi-canvas' }), codes = h('div', { class: 'sfi-hint' }), table = h('table', { class: 'sfi-table' });
  const words = h('div', { class: 'sfi-two sfi-diff' }), tokenLine = h('p', { class: 'sfi-hint' }), problem = h('p', { class: 'sfi-error', role: 'alert' });
  parts.body.append(codes, box, table, tokenLine, words, problem);
  const look = theme(el, () => view?.redraw());
  const tip = tooltip(box);
  const view = canvas(box, height, 'Selected positions at each step: by A and B, only by A, only by B', draw);
  const area = (w) => ({ left: PAD.left, width: w - PAD.left - PAD.right, top, height: height - top - PAD.bottom });
  const steps = () => Math.min(a.count, b.count, facts.steps);

  function draw(context, w, _h, ratio) {
    if (!a || !b) return;
    const colours = look.colours, box1 = area(w), brush = hub.get('brush'), span = hub.get('span'), run = data.run(hub);
    const x = (s) => xOf(s, brush, box1.left, box1.width), y = (p) => box1.top + ((p - span[0]) * box1.height) / (span[1] - span[0]);
    const last = Math.min(brush[1], steps()), wide = x(last) - box1.left;
    sentenceBands(context, colours, run, brush, box1.left, box1.width, 2, 7);
    if (last > brush[0]) {
      const nx = cellsFor(brush[0], last, wide * ratio), ny = cellsFor(span[0], span[1], box1.height * ratio);
      if (cells.length !== nx * ny) cells = new Uint16Array(nx * ny);
      if (off.width !== nx || off.height !== ny || !image) { off.width = nx; off.height = ny; image = offContext.createImageData(nx, ny); }
      selectionCells(cells, nx, ny, { s0: brush[0], s1: last, p0: span[0], p1: span[1] }, b, b.k, a, a.k);
      const lut = new Uint32Array(16), hues = [null, colours.other, colours.selected, colours.before];
      for (const kind of [PICK.both, PICK.now, PICK.recorded]) {
        for (let full = 1; full < 4; full++) lut[(kind << 2) | full] = word(rgb(hues[kind]), kind === PICK.both ? 45 * full : 135 + 40 * full); // differences must stand out
      }
      colourCells(cells, nx, ny, lut, new Uint32Array(image.data.buffer));
      offContext.putImageData(image, 0, 0);
      context.imageSmoothingEnabled = false;
      context.drawImage(off, box1.left, box1.top, wide, box1.height);
    }
    context.strokeStyle = colours.line;
    context.strokeRect(box1.left - 0.5, box1.top - 0.5, box1.width + 1, box1.height + 1);
    cursorLine(context, colours, hub.get('cursor'), brush, box1.left, box1.width, box1.top - 3, box1.height + 6);
    axisX(context, colours, ticks(brush[0], brush[1], box1.width / 80).filter(Number.isInteger), x, box1.top + box1.height, 'decode step', box1.left, box1.width);
    axisY(context, colours, ticks(span[0], span[1], box1.height / 45).filter(Number.isInteger), y, box1.left, 'position', count, box1.top, box1.height);
  }
  const locate = (e) => {
    const r = view.el.getBoundingClientRect(), place = area(r.width), span = hub.get('span'), px = e.clientX - r.left, py = e.clientY - r.top;
    return { px, py, step: stepAt(px, hub.get('brush'), place.left, place.width), position: Math.floor(span[0] + ((py - place.top) * (span[1] - span[0])) / place.height),
      inside: px >= place.left && px < place.left + place.width && py >= place.top && py < place.top + place.height };
  };
  const sets = (step) => [a, b].map((s) => chosen(s, refreshAt(s.steps, step), s.k));
  view.el.addEventListener('pointermove', (e) => {
    const at = locate(e);
    if (!a || !at.inside || at.step < 0 || at.step >= steps()) { tip.hide(); return; }
    const [one, two] = sets(at.step), inA = one.has(at.position), inB = two.has(at.position);
    tip.show(at.px, at.py, h('b', {}, `step ${at.step}`), ` position ${count(at.position)} ${JSON.stringify(data.tokens(hub).texts[at.position] ?? '')}`, h('br'),
      inA && inB ? 'selected by A and B' : inA ? 'selected only by A' : inB ? 'selected only by B' : 'selected by neither');
  });
  view.el.addEventListener('pointerleave', () => tip.hide());
  view.el.addEventListener('click', (e) => { const at = locate(e); if (at.inside) choose(hub, { cursor: at.step, probe: at.position }); });
  view.el.addEventListener('keydown', (e) => cursorKeys(e, hub, facts.steps));
  if (!model.sent) { // an exported page has no kernel to pin with
    const button = (text, title, what) => h('button', { type: 'button', title, 'data-do': what, onclick: () => model.send({ do: what }) }, text);
    parts.tools.append(button('Pin as A', 'Keep the current settings as A; B stays live', 'pin'), button('A = recording', 'Compare with the recording again', 'unpin'));
  }
  parts.legend.append(key('both', 'selected by both', 'in the memory of A and of B'), key('before', 'only by A', 'in the memory of A alone'), key('selected', 'only by B', 'in the memory of B alone'),
    h('span', { class: 'sfi-hint' }, 'zooms with the support map · click or arrow keys move the cursor'));

  const cell = (name, v, k) => h('td', {}, number(name, v), ' ', v === null ? null : badge(k));
  function fill() {
    a = side(model.get('a')); b = side(model.get('b'));
    const error = model.get('error');
    problem.textContent = error; problem.hidden = !error; box.hidden = codes.hidden = table.hidden = !a;
    if (a) {
      codes.replaceChildren(h('b', {}, 'A '), `${a.name}: ${a.code}`, h('br'), h('b', {}, 'B '), `${b.name}: ${b.code}`, h('br'), model.get('note'));
      table.replaceChildren(h('thead', {}, h('tr', {}, ...['', 'A', 'B', 'B − A'].map((t) => h('th', { scope: 'col' }, t)))),
        h('tbody', {}, ...model.get('metrics').map((m) => h('tr', { 'data-name': m.name }, h('th', { scope: 'row' }, m.title),
          ...(m.name === 'overlap' ? [h('td', { colspan: '3' }, figure(m.b), ' ', badge(m.kind))]
            : [cell(m.name, m.a, m.a_kind), cell(m.name, m.b, m.b_kind), h('td', {}, signed(m.name, m.a, m.b), ' ', m.a === null || m.b === null ? null : badge(m.kind))])))));
    }
    const t = model.get('tokens'), has = t && t.a;
    tokenLine.hidden = words.hidden = !has;
    if (has) {
      const text = t.first < 0 ? `the first ${count(t.differs.length)} tokens are the same` : `tokens part at ${count(t.first + 1)}; ${count(t.same)} of ${count(t.differs.length)} stand at the same place`;
      tokenLine.replaceChildren('Tokens: ', text, ' ', badge(t.kind));
      const run = (list, label) => h('div', { class: 'sfi-run', role: 'region', tabindex: '0', 'aria-label': label }, ...list.map((w, i) =>
        h('span', { class: i === t.first ? 'sfi-first' : i < t.differs.length && t.differs[i] ? 'sfi-changed' : 'sfi-same' }, w)));
      words.replaceChildren(run(t.a, 'Tokens of A'), run(t.b, 'Tokens of B'));
    }
    say();
    view.redraw();
  }
  function say() {
    if (!a) { write(parts.statement, ''); return; }
    const cursor = hub.get('cursor');
    if (cursor >= steps()) { write(parts.statement, `step ${cursor}: past the shorter run`); return; }
    const [one, two] = sets(cursor), d = compareSets(one, two);
    write(parts.statement, `layer ${hub.get('layer')}, ${chosenName(hub)} · step ${cursor}: ${count(d.both)} selected by both, ${count(d.onlyA)} only by A, ${count(d.onlyB)} only by B`);
  }
  const saying = painter(parts.section, say);
  model.on('change', fill);
  events.on(['cursor', 'brush', 'span', 'layer', 'kv_head', 'among'], () => { saying.ask(); view.redraw(); });
  fill();
  return () => { model.off('change', fill); events.stop(); look.stop(); saying.stop(); view.stop(); };
}
export default { render };
