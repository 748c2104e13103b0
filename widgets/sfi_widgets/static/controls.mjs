// Every knob as a native control. Moving one sends the whole wanted settings; K repaints at once, being a prefix.
import { nearest } from './core.mjs';
import { h, hubOf, listener, panel, theme } from './ui.mjs';

async function render({ model, el }) {
  const hub = await hubOf(model), parts = panel(el, 'controls', 'Settings'), events = listener(hub);
  const facts = hub.get('facts'), spec = model.get('spec'), rows = {};
  let sent = 0, wanted = { ...model.get('values') };
  const look = theme(el, () => {});

  function send(changes) {
    wanted = { ...wanted, ...changes };
    sent += 1;
    if ('k' in changes) hub.set('k_live', changes.k);
    if ('lam' in changes) rows.lam(changes.lam);
    model.set('wanted', { values: wanted, number: sent });
    model.save_changes();
  }
  const say = (value) => (Array.isArray(value) ? value.join(' / ') : String(value));
  const id = (name) => `sfi-${model.get('hub').slice(-8)}-${name}`;

  function frame(item, control) {
    const label = h('label', { for: id(item.name) }, h('b', {}, item.symbol), item.title ? ` ${item.title}` : '');
    return h('div', { class: 'sfi-row', title: `${item.meaning}. Allowed: ${item.allowed}.`, 'data-name': item.name }, label, control);
  }
  function slider(item) {
    const range = h('input', { type: 'range', id: id(item.name), min: 0, max: item.stops.length - 1, step: 1, 'aria-label': `${item.symbol} ${item.title}`, 'data-field': item.name });
    const box = h('input', { type: 'number', min: item.stops[0], max: item.kind === 'number' ? item.stops.at(-1) : undefined, step: item.kind === 'integer' ? 1 : 'any', 'aria-label': `${item.symbol}, typed`, class: 'sfi-number' });
    range.addEventListener('input', () => { const v = item.stops[range.value]; box.value = v; range.setAttribute('aria-valuetext', v); send({ [item.name]: v }); });
    box.addEventListener('change', () => { if (box.value !== '') send({ [item.name]: Number(box.value) }); });
    box.addEventListener('keydown', (e) => e.stopPropagation());
    if (item.name === 'k') for (const touch of ['pointerdown', 'focus']) range.addEventListener(touch, () => model.send({ do: 'rank' }));
    rows[item.name] = (value) => {
      const one = Array.isArray(value) ? value[value.length - 1] : value;
      const known = typeof one === 'number';
      range.disabled = box.disabled = !known;
      if (!known) return;
      if (document.activeElement !== range || item.stops[range.value] !== one) range.value = nearest(item.stops, one);
      range.setAttribute('aria-valuetext', say(value));
      if (document.activeElement !== box) box.value = one;
      if (Array.isArray(value)) box.title = `${say(value)}: one query row / several rows; a moved slider sets one value for both`;
      else box.removeAttribute('title'); // an empty one would hide the row's
    };
    return frame(item, h('span', { class: 'sfi-slide' }, range, box));
  }
  function choice(item) {
    const words = (o) => (o === true ? 'on' : o === false ? 'off' : o.replace('_', ' '));
    const select = h('select', { id: id(item.name), 'data-field': item.name }, ...item.options.map((o) => h('option', { value: String(o) }, words(o))));
    select.addEventListener('change', () => send({ [item.name]: item.options.find((o) => String(o) === select.value) }));
    rows[item.name] = (value) => { select.value = String(value); };
    return frame(item, select);
  }
  function lambda(item) {
    const auto = h('input', { type: 'radio', name: id('lam'), value: 'auto', 'data-field': 'lam-auto' }), fixed = h('input', { type: 'radio', name: id('lam'), value: 'fixed', 'data-field': 'lam-fixed' });
    let last = 0.02;
    auto.addEventListener('change', () => send({ lam: 'auto' }));
    fixed.addEventListener('change', () => send({ lam: last }));
    const clip = slider(spec.parts.lam_clip), value = slider(spec.parts.lam);
    const inner = rows.lam, innerClip = rows.lam_clip;
    rows.lam = (v) => {
      auto.checked = v === 'auto'; fixed.checked = v !== 'auto';
      clip.hidden = v !== 'auto'; value.hidden = v === 'auto';
      if (v !== 'auto') last = v;
      inner(v === 'auto' ? last : v);
    };
    rows.lam_clip = innerClip;
    const modes = h('span', { class: 'sfi-modes', role: 'radiogroup', 'aria-label': 'λ' }, h('label', { title: 'the closed form for each head, never above the clip' }, auto, ' auto, with a clip'), h('label', { title: 'the same λ for every head' }, fixed, ' fixed'));
    return h('div', {}, h('div', { class: 'sfi-row', title: `${item.meaning}. Allowed: ${item.allowed}.` }, h('label', {}, h('b', {}, 'λ'), ' share of the prior'), modes), clip, value);
  }
  const make = { slider, choice, lambda };
  const group = (g) => {
    const inside = g.items.map((item) => make[item.control](item));
    return g.open ? h('fieldset', {}, h('legend', {}, g.title), ...inside) : h('details', {}, h('summary', { title: `${g.title}: ${g.items.map((item) => [item.symbol, item.title].filter(Boolean).join(' ')).join(', ')}. A click shows or hides them.` }, g.title), ...inside);
  };

  // where to look
  const pick = (label, name, entries, title) => {
    const select = h('select', { id: id(name), 'data-field': name, title }, ...entries.map(([v, text]) => h('option', { value: v }, text)));
    select.addEventListener('change', () => { hub.set(name, Number(select.value)); hub.save_changes(); });
    const show = () => { select.value = hub.get(name); };
    events.on(name, show);
    show();
    return h('div', { class: 'sfi-row', title }, h('label', { for: id(name) }, label), select);
  };
  const layers = facts.layers.map((l) => [l, `${l}${facts.qk_layers.includes(l) ? '' : ' (support only)'}`]);
  const ratio = facts.query_heads / facts.kv_heads;
  const heads = [[-1, 'mean of all'], ...Array.from({ length: facts.kv_heads }, (_, i) => [i, ratio > 1 ? `${i} (query heads ${i * ratio}-${(i + 1) * ratio - 1})` : `${i}`])];

  const presets = h('span', { class: 'sfi-presets' }, ...spec.presets.map((p) => h('button', { type: 'button', title: p.title, 'data-preset': p.name, onclick: () => { sent += 1; model.set('wanted', { preset: p.name, number: sent }); model.save_changes(); } }, p.name)));
  const code = h('input', { type: 'text', class: 'sfi-code', spellcheck: 'false', 'aria-label': 'Settings as code', title: 'The shortest expression that makes these settings; edit it and press Enter' });
  code.addEventListener('keydown', (e) => {
    e.stopPropagation();
    if (e.key !== 'Enter') return;
    sent += 1;
    model.set('wanted', { code: code.value, number: sent });
    model.save_changes();
  });
  const problem = h('p', { class: 'sfi-error', role: 'alert' });
  const kind = h('span', { class: 'sfi-kind' });
  parts.statement.append(kind);
  parts.body.append(
    h('fieldset', {}, h('legend', {}, 'Look at'), pick('layer', 'layer', layers, 'Layer shown; re-selection needs a layer recorded with queries and keys'), pick('KV head', 'kv_head', heads, 'KV head shown; the query heads of its group share its selection')),
    h('div', { class: 'sfi-row' }, h('label', {}, 'start from'), presets),
    ...spec.groups.map(group), h('label', { class: 'sfi-row' }, 'as code'), code, problem);
  parts.legend.remove();

  const KINDS = { exact: ['exact', 're-selected from recorded queries and keys, at the recorded refreshes'], proxy: ['proxy', 'other refreshes than the run had, on the recorded trajectory: decode again to be sure'], '': ['recording', 'this layer keeps no queries and keys'] };
  const show = () => {
    if (model.get('answered') >= sent) {
      wanted = { ...model.get('values') };
      hub.set('k_live', null);
      for (const [name, set] of Object.entries(rows)) set(wanted[name]);
      if (document.activeElement !== code) code.value = model.get('code');
      for (const b of presets.children) b.setAttribute('aria-pressed', String(b.dataset.preset === model.get('preset')));
    }
    problem.textContent = model.get('error');
    problem.hidden = !model.get('error');
  };
  const showKind = () => {
    const [name, title] = KINDS[hub.get('now')?.kind ?? ''];
    kind.textContent = name; kind.title = title; kind.dataset.kind = name;
  };
  model.on('change', show);
  events.on('now', showKind);
  show();
  showKind();
  return () => { model.off('change', show); events.stop(); look.stop(); };
}
export default { render };
