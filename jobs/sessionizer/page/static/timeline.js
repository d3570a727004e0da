// The timeline: lineages, savepoints and events over the axis of the charts. It is a control: choose a point.
import { el, show } from './dom.js';
import { age, bytes, moment, tick } from './format.js';
import { groupMarks, savepointBefore, segments, timeTicks } from './scale.js';

const APART = 0.014; // of the width: marks that are closer become one
const KEYS = { ArrowLeft: -1, ArrowRight: 1 };

export class Timeline {
  // `choose` is called with a time in epoch ms, or null
  constructor(choose) {
    this.choose = choose;
    this.told = el('p', { class: 'told-mark', 'aria-hidden': 'true' });
    this.lanes = Object.fromEntries(['lineages', 'savepoints', 'events'].map((name) => [name, el('div', { class: `lane ${name}` })]));
    this.ticks = el('div', { class: 'ticks', 'aria-hidden': 'true' });
    this.chosenLine = el('div', { class: 'chosen-line', hidden: true });
    const rows = Object.entries(this.lanes).map(([name, lane]) => el('div', { class: 'row' }, el('span', { class: 'lane-name' }, name[0].toUpperCase() + name.slice(1)), lane));
    const plot = el('div', { class: 'rows', role: 'group', 'aria-label': 'Timeline. Arrow keys move between its marks, Enter chooses one.', onkeydown: (event) => this.key(event) }, rows, this.ticks, el('div', { class: 'over' }, this.chosenLine));
    this.node = el('section', { class: 'timeline', 'aria-labelledby': 'timeline-title' }, el('div', { class: 'caption' }, el('h2', { id: 'timeline-title' }, 'Timeline'), this.told), plot);
    for (const lane of Object.values(this.lanes)) lane.addEventListener('click', (event) => event.target === lane && this.chooseAt(event, lane));
  }

  render({ points, marks, savepoints, from, to, every }, chosen) {
    Object.assign(this, { from, to });
    const step = Math.max(1, Math.round((to - from) / 600)); // a mark moves by less than a pixel
    const key = (what) => JSON.stringify([what, Math.floor(to / step), to - from]);
    const lineages = segments(points, every);
    show(this.lanes.lineages, key(lineages), () => lineages.map((each, index) => this.segment(each, index === lineages.length - 1)));
    const saved = groupMarks(savepoints.map((mark) => ({ ...mark, kind: 'savepoint' })), from, to, APART);
    const events = groupMarks(marks.filter((mark) => mark.kind !== 'savepoint'), from, to, APART);
    this.fill(this.lanes.savepoints, saved, key(saved), chosen);
    this.fill(this.lanes.events, events, key(events), chosen);
    const count = Math.max(2, Math.floor(this.node.clientWidth / 90));
    show(this.ticks, key(count), () => timeTicks(from, to, count).filter((at) => at - from > 0.02 * (to - from) && to - at > 0.02 * (to - from)).map((at) => this.put(el('span', {}, tick(at, to - from)), at)));
    this.chosenLine.hidden = chosen === null || chosen < from;
    if (chosen !== null) this.put(this.chosenLine, chosen);
  }

  fill(lane, groups, key, chosen) {
    const focused = lane.contains(document.activeElement) ? document.activeElement.dataset.at : null;
    show(lane, `${key}${chosen}`, () => groups.map((group) => this.mark(group, chosen)));
    if (focused) (lane.querySelector(`[data-at="${focused}"]`) || lane.querySelector('button'))?.focus({ preventScroll: true });
    const buttons = this.buttons();
    buttons.forEach((button, index) => button.setAttribute('tabindex', index === buttons.length - 1 && !focused ? '0' : '-1'));
  }

  segment({ lineage, from, to }, isLast) {
    const node = el('span', { class: isLast ? 'segment active' : 'segment', title: lineage }, el('span', {}, lineage));
    node.style.left = this.share(Math.max(from, this.from));
    node.style.width = `calc(${this.share(Math.min(to, this.to))} - ${this.share(Math.max(from, this.from))})`;
    return node;
  }

