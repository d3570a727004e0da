import { el } from './dom.js';

const SIGNS = { healthy: '●', warning: '◐', unknown: '?', degraded: '▲', down: '■' };
export const WORDS = ['down', 'degraded', 'unknown', 'warning', 'healthy'];

// The word of a stream: a shape beside the colour, for readers who do not tell colours apart.
export function pill(word) {
  return el('span', { class: `pill ${word}` }, el('span', { 'aria-hidden': 'true', class: 'sign' }, SIGNS[word] || '?'), word);
}
