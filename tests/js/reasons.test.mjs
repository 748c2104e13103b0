import test from 'node:test';
import assert from 'node:assert/strict';
import { lettersOf, reasonLegend, reasonsOf } from '../../widgets/sfi_widgets/static/reasons.mjs';

/** A run of these reasons; '' is a fast step. */
const run = (...reason) => ({ reason, slow: Uint8Array.from(reason, (one) => (one && one !== 'prompt' ? 1 : 0)) });

test('ticks and legend take their letters from one place, and only reasons of this run are listed', () => {
  const some = run('prompt', 'first', '', 'sentence', 't_max', 'sentence');
  assert.deepEqual([...lettersOf(some)], [['first', '1'], ['sentence', 'S'], ['t_max', 'T']]);
  assert.equal(reasonLegend(some).text, 'slow step: 1 first, S sentence end, T T_max');
  assert.match(reasonLegend(some).title, /not in this run: P period, R random, D drift, N nothing to select/);
  assert.deepEqual(reasonLegend(run('prompt', '')), { text: 'slow step', title: reasonLegend(run('')).title });
});

test('a reason of somebody’s own policy has a letter and stands in the legend under its name', () => {
  const own = run('first', 'every_verb', 'sentence', 'surprise', '');
  assert.deepEqual(reasonsOf(own).slice(2), [{ reason: 'every_verb', letter: 'E', name: 'every verb' }, { reason: 'surprise', letter: 'U', name: 'surprise' }]);
  assert.equal(reasonLegend(own).text, 'slow step: 1 first, S sentence end, E every verb, U surprise');
});

test('letters stay apart where they can, and there is always one', () => {
  assert.equal(lettersOf(run('random_walk')).get('random_walk'), 'R', 'no other reason of the run has it');
  const many = lettersOf(run('aa', 'a', '__'));
  assert.equal(many.get('a'), 'A');
  assert.equal(many.get('aa'), 'A', 'nothing else to take');
  assert.equal(many.get('__'), '?');
});
