import test from 'node:test';
import assert from 'node:assert/strict';
import {
  CLASS, PICK, cellsFor, columnBits, columnMax, chosen, chosenCells, clampRange, classColours, classOf, colourCells, compareSets, count, figure,
  level, levelTable, nearest, refreshAt, rowsOf, selectionCells, supportCells, ticks, toggled, typed, weightOf, zoomRange,
} from '../../widgets/sfi_widgets/static/core.mjs';
import { commonPrefix, findTokens, parted, wrap } from '../../widgets/sfi_widgets/static/words.mjs';

const selection = { steps: Int32Array.of(2, 5), heads: 1, offsets: Uint32Array.of(0, 3, 6), ids: Uint16Array.of(4, 7, 5, 7, 9, 4) };

test('typed respects a byte offset that is not aligned', () => {
  const bytes = new Uint8Array([9, 1, 0, 2, 0]);
  assert.deepEqual([...typed(new DataView(bytes.buffer, 1, 4), Uint16Array)], [1, 2]);
  assert.equal(typed(undefined, Int32Array).length, 0);
});

test('rows of 16 and 32 bits', () => {
  const wide = rowsOf({ offsets: new DataView(Uint32Array.of(0, 1).buffer), ids: new DataView(Int32Array.of(131071).buffer), wide: true });
  assert.equal(wide.ids[0], 131071);
  assert.equal(rowsOf({}).ids.length, 0);
});

test('weights keep three digits over five decades', () => {
  for (const w of [1, 0.5, 0.01, 1e-3, 1e-5]) {
    const back = weightOf(Math.round(Math.sqrt(w) * 65535));
    assert.ok(Math.abs(back - w) / w < 0.01, `${w} came back as ${back}`);
  }
});

test('levels rise with the weight from 1 to 255', () => {
  assert.equal(level(1), 255);
  assert.equal(level(1e-9), 1);
  assert.equal(level(0), 1);
  const table = levelTable();
  for (let v = 1; v < 65536; v++) assert.ok(table[v] >= table[v - 1]);
});

test('the refresh in force', () => {
  assert.deepEqual([0, 1, 2, 4, 5, 99].map((s) => refreshAt(selection.steps, s)), [-1, -1, 0, 0, 1, 1]);
  assert.equal(refreshAt(new Int32Array(0), 3), -1);
});

test('K is a prefix of the ranking', () => {
  assert.deepEqual([...chosen(selection, 0, 2)], [4, 7]);
  assert.deepEqual([...chosen(selection, 1, 9)], [7, 9, 4]);
  assert.equal(chosen(selection, -1, 2).size, 0);
});

test('several heads count once a position', () => {
  const two = { steps: Int32Array.of(1), heads: 2, offsets: Uint32Array.of(0, 2, 4), ids: Uint16Array.of(3, 8, 8, 2) };
  assert.deepEqual([...chosen(two, 0, 2)].sort(), [2, 3, 8]);
  assert.deepEqual([...chosen(two, 0, 1)].sort(), [3, 8]);
  assert.deepEqual([...chosenCells(two, 0, 2, 0, 10, 10)], [0, 0, 2, 2, 0, 0, 0, 0, 3, 0]);
});

test('pooled cells say how full they are', () => {
  const one = { steps: Int32Array.of(0), heads: 1, offsets: Uint32Array.of(0, 4), ids: Uint16Array.of(0, 1, 2, 5) };
  assert.deepEqual([...chosenCells(one, 0, 4, 0, 6, 2)], [3, 1]);
  assert.deepEqual([...chosenCells(one, 0, 4, 1, 3, 2)], [3, 3]);
});

test('why a position is read', () => {
  const memory = { position: Int32Array.of(9), sink: 2, recentStart: Int32Array.of(8) }, picked = new Set([5]);
  assert.deepEqual([1, 5, 6, 8, 10].map((p) => classOf(p, 0, memory, picked)), [CLASS.sink, CLASS.selected, CLASS.other, CLASS.recent, CLASS.none]);
});

