// One stream: its word and why, what may be done, charts over its history, marks, lineages and savepoints.
import { actionBar } from './actions.js';
import { Charts, niceTime } from './charts.js';
import { el, show } from './dom.js';
import { NOTHING, ago, bytes, duration, moment, number } from './format.js';
import { pill } from './pill.js';
import { openInHost } from './theme.js';

const HOUR = 3600000;
const SPANS = [['1 h', HOUR], ['6 h', 6 * HOUR], ['24 h', 24 * HOUR], ['7 d', 168 * HOUR]];
const STALE_MS = 15000;
const perBatch = (name) => (point) => (point.batches ? point[name] / point.batches : null);
const CHARTS = [
  { title: 'Events per second', format: number, series: [{ label: 'events/s', of: (point) => point.rate }] },
  { title: 'Batch time by phase', format: duration, tops: niceTime, stacked: true, series: ['plan', 'evaluate', 'write', 'commit'].map((phase) => ({ label: phase, of: perBatch(phase) })) },
  { title: 'Watermark behind the clock', format: duration, tops: niceTime, series: [{ label: 'lag', of: (point) => point.lag_ms }] },
  { title: 'Events not read yet', format: number, optional: true, series: [{ label: 'events', of: (point) => point.source_lag }] },
  { title: 'Open sessions', format: number, series: [{ label: 'open', of: (point) => point.open }] },
  { title: 'State size', format: bytes, series: [{ label: 'bytes', of: (point) => point.state_bytes }] },
  { title: 'Late and refused rows', format: number, stacked: true, series: [{ label: 'late', of: (point) => point.late }, { label: 'refused', of: (point) => point.refused }] },
  { title: 'Sessions written', format: number, stacked: true, series: [{ label: 'sessions', of: (point) => point.sessions }] },
  { title: 'Heaviest key group', format: bytes, optional: true, series: [{ label: 'bytes', of: (point) => point.group_bytes }] },
];

export class StreamView {
  constructor(root) {
    this.root = root;
    this.span = Number(sessionStorageGet('span')) || 6 * HOUR;
    this.points = []; // of the whole span: an answer has only the newest ones
  }

  // The newest point that we have: its time is not over, so it is asked for again.
  get begin() {
    return this.points.length && this.pointsSpan === this.span ? this.points[this.points.length - 1].at : 0;
  }

  loading() {
    return el('div', { class: 'loading', role: 'status' }, el('span', { class: 'visually-hidden' }, 'Loading the stream'), el('div', { class: 'bone tall' }), el('div', { class: 'bone tall' }));
  }

  frame() {
    this.charts = new Charts(CHARTS);
    this.parts = Object.fromEntries(['head', 'acts', 'facts', 'found', 'none', 'marks', 'lineages', 'links'].map((name) => [name, el('div', { class: name })]));
    this.spans = el('div', { class: 'spans', role: 'group', 'aria-label': 'Time shown' });
    const { head, acts, facts, found, none, marks, lineages, links } = this.parts;
    return [el('div', { class: 'intro' }, head, acts), found, facts, el('div', { class: 'bar' }, this.spans), none, this.charts.node, el('div', { class: 'lists' }, marks, lineages), links];
  }

  render(found, now) {
    show(this.root, 'stream', () => this.frame());
    const { row } = found;
    const { head, acts, facts, found: findings, none, marks, lineages, links } = this.parts;
    show(head, JSON.stringify([row.health, found.lines]), () => headOf(found));
    show(acts, JSON.stringify([found.may, row.live, found.savepoints.length]), () => actionBar(found));
    show(facts, JSON.stringify([row, Math.floor(now / 1000)]), () => factsOf(row, now));
    show(findings, JSON.stringify(found.findings), () => found.findings.slice(1).map(findingOf));
    show(this.spans, String(this.span), () => SPANS.map(([label, span]) => el('button', { type: 'button', 'aria-pressed': String(span === this.span), onclick: () => this.choose(span) }, label)));
    if (found.span !== this.span) return this.again(); // an answer to the choice before
    const data = this.merge(found, now);
    const isEmpty = !data.points.length && !data.marks.length;
    show(none, String(isEmpty), () => (isEmpty ? el('p', { class: 'note' }, 'No history in this time: no batch was committed. The driver writes it while it runs.') : null));
    this.charts.node.hidden = isEmpty;
    this.charts.render(data);
    show(marks, JSON.stringify(found.marks), () => marksOf(found.marks));
    show(lineages, JSON.stringify(found.lineages), () => lineagesOf(found.lineages));
    show(links, JSON.stringify([found.host, row.spark_ui]), () => linksOf(found));
  }

  merge({ history, marks, at, every, span }, now) {
    const to = Math.max(at, now);
    const fresh = history.rows.map((values) => {
      const point = Object.fromEntries(history.fields.map((name, index) => [name, values[index]]));
      // a time that is not over has no rate: one batch in its first second would look like a flood
      return { ...point, rate: to - point.at < every ? null : (point.rows * 1000) / every };
    });
    const known = this.pointsSpan === span ? this.points : [];
    const kept = known.filter((point) => point.at >= to - span && (!fresh.length || point.at < fresh[0].at));
    this.points = [...kept, ...fresh];
    this.pointsSpan = span;
    return { points: this.points, marks, from: to - span, to, every };
  }

