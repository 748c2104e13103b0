// What the selector kept at each refresh, now beside the recording, with the mass kept and the keys read.
import { PICK, cellsFor, chosen, colourCells, compareSets, count, refreshAt, rgb, routeOf, selectionCells, share, ticks, word } from './core.mjs';
import { painter, write } from './frames.mjs';
import { tooltip } from './tips.mjs';
import { FONT, PAD, axisX, axisY, canvas, choose, cursorKeys, cursorLine, data, h, headColour, hubOf, key, listener, liveK, panel, polyline, sentenceBands, stepAt, theme, xOf } from './ui.mjs';

async function render({ model, el }) {
  const hub = await hubOf(model), parts = panel(el, 'selection', 'Selection'), events = listener(hub);
  const facts = hub.get('facts'), height = model.get('height');
  const lines = 78, gap = 16;
  let cells = new Uint16Array(0), image = null;
  const off = document.createElement('canvas'), offContext = off.getContext('2d');
  const box = h('div', { class: 'sfi-canvas' });
  parts.body.append(box);
  const look = theme(el, () => view?.redraw());
  const tip = tooltip(box);
  const view = canvas(box, height, 'Selection: kept attention, keys read and selected positions at each step, now and as recorded', draw);

  const areas = (w) => {
    const left = PAD.left, width = w - PAD.left - PAD.right, top = PAD.top + 4;
    const map = top + 2 * (lines + gap);
    return { left, width, kept: { top, height: lines }, keys: { top: top + lines + gap, height: lines }, map: { top: map, height: height - map - PAD.bottom } };
  };

  function line(context, values, place, x, brush, colour, dash, wide = 1.5) {
    const stride = Math.max(1, Math.floor((brush[1] - brush[0]) / 1500)), xs = [], ys = [];
    for (let s = brush[0]; s < brush[1]; s += stride) { xs.push(x(s + 0.5)); ys.push(values[s] >= 0 ? place(values[s]) : NaN); }
    context.strokeStyle = colour; context.lineWidth = wide;
    polyline(context, xs, ys, dash);
    context.lineWidth = 1;
  }

  function chart(context, area, band, a, b, low, high, label, format, brush, count3) {
    const colours = look.colours, run = data.run(hub);
    const x = (s) => xOf(s, brush, area.left, area.width), place = (v) => band.top + band.height - ((v - low) * band.height) / (high - low || 1);
    sentenceBands(context, colours, run, brush, area.left, area.width, band.top, band.height);
    context.strokeStyle = colours.line;
    context.strokeRect(area.left - 0.5, band.top - 0.5, area.width + 1, band.height + 1);
    context.save();
    context.beginPath(); context.rect(area.left, band.top - 2, area.width, band.height + 4); context.clip();
    if (b) line(context, b, place, x, brush, colours.before, [4, 3]);
    if (a) line(context, a, place, x, brush, colours.selected, []);
    context.restore();
    axisY(context, colours, ticks(low, high, count3).filter((v) => v <= high), place, area.left, label, format, band.top, band.height);
  }

  function draw(context, w, _h, ratio) {
    const colours = look.colours, area = areas(w), brush = hub.get('brush'), span = hub.get('span');
    const now = data.now(hub), recorded = data.recorded(hub), run = data.run(hub), k = liveK(hub);
    const x = (s) => xOf(s, brush, area.left, area.width);
    let low = 1, most = 1;
    for (let s = brush[0]; s < brush[1]; s++) {
      if (now) { for (const v of [now.kept[s], now.keptBefore[s]]) if (v < low) low = v; for (let v, i = s; i < now.byHead.length; i += facts.steps) { v = now.byHead[i]; if (v < low) low = v; } most = Math.max(most, now.keysRead[s], now.keysBefore[s]); }
      else most = Math.max(most, run.read[s]);
    }
    chart(context, area, area.kept, now?.kept, now?.keptBefore, Math.max(0, Math.floor(low * 20 - 0.5) / 20), 1, 'mass kept', (v) => v.toFixed(2), brush, 3);
    if (now?.byHead.length) {
      const lowest = Math.max(0, Math.floor(low * 20 - 0.5) / 20), n = facts.steps, band = area.kept;
      context.save();
      context.beginPath(); context.rect(area.left, band.top - 2, area.width, band.height + 4); context.clip(); context.globalAlpha = 0.75;
      now.shownHeads.forEach((head, i) => line(context, now.byHead.subarray(i * n, (i + 1) * n), (v) => band.top + band.height - ((v - lowest) * band.height) / (1 - lowest || 1), x, brush, headColour(head), [], 1));
      context.restore();
    }
    chart(context, area, area.keys, now ? now.keysRead : run.read, now?.keysBefore, 0, most * 1.05, 'keys read', count, brush, 3);
    if (!now) {
      context.fillStyle = colours.faint; context.font = FONT; context.textAlign = 'center';
      context.fillText('recorded without queries and keys: no mass to compute', area.left + area.width / 2, area.kept.top + 36);
    }

    const nx = cellsFor(brush[0], brush[1], area.width * ratio), ny = cellsFor(span[0], span[1], area.map.height * ratio);
    if (cells.length !== nx * ny) cells = new Uint16Array(nx * ny);
    if (off.width !== nx || off.height !== ny || !image) { off.width = nx; off.height = ny; image = offContext.createImageData(nx, ny); }
    selectionCells(cells, nx, ny, { s0: brush[0], s1: brush[1], p0: span[0], p1: span[1] }, now ?? recorded, now ? k : recorded.k, recorded, recorded.k);
    const lut = new Uint32Array(16), hues = [null, colours.other, colours.selected, colours.before];
    for (const kind of [PICK.both, PICK.now, PICK.recorded]) {
      for (let full = 1; full < 4; full++) lut[(kind << 2) | full] = word(rgb(hues[kind]), (kind === PICK.both ? 55 : 85) * full);
    }
    colourCells(cells, nx, ny, lut, new Uint32Array(image.data.buffer));
    offContext.putImageData(image, 0, 0);
    context.imageSmoothingEnabled = false;
    context.drawImage(off, area.left, area.map.top, area.width, area.map.height);
    const y = (p) => area.map.top + ((p - span[0]) * area.map.height) / (span[1] - span[0]);
    context.strokeStyle = colours.line;
    context.strokeRect(area.left - 0.5, area.map.top - 0.5, area.width + 1, area.map.height + 1);
    context.fillStyle = colours.slow;
    for (const s of (now ?? recorded).steps) if (s >= brush[0] && s < brush[1]) context.fillRect(Math.round(x(s)), 3, 2, 8);
    context.fillStyle = colours.before;
    for (const s of recorded.steps) if (s >= brush[0] && s < brush[1]) context.fillRect(Math.round(x(s)), 12, 2, 5);
    cursorLine(context, colours, hub.get('cursor'), brush, area.left, area.width, area.kept.top - 3, area.map.top + area.map.height - area.kept.top + 6);
    axisX(context, colours, ticks(brush[0], brush[1], area.width / 80).filter(Number.isInteger), x, area.map.top + area.map.height, 'decode step', area.left, area.width);
    axisY(context, colours, ticks(span[0], span[1], area.map.height / 40).filter(Number.isInteger), y, area.left, 'position', count, area.map.top, area.map.height);
  }

  const locate = (event) => {
    const r = view.el.getBoundingClientRect(), area = areas(r.width), brush = hub.get('brush'), span = hub.get('span');
    const px = event.clientX - r.left, py = event.clientY - r.top, step = stepAt(px, brush, area.left, area.width);
    return { px, py, step, inside: px >= area.left && px < area.left + area.width, onMap: py >= area.map.top && py < area.map.top + area.map.height,
      position: Math.floor(span[0] + ((py - area.map.top) * (span[1] - span[0])) / area.map.height) };
  };
  view.el.addEventListener('pointermove', (e) => {
    const at = locate(e), now = data.now(hub), recorded = data.recorded(hub), run = data.run(hub);
    if (!at.inside || at.step < 0 || at.step >= facts.steps) { tip.hide(); return; }
    const rows = [h('b', {}, `step ${at.step}`), ` recorded: ${routeOf(run, at.step)}`, h('br')];
    if (now) {
      const r = refreshAt(now.steps, at.step);
      rows.push(`mass kept ${(now.kept[at.step] || 0).toFixed(4)} (recorded settings ${(now.keptBefore[at.step] || 0).toFixed(4)})`, h('br'),
        `keys read ${count(now.keysRead[at.step])} of ${count(run.available[at.step])}`);
      if (r >= 0) rows.push(h('br'), `selection of step ${now.steps[r]} (${now.reasons[r].replaceAll('_', ' ')}), λ = ${now.lam[r].toFixed(4)}`);
    }
    if (at.onMap) {
      const a = now ? chosen(now, refreshAt(now.steps, at.step), liveK(hub)) : new Set(), b = chosen(recorded, refreshAt(recorded.steps, at.step), recorded.k);
      const where = a.has(at.position) ? (b.has(at.position) ? 'kept by both' : 'kept only now') : b.has(at.position) ? 'kept only in the recording' : 'not selected';
      rows.push(h('br'), `position ${count(at.position)} ${JSON.stringify(data.tokens(hub).texts[at.position] ?? '')}: ${where}`);
    }
    tip.show(at.px, at.py, ...rows);
  });
  view.el.addEventListener('pointerleave', () => tip.hide());
  view.el.addEventListener('click', (e) => { const at = locate(e); if (at.inside) choose(hub, at.onMap ? { cursor: at.step, probe: at.position } : { cursor: at.step }); });
  view.el.addEventListener('keydown', (e) => cursorKeys(e, hub, facts.steps));
  parts.legend.append(
    key('line now', 'current settings'), key('line before', 'as recorded'), key('both', 'kept by both'), key('selected', 'kept only now'),
    key('before', 'kept only in the recording'), key('tick', 'refresh now'), key('tick before', 'refresh recorded'));

  const headKeys = h('span', { class: 'sfi-heads-key' });
  parts.legend.append(headKeys);
  const say = () => {
    const now = data.now(hub), recorded = data.recorded(hub), cursor = hub.get('cursor'), k = liveK(hub);
    view.el.dataset.k = k;
    const heads = now?.byHead.length ? now.shownHeads : [];
    if (String(heads) !== headKeys.dataset.heads) {
      headKeys.dataset.heads = heads;
      headKeys.replaceChildren(...heads.map((i) => h('span', { class: 'sfi-key' }, h('i', { class: 'sfi-swatch line', style: { borderTopColor: headColour(i) } }), `KV ${i}`)));
    }
    if (!now) { write(parts.statement, 'as recorded: this layer keeps no queries and keys to re-select from'); return; }
    const a = chosen(now, refreshAt(now.steps, cursor), k), b = chosen(recorded, refreshAt(recorded.steps, cursor), recorded.k);
    const d = compareSets(a, b);
    write(parts.statement, `at step ${cursor}: ${count(a.size)} selected, ${count(d.both)} as recorded, ${count(d.onlyA)} only now, ${count(d.onlyB)} only recorded · mean mass kept ${share(now.mean_kept, 2)} (recorded ${share(now.mean_kept_before, 2)}), ${count(now.mean_keys)} keys a step (recorded ${count(now.mean_keys_before)}) (${now.kind})`);
  };
  const saying = painter(parts.section, say);
  events.on(['now', 'mass', 'recorded', 'k', 'k_live', 'cursor', 'brush', 'span'], () => { saying.ask(); view.redraw(); });
  say();
  view.redraw();
  return () => { events.stop(); look.stop(); saying.stop(); view.stop(); };
}
export default { render };
