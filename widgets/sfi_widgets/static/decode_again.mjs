// Decodes again with the current settings: the new text beside the recorded one, token by token.
import { count, share } from './core.mjs';
import { commonPrefix, parted } from './words.mjs';
import { data, h, hubOf, panel, theme } from './ui.mjs';

async function render({ model, el }) {
  const hub = await hubOf(model), parts = panel(el, 'decode', 'Decode again');
  const { texts } = data.tokens(hub), facts = hub.get('facts');
  const look = theme(el, () => {});
  const start = h('button', { type: 'button', class: 'sfi-primary', title: 'Runs the model on the recorded prompt with the settings as they are now', onclick: () => model.send({ do: 'start' }) }, 'Decode again');
  const stop = h('button', { type: 'button', title: 'Stops the run and keeps what was made', onclick: () => model.send({ do: 'stop' }) }, 'Stop');
  const length = h('input', { type: 'number', min: 1, max: 4096, class: 'sfi-number', 'aria-label': 'Tokens to decode', title: 'Tokens to decode', style: { width: '64px' } });
  length.addEventListener('change', () => { model.set('tokens', Math.max(1, Number(length.value) || 1)); model.save_changes(); });
  length.addEventListener('keydown', (e) => e.stopPropagation());
  const method = h('select', { 'aria-label': 'Method', title: 'How the new run decodes: SFI with these settings, or another method at the same sink + recent + K' },
    ...model.get('methods').map((m) => h('option', { value: m.name, title: m.meaning }, m.title)));
  method.addEventListener('change', () => { model.set('method', method.value); model.save_changes(); });
  method.addEventListener('keydown', (e) => e.stopPropagation());
  const record = h('input', { type: 'checkbox', 'aria-label': 'Record the new run', title: 'Also writes a trace of the new run, to be opened with Workbench(…) or compared' });
  record.addEventListener('change', () => { model.set('record', record.checked); model.save_changes(); });
  const bar = h('progress', { max: 1, value: 0, 'aria-label': 'Progress of the new run' });
  parts.tools.append(h('label', {}, 'method ', method), h('label', {}, 'tokens ', length), h('label', {}, record, ' record'), start, stop, bar);
  const old = h('div', { class: 'sfi-run', tabindex: '0', 'aria-label': 'Recorded text' }), fresh = h('div', { class: 'sfi-run', tabindex: '0', 'aria-label': 'New text', 'aria-live': 'off' });
  const oldFacts = h('h4', {}), freshFacts = h('h4', {});
  const row = h('div', { class: 'sfi-two', style: { height: `${model.get('height')}px` } },
    h('div', { class: 'sfi-column' }, oldFacts, old), h('div', { class: 'sfi-column' }, freshFacts, fresh));
  for (const pane of [old, fresh]) pane.style.flex = '1';
  const problem = h('p', { class: 'sfi-error', role: 'alert' });
  parts.body.append(row, problem);
  parts.legend.append(h('span', { class: 'sfi-hint' }, 'grey: the same tokens in both · bold with a bar: the first token that differs'));

  const recorded = texts.slice(facts.prompt, facts.prompt + facts.steps);
  function fill(pane, words, same, others) {
    const text = parted(words, same, others);
    pane.replaceChildren(h('span', { class: 'sfi-same' }, text.same), ...(text.first !== null ? [h('span', { class: 'sfi-first' }, text.first)] : []), text.rest);
  }
  function show() {
    const words = model.get('words'), ids = model.get('ids'), running = model.get('running'), total = model.get('tokens');
    const same = ids.length ? commonPrefix(ids, model.get('recorded_ids')) : recorded.length;
    fill(old, recorded, Math.min(same, recorded.length), ids.length);
    fill(fresh, words, Math.min(same, words.length), recorded.length);
    if (running) fresh.scrollTop = fresh.scrollHeight;
    start.disabled = running; stop.disabled = !running; length.disabled = running; method.disabled = running; record.disabled = running;
    const name = model.get('method');
    if (![...method.options].some((o) => o.value === name)) method.append(h('option', { value: name }, name)); // one with parameters, set from Python
    method.value = name; record.checked = model.get('record');
    if (document.activeElement !== length) length.value = total;
    bar.max = total; bar.value = words.length; bar.hidden = !running;
    oldFacts.textContent = `Recorded: ${count(facts.steps)} tokens, ${count(facts.slow)} slow steps of ${count(facts.decoded)}`;
    freshFacts.textContent = model.get('summary') || 'New run';
    const tail = ids.length === 0 ? '' : same >= Math.min(ids.length, recorded.length) ? `the first ${count(same)} tokens are the same` : `differs from token ${count(same + 1)} on (${share(same / Math.min(ids.length, recorded.length), 0)} the same from the start)`;
    parts.statement.textContent = [model.get('status'), tail, model.get('trace_path') && `recorded: Workbench(${JSON.stringify(model.get('trace_path'))})`].filter(Boolean).join(' · ');
    problem.textContent = model.get('error'); problem.hidden = !model.get('error');
    el.dataset.words = words.length;
  }
  model.on('change', show);
  show();
  return () => { model.off('change', show); look.stop(); };
}
export default { render };
