// Ask for a document every few seconds, while the page is seen, and tell how old the newest one is.
import { clock } from './format.js';

export const EVERY_MS = 5000;
export const PATIENCE_MS = 8000;

export class Feed {
  constructor(address, told) {
    this.address = address;
    this.told = told; // called with {document, failure, since} after each answer, or none
    this.document = null;
    this.failure = null;
    this.since = null;
    this.timer = null;
    this.asked = 0;
    this.onVisible = () => !document.hidden && this.ask();
    document.addEventListener('visibilitychange', this.onVisible);
    this.ask();
  }

  async ask() {
    clearTimeout(this.timer);
    if (this.ended) return;
    const number = (this.asked += 1);
    const isOvertaken = () => this.ended || number !== this.asked; // the answer to a later request is newer
    try {
      const answer = await fetch(this.address(), { credentials: 'same-origin', signal: AbortSignal.timeout(PATIENCE_MS) });
      const body = await answer.json().catch(() => ({}));
      if (isOvertaken()) return;
      if (!answer.ok) this.fail(answer.status, body.message || '');
      else this.succeed(body);
    } catch {
      if (isOvertaken()) return;
      this.fail(0, '');
    }
    this.told(this);
    if (!document.hidden) this.timer = setTimeout(() => this.ask(), EVERY_MS);
  }

  succeed(body) {
    this.document = body;
    this.failure = null;
    // the server's clock and ours may differ: ages are counted from the answer
    this.skew = Date.now() - body.at;
    this.since = Date.now();
  }

  fail(status, message) {
    this.failure = { status, message, at: this.failure ? this.failure.at : Date.now() };
  }

  get now() {
    return Date.now() - (this.skew || 0);
  }

  end() {
    this.ended = true;
    clearTimeout(this.timer);
    document.removeEventListener('visibilitychange', this.onVisible);
  }
}

// What a failure means, and what to do about it.
export function describeFailure(failure, host) {
  const whom = host === 'airflow' ? "Airflow's API server" : 'The page’s server';
  if (failure.status === 401) return `${whom} does not know you any more. Sign in again, then reload this page.`;
  if (failure.status === 403) return 'You may not see this. Ask for the right to read its DAG.';
  if (failure.status === 404) return 'No stream belongs to this DAG. The Streams page lists those that there are.';
  if (failure.status) return `${whom} cannot read the streams: ${failure.message || `HTTP ${failure.status}`}`;
  return `${whom} does not answer.`;
}

// Who is silent: a driver by its beats, a part of Airflow by its own, and by Airflow's own threshold. Pure.

export const SILENT_MS = 9000; // a driver beats every 3 s, and the page asks every 5 s: told within 15 s
export const PART_LATE_MS = 10000; // Airflow's parts beat every 5 s, and those of a busy machine may be late
export const PARTS_EVERY_MS = 4000; // the page asks Airflow how they are
const PARTS = { scheduler: 'latest_scheduler_heartbeat', triggerer: 'latest_triggerer_heartbeat', dag_processor: 'latest_dag_processor_heartbeat' };

// Whether the driver of a row had been silent when the server answered, at `at`.
export function isSilent(row, at) {
  return Boolean(row.live && row.heard_at && at - row.heard_at > SILENT_MS);
}

export function silentDrivers(rows, at) {
  const silent = rows.filter((row) => isSilent(row, at));
  if (!silent.length) return [];
  if (silent.length === 1) return [`The driver of ${silent[0].stream} is silent since ${clock(silent[0].heard_at)}.`];
  const names = silent.slice(0, 5).map((row) => row.stream).join(', ');
  return [`${silent.length} drivers are silent: ${names}${silent.length > 5 ? ' and others' : ''}.`];
}

// The lines about Airflow's own parts, by what its health says. Airflow calls a part unhealthy after its own threshold,
// 30 s unless it is set. A part that is late before that may be busy, so that nothing more is said of it.
export function silentParts(parts, now) {
  return Object.entries(PARTS).map(([part, beat]) => lineOf(part, parts[part], beat, now)).filter(Boolean);
}

function lineOf(part, found, beat, now) {
  if (!found || !found.status) return ''; // an Airflow without this part
  const last = Date.parse(found[beat]);
  const name = `Airflow's ${part.replace('_', ' ')}`;
  if (found.status === 'unhealthy') {
    return `${name} is silent${last ? ` since ${clock(last)}` : ''}. Streams run on, but nothing starts one again.`;
  }
  // the DAG processor does not beat while it parses
  const isLate = part !== 'dag_processor' && now - last > PART_LATE_MS;
  return isLate ? `${name} was last heard at ${clock(last)}. It is busy, or it has stopped.` : '';
}
