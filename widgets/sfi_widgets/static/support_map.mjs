// Steps × positions of one layer and head: hue says why a position is read, strength how much attention it got.
import { CLASS_NAMES, cellsFor, chosen, clampRange, classColours, classOf, colourCells, count, figure, refreshAt, routeOf, share, supportCells, ticks, weightOf, zoomRange } from './core.mjs';
import { painter, write } from './frames.mjs';
import { tooltip } from './tips.mjs';
import { PAD, axisX, axisY, canvas, choose, chosenName, cursorKeys, cursorLine, data, h, hubOf, key, listener, liveK, memoryOf, panel, sentenceBands, stepAt, theme, xOf } from './ui.mjs';

async function render({ model, el }) {
  const hub = await hubOf(model), parts = panel(el, 'map', 'Support map'), events = listener(hub);
  const facts = hub.get('facts'), height = model.get('height');
  const top = PAD.top + 6;
  let cells = new Uint16Array(0), image = null, lut = null;
  const off = document.createElement('canvas'), offContext = off.getContext('2d');

  const box = h('div', { class: 'sfi-canvas' });
  parts.body.append(box);
  const look = theme(el, () => { lut = null; view?.redraw(); });
  const tip = tooltip(box);
  const view = canvas(box, height, 'Support map: decode steps from left to right, positions from top to bottom', draw);
  const plot = (w) => ({ left: PAD.left, width: w - PAD.left - PAD.right, top, height: height - top - PAD.bottom });

  function draw(context, w, _h, ratio) {
    const colours = look.colours, area = plot(w), brush = hub.get('brush'), span = hub.get('span');
    const run = data.run(hub), support = data.support(hub), memory = memoryOf(hub);
    lut ??= classColours(colours);
    const nx = cellsFor(brush[0], brush[1], area.width * ratio), ny = cellsFor(span[0], span[1], area.height * ratio);
    if (cells.length !== nx * ny) cells = new Uint16Array(nx * ny);
    if (off.width !== nx || off.height !== ny || !image) { off.width = nx; off.height = ny; image = offContext.createImageData(nx, ny); }
    supportCells(cells, nx, ny, { s0: brush[0], s1: brush[1], p0: span[0], p1: span[1] }, memory, support);
    colourCells(cells, nx, ny, lut, new Uint32Array(image.data.buffer));
    offContext.putImageData(image, 0, 0);
    context.imageSmoothingEnabled = false;
    context.drawImage(off, area.left, area.top, area.width, area.height);

    const y = (p) => area.top + ((p - span[0]) * area.height) / (span[1] - span[0]);
    const x = (s) => xOf(s, brush, area.left, area.width);
    sentenceBands(context, colours, run, brush, area.left, area.width, 4, 8);
    context.fillStyle = colours.slow;
    const refreshes = memory ? memory.selection.steps : data.recorded(hub).steps;
    for (const s of refreshes) if (s >= brush[0] && s < brush[1]) context.fillRect(Math.round(x(s)), 3, 2, 13);
    if (area.width / (brush[1] - brush[0]) > 2.5) {
      context.globalAlpha = 0.35;
      for (const s of refreshes) if (s >= brush[0] && s < brush[1]) context.fillRect(Math.round(x(s)), area.top, 1, area.height);
      context.globalAlpha = 1;
    }
    if (facts.prompt > span[0] && facts.prompt < span[1]) {
      context.strokeStyle = colours.faint; context.setLineDash([4, 3]); context.beginPath();
      context.moveTo(area.left, y(facts.prompt)); context.lineTo(area.left + area.width, y(facts.prompt)); context.stroke();
      context.setLineDash([]);
    }
    const probe = hub.get('probe');
    if (probe >= span[0] && probe < span[1]) {
      context.fillStyle = colours.before;
      context.fillRect(area.left, y(probe), area.width, Math.max(1, Math.min(2, area.height / (span[1] - span[0]))));
    }
    context.strokeStyle = colours.line;
    context.strokeRect(area.left - 0.5, area.top - 0.5, area.width + 1, area.height + 1);
    cursorLine(context, colours, hub.get('cursor'), brush, area.left, area.width, area.top - 3, area.height + 6);
    axisX(context, colours, ticks(brush[0], brush[1], area.width / 80).filter(Number.isInteger), x, area.top + area.height, 'decode step', area.left, area.width);
    axisY(context, colours, ticks(span[0], span[1], area.height / 45).filter(Number.isInteger), y, area.left, 'position', count, area.top, area.height);
  }

  // reading it
  const locate = (event) => {
    const r = view.el.getBoundingClientRect(), area = plot(r.width), brush = hub.get('brush'), span = hub.get('span');
    const px = event.clientX - r.left, py = event.clientY - r.top;
    return {
      px, py, inside: px >= area.left && px < area.left + area.width && py >= area.top && py < area.top + area.height,
      step: stepAt(px, brush, area.left, area.width), position: Math.floor(span[0] + ((py - area.top) * (span[1] - span[0])) / area.height),
    };
  };
  function heaviestNear(step, position, reach) {
    const support = data.support(hub);
    let best = -1, weight = -1;
    for (let i = support.offsets[step]; i < support.offsets[step + 1]; i++) {
      if (Math.abs(support.ids[i] - position) <= reach && support.weights[i] > weight) { best = support.ids[i]; weight = support.weights[i]; }
    }
    return best < 0 ? { position, weight: null } : { position: best, weight: weightOf(weight) };
  }
  function hover(event) {
    const at = locate(event), run = data.run(hub);
    if (!at.inside || at.step < 0 || at.step >= run.count) { tip.hide(); return; }
    const area = plot(box.clientWidth), span = hub.get('span');
    const near = heaviestNear(at.step, at.position, Math.ceil(((span[1] - span[0]) / area.height) * 2));
    const memory = memoryOf(hub), texts = data.tokens(hub).texts, support = data.support(hub);
    const future = near.position > run.position[at.step];
    const kind = memory ? CLASS_NAMES[classOf(near.position, at.step, memory, chosen(memory.selection, refreshAt(memory.selection.steps, at.step), memory.k))] : '';
    tip.show(at.px, at.py,
      h('b', {}, future ? '—' : JSON.stringify(texts[near.position] ?? '')), ` position ${count(near.position)}`, h('br'),
      future ? 'not yet written' : near.weight === null ? `below the listed weights (all unlisted together ${figure(support.rest[at.step] || 0)})` : `attention ${figure(near.weight)}`,
      h('br'), kind ? `${kind} · ` : '', `step ${at.step}, ${routeOf(run, at.step)}`);
  }
  let drag = null;
  view.el.addEventListener('pointerdown', (e) => {
    const at = locate(e);
    if (!at.inside) return;
    drag = { at, brush: hub.get('brush'), span: hub.get('span'), moved: false };
    view.el.setPointerCapture(e.pointerId);
  });
  view.el.addEventListener('pointermove', (e) => {
    if (!drag) { hover(e); return; }
    const at = locate(e), area = plot(box.clientWidth);
    const dx = at.px - drag.at.px, dy = at.py - drag.at.py;
    if (!drag.moved && Math.hypot(dx, dy) < 4) return;
    drag.moved = true;
    tip.hide();
    const ds = (-dx * (drag.brush[1] - drag.brush[0])) / area.width, dp = (-dy * (drag.span[1] - drag.span[0])) / area.height;
    choose(hub, {
      brush: clampRange(drag.brush[0] + ds, drag.brush[1] + ds, facts.steps), span: clampRange(drag.span[0] + dp, drag.span[1] + dp, facts.positions),
    });
  });
  view.el.addEventListener('pointerup', (e) => {
    if (drag && !drag.moved) {
      const at = locate(e), span = hub.get('span'), area = plot(box.clientWidth);
      const near = heaviestNear(at.step, at.position, Math.ceil(((span[1] - span[0]) / area.height) * 2));
      choose(hub, { cursor: at.step, probe: near.position });
    }
    drag = null;
  });
  view.el.addEventListener('pointerleave', () => tip.hide());
  const zoom = (factor, at, axes = 'both') => {
    const brush = hub.get('brush'), span = hub.get('span');
    choose(hub, {
      brush: axes === 'positions' ? brush : zoomRange(brush, at?.step ?? hub.get('cursor'), factor, facts.steps, 8),
      span: axes === 'steps' ? span : zoomRange(span, at?.position ?? (span[0] + span[1]) / 2, factor, facts.positions, 16),
    });
  };
  const whole = () => choose(hub, { brush: [0, facts.steps], span: [0, facts.positions] });
  view.el.addEventListener('wheel', (e) => {
    if (document.activeElement !== view.el && !e.ctrlKey) return; // an unfocused map must not swallow the page's scrolling
    e.preventDefault();
    e.stopPropagation();
    zoom(e.deltaY > 0 ? 1.2 : 1 / 1.2, locate(e), e.shiftKey ? 'steps' : e.altKey ? 'positions' : 'both');
  }, { passive: false });
  view.el.addEventListener('dblclick', whole);
  view.el.addEventListener('keydown', (e) => {
    const pan = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] }[e.key];
    if (e.key === '+' || e.key === '=') zoom(1 / 1.4);
    else if (e.key === '-') zoom(1.4);
    else if (e.key === '0') whole();
    else if (pan && (e.shiftKey || pan[1])) {
      const brush = hub.get('brush'), span = hub.get('span');
      const ds = pan[0] * (brush[1] - brush[0]) * 0.15, dp = pan[1] * (span[1] - span[0]) * 0.15;
      choose(hub, { brush: clampRange(brush[0] + ds, brush[1] + ds, facts.steps), span: clampRange(span[0] + dp, span[1] + dp, facts.positions) });
    } else { cursorKeys(e, hub, facts.steps); return; }
    e.preventDefault();
    e.stopPropagation();
  });
  const tool = (text, label, run) => h('button', { type: 'button', title: label, 'aria-label': label, onclick: run }, text);
  parts.tools.append(
    tool('−', 'Zoom out (key -)', () => zoom(1.6)), tool('+', 'Zoom in (key +)', () => zoom(1 / 1.6)),
    tool('whole run', 'Show all steps and positions (key 0, or double click)', whole));
  parts.legend.append(
    key('sink', 'sink', 'the first positions: every step reads them'), key('selected', 'selected', 'chosen by the selector at the last refresh under the current settings'),
    key('recent', 'recent', 'the newest positions: every step reads them'), key('other', 'not in memory', 'only a slow step reads it: attention recorded outside the three sets'),
    key('ramp', 'attention 0.0001 … 1 (log)', 'the stronger the colour, the more attention'), key('tick', 'refresh', 'the selector runs: a slow step'),
    h('span', { class: 'sfi-hint' }, 'drag to pan · click, then wheel or +/− to zoom · arrow keys move the cursor'));

  const say = () => {
    const support = data.support(hub), cursor = hub.get('cursor'), listed = support.offsets[cursor + 1] - support.offsets[cursor];
    const text = `layer ${hub.get('layer')}, ${chosenName(hub)} · step ${cursor}: ${count(listed)} positions listed, ${share(1 - (support.rest[cursor] || 0))} of its attention (exact)`;
    write(parts.statement, listed ? text : `layer ${hub.get('layer')}, ${chosenName(hub)} · step ${cursor}: the prompt, no support recorded`);
    view.el.dataset.k = liveK(hub);
  };
  const saying = painter(parts.section, say);
  events.on(['support', 'now', 'mass', 'recorded', 'k', 'k_live', 'cursor', 'brush', 'span', 'probe'], () => { saying.ask(); view.redraw(); });
  say();
  view.redraw();
  return () => { events.stop(); look.stop(); saying.stop(); view.stop(); };
}
export default { render };