test('support cells: one column a step, class by memory, level by weight', () => {
  const code = (w) => Math.round(Math.sqrt(w) * 65535);
  const memory = { position: Int32Array.of(9, 9, 10), sink: 1, recentStart: Int32Array.of(8, 8, 9), selection, k: 3 };
  const support = { offsets: Uint32Array.of(0, 0, 2, 5), ids: Uint16Array.of(4, 0, 4, 6, 10), weights: Uint16Array.of(code(0.5), code(0.25), code(0.5), code(0.1), code(0.01)) };
  const out = supportCells(new Uint16Array(3 * 12), 3, 12, { s0: 0, s1: 3, p0: 0, p1: 12 }, memory, support);
  const at = (x, y) => [out[x * 12 + y] >> 8, out[x * 12 + y] & 255];
  assert.deepEqual(at(0, 0), [CLASS.sink, 0]);
  assert.deepEqual(at(0, 8), [CLASS.recent, 0]);
  assert.deepEqual(at(0, 11), [CLASS.none, 0]);
  assert.deepEqual(at(1, 4), [CLASS.other, level(0.5)], 'before the first refresh nothing is selected');
  assert.deepEqual(at(2, 4), [CLASS.selected, level(0.5)]);
  assert.deepEqual(at(2, 5), [CLASS.selected, 0], 'selected, no weight listed');
  assert.deepEqual(at(2, 6), [CLASS.other, level(0.1)]);
  assert.deepEqual(at(2, 10), [CLASS.recent, level(0.01)]);
});

test('support cells pool to the heaviest weight', () => {
  const support = { offsets: Uint32Array.of(0, 1, 2), ids: Uint16Array.of(2, 3), weights: Uint16Array.of(60000, 20000) };
  const out = supportCells(new Uint16Array(1), 1, 1, { s0: 0, s1: 2, p0: 0, p1: 8 }, null, support);
  assert.equal(out[0] & 255, level(weightOf(60000)));
});

test('a view shows only its own positions', () => {
  const support = { offsets: Uint32Array.of(0, 3), ids: Uint16Array.of(1, 5, 9), weights: Uint16Array.of(9999, 9999, 9999) };
  const out = supportCells(new Uint16Array(4), 1, 4, { s0: 0, s1: 1, p0: 4, p1: 8 }, null, support);
  assert.deepEqual([...out].map((v) => v > 0), [false, true, false, false]);
});

test('selection cells tell now from recorded', () => {
  const recorded = { steps: Int32Array.of(2), heads: 1, offsets: Uint32Array.of(0, 2), ids: Uint16Array.of(4, 6) };
  const out = selectionCells(new Uint16Array(3 * 10), 3, 10, { s0: 1, s1: 4, p0: 0, p1: 10 }, selection, 2, recorded, 2);
  assert.ok(out.slice(0, 10).every((v) => v === 0), 'before any refresh');
  const column = [...out.slice(10, 20)].map((v) => v >> 2);
  assert.deepEqual(column, [0, 0, 0, 0, PICK.both, 0, PICK.recorded, PICK.now, 0, 0]);
  assert.deepEqual([...out.slice(20)], [...out.slice(10, 20)], 'the same refreshes, the same column');
});

test('colours: clear background, tints, rising strength', () => {
  const palette = { back: '#ffffff', ink: '#000000', sink: '#aa3377', recent: '#1467b3', selected: '#00805e', other: '#70777f' };
  const lut = classColours(palette), light = (v) => (v & 255) + ((v >> 8) & 255) + ((v >> 16) & 255);
  assert.equal(lut[0] >>> 24, 0);
  for (let l = 2; l < 256; l++) assert.ok(light(lut[(CLASS.recent << 8) | l]) <= light(lut[(CLASS.recent << 8) | (l - 1)]));
  const out = colourCells(Uint16Array.of(0, CLASS.sink << 8, CLASS.recent << 8, 0), 2, 2, lut, new Uint32Array(4));
  assert.deepEqual([...out], [lut[0], lut[CLASS.recent << 8], lut[CLASS.sink << 8], lut[0]], 'columns become rows');
});

test('cells never outnumber pixels', () => assert.deepEqual([cellsFor(0, 5, 100), cellsFor(0, 500, 100.7), cellsFor(3, 4, 0)], [5, 100, 1]));

test('ranges stay inside and whole', () => {
  assert.deepEqual(clampRange(-4, 6, 100), [0, 10]);
  assert.deepEqual(clampRange(95.4, 105.4, 100), [90, 100]);
  assert.deepEqual(clampRange(5, 5, 100, 8), [5, 13]);
  assert.deepEqual(zoomRange([0, 100], 50, 0.5, 100), [25, 75]);
  assert.deepEqual(zoomRange([25, 75], 50, 10, 100), [0, 100]);
  assert.deepEqual(zoomRange([10, 14], 12, 0.1, 100, 4), [10, 14]);
});

