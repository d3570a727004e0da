// Small charts over one axis of time, drawn as SVG. They share a cursor, and the marks of the stream.
import { el, show, svg } from './dom.js';
import { NOTHING, age, bytes, groupMarks, moment, nearest, nice, savepointBefore, segments, tick, timeTicks, undoneTimes } from './format.js';
const UNDONE = 'a restore or a rollback deleted these rows';
const HEIGHT = 132;
const PAD = { left: 60, right: 10, top: 16, bottom: 20 };
const GAP = 2.5; // a line breaks where so many points are missing
const LIMIT_SHOWN = 8; // times the largest bar: a limit above is not drawn
const CURRENT = 3; // points, of which the newest is not over: an older figure is not current

export class Charts {
  // `choose` is called with a time in epoch ms, or null
  constructor(questions, choose) {
    this.choose = choose;
    this.chosen = null;
    this.readout = el('p', { class: 'readout', role: 'status', 'aria-live': 'polite' });
    this.questions = questions.map(({ question, charts }) => {
      const figures = charts.map((definition) => this.figure(definition));
      const node = el('section', { class: 'question' }, el('h2', {}, question), el('div', { class: 'charts' }, figures.map((figure) => figure.node)));
      return { node, figures };
    });
    this.figures = this.questions.flatMap(({ figures }) => figures);
    this.grid = el('div', { class: 'questions' }, this.questions.map(({ node }) => node));
    this.node = el(
      'section',
      { class: 'axis', tabindex: '0', 'aria-label': 'Charts over time. Left and right arrow keys move the cursor, Enter chooses its time.', onkeydown: (event) => this.key(event) },
      this.grid,
    );
    this.cursor = null;
    new ResizeObserver(() => this.draw()).observe(this.grid);
  }

  figure(definition) {
    const plot = svg('svg', { class: 'plot', role: 'img', height: HEIGHT });
    plot.addEventListener('pointermove', (event) => this.point(event, plot));
    plot.addEventListener('pointerleave', () => this.move(null));
    plot.addEventListener('click', () => this.cursor !== null && this.choose(this.data.points[this.cursor].at));
    const isSplit = definition.series.length > 1;
    const values = definition.series.map(() => el('b'));
    const keys = definition.series.map((each, index) => el('span', { class: isSplit ? `key s${index}` : 'now' }, isSplit ? `${each.label} ` : null, values[index]));
    if (definition.limit) keys.push(el('span', { class: 'key limit' }, `${definition.limit.label} `, el('b', {}, definition.format(definition.limit.at))));
    const node = el('figure', { class: definition.series.length > 2 ? 'chart many' : 'chart' }, el('figcaption', {}, el('span', { class: 'title' }, definition.title), el('span', { class: 'keys' }, keys)), plot);
    return { definition, node, plot, values };
  }

  render(data, chosen) {
    this.data = data; // {points: [{at, ...}], marks, from, to, every}
    this.chosen = chosen;
    this.draw();
  }

  draw() {
    if (!this.data) return;
    for (const figure of this.figures) {
      const isEmpty = figure.definition.optional && !this.data.points.some((point) => figure.definition.series.some((each) => each.of(point)));
      figure.node.hidden = Boolean(isEmpty);
      if (!isEmpty) this.drawFigure(figure);
    }
    for (const { node, figures } of this.questions) node.hidden = figures.every((figure) => figure.node.hidden);
    this.tell();
  }

  x(at) {
    return PAD.left + ((at - this.data.from) / (this.data.to - this.data.from)) * (this.width - PAD.left - PAD.right);
  }

