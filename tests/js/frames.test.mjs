import test from 'node:test';
import assert from 'node:assert/strict';
import { painter, write } from '../../widgets/sfi_widgets/static/frames.mjs';
import { polyline } from '../../widgets/sfi_widgets/static/ui.mjs';

/** A page whose frames, sizes, places and timers the test moves by hand. */
function page() {
  const frames = [], timers = new Map(), watchers = { place: [], size: [] };
  let number = 0;
  const observer = (list) => class { constructor(run) { this.run = run; list.push(this); } observe(el) { this.el = el; } disconnect() { this.run = () => {}; } };
  Object.assign(globalThis, {
    requestAnimationFrame: (run) => { frames.push([++number, run]); return number; },
    cancelAnimationFrame: (id) => { const at = frames.findIndex(([n]) => n === id); if (at >= 0) frames.splice(at, 1); },
    IntersectionObserver: observer(watchers.place), ResizeObserver: observer(watchers.size),
  });
  const real = { setTimeout: globalThis.setTimeout, clearTimeout: globalThis.clearTimeout };
  globalThis.setTimeout = (run) => { timers.set(++number, run); return number; };
  globalThis.clearTimeout = (id) => timers.delete(id);
  return {
    frame() { for (const [, run] of frames.splice(0)) run(0); },
    settle() { const due = [...timers]; timers.clear(); for (const [, run] of due) run(); },
    place(near) { for (const w of watchers.place) w.run([{ isIntersecting: near }]); },
    size(width) { for (const w of watchers.size) w.run([{ contentRect: { width } }]); },
    timers, restore() { Object.assign(globalThis, real); },
  };
}
const shown = { clientWidth: 500 };
const counted = () => { const f = () => { f.runs += 1; f.last = f.value; }; f.runs = 0; return f; };

test('a burst of changes is one run in the next frame, with the newest value', (t) => {
  const p = page(), work = counted(), job = painter(shown, work);
  t.after(p.restore);
  for (let i = 0; i < 20; i++) { work.value = i; job.ask(); }
  assert.equal(work.runs, 0);
  p.frame();
  assert.deepEqual([work.runs, work.last], [1, 19]);
  p.frame();
  assert.equal(work.runs, 1, 'nothing was asked');
});

test('a hidden panel does nothing until it has a size again, then catches up once', (t) => {
  const p = page(), work = counted(), job = painter(shown, work);
  t.after(p.restore);
  p.size(500); p.size(0);
  for (let i = 0; i < 5; i++) { job.ask(); p.frame(); p.settle(); }
  assert.equal(work.runs, 0);
  p.size(500);
  p.frame();
  assert.equal(work.runs, 1);
  p.size(0); p.size(400); p.frame();
  assert.equal(work.runs, 1, 'nothing changed while it was hidden');
});

test('a panel hidden before its first frame waits too', (t) => {
  const p = page(), work = counted(), job = painter({ clientWidth: 0 }, work);
  t.after(p.restore);
  job.ask(); p.frame();
  assert.equal(work.runs, 0);
  p.size(300); p.frame();
  assert.equal(work.runs, 1);
});

test('scrolled away it waits until changes have settled; in sight again it is the next frame', (t) => {
  const p = page(), work = counted(), job = painter(shown, work);
  t.after(p.restore);
  p.size(500); p.place(false);
  for (let i = 0; i < 6; i++) { job.ask(); p.frame(); }
  assert.deepEqual([work.runs, p.timers.size], [0, 1], 'one timer, started anew by every change');
  p.settle();
  assert.equal(work.runs, 1);
  job.ask(); p.place(true); p.frame();
  assert.equal(work.runs, 2);
  p.settle();
  assert.equal(work.runs, 2, 'the timer finds nothing left to do');
});

test('late work runs a frame after the rest, and stopped work never', (t) => {
  const p = page(), work = counted(), late = painter(shown, work, true), other = counted(), gone = painter(shown, other);
  t.after(p.restore);
  late.ask(); gone.ask(); gone.stop();
  p.frame();
  late.ask();
  assert.equal(work.runs, 0);
  p.frame();
  assert.deepEqual([work.runs, other.runs], [1, 0]);
  p.frame(); p.frame();
  assert.equal(work.runs, 1, 'asked twice before it ran: once');
});

test('the same text is not written again', () => {
  let writes = 0;
  const el = { get textContent() { return this.text ?? ''; }, set textContent(v) { this.text = v; writes += 1; } };
  for (const text of ['a', 'a', 'b', 'b']) write(el, text);
  assert.deepEqual([el.text, writes], ['b', 2]);
});

/** Pieces drawn on a canvas: points of each stroke and the dash's offset. */
function strokes(xs, ys, dash) {
  const found = [];
  let now = null;
  const context = {
    lineDashOffset: 0, dash: null, setLineDash(d) { this.dash = d; }, beginPath() { now = []; }, moveTo(x, y) { now.push([x, y]); }, lineTo(x, y) { now.push([x, y]); },
    stroke() { found.push({ points: now, offset: this.lineDashOffset, dash: this.dash }); },
  };
  polyline(context, xs, ys, dash);
  assert.deepEqual([context.dash, context.lineDashOffset], [[], 0], 'the context is left as it was');
  return found;
}

test('a long line is stroked in pieces that meet, and its dashes go on', () => {
  const n = 100, xs = Array.from({ length: n }, (_, i) => 3 * i), ys = Array.from({ length: n }, (_, i) => (i % 2) * 4);
  const pieces = strokes(xs, ys, [4, 3]);
  assert.ok(pieces.length > 2 && pieces.every((p) => p.points.length <= 33));
  const joined = [pieces[0].points[0], ...pieces.flatMap((p) => p.points.slice(1))];
  assert.deepEqual(joined, xs.map((x, i) => [x, ys[i]]));
  let length = 0;
  for (const p of pieces) {
    assert.ok(Math.abs(p.offset - (length % 7)) < 1e-9, `dash offset ${p.offset} after ${length} pixels`);
    length += 5 * (p.points.length - 1);
  }
});

test('a line breaks where there is no value, and a lone point draws nothing', () => {
  const pieces = strokes([0, 1, 2, 3, 4, 5, 6], [NaN, 1, 2, NaN, 4, NaN, NaN]);
  assert.deepEqual(pieces.map((p) => p.points), [[[1, 1], [2, 2]]]);
  assert.deepEqual(strokes([], []), []);
});
