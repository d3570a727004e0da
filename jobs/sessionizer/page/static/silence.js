// Who is silent: a driver by its beats, a part of Airflow by its own. Pure.
import { clock } from './format.js';

export const SILENT_MS = 9000; // a driver beats every 3 s, and the page asks every 5 s: told within 15 s
export const PART_SILENT_MS = 10000; // Airflow's parts beat every 5 s
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

// The lines about Airflow's own parts, by what its health says.
export function silentParts(parts, now) {
  return Object.entries(PARTS)
    .filter(([part, beat]) => isPartSilent(parts[part], beat, part, now))
    .map(([part, beat]) => {
      const last = Date.parse(parts[part][beat]);
      const since = last ? ` since ${clock(last)}` : '';
      return `Airflow's ${part.replace('_', ' ')} is silent${since}. Streams run on, but nothing starts one again.`;
    });
}

function isPartSilent(found, beat, part, now) {
  if (!found || !found.status) return false; // an Airflow without this part
  if (found.status === 'unhealthy') return true;
  // the DAG processor does not beat while it parses
  return part !== 'dag_processor' && Boolean(found[beat]) && now - Date.parse(found[beat]) > PART_SILENT_MS;
}
