// The table of all streams: filter by text and word, sort by any column.
import { WORDS, el, hostPath, openInHost, pill, show, svg } from './dom.js';
import { isSilent, silentDrivers } from './feed.js';
import { NOTHING, ago, bytes, duration, lastChange, moment, number, savepointTimes } from './format.js';
const COLUMNS = [
  { key: 'stream', label: 'Stream', value: (row) => row.stream, cell: nameCell, text: (row) => row.stream },
  { key: 'health', label: 'Health', value: (row) => -row.health.severity, cell: healthCell, text: (row) => `${row.health.word}|${row.health.what}` },
  { key: 'desired', label: 'Wanted', value: (row) => (row.desired ? row.desired.state : ''), text: wanted },
  { key: 'state', label: 'State', value: stateText, text: stateText },
  { key: 'rate', label: 'Events/s', figure: true, value: (row) => row.rate, cell: rateCell, text: (row) => `${number(row.rate)}|${row.rates}` },
  { key: 'lag', label: 'Lag', figure: true, value: (row) => row.lag_ms, text: lagText },
  { key: 'open', label: 'Open', figure: true, value: (row) => row.open, text: (row) => number(row.open) },
  { key: 'size', label: 'State size', figure: true, value: (row) => row.state_bytes, text: (row) => bytes(row.state_bytes) },
  { key: 'restarts', label: 'Restarts 24 h', figure: true, value: (row) => row.restarts, text: (row) => String(row.restarts) },
  { key: 'saved', label: 'Savepoint', figure: true, value: (row) => row.saved_at, text: savepointTimes },
  { key: 'changed', label: 'Last change', figure: true, value: (row) => row.changed && row.changed.at, text: lastChange },
  { key: 'lineage', label: 'Lineage', value: (row) => row.lineage, text: (row) => row.lineage || NOTHING, class: 'code' },
  { key: 'heard', label: 'Last sign', figure: true, value: (row) => row.heard_at, text: (row, now) => ago(row.heard_at, now) },
];

function wanted(row) {
  return row.desired ? row.desired.state.toLowerCase() : NOTHING;
}

// The last driver of a drained stream was refused, which is no failure.
export function stateText(row) {
  return row.health.rule === 'drained' ? 'drained' : row.state.toLowerCase().replace('_', ' ');
}

function lagText(row) {
  const parts = [row.lag_ms === null ? '' : duration(row.lag_ms), row.source_lag === null ? '' : `${number(row.source_lag)} events`];
  return parts.filter(Boolean).join(' · ') || NOTHING;
}

function nameCell(row) {
  return [el('a', { href: `#/${row.stream}` }, row.stream)];
}

// The rate beside its course over the last minutes.
function rateCell(row) {
  return [sparkline(row.rates), number(row.rate)];
}

const [WIDE, HIGH] = [56, 16];

export function sparkline(values) {
  if (values.length < 2) return null;
  const most = Math.max(...values);
  const points = values.map((value, index) => `${((index / (values.length - 1)) * WIDE).toFixed(1)},${(HIGH - 1 - (value / most) * (HIGH - 2)).toFixed(1)}`);
  return svg('svg', { class: 'spark', width: WIDE, height: HIGH, viewBox: `0 0 ${WIDE} ${HIGH}`, 'aria-hidden': 'true' }, svg('polyline', { points: points.join(' ') }));
}

function healthCell(row) {
  const why = row.health.what ? el('span', { class: 'why', title: row.health.what }, row.health.what) : null;
  return [pill(row.health.word), why];
}

// Upgrades that take turns: those of each wave, how far each is, and why one does not go on.
export function upgradesOf(rows, host) {
  if (!rows.length) return [];
  const count = (state) => rows.filter(({ turn }) => turn.state === state).length;
  const waves = [...new Set(rows.map(({ turn }) => turn.wave))].sort((one, other) => one - other);
  const lineOf = ({ stream, turn }) => el('li', {}, el('span', { class: `tag turn-${turn.state}` }, turn.state), el('a', { href: `#/${stream}` }, stream), turn.why ? el('span', { class: 'why' }, turn.why) : null,
    host.api && turn.state !== 'waits' ? el('button', { type: 'button', class: 'link', onclick: () => openInHost(`${hostPath(host)}/dags/${host.upgrade}/runs/${encodeURIComponent(turn.run)}`) }, 'Open the run') : null);
  return [
    el('h2', {}, `Upgrades: ${count('done')} of ${rows.length} done`), count('failed') ? el('p', { class: 'failure' }, `${count('failed')} failed`) : null,
    waves.map((wave) => el('div', { class: 'wave' }, el('h3', {}, `Wave ${wave}`), el('ul', {}, rows.filter(({ turn }) => turn.wave === wave).map(lineOf)))),
    el('p', { class: 'note' }, `Those that have not begun by ${moment(Math.max(...rows.map(({ turn }) => turn.until)))} do not begin any more.`),
  ];
}

export class FleetView {
  constructor(root) {
    this.root = root;
    this.sort = { key: 'health', down: false };
    this.words = new Set();
    this.text = '';
    this.rows = new Map();
    this.upgrades = el('section', { class: 'upgrades', 'aria-label': 'Upgrades in waves' });
  }

  silent(found) {
    return silentDrivers(found.streams, found.at);
  }

  loading() {
    const lines = Array.from({ length: 6 }, () => el('div', { class: 'bone' }));
    return el('div', { class: 'loading', role: 'status' }, el('span', { class: 'visually-hidden' }, 'Loading the streams'), ...lines);
  }