test('ticks are round and inside', () => {
  assert.deepEqual(ticks(0, 240, 5), [0, 50, 100, 150, 200]);
  assert.deepEqual(ticks(0.9, 1, 2), [0.9, 0.95, 1]);
  assert.deepEqual(ticks(3, 3, 4), [3]);
});

test('numbers as people read them', () => {
  assert.equal(count(1234567), '1,234,567');
  assert.equal(figure(0.12345), '0.123');
  assert.equal(figure(0.000012), '1.2e-5');
  assert.equal(nearest([1, 5, 9], 6), 1);
});

test('lines break at spaces, after newlines and inside words that are too long', () => {
  const w = (n) => new Float32Array(n).fill(10), zero = (n) => new Uint8Array(n);
  assert.deepEqual([...wrap(w(6), zero(6), Uint8Array.of(1, 1, 1, 1, 1, 1), 30)], [0, 3]);
  assert.deepEqual([...wrap(w(4), Uint8Array.of(0, 1, 0, 0), Uint8Array.of(1, 1, 1, 1), 100)], [0, 2]);
  assert.deepEqual([...wrap(w(5), zero(5), Uint8Array.of(1, 1, 0, 0, 0), 30)], [0, 1, 4], 'the word moves down whole, then breaks');
  assert.deepEqual([...wrap(w(1), Uint8Array.of(1), Uint8Array.of(1), 5)], [0]);
});

test('search finds text across tokens', () => {
  assert.deepEqual(findTokens(['The', ' wa', 'ter', ' rose'], 'WATER'), [[1, 3]]);
  assert.deepEqual(findTokens(['aa', 'a'], 'a'), [[0, 1], [0, 1], [1, 2]]);
  assert.deepEqual(findTokens(['x'], ''), []);
});

test('differences', () => {
  assert.equal(commonPrefix([1, 2, 3], [1, 2, 4, 5]), 2);
  assert.deepEqual(compareSets(new Set([1, 2]), new Set([2, 3, 4])), { both: 1, onlyA: 1, onlyB: 2 });
});

test('curves in pixel columns keep the largest value, flags their union', () => {
  const v = columnMax(Float32Array.of(1, 5, 2, 3), 10, 10, 14, 2);
  assert.deepEqual([...v], [5, 3]);
  assert.deepEqual([...columnMax(Float32Array.of(1), 3, 0, 4, 4)].map((x) => x === x), [false, false, false, true]);
  assert.deepEqual([...columnBits(Uint8Array.of(1, 2, 4, 0), 0, 0, 4, 2)], [3, 4]);
});

test('shift-click adds and takes heads of a mean', () => {
  assert.deepEqual(toggled(0, [], 2, 4), { head: -1, among: [0, 2] });
  assert.deepEqual(toggled(-1, [0, 2], 1, 4), { head: -1, among: [0, 1, 2] });
  assert.deepEqual(toggled(-1, [0, 2], 0, 4), { head: 2, among: [] });
  assert.deepEqual(toggled(-1, [0, 1, 2], 3, 4), { head: -1, among: [] }, 'all heads are the plain mean');
  assert.deepEqual(toggled(1, [], 1, 4), { head: -1, among: [] }, 'nothing left: the plain mean');
  assert.deepEqual(toggled(-1, [], 3, 4), { head: 3, among: [] }, 'from the plain mean: this head alone');
});

test('a token is marked only where both runs have one and they differ', () => {
  const recorded = [' a', ' b', ' c', ' d'];
  assert.deepEqual(parted(recorded, 2, 2), { same: ' a b', first: null, rest: ' c d' }, 'the new run merely stopped');
  assert.deepEqual(parted([' a', ' b'], 2, 4), { same: ' a b', first: null, rest: '' });
  assert.deepEqual(parted(recorded, 1, 3), { same: ' a', first: ' b', rest: ' c d' });
  assert.deepEqual(parted(['', 'x'], 0, 2), { same: '', first: '', rest: 'x' }, 'a token without text of its own');
  assert.deepEqual(parted([], 0, 4), { same: '', first: null, rest: '' });
});