  choose(span) {
    this.span = span;
    sessionStorageSet('span', span);
    this.root.setAttribute('aria-busy', 'true');
    this.again();
  }
}

function headOf({ row, findings, lines }) {
  const { health } = row;
  const since = health.since ? `since ${moment(health.since)}` : '';
  const what = health.what || { idle: 'The source has nothing new.', stopped: 'It is stopped, as wanted.', drained: 'It is drained and over.', working: 'It works.' }[health.rule] || '';
  const told = lines.filter((line) => !findings.some((finding) => line.includes(finding.what) || finding.what_to_do === line));
  return [
    el('p', { class: 'word' }, pill(health.word), el('span', { class: 'what' }, what), el('span', { class: 'since' }, since)),
    health.what_to_do ? el('p', { class: 'todo' }, el('strong', {}, 'What to do: '), marked(health.what_to_do)) : null,
    ...told.map((line) => el('p', { class: 'line' }, marked(line))),
  ];
}

// Commands in back quotes become code, so that they can be copied.
function marked(text) {
  return text.split('`').map((part, index) => (index % 2 ? el('code', {}, part) : part));
}

function findingOf(finding) {
  return el('p', { class: 'finding' }, pill(finding.word), el('span', {}, `${finding.part}: ${finding.what}`), finding.what_to_do ? el('span', { class: 'remedy' }, ' → ', marked(finding.what_to_do)) : null);
}

function factsOf(row, now) {
  const wanted = row.desired ? `${row.desired.state.toLowerCase()}${row.desired.by ? `, by ${row.desired.by}` : ''}` : NOTHING;
  const silent = row.live && row.heard_at && now - row.heard_at > STALE_MS;
  const facts = [
    ['Wanted', wanted], ['State', row.state.toLowerCase().replace('_', ' ')],
    ['Driver heard', ago(row.heard_at, now), silent ? 'silent' : ''],
    ['Batch', row.batch_id === null ? NOTHING : String(row.batch_id)], ['Batch time', duration(row.batch_ms)],
    ['Events/s', number(row.rate)], ['Watermark lag', duration(row.lag_ms)], ['Events behind', number(row.source_lag)],
    ['Open sessions', number(row.open)], ['State size', bytes(row.state_bytes)],
    ['Heaviest group', row.group === null ? NOTHING : `${row.group} · ${bytes(row.group_bytes)}`],
    ['Restarts 24 h', String(row.restarts)], ['Savepoint', ago(row.saved_at, now)], ['Lineage', row.lineage || NOTHING],
  ];
  return el('dl', { class: 'facts' }, facts.map(([name, value, state]) => el('div', { class: state || null }, el('dt', {}, name), el('dd', {}, value))));
}

function marksOf(marks) {
  if (!marks.length) return [el('h2', {}, 'Events'), el('p', { class: 'note' }, 'None in this time.')];
  const lines = [...marks].reverse().slice(0, 60).map((mark) =>
    el('tr', {}, el('td', { class: 'when' }, moment(mark.at)), el('td', {}, el('span', { class: `tag ${mark.kind}` }, mark.kind)), el('td', { class: 'told' }, markText(mark))));
  return [el('h2', {}, 'Events'), el('div', { class: 'scroll' }, el('table', {}, el('thead', { class: 'visually-hidden' }, el('tr', {}, ['Time', 'Kind', 'What'].map((name) => el('th', { scope: 'col' }, name)))), el('tbody', {}, lines)))];
}

function markText(mark) {
  const parts = [mark.what, mark.savepoint, mark.uid && `driver ${mark.uid}`, mark.batch_id !== null && `batch ${mark.batch_id}`, mark.by && `by ${mark.by}`].filter(Boolean).join(' · ');
  return [parts, mark.text ? el('span', { class: 'why' }, mark.text) : null];
}

function lineagesOf(lineages) {
  if (!lineages.length) return [];
  const lines = lineages.map((each) => {
    const made = each.verb ? `${each.verb}${each.parent ? ` of batch ${each.batch_id} of ${each.parent}` : ''}${each.savepoint ? `, savepoint ${each.savepoint}` : ''}` : 'began without a state';
    return el('li', { class: each.active ? 'active' : null }, el('code', {}, each.lineage), each.active ? el('span', { class: 'tag start' }, 'active') : null, el('span', { class: 'why' }, made));
  });
  return [el('h2', {}, 'Lineages'), el('ol', { class: 'path' }, lines)];
}

function linksOf({ host, row }) {
  const dag = `${row.stream}.supervise`;
  if (host.name !== 'airflow') return row.spark_ui ? [el('a', { href: row.spark_ui, target: '_blank', rel: 'noreferrer' }, 'Spark UI')] : [];
  const pages = [['Driver log', `${host.pages}/${dag}/log`], ['Tables', `${host.pages}/${dag}/tables`]];
  const base = new URL(`${host.api}/../..`, location.href).pathname.replace(/\/$/, '');
  return [
    ...pages.map(([label, href]) => el('a', { href }, label)),
    el('button', { type: 'button', class: 'link', onclick: () => openInHost(`${base}/dags/${dag}`) }, `DAG ${dag}`),
  ];
}

function sessionStorageGet(name) {
  try {
    return sessionStorage.getItem(name);
  } catch {
    return null;
  }
}

function sessionStorageSet(name, value) {
  try {
    sessionStorage.setItem(name, value);
  } catch {
    // a browser without storage forgets the choice
  }
}