  render(found, now) {
    this.found = found;
    this.now = now;
    const turns = found.streams.filter(({ turn }) => turn);
    show(this.upgrades, JSON.stringify(turns.map(({ stream, turn }) => [stream, turn])), () => upgradesOf(turns, found.host));
    show(this.root, found.streams.length ? 'table' : 'empty', () => (found.streams.length ? this.frame() : this.empty()));
    if (found.streams.length) this.update();
  }

  empty() {
    return el(
      'section', { class: 'empty' },
      el('h2', {}, 'No stream yet'),
      el('p', {}, 'A stream is one YAML file in the folder of streams. It appears here when Airflow has read it.'),
      el('pre', {}, 'sessionizer spec check\nsessionizer run STREAM'),
      el('p', {}, 'You see only streams whose DAGs you may read.'),
    );
  }

  frame() {
    this.counter = el('p', { class: 'counter', role: 'status' });
    this.chips = el('div', { class: 'chips', role: 'group', 'aria-label': 'Show only these words' });
    const search = el('input', {
      type: 'search', placeholder: 'Filter by name', 'aria-label': 'Filter by name', oninput: (event) => this.filter(event.target.value),
    });
    this.heads = COLUMNS.map((column) => this.head(column));
    this.body = el('tbody');
    const table = el('table', { class: 'fleet' }, el('caption', { class: 'visually-hidden' }, 'All streams'), el('thead', {}, el('tr', {}, this.heads)), this.body);
    this.sorter = el(
      'select', { 'aria-label': 'Sort by', class: 'sorter', onchange: (event) => this.sortBy(event.target.value) },
      COLUMNS.map((column) => el('option', { value: column.key, selected: column.key === this.sort.key }, `Sort by ${column.label.toLowerCase()}`)),
    );
    return [this.upgrades, el('div', { class: 'bar' }, search, this.chips, this.sorter, this.counter), el('div', { class: 'scroll' }, table)];
  }

  head(column) {
    const button = el('button', { type: 'button', onclick: () => this.sortBy(column.key) }, column.label, el('span', { class: 'arrow', 'aria-hidden': 'true' }));
    return el('th', { scope: 'col', class: `${column.figure ? 'figure ' : ''}of-${column.key}` }, button);
  }

  filter(text) {
    this.text = text.trim().toLowerCase();
    this.update();
  }

  sortBy(key) {
    this.sort = { key, down: this.sort.key === key ? !this.sort.down : false };
    this.update();
  }

  toggle(word) {
    if (!this.words.delete(word)) this.words.add(word);
    this.update();
  }

  update() {
    this.updateChips();
    const column = COLUMNS.find((each) => each.key === this.sort.key);
    COLUMNS.forEach((each, index) => {
      this.heads[index].setAttribute('aria-sort', each !== column ? 'none' : this.sort.down ? 'descending' : 'ascending');
    });
    const kept = this.found.streams
      .filter((row) => row.stream.includes(this.text) && (!this.words.size || this.words.has(row.health.word)))
      .sort((one, other) => compare(column.value(one), column.value(other)) * (this.sort.down ? -1 : 1) || compare(one.stream, other.stream));
    const rows = kept.map((row) => this.row(row));
    if (rows.some((row, index) => this.body.children[index] !== row) || rows.length !== this.body.children.length) {
      const focused = document.activeElement;
      this.body.replaceChildren(...(rows.length ? rows : [el('tr', {}, el('td', { colspan: COLUMNS.length, class: 'none' }, 'No stream fits the filter.'))]));
      if (this.body.contains(focused)) focused.focus({ preventScroll: true });
    }
    const all = this.found.streams.length;
    const streams = all === 1 ? '1 stream' : `${all} streams`;
    this.counter.textContent = kept.length === all ? streams : `${kept.length} of ${streams}`;
  }

  updateChips() {
    const counts = Object.fromEntries(WORDS.map((word) => [word, this.found.streams.filter((row) => row.health.word === word).length]));
    const key = JSON.stringify([counts, [...this.words]]);
    show(this.chips, key, () =>
      WORDS.filter((word) => counts[word] || this.words.has(word)).map((word) =>
        el('button', { type: 'button', class: 'chip', 'aria-pressed': String(this.words.has(word)), onclick: () => this.toggle(word) }, pill(word), ` ${counts[word]}`),
      ));
  }

  row(row) {
    let line = this.rows.get(row.stream);
    if (!line) {
      const cells = COLUMNS.map((column, index) =>
        el(index ? 'td' : 'th', { scope: index ? null : 'row', 'data-label': column.label, class: [column.figure ? 'figure' : '', column.class || '', `of-${column.key}`].join(' ').trim() }));
      line = el('tr', {}, cells);
      this.rows.set(row.stream, line);
    }
    line.className = `${row.health.word}${isSilent(row, this.found.at) ? ' silent' : ''}`;
    COLUMNS.forEach((column, index) => {
      const text = column.text(row, this.now);
      show(line.children[index], text, () => (column.cell ? column.cell(row) : partsOf(text)));
    });
    return line;
  }
}

// A text that may break behind its commas and points only.
function partsOf(text) {
  return text.split(/(?<=[·,]) /).flatMap((part, index) => [index ? ' ' : '', el('span', { class: 'part' }, part)]).filter(Boolean);
}

function compare(one, other) {
  if (one === other) return 0;
  if (one === null || one === undefined) return 1;
  if (other === null || other === undefined) return -1;
  return one < other ? -1 : 1;
}
