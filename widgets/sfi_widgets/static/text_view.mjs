// The generated text and the document, line by line, with what the chosen head keeps at the cursor's step.
import { CLASS, CLASS_NAMES, chosen, classOf, count, figure, level, mix, refreshAt, rgb, routeOf, weightOf } from './core.mjs';
import { findTokens, shown, wrap } from './words.mjs';
import { painter, write } from './frames.mjs';
import { lettersOf, reasonLegend } from './reasons.mjs';
import { tooltip } from './tips.mjs';
import { choose, chosenName, cursorKeys, data, h, hubOf, key, listener, memoryOf, panel, theme } from './ui.mjs';

const LINE = 26;
const MARKED = ['sfi-hit', 'sfi-probe', 'sfi-cursor', 'sfi-future'];

/**
 * A virtual list of wrapped tokens [first, last): only visible lines are in the page. make(span, i) prepares a new token, look(i)
 * says how it looks now: {kind, back, ink, marks}. Lines and tokens stay in the page; only what changed about them is written.
 */
function tokenPane(parent, label, texts, first, last, make, look) {
  const scroller = h('div', { class: 'sfi-pane', tabindex: '0', role: 'region', 'aria-label': label });
  const filler = h('div', { class: 'sfi-filler' });
  scroller.append(filler);
  parent.append(scroller);
  const measure = document.createElement('canvas').getContext('2d'), known = new Map();
  let lines = new Int32Array([0]), width = 0;
  const show = texts.map(shown);
  const widthOf = (text) => {
    let w = known.get(text);
    if (w === undefined) { w = measure.measureText(text).width; known.set(text, w); }
    return w;
  };
  function layout() {
    const room = size.width - 46;
    if (room < 40 || room === width) return;
    width = room;
    known.clear();
    measure.font = getComputedStyle(filler).font;
    const n = last - first, widths = new Float32Array(n), breaks = new Uint8Array(n), spaced = new Uint8Array(n);
    for (let i = 0; i < n; i++) {
      widths[i] = widthOf(show[first + i]);
      breaks[i] = texts[first + i].includes('\n') ? 1 : 0;
      spaced[i] = /^\s/.test(texts[first + i]) ? 1 : 0;
    }
    lines = wrap(widths, breaks, spaced, room);
    filler.style.height = `${lines.length * LINE + 8}px`;
    rows.clear();
    filler.replaceChildren();
  }
  // sizes and scroll are kept: reading them after the page has changed costs a layout
  const size = { width: scroller.clientWidth, height: scroller.clientHeight, top: 0 }, rows = new Map(), looks = new WeakMap();
  function line(l) {
    const row = h('div', { class: 'sfi-line', style: { top: `${l * LINE + 4}px` } });
    const end = first + (l + 1 < lines.length ? lines[l + 1] : last - first);
    for (let i = first + lines[l]; i < end; i++) {
      const span = document.createElement('span');
      span.textContent = show[i];
      span.dataset.i = i;
      make(span, i);
      row.append(span);
    }
    return row;
  }
  function dress(span) {
    const { kind, back, ink, marks } = look(Number(span.dataset.i)), word = `${kind} ${back} ${ink} ${marks}`;
    if (looks.get(span) === word) return;
    looks.set(span, word);
    span.style.backgroundColor = back; span.style.color = ink;
    if (kind) span.dataset.kind = kind; else delete span.dataset.kind;
    for (const name of MARKED) span.classList.toggle(name, marks.includes(name));
  }
  function fill() {
    layout();
    const from = Math.max(0, Math.floor(size.top / LINE) - 2), to = Math.min(lines.length, Math.ceil((size.top + size.height) / LINE) + 2);
    for (const [l, row] of rows) if (l < from || l >= to) { row.remove(); rows.delete(l); }
    for (let l = to - 1, after = null; l >= from; l--) {
      if (!rows.has(l)) { rows.set(l, line(l)); filler.insertBefore(rows.get(l), after); }
      after = rows.get(l);
      for (const span of after.children) dress(span);
    }
  }
  const job = painter(scroller, fill);
  scroller.addEventListener('scroll', () => { size.top = scroller.scrollTop; job.ask(); });
  const sizes = new ResizeObserver(() => { size.width = scroller.clientWidth; size.height = scroller.clientHeight; job.ask(); });
  sizes.observe(scroller);
  return {
    scroller, fill, redraw: job.ask, stop() { sizes.disconnect(); job.stop(); },
    height: () => size.height, lineOf: (i) => refreshAt(lines, i - first), lineCount: () => lines.length,
    reveal(i) {
      layout();
      const y = refreshAt(lines, i - first) * LINE;
      if (y >= size.top + LINE && y <= size.top + size.height - 2 * LINE) return;
      scroller.scrollTop = y - size.height / 2;
      size.top = scroller.scrollTop;
    },
  };
}

