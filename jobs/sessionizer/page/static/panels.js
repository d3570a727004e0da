// Panels that are read only when a user opens them: a lookup, the open sessions, the source, refused rows, the log.
import { el, marked } from './dom.js';
import { NOTHING, duration, moment, number } from './format.js';
const PATIENCE_MS = 15000; // a lookup may read many files
const AGES = { '1m': 'below 1 m', '10m': 'below 10 m', '1h': 'below 1 h', '6h': 'below 6 h', '1d': 'below 1 d', older: 'older' };

export class Panels {
  constructor(dag, span) {
    Object.assign(this, { dag, span });
    this.node = el('div', { class: 'panels' }, this.lookup(), [
      this.panel('Open sessions', 'live', openSessions), this.panel('Source', 'live', sourceOf),
      this.panel('Refused rows', 'refused', refusedRows), this.panel('Driver log', 'log', logOf),
    ]);
  }

  async ask(route, headers = {}) {
    try {
      const address = `api/streams/${encodeURIComponent(this.dag)}/${route}`;
      const answer = await fetch(address, { credentials: 'same-origin', headers, signal: AbortSignal.timeout(PATIENCE_MS) });
      const found = await answer.json().catch(() => ({}));
      if (answer.ok) return { found };
      if (answer.status === 403) return { text: 'You may not see rows and logs of this stream. Ask for the right to read the logs of its DAG.' };
      return { text: found.message || found.detail || `HTTP ${answer.status}` };
    } catch {
      return { text: 'There is no answer. Try again.' };
    }
  }

  panel(title, route, draw) {
    const body = el('div', { class: 'panel-body' });
    const fill = async () => {
      body.setAttribute('aria-busy', 'true');
      const { found, text } = await this.ask(route === 'refused' ? `refused?span=${this.span()}` : route);
      body.setAttribute('aria-busy', 'false');
      body.replaceChildren(...[found ? draw(found) : el('p', { class: 'note' }, text), el('button', { type: 'button', class: 'quiet', onclick: fill }, 'Read again')].flat(Infinity).filter(Boolean));
    };
    const begin = (event) => {
      if (!event.target.open || body.childElementCount) return;
      body.append(el('p', { class: 'note', role: 'status' }, 'Reading …'));
      fill();
    };
    return el('details', { class: 'panel', ontoggle: begin }, el('summary', {}, title), body);
  }

  lookup() {
    const what = el('select', { 'aria-label': 'Look up by', name: 'what' }, el('option', { value: 'key' }, 'Key'), el('option', { value: 'event' }, 'Event id'));
    const text = el('input', { type: 'search', 'aria-label': 'Key or event id', name: 'text', required: true, maxlength: '500', autocomplete: 'off' });
    const answer = el('div', { class: 'answer', role: 'status' });
    const submit = async (event) => {
      event.preventDefault();
      answer.replaceChildren(el('p', { class: 'note' }, 'Looking …'));
      const { found, text: failure } = await this.ask('find', { [`X-${what.value}`]: encodeURIComponent(text.value) });
      answer.replaceChildren(...[found ? answerOf(found) : el('p', { class: 'note' }, failure)].flat(Infinity).filter(Boolean));
    };
    const form = el('form', { class: 'bar', onsubmit: submit }, what, text, el('button', { type: 'submit' }, 'Look up'));
    return el('section', { class: 'panel lookup', 'aria-labelledby': 'lookup-title' }, el('h2', { id: 'lookup-title' }, 'Where is this key or event?'), form, answer);
  }
}

// A table of texts. A column of figures is one whose name begins with '#'.
export function tableOf(names, rows) {
  const isFigure = names.map((name) => name.startsWith('#'));
  const kind = (index) => (isFigure[index] ? 'figure' : null);
  return el(
    'div', { class: 'scroll' },
    el('table', { class: 'plain' },
      el('thead', {}, el('tr', {}, names.map((name, index) => el('th', { scope: 'col', class: kind(index) }, name.replace('#', ''))))),
      el('tbody', {}, rows.map((row) => el('tr', {}, row.map((cell, index) => el('td', { class: kind(index) }, cell ?? NOTHING)))))),
  );
}

