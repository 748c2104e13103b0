import test from 'node:test';
import assert from 'node:assert/strict';
import { clicked, closest, counted, extent, logTicks, rowsAt } from '../../widgets/sfi_widgets/static/methods_panel.mjs';

/** Points as the kernel sends them, from rows [method, group, length, budget, verdict, score, read]. */
function points(rows) {
  const at = Int32Array.from([0, 1, 2, 3, 4].flatMap((c) => rows.map((r) => r[c]))), numbers = Float32Array.from([5, 6].flatMap((c) => rows.map((r) => r[c])));
  return { at: new DataView(at.buffer), numbers: new DataView(numbers.buffer), names: ['score', 'read'], verdicts: ['', 'worse'], groups: [{ name: 'all' }, { name: 'one' }] };
}

test('rows of a group and length come by method and keys read, with their numbers', () => {
  const p = points([[1, 0, 0, 256, 1, 0.5, 0.25], [0, 0, 0, -1, 0, 0.75, 1], [1, 0, 0, 128, 1, 0.25, 0.125], [1, 1, 0, 128, 0, NaN, 0.5], [1, 0, 512, 128, 0, 0, 0.5]]);
  assert.deepEqual(rowsAt(p, 'all', 0).map((r) => [r.method, r.budget, r.verdict, r.score, r.read]), [[0, -1, '', 0.75, 1], [1, 128, 'worse', 0.25, 0.125], [1, 256, 'worse', 0.5, 0.25]]);
  assert.equal(rowsAt(p, 'one', 0)[0].score, NaN);
  assert.deepEqual(rowsAt(p, 'all', 1024), []);
});

test('a click shows a method alone and again all; shift adds and takes out', () => {
  const all = ['a', 'b', 'c'];
  assert.deepEqual(clicked([], all, ['b'], false), ['b']);
  assert.deepEqual(clicked(['b'], all, ['b'], false), []);
  assert.deepEqual(clicked(['b'], all, ['c'], false), ['c']);
  assert.deepEqual(clicked([], all, ['b'], true), ['a', 'c']);
  assert.deepEqual(clicked(['b'], all, ['a'], true), ['a', 'b'], 'in the order of the legend');
  assert.deepEqual(clicked(['a', 'b'], all, ['c'], true), [], 'all of them is no choice');
  assert.deepEqual(clicked(['b'], all, ['b'], true), [], 'none is all');
  assert.deepEqual(clicked([], all, ['a', 'b'], true), ['c'], 'a family goes together');
  assert.deepEqual(clicked(['a'], all, ['a', 'b'], true), ['a', 'b']);
});

test('the nearest point within reach', () => {
  const places = [{ x: 0, y: 0 }, { x: 10, y: 0 }];
  assert.equal(closest(places, 7, 0, 16), places[1]);
  assert.equal(closest(places, 40, 0, 16), null);
});

test('ticks of logarithmic axes', () => {
  assert.deepEqual(logTicks(0.0008, 1.3), [0.001, 0.01, 0.1, 1]);
  assert.deepEqual(logTicks(0.1, 1), [0.1, 0.2, 0.5, 1]);
  assert.deepEqual(logTicks(0.97, 1.25), [1, 1.02, 1.05, 1.1, 1.2]);
});

test('an axis holds the intervals too, and one floor for what is as good as dense', () => {
  const row = { score: 0.5, score_low: 0.25, score_high: 1, kl: 0, kl_low: 0, kl_high: 0.5, perplexity: NaN, perplexity_low: NaN, perplexity_high: NaN };
  const [low, high] = extent([row], 'score');
  assert.ok(low < 0.25 && high > 1);
  assert.ok(Math.abs(extent([row], 'kl')[0] - 0.8e-5) < 1e-12);
  assert.equal(extent([row], 'perplexity'), null);
});

test('variants of a method are counted beside the methods', () => {
  assert.equal(counted(['sfi', 'quest', 'quest:dense_layers=0', 'sfi']), '2 methods beside dense (3 with variants)');
  assert.equal(counted(['sfi']), '1 method beside dense');
});
