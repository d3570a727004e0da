// Parts of a stream's page that list: facts, findings, events, lineages, links.
import { el } from './dom.js';
import { NOTHING, ago, bytes, duration, moment, number } from './format.js';
import { pill } from './pill.js';
import { isSilent } from './silence.js';
import { openInHost } from './theme.js';

const SHOWN = 60; // events: the axis has them all
const QUIET = { idle: 'The source has nothing new.', stopped: 'It is stopped, as wanted.', drained: 'It is drained and over.', working: 'It works.' };

export function headOf({ row, findings, lines }) {
  const { health } = row;
  const told = lines.filter((line) => !findings.some((finding) => line.includes(finding.what) || finding.what_to_do === line));
  return [
    el('p', { class: 'word' }, pill(health.word), el('span', { class: 'what' }, health.what || QUIET[health.rule] || ''), el('span', { class: 'since' }, health.since ? `since ${moment(health.since)}` : '')),
    health.what_to_do ? el('p', { class: 'todo' }, el('strong', {}, 'What to do: '), marked(health.what_to_do)) : null,
    ...told.map((line) => el('p', { class: 'line' }, marked(line))),
  ];
}

// Commands in back quotes become code, so that they can be copied.
export function marked(text) {
  return text.split('`').map((part, index) => (index % 2 ? el('code', {}, part) : part));
}

export function findingOf(finding) {
  return el('p', { class: 'finding' }, pill(finding.word), el('span', {}, `${finding.part}: ${finding.what}`), finding.what_to_do ? el('span', { class: 'remedy' }, ' → ', marked(finding.what_to_do)) : null);
}

export function factsOf(row, at, now) {
  const wanted = row.desired ? [row.desired.state.toLowerCase(), row.desired.by && `by ${row.desired.by}`, row.desired.why].filter(Boolean).join(', ') : NOTHING;
  const facts = [
    ['Wanted', wanted], ['State', row.state.toLowerCase().replace('_', ' ')],
    ['Driver heard', ago(row.heard_at, now), isSilent(row, at) ? 'silent' : ''],
    ['Batch', row.batch_id === null ? NOTHING : String(row.batch_id)], ['Batch time', duration(row.batch_ms)],
    ['Events/s', number(row.rate)], ['Watermark lag', duration(row.lag_ms)], ['Events behind', number(row.source_lag)],
    ['Open sessions', number(row.open)], ['State size', bytes(row.state_bytes)],
    ['Heaviest group', row.group === null ? NOTHING : `${row.group} · ${bytes(row.group_bytes)}`],
    ['Restarts 24 h', String(row.restarts)], ['Savepoint', ago(row.saved_at, now)], ['Lineage', row.lineage || NOTHING],
  ];
  return el('dl', { class: 'facts' }, facts.map(([name, value, state]) => el('div', { class: state || null }, el('dt', {}, name), el('dd', {}, value))));
}

export function eventsOf(marks) {
  if (!marks.length) return [el('h2', {}, 'Events'), el('p', { class: 'note' }, 'None in this time.')];
  const newest = [...marks].reverse();
  const lines = newest.slice(0, SHOWN).map((mark) =>
    el('li', {}, el('time', { class: 'when' }, moment(mark.at)), el('span', { class: `tag ${mark.kind}` }, mark.kind), el('span', { class: 'told' }, markText(mark))));
  return [el('h2', {}, 'Events'), el('ul', { class: 'events' }, lines), newest.length > SHOWN ? el('p', { class: 'note' }, `The newest ${SHOWN} of ${newest.length}. Choose a shorter time for others.`) : null];
}

function markText(mark) {
  const parts = [mark.what, mark.savepoint, mark.uid && `driver ${mark.uid}`, mark.batch_id !== null && `batch ${mark.batch_id}`, mark.by && `by ${mark.by}`].filter(Boolean).join(' · ');
  return [parts, mark.text ? el('span', { class: 'why' }, mark.text) : null];
}

const OUTCOMES = { done: 'start', abandoned: 'alert' };

// The newest commands on the stream's state: by which user, how each ended, and why it did not.
export function operationsOf(operations) {
  if (!operations.length) return [];
  const lines = operations.map((each) => {
    const parts = [`${each.verb}${each.savepoint ? ` to ${each.savepoint}` : ''}`, `by ${each.by}`, each.abandoned_by && `given up by ${each.abandoned_by}`, each.ended_at && `took ${duration(each.ended_at - each.at)}`].filter(Boolean);
    return el('li', {}, el('time', { class: 'when' }, moment(each.at)), el('span', { class: `tag ${OUTCOMES[each.outcome] || 'command'}` }, each.outcome || 'not over'),
      el('span', { class: 'told' }, parts.join(' · '), each.failure ? el('span', { class: 'why' }, each.failure) : null));
  });
  return [el('h2', {}, 'Operations'), el('ul', { class: 'events operations' }, lines)];
}

export function lineagesOf(lineages) {
  if (!lineages.length) return [];
  const lines = lineages.map((each) => {
    const made = each.verb ? `${each.verb}${each.parent ? ` of batch ${each.batch_id} of ${each.parent}` : ''}${each.savepoint ? `, savepoint ${each.savepoint}` : ''}` : 'began without a state';
    return el('li', { class: each.active ? 'active' : null }, el('code', {}, each.lineage), each.active ? el('span', { class: 'tag start' }, 'active') : null, el('span', { class: 'why' }, made));
  });
  return [el('h2', {}, 'Lineages'), el('ol', { class: 'path' }, lines)];
}

export function linksOf({ host, row }, base) {
  const spark = row.spark_ui ? el('a', { href: row.spark_ui, target: '_blank', rel: 'noreferrer' }, 'Spark UI') : null;
  if (host.name !== 'airflow') return [spark];
  const dag = `${row.stream}.supervise`;
  const pages = [['Driver log', 'log'], ['Tables', 'tables']];
  const inHost = [[`DAG ${dag}`, dag], ['All operations', host.operate]];
  return [
    spark,
    ...pages.map(([label, page]) => el('a', { href: `${host.pages}/${dag}/${page}` }, label)),
    ...inHost.map(([label, id]) => el('button', { type: 'button', class: 'link', onclick: () => openInHost(`${base}/dags/${id}`) }, label)),
  ];
}
