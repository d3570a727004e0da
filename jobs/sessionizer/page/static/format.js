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