  drawFigure({ definition, node, plot }) {
    this.width = Math.max(220, node.clientWidth - 2);
    plot.setAttribute('viewBox', `0 0 ${this.width} ${HEIGHT}`);
    plot.setAttribute('width', this.width);
    const { points } = this.data;
    const totals = points.map((point) => definition.series.reduce((sum, each) => sum + (each.of(point) || 0), 0));
    const most = definition.stacked ? Math.max(0, ...totals) : Math.max(0, ...points.flatMap((point) => definition.series.map((each) => each.of(point) || 0)));
    const limit = definition.limit && definition.limit.at <= LIMIT_SHOWN * most ? definition.limit.at : null; // else bars would be flat
    const top = (definition.tops || nice)(Math.max(most, limit));
    const y = (amount) => HEIGHT - PAD.bottom - (amount / top) * (HEIGHT - PAD.top - PAD.bottom);
    const drawn = definition.stacked ? this.bars(definition, y) : this.lines(definition, y);
    plot.replaceChildren(svg('title', {}, this.summary(definition, most)), ...this.undone(), ...this.frame(y, top, definition), ...this.marks(), ...drawn, ...this.limitLine(limit, y), ...this.chosenLine(), svg('line', { class: 'cursor', y1: PAD.top, y2: HEIGHT - PAD.bottom, visibility: 'hidden' }));
  }

  limitLine(limit, y) {
    return limit === null ? [] : [svg('line', { class: 'limit', x1: PAD.left, x2: this.width - PAD.right, y1: y(limit), y2: y(limit) })];
  }

  chosenLine() {
    if (this.chosen === null || this.chosen < this.data.from) return [];
    return [svg('line', { class: 'chosen', x1: this.x(this.chosen), x2: this.x(this.chosen), y1: PAD.top - 6, y2: HEIGHT - PAD.bottom })];
  }

  // The times whose rows are not in the tables any more.
  undone() {
    return undoneTimes(this.data.points, this.data.every).map(({ from, to }) =>
      svg('rect', { class: 'undone', x: this.x(from), y: PAD.top, width: Math.max(1, this.x(to) - this.x(from)), height: HEIGHT - PAD.top - PAD.bottom }, svg('title', {}, UNDONE)));
  }

  summary(definition, most) {
    return `${definition.title}: at most ${definition.format(most)} from ${moment(this.data.from)} to ${moment(this.data.to)}, ${this.data.points.length} points`;
  }

  frame(y, top, definition) {
    const span = this.data.to - this.data.from;
    const parts = [0, top / 2, top].map((amount) => [
      svg('line', { class: 'rule', x1: PAD.left, x2: this.width - PAD.right, y1: y(amount), y2: y(amount) }),
      svg('text', { class: 'label', x: PAD.left - 6, y: y(amount) + 3.5, 'text-anchor': 'end' }, amount === 0 ? '0' : definition.format(amount).replace('.0 ', ' ')),
    ]);
    for (const at of timeTicks(this.data.from, this.data.to, Math.max(2, Math.floor((this.width - PAD.left) / 80)))) {
      const x = this.x(at);
      parts.push([
        svg('line', { class: 'rule faint', x1: x, x2: x, y1: PAD.top, y2: HEIGHT - PAD.bottom }),
        svg('text', { class: 'label', x: Math.min(x, this.width - 18), y: HEIGHT - 5, 'text-anchor': 'middle' }, tick(at, span)),
      ]);
    }
    return parts.flat();
  }

  marks() {
    return this.data.marks
      .filter((mark) => mark.at >= this.data.from && mark.at <= this.data.to)
      .flatMap((mark) => {
        const x = this.x(mark.at);
        return [
          svg('line', { class: `mark ${mark.kind}`, x1: x, x2: x, y1: PAD.top - 4, y2: HEIGHT - PAD.bottom }),
          svg('path', { class: `flag ${mark.kind}`, d: `M${x - 4} 4h8l-4 7z` }, svg('title', {}, `${mark.kind} ${mark.what}, ${moment(mark.at)}`)),
        ];
      });
  }

