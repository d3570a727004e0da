// What a page looks like to a program: names of controls, contrast of texts, texts that are cut.
const shown = (node) => node.getClientRects().length > 0 && getComputedStyle(node).visibility !== 'hidden';

export function unnamed() {
  const named = (node) => (node.getAttribute('aria-label') || node.textContent || (node.labels && node.labels.length ? node.labels[0].textContent : '') || '').trim();
  return [...document.querySelectorAll('a, button, input, select, textarea, [tabindex="0"]')].filter(shown).filter((node) => !named(node)).map((node) => node.outerHTML.slice(0, 120));
}

const canvas = document.createElement('canvas').getContext('2d', { willReadFrequently: true });
function rgba(text) {
  canvas.clearRect(0, 0, 1, 1);
  canvas.fillStyle = text;
  canvas.fillRect(0, 0, 1, 1);
  const [red, green, blue, alpha] = canvas.getImageData(0, 0, 1, 1).data;
  return [red, green, blue, alpha / 255];
}

function ground(node) {
  const layers = [];
  for (let each = node; each; each = each.parentElement) layers.push(rgba(getComputedStyle(each).backgroundColor));
  layers.push(rgba('canvas'));
  return layers.reverse().reduce((below, [red, green, blue, alpha]) => [red, green, blue].map((value, index) => value * alpha + (below ? below[index] : 255) * (1 - alpha)), null);
}

function luminance([red, green, blue]) {
  const [r, g, b] = [red, green, blue].map((value) => (value / 255 <= 0.04045 ? value / 255 / 12.92 : ((value / 255 + 0.055) / 1.055) ** 2.4));
  return 0.2126 * r + 0.7152 * g + 0.0722 * b;
}

// Texts whose contrast with their ground is below 4.5, the limit of WCAG 2 AA.
export function faint() {
  const holders = [...document.querySelectorAll('body *')].filter((node) => shown(node) && [...node.childNodes].some((child) => child.nodeType === 3 && child.data.trim()));
  return holders.filter((node) => !node.closest(':disabled, title, .visually-hidden, .skip')).flatMap((node) => {
    const style = getComputedStyle(node);
    const [red, green, blue, alpha] = rgba(node instanceof SVGElement ? style.fill : style.color);
    const below = ground(node instanceof SVGElement ? node.closest('svg').parentElement : node);
    const text = [red, green, blue].map((value, index) => value * alpha + below[index] * (1 - alpha));
    const [high, low] = [luminance(text), luminance(below)].sort((one, other) => other - one);
    const contrast = (high + 0.05) / (low + 0.05);
    return contrast < 4.5 ? [`${contrast.toFixed(2)} ${node.className.baseVal ?? node.className} ${node.textContent.slice(0, 40)}`] : [];
  });
}

// How far the page is wider than its window, in pixels.
export const overflow = () => Math.max(0, document.documentElement.scrollWidth - innerWidth);
