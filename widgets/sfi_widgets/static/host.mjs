// Stands in for a notebook's widget manager in an exported page: models without a kernel, views laid out by the page.

export class Model {
  constructor(state, manager) {
    this.state = state; this.widget_manager = manager; this.listeners = {}; this.saved = []; this.sent = []; this.changed = {};
  }
  get(name) { return this.state[name]; }
  set(name, value) {
    const before = this.state[name];
    if (before === value || JSON.stringify(before) === JSON.stringify(value)) return;
    this.state[name] = value;
    this.changed[name] = value;
    this.fire(`change:${name}`, value);
    this.fire('change', value);
  }
  /** What a kernel would send: several traits in one message. */
  receive(values) {
    Object.assign(this.state, values);
    for (const name of Object.keys(values)) this.fire(`change:${name}`, values[name]);
    this.fire('change');
  }
  fire(event, ...values) { for (const run of [...(this.listeners[event] ?? [])]) run(this, ...values); }
  on(event, run) { (this.listeners[event] ??= []).push(run); }
  off(event, run) { this.listeners[event] = (this.listeners[event] ?? []).filter((r) => r !== run); }
  save_changes() { this.saved.push(this.changed); this.changed = {}; }
  send(content) { this.sent.push(content); }
}

/** Bytes come as {"base64": "…"}; everything else is plain JSON. */
export function revive(value) {
  if (Array.isArray(value)) return value.map(revive);
  if (value && typeof value === 'object') {
    if (typeof value.base64 === 'string' && Object.keys(value).length === 1) {
      const text = atob(value.base64), bytes = new Uint8Array(text.length);
      for (let i = 0; i < text.length; i++) bytes[i] = text.charCodeAt(i);
      return new DataView(bytes.buffer);
    }
    return Object.fromEntries(Object.entries(value).map(([k, v]) => [k, revive(v)]));
  }
  return value;
}

/** Makes the models of `page.models` and shows each panel of `page.panels` in the element of its id. */
export async function host(page) {
  const models = {};
  const manager = { get_model: async (id) => models[id] };
  for (const [id, state] of Object.entries(page.models)) models[id] = new Model(revive(state), manager);
  const stops = [];
  for (const [id, module] of Object.entries(page.panels)) {
    const loaded = await import(`data:text/javascript;base64,${page.modules[module]}`);
    stops.push(await loaded.default.render({ model: models[id], el: document.getElementById(id) }));
  }
  return { models, stop: () => stops.forEach((run) => run && run()) };
}
