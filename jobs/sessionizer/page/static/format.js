// Numbers, sizes and times as text.
const UNITS = [['d', 86400000], ['h', 3600000], ['m', 60000], ['s', 1000]];
export const NOTHING = '–';

export function number(value) {
  if (value === null || value === undefined) return NOTHING;
  const size = Math.abs(value);
  if (size >= 1e9) return `${(value / 1e9).toFixed(1)} G`;
  if (size >= 1e6) return `${(value / 1e6).toFixed(1)} M`;
  if (size >= 1e4) return `${(value / 1e3).toFixed(1)} k`;
  return size >= 100 || Number.isInteger(value) ? Math.round(value).toLocaleString('en') : value.toFixed(1);
}

export function bytes(value) {
  if (value === null || value === undefined) return NOTHING;
  for (const [unit, size] of [['GB', 1e9], ['MB', 1e6], ['kB', 1e3]]) {
    if (value >= size) return `${(value / size).toFixed(1)} ${unit}`;
  }
  return `${Math.round(value)} B`;
}

export function duration(ms) {
  if (ms === null || ms === undefined) return NOTHING;
  const sign = ms < 0 ? '-' : '';
  let rest = Math.abs(ms);
  if (rest < 1000) return `${sign}${Math.round(rest)} ms`;
  if (rest < 10000) return `${sign}${(rest / 1000).toFixed(1)} s`;
  const first = UNITS.findIndex(([, size]) => rest >= size);
  const parts = [];
  for (const [unit, size] of UNITS.slice(first, first + 2)) {
    const count = Math.floor(rest / size);
    rest %= size;
    if (count) parts.push(`${count} ${unit}`);
  }
  return sign + parts.join(' ');
}

// An age, in whole seconds.
export function age(ms) {
  const seconds = Math.max(1, Math.round(ms / 1000));
  return seconds < 60 ? `${seconds} s` : duration(seconds * 1000);
}

export const ago = (at, now) => (at ? `${age(now - at)} ago` : NOTHING);

// The newest savepoint and the next scheduled one.
export function savepointTimes({ saved_at: at, save_due_at: due }, now) {
  if (!due) return ago(at, now);
  return `${ago(at, now)}, ${due > now ? `next in ${age(due - now)}` : 'next is due'}`;
}

// The newest command that changed the state.
export const lastChange = ({ changed }, now) => (changed ? `${changed.what}, ${ago(changed.at, now)}` : NOTHING);

const two = (value) => String(value).padStart(2, '0');

export function clock(ms) {
  const at = new Date(ms);
  return `${two(at.getHours())}:${two(at.getMinutes())}:${two(at.getSeconds())}`;
}

export function moment(ms) {
  const at = new Date(ms);
  return `${at.getFullYear()}-${two(at.getMonth() + 1)}-${two(at.getDate())} ${clock(ms)}`;
}

// A tick of an axis: the day if the axis spans days, else the minute.
export function tick(ms, span) {
  const at = new Date(ms);
  const time = `${two(at.getHours())}:${two(at.getMinutes())}`;
  return span > 2 * 86400000 ? `${two(at.getMonth() + 1)}-${two(at.getDate())} ${time}` : time;
}

// Scales of the axes, and what lies on them. Pure: no element is touched here.
const MINUTE = 60000;
const HOUR = 60 * MINUTE;
const DAY = 24 * HOUR;
const STEPS = [1, 2, 5, 10, 15, 30, 60, 120, 180, 360, 720, 1440, 2880].map((minutes) => minutes * MINUTE);

// The next round number: 1, 2 or 5 times a power of ten.
export function nice(most) {
  if (!(most > 0)) return 1;
  const power = 10 ** Math.floor(Math.log10(most));
  return [1, 2, 5, 10].map((step) => step * power).find((step) => step >= most);
}

// The next round time in ms: an axis reads 30 m and 1 h, not 41 m 40 s and 1 h 23 m.
export function niceTime(most) {
  if (most > 2 * DAY) return DAY * nice(most / DAY);
  const steps = [2, 4, 10, 20, 60, 120, 240, 600, 1200, 3600, 7200, 14400, 28800, 43200, 86400, 172800];
  return most < 1000 ? nice(most) : steps.map((seconds) => seconds * 1000).find((step) => step >= most);
}

// Round local times between `from` and `to`, at most `most` of them. `offset`: ms that local time is ahead of UTC.
export function timeTicks(from, to, most, offset = -new Date(from).getTimezoneOffset() * MINUTE) {
  const step = STEPS.find((each) => (to - from) / each <= most) || Math.ceil((to - from) / most / DAY) * DAY;
  const ticks = [];
  for (let at = Math.ceil((from + offset) / step) * step - offset; at <= to; at += step) ticks.push(at);
  return ticks;
}

// The lineages over time, as the points of the history name them: [{lineage, from, to}], the oldest first.
export function segments(points, every) {
  const found = [];
  for (const { at, lineage } of points) {
    if (!lineage) continue;
    const last = found[found.length - 1];
    if (last && last.lineage === lineage) last.to = at + every;
    else found.push({ lineage, from: at, to: at + every });
  }
  return found;
}

// Whether the rows of a point's last batch were deleted since, by the `lineages` of the document.
export function isUndone({ lineage, batch_id: batch }, lineages) {
  const found = lineages.find((each) => each.lineage === lineage);
  return Boolean(found && found.undone_after !== null && batch > found.undone_after);
}

// The times of neighbouring undone points: [{from, to}].
export function undoneTimes(points, every) {
  const found = [];
  for (const { at, undone } of points) {
    const last = found[found.length - 1];
    if (undone && last && at - last.to <= every) last.to = at + every;
    else if (undone) found.push({ from: at, to: at + every });
  }
  return found;
}

const WEIGHTS = ['start', 'stop', 'savepoint', 'canary', 'command', 'alert', 'crash'];

// Marks that would cover one another, as one: [{at, kind, marks}], its kind that of the gravest. `share`: of the axis.
export function groupMarks(marks, from, to, share) {
  const groups = [];
  for (const mark of marks.filter((each) => each.at >= from && each.at <= to).sort((one, other) => one.at - other.at)) {
    const last = groups[groups.length - 1];
    if (last && mark.at - last.at < share * (to - from)) last.marks.push(mark);
    else groups.push({ at: mark.at, marks: [mark] });
  }
  return groups.map((group) => ({ ...group, kind: gravest(group.marks) }));
}

function gravest(marks) {
  return marks.map((mark) => mark.kind).reduce((one, other) => (WEIGHTS.indexOf(other) > WEIGHTS.indexOf(one) ? other : one));
}

// The newest savepoint at or before a time, or null.
export function savepointBefore(savepoints, at) {
  return savepoints.filter((each) => each.at <= at).reduce((best, each) => (best && best.at >= each.at ? best : each), null);
}

// The index of the point that is nearest to a time, or null.
export function nearest(points, at) {
  let best = null;
  points.forEach((point, index) => {
    if (best === null || Math.abs(point.at - at) < Math.abs(points[best].at - at)) best = index;
  });
  return best;
}