async function render({ model, el }) {
  const hub = await hubOf(model), parts = panel(el, 'text', 'Text'), events = listener(hub);
  const facts = hub.get('facts'), { texts, sentence } = data.tokens(hub), run = data.run(hub), letters = lettersOf(run), why = reasonLegend(run);
  const stepOf = new Map(Array.from({ length: run.count }, (_, s) => [run.position[s] + 1, s]));
  let reveal = true, weights = new Map(), memory = null, picked = new Set(), hits = [], hit = -1, hitSet = new Set();

  const row = h('div', { class: 'sfi-two', style: { height: `${model.get('height')}px` } });
  parts.body.append(row);
  const left = h('div', { class: 'sfi-column' }, h('h4', {}, 'Generated')), right = h('div', { class: 'sfi-column' }, h('h4', {}, 'Document'));
  row.append(left, right);
  const look = theme(el, () => job?.ask());
  const generated = tokenPane(left, 'Generated text', texts, facts.prompt, texts.length, makeGenerated, lookOfGenerated);
  const prompt = tokenPane(right, 'Document', texts, 0, facts.prompt, () => {}, lookOf);
  const map = h('canvas', { class: 'sfi-minimap', 'aria-hidden': 'true', title: 'Where in the document the kept positions lie; a click goes there' });
  right.append(map);
  const tip = tooltip(parts.body);

  function lookOf(i) {
    const step = hub.get('cursor'), colours = look.colours, fed = i <= run.position[step];
    const kind = memory && fed ? classOf(i, step, memory, picked) : CLASS.none;
    const weight = weights.get(i), name = [null, 'sink', 'recent', 'selected', 'other'][kind];
    const marks = [hitSet.has(i) ? 'sfi-hit' : '', i === hub.get('probe') ? 'sfi-probe' : ''];
    if (!name || (kind === CLASS.other && weight === undefined)) return { kind: '', back: '', ink: '', marks };
    const strength = weight === undefined ? 0.14 : 0.22 + 0.6 * (level(weight) / 255);
    const back = mix(rgb(colours.back), rgb(colours[name]), strength);
    const dark = 0.299 * back[0] + 0.587 * back[1] + 0.114 * back[2] < 115;
    return { kind: name, back: `rgb(${back})`, ink: dark ? '#ffffff' : el.dataset.theme === 'dark' && strength > 0.5 ? '#101316' : '', marks };
  }
  function makeGenerated(span, i) {
    const step = stepOf.get(i);
    span.classList.add(sentence[i] % 2 ? 'sfi-odd' : 'sfi-even');
    if (step !== undefined && run.slow[step]) { span.classList.add('sfi-slow'); span.dataset.mark = letters.get(run.reason[step]); span.dataset.reason = run.reason[step].replaceAll('_', ' '); }
  }
  function lookOfGenerated(i) {
    const own = lookOf(i), cursor = hub.get('cursor');
    own.marks.push(stepOf.get(i) === cursor ? 'sfi-cursor' : '', i > run.position[cursor] + 1 ? 'sfi-future' : '');
    return own;
  }
  function paintMap() {
    const height = Math.max(1, prompt.height()), context = map.getContext('2d');
    if (map.height !== height) { map.width = 10; map.height = height; }
    context.clearRect(0, 0, 10, height);
    const put = (i, colour) => { context.fillStyle = colour; context.fillRect(0, Math.floor((prompt.lineOf(i) * height) / Math.max(1, prompt.lineCount())), 10, 2); };
    if (memory) for (const i of picked) if (i < facts.prompt) put(i, look.colours.selected);
    for (const [i, w] of weights) if (i < facts.prompt && w > 0.01) put(i, look.colours[['other', 'sink', 'recent', 'selected', 'other'][memory ? classOf(i, hub.get('cursor'), memory, picked) : 4]]);
  }
  function update() {
    const step = hub.get('cursor'), support = data.support(hub);
    memory = memoryOf(hub);
    picked = memory ? chosen(memory.selection, refreshAt(memory.selection.steps, step), memory.k) : new Set();
    weights = new Map();
    for (let i = support.offsets[step]; i < support.offsets[step + 1]; i++) weights.set(support.ids[i], weightOf(support.weights[i]));
    if (reveal) generated.reveal(Math.min(texts.length - 1, run.position[step] + 1));
    reveal = false;
    generated.fill();
    prompt.fill();
    paintMap();
    write(parts.statement, `step ${step}, ${routeOf(run, step)}, writes ${JSON.stringify(texts[run.position[step] + 1] ?? '')} · layer ${hub.get('layer')}, ${chosenName(hub)}: ${memory ? `${count(picked.size)} selected positions tinted` : 'recorded attention tinted'}`);
    el.dataset.step = step;
  }
  const job = painter(row, update, true);

  const indexOf = (event) => { const span = event.target.closest?.('span[data-i]'); return span ? Number(span.dataset.i) : null; };
  parts.body.addEventListener('pointermove', (event) => {
    const i = indexOf(event);
    if (i === null) { tip.hide(); return; }
    const r = parts.body.getBoundingClientRect(), step = hub.get('cursor'), own = stepOf.get(i);
    const kind = memory ? CLASS_NAMES[classOf(i, step, memory, picked)] : '';
    const weight = weights.get(i);
    tip.show(event.clientX - r.left, event.clientY - r.top, h('b', {}, JSON.stringify(texts[i])), ` position ${count(i)}, sentence ${sentence[i]}`, h('br'),
      i > run.position[step] ? 'not in the cache at this step' : `${kind ? kind + ' · ' : ''}${weight === undefined ? 'attention below the listed weights' : `attention ${figure(weight)}`}`,
      ...(own === undefined ? [] : [h('br'), `written by step ${own}, ${routeOf(run, own)}`]));
  });
  parts.body.addEventListener('pointerleave', () => tip.hide());
  parts.body.addEventListener('click', (event) => {
    const i = indexOf(event);
    if (i === null) return;
    const step = stepOf.get(i);
    choose(hub, step === undefined ? { probe: i } : { cursor: step, probe: i });
  });
  for (const pane of [generated, prompt]) pane.scroller.addEventListener('keydown', (e) => cursorKeys(e, hub, facts.steps));
  map.addEventListener('click', (e) => { prompt.scroller.scrollTop = (e.offsetY / map.clientHeight) * prompt.lineCount() * LINE - prompt.scroller.clientHeight / 2; });

  const found = h('span', { class: 'sfi-hint', 'aria-live': 'polite' });
  const search = h('input', { type: 'search', placeholder: 'search the text', 'aria-label': 'Search the text', title: 'Finds text in the document and the generated text; Enter goes to the next match' });
  const go = (by) => {
    if (!hits.length) return;
    hit = (hit + by + hits.length) % hits.length;
    const i = hits[hit][0];
    (i < facts.prompt ? prompt : generated).reveal(i);
    found.textContent = `${hit + 1} of ${hits.length}`;
    choose(hub, { probe: i });
  };
  search.addEventListener('input', () => {
    hits = findTokens(texts, search.value); hit = -1;
    hitSet = new Set(hits.flatMap(([a, b]) => Array.from({ length: b - a }, (_, j) => a + j)));
    found.textContent = search.value ? `${hits.length} found` : '';
    generated.redraw(); prompt.redraw();
    go(1);
  });
  search.addEventListener('keydown', (e) => { e.stopPropagation(); if (e.key === 'Enter') { e.preventDefault(); go(e.shiftKey ? -1 : 1); } });
  parts.tools.append(found, search);
  parts.legend.append(key('sink', 'sink'), key('selected', 'selected'), key('recent', 'recent'), key('other', 'not in memory, yet attended'),
    key('slowmark', why.text, why.title), key('bands', 'sentences'),
    h('span', { class: 'sfi-hint' }, 'click a generated token: the cursor goes there · click a document token: marked in the map'));
  events.on(['support', 'now', 'mass', 'k', 'k_live', 'probe'], job.ask);
  events.on('cursor', () => { reveal = true; job.ask(); });
  job.ask();
  return () => { events.stop(); look.stop(); job.stop(); generated.stop(); prompt.stop(); };
}
export default { render };
