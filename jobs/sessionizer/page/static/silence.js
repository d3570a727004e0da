// Who is silent: a driver by its beats, a part of Airflow by its own, and by Airflow's own threshold. Pure.
import { clock } from './format.js';

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