  mark({ at, kind, marks }, chosen) {
    const text = marks.map(describeMark).join('; ');
    const node = el(
      'button',
      {
        type: 'button', class: `point ${kind}`, 'data-at': at, 'aria-label': `${text}, ${moment(at)}`, 'aria-pressed': String(chosen === at), tabindex: '-1',
        onclick: () => this.choose(chosen === at ? null : at), onpointerenter: () => this.tell(at, text), onfocus: () => this.tell(at, text), onpointerleave: () => this.tell(), onblur: () => this.tell(),
      },
      marks.length > 1 ? String(marks.length) : '',
    );
    return this.put(node, at);
  }

  tell(at, text) {
    this.told.textContent = at ? `${moment(at)} · ${text}` : '';
  }

  put(node, at) {
    node.style.left = this.share(at);
    return node;
  }

  share(at) {
    return `${(((at - this.from) / (this.to - this.from)) * 100).toFixed(2)}%`;
  }

  buttons() {
    return [...this.node.querySelectorAll('.point')].sort((one, other) => one.dataset.at - other.dataset.at);
  }

  chooseAt(event, lane) {
    const box = lane.getBoundingClientRect();
    this.choose(Math.round(this.from + ((event.clientX - box.left) / box.width) * (this.to - this.from)));
  }

  key(event) {
    if (event.key === 'Escape') this.choose(null);
    if (!(event.key in KEYS || event.key === 'Home' || event.key === 'End')) return;
    event.preventDefault();
    const buttons = this.buttons();
    const at = buttons.indexOf(document.activeElement);
    const to = event.key === 'Home' ? 0 : event.key === 'End' ? buttons.length - 1 : at + KEYS[event.key];
    const next = buttons[Math.min(buttons.length - 1, Math.max(0, to))];
    if (!next) return;
    buttons.forEach((button) => button.setAttribute('tabindex', button === next ? '0' : '-1'));
    next.focus({ preventScroll: true });
  }
}

export function describeMark(mark) {
  const what = [mark.kind, mark.what, mark.savepoint, mark.by && `by ${mark.by}`].filter(Boolean).join(' ');
  return mark.text ? `${what}: ${mark.text}` : what;
}

// What the chosen time has: the figures then, its marks, and the savepoint that a restore would go back to.
export function chosenPoint(at, { points, marks, savepoints, every }, restore, close) {
  const point = points.findLast((each) => each.at <= at && at - each.at < 3 * every);
  const near = marks.filter((mark) => Math.abs(mark.at - at) < every && mark.kind !== 'savepoint');
  const saved = savepointBefore(savepoints, at);
  const figures = point ? [`batch ${point.batch_id}`, point.state_bytes !== null && `state ${bytes(point.state_bytes)}`].filter(Boolean).join(' · ') : 'no batch was committed';
  return [
    el('div', { class: 'chosen-head' }, el('h2', {}, moment(at)), el('span', { class: 'why' }, figures), el('button', { type: 'button', class: 'quiet', onclick: close }, 'Close')),
    near.map((mark) => el('p', { class: 'line' }, el('span', { class: `tag ${mark.kind}` }, mark.kind), ' ', describeMark(mark).replace(`${mark.kind} `, ''))),
    saved
      ? el('p', { class: 'target' }, 'Newest savepoint until then: ', el('code', {}, saved.savepoint), ` ${[saved.what, saved.batch_id !== null && `batch ${saved.batch_id}`, saved.text, at > saved.at && `${age(at - saved.at)} before`].filter(Boolean).join(', ')}`)
      : el('p', { class: 'target' }, 'There is no savepoint from before this time, so it cannot be restored.'),
    saved ? restore(saved) : null,
  ];
}