function sessionRow(row) {
  return [row.key, `${moment(row.started_at)} to ${moment(row.ended_at)}`, number(row.event_count), row.close_reason, `${row.batch_id} of ${row.lineage}`];
}

export function answerOf(found) {
  const sessions = found.closed || found.sessions || [];
  const open = (found.open && found.open.sessions) || [];
  const parts = [el('p', {}, marked(found.says))];
  if (open.length) parts.push(tableOf(['Open session', '#Events', 'Would end', 'Because'], open.map((each) => [`${each.key}, from ${each.started_at}`, number(each.event_count), each.would_end_at || 'with a closing event only', each.would_close_reason])));
  if (sessions.length) parts.push(tableOf(['Key', 'From, to', '#Events', 'Closed by', 'Batch'], sessions.map(sessionRow)));
  if ((found.quarantine || []).length) parts.push(tableOf(['Refused because', 'Position', 'Row'], found.quarantine.map((row) => [row.reason, row.source_position, el('code', {}, row.raw || '')])));
  if ((found.late || []).length) parts.push(tableOf(['Late event', 'Key', 'Time', 'Noticed'], found.late.map((row) => [row.event_id, row.key, moment(row.event_time), moment(row.noticed_at)])));
  if (found.complete === false) parts.push(el('p', { class: 'note' }, 'Not all files were read in the time of a lookup: older rows may be missing.'));
  return parts;
}

function openSessions({ open_ages: ages, heaviest_keys: keys, straggler }) {
  const counts = Object.keys(AGES).filter((name) => name in ages).map((name) => [AGES[name], ages[name]]);
  const most = Math.max(1, ...counts.map(([, count]) => count));
  const bars = counts.map(([label, count]) => {
    const fill = el('span', { class: 'share-bar' });
    fill.style.width = `${(count / most) * 100}%`;
    return el('li', {}, el('span', {}, label), el('span', { class: 'share' }, fill), el('b', {}, number(count)));
  });
  return [
    straggler ? el('p', {}, `${straggler.kind.replace('_', ' ')} ${straggler.name} holds up the stream since ${moment(straggler.since)}.`) : null,
    el('div', { class: 'halves' },
      el('div', {}, el('h3', {}, 'By age'), bars.length ? el('ul', { class: 'ages' }, bars) : el('p', { class: 'note' }, 'Not known yet: each key group must merge once in the life of the driver.')),
      el('div', {}, el('h3', {}, 'Heaviest keys'), keys.length ? tableOf(['Key', '#Key group', '#Open events'], keys.map((each) => [each.key, String(each.group), number(each.events)])) : el('p', { class: 'note' }, 'Not known yet.'))),
  ];
}

function sourceOf({ positions }) {
  if (!positions) return el('p', { class: 'note' }, 'Positions are known for a Kafka source only, a minute after its driver has started.');
  const rows = positions.partitions.map((each) => [each.name, number(each.offset), number(each.behind), number(each.left), each.lost_in_ms === null ? 'no loss in sight' : `${duration(each.lost_in_ms)} until events are lost`]);
  return [el('p', { class: 'note' }, `As of ${moment(positions.at)}, batch ${positions.batch_id}.`), tableOf(['Partition', '#Position', '#Not read yet', '#Kept before it', 'Retention'], rows)];
}

function refusedRows({ reasons, since, complete }) {
  if (!reasons.length) return el('p', { class: 'note' }, `No row was refused since ${moment(since)}.`);
  const parts = reasons.map((each) => [
    el('h3', {}, `${each.reason} · ${number(each.count)}`),
    tableOf(['When', 'Position', 'Row'], each.rows.map((row) => [moment(row.quarantined_at), row.source_position, el('code', {}, row.raw || '')])),
  ]);
  return [parts, complete ? null : el('p', { class: 'note' }, 'Counts are of the newest files only: there was no time for all.')];
}

function logOf({ path, lines }) {
  if (!path) return el('p', { class: 'note' }, 'Its driver was not launched from Airflow, so its log is where it was started.');
  if (!lines.length) return el('p', { class: 'note' }, `Nothing can be read in ${path}: it is empty, or on another machine.`);
  return [el('p', { class: 'note' }, `The last ${lines.length} lines of ${path}`), el('pre', { class: 'log', tabindex: '0', 'aria-label': 'Driver log' }, lines.join('\n'))];
}
