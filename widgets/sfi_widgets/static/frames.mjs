// When a panel works: once a frame while it is in sight, once things have settled while it is scrolled away, not at all while hidden.

const SETTLED = 150; // ms without a change before a panel that is scrolled away catches up

/**
 * A piece of work of a panel that can be asked for at any rate: ask() runs it in the next frame, once however often it was asked.
 * Out of sight it waits until the asking has settled; without a size (a tab that isn't chosen) until it has one again.
 * late: one frame after the others, so that a heavy panel doesn't hold up the ones that follow a slider.
 */
export function painter(el, work, late = false) {
  let frame = 0, timer = 0, due = false, near = true, sized = null; // sized: null until known
  const run = () => {
    frame = timer = 0;
    sized ??= el.clientWidth > 0;
    if (!due || !sized) return;
    due = false;
    work();
  };
  const ask = () => {
    due = true;
    if (sized === false) return;
    if (near) { if (!frame) frame = requestAnimationFrame(late ? () => { frame = requestAnimationFrame(run); } : run); return; }
    clearTimeout(timer);
    timer = setTimeout(run, SETTLED);
  };
  const catchUp = () => { if (due) ask(); };
  const places = new IntersectionObserver((seen) => { near = seen.at(-1).isIntersecting; if (near) catchUp(); });
  const sizes = new ResizeObserver((changes) => { sized = changes.at(-1).contentRect.width > 0; catchUp(); });
  places.observe(el);
  sizes.observe(el);
  return { ask, stop() { places.disconnect(); sizes.disconnect(); cancelAnimationFrame(frame); clearTimeout(timer); } };
}

/** Text of an element, left alone where it is the same already: a replaced text node costs a layout. */
export function write(el, text) {
  if (el.textContent !== text) el.textContent = text;
}