  lines(definition, y) {
    return definition.series.flatMap((each, index) => {
      let path = '';
      let area = '';
      let before = null;
      let start = null;
      const close = () => {
        if (start !== null && before !== null) area += `L${this.x(before)} ${y(0)}L${this.x(start)} ${y(0)}Z`;
      };
      for (const point of this.data.points) {
        const amount = each.of(point);
        if (amount === null || amount === undefined) continue;
        const isNew = before === null || point.at - before > GAP * this.data.every;
        if (isNew) {
          close();
          start = point.at;
        }
        const step = `${isNew ? 'M' : 'L'}${this.x(point.at).toFixed(1)} ${y(amount).toFixed(1)}`;
        path += step;
        area += step;
        if (isNew) path += 'h0.01';
        before = point.at;
      }
      close();
      return [svg('path', { class: `area s${index}`, d: area }), svg('path', { class: `line s${index}`, d: path })];
    });
  }

  bars(definition, y) {
    const wide = Math.max(1, this.x(this.data.from + this.data.every) - PAD.left - 0.6);
    const paths = definition.series.map(() => '');
    for (const point of this.data.points) {
      let sum = 0;
      definition.series.forEach((each, index) => {
        const amount = each.of(point) || 0;
        if (!amount) return;
        const high = y(sum) - y(sum + amount);
        paths[index] += `M${(this.x(point.at) - wide / 2).toFixed(1)} ${y(sum + amount).toFixed(1)}h${wide.toFixed(1)}v${high.toFixed(1)}h-${wide.toFixed(1)}z`;
        sum += amount;
      });
    }
    return paths.map((path, index) => svg('path', { class: `bar s${index}`, d: path }));
  }

  point(event, plot) {
    const box = plot.getBoundingClientRect();
    const share = (event.clientX - box.left - PAD.left) / (box.width - PAD.left - PAD.right);
    const at = this.data.from + share * (this.data.to - this.data.from);
    this.move(nearest(this.data.points, at));
  }

  key(event) {
    const steps = { ArrowLeft: -1, ArrowRight: 1, PageUp: -10, PageDown: 10 };
    const last = this.data ? this.data.points.length - 1 : -1;
    if (last < 0 || !(event.key in steps || ['Home', 'End', 'Escape', 'Enter'].includes(event.key))) return;
    event.preventDefault();
    if (event.key === 'Escape') return this.choose(null) || this.move(null);
    if (event.key === 'Enter') return this.cursor !== null && this.choose(this.data.points[this.cursor].at);
    const from = this.cursor === null ? last : this.cursor;
    const to = event.key === 'Home' ? 0 : event.key === 'End' ? last : from + (this.cursor === null ? 0 : steps[event.key]);
    this.move(Math.min(last, Math.max(0, to)));
  }

  move(index) {
    this.cursor = index;
    this.tell();
  }

  tell() {
    const point = this.cursor === null ? null : this.data.points[this.cursor];
    this.readout.textContent = point ? `${moment(point.at)}${point.undone ? `: ${UNDONE}` : ''}` : '';
    for (const { definition, node, plot, values } of this.figures) {
      if (node.hidden) continue;
      definition.series.forEach((each, index) => {
        values[index].textContent = this.valueOf(definition, each);
        if (definition.series.length > 4) values[index].parentElement.hidden = !this.data.points.some(each.of);
      });
      const cursor = plot.querySelector('.cursor');
      if (!cursor) continue;
      cursor.setAttribute('visibility', point ? 'visible' : 'hidden');
      if (point) {
        this.width = Number(plot.getAttribute('width')); // rows of charts are of different widths
        cursor.setAttribute('x1', this.x(point.at));
        cursor.setAttribute('x2', this.x(point.at));
      }
    }
  }

  // The figure at the cursor, or the newest one if it is current.
  valueOf(definition, series) {
    const { points } = this.data;
    const isKnown = (point) => series.of(point) !== null && series.of(point) !== undefined;
    if (this.cursor !== null) return isKnown(points[this.cursor]) ? definition.format(series.of(points[this.cursor])) : NOTHING;
    const newest = points.findLast(isKnown);
    // a figure of before a stop is not one of now
    return newest && this.data.to - newest.at <= CURRENT * this.data.every ? definition.format(series.of(newest)) : NOTHING;
  }
}

// The timeline: lineages, savepoints and events over the axis of the charts. It is a control: choose a point.

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
