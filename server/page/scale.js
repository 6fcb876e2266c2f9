// Chooses the grid lines of a chart.
import { dated, partsOf, written } from './text.js';

/** ceiling is the first round number from a value up, and ticks the round numbers up to it. */
export function rounded(most, wanted = 4) {
  if (!(most > 0)) return { top: 1, ticks: [0, 1] };
  const rough = most / wanted, size = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 2.5, 5, 10].map(n => n * size).find(n => n >= rough * 0.999) ?? 10 * size;
  const count = Math.ceil(most / step - 1e-9);
  return { top: count * step, ticks: Array.from({ length: count + 1 }, (_, i) => Number((i * step).toPrecision(12))) };
}

const minute = 60, hour = 3600, day = 86400;
const widths = [
  ...[1, 2, 5, 10, 15, 30].map(n => ({ unit: 'minute', n, seconds: n * minute })),
  ...[1, 2, 3, 6, 12].map(n => ({ unit: 'hour', n, seconds: n * hour })),
  ...[1, 2, 7].map(n => ({ unit: 'day', n, seconds: n * day })),
  ...[1, 2, 3, 6, 12, 24, 60, 120, 240].map(n => ({ unit: 'month', n, seconds: n * 30.4 * day })),
];

/**
 * timeTicks returns at most so many round moments of a range, as the local clock and calendar have them, each with a
 * label. All are Unix seconds.
 */
export function timeTicks(from, to, most) {
  const width = widths.find(w => (to - from) / w.seconds <= most) ?? widths[widths.length - 1];
  const ticks = [];
  let at = before(from, width);
  for (let i = 0; i < 1000; i++) {
    const seconds = at.getTime() / 1000;
    if (seconds > to) break;
    if (seconds >= from && ticks.at(-1)?.at !== seconds) ticks.push({ at: seconds, label: label(at, width) });
    at = after(at, width);
  }
  return ticks;
}

/** before returns the last round moment that is not after one. */
function before(from, { unit, n }) {
  const [year, month, day, hours, minutes, weekday] = partsOf(new Date(from * 1000));
  switch (unit) {
    case 'minute': return dated(year, month, day, hours, Math.floor(minutes / n) * n);
    case 'hour': return dated(year, month, day, Math.floor(hours / n) * n);
    case 'day': return dated(year, month, day - (n === 7 ? (weekday + 6) % 7 : (day - 1) % n));
  }
  return dated(0, Math.floor((year * 12 + month) / n) * n - 1900 * 12);
}

/** after returns the round moment after another. */
function after(d, { unit, n }) {
  const [year, month, day, hours] = partsOf(d);
  switch (unit) {
    case 'minute': return new Date(d.getTime() + n * minute * 1000);
    case 'hour': {
      const next = dated(year, month, day, Math.floor(hours / n) * n + n);
      return next > d ? next : new Date(d.getTime() + n * hour * 1000); // at an hour that the clock shows twice
    }
    case 'day': {
      const next = dated(year, month, day + n), skipped = n === 2 && partsOf(next)[1] !== month;
      return skipped ? dated(...partsOf(next).slice(0, 2)) : next;
    }
  }
  return dated(year, month + n);
}

function label(d, { unit, n }) {
  const [year, month, , hours, minutes] = partsOf(d), at = d.getTime() / 1000;
  if (unit === 'month') return month === 0 || n >= 12 ? String(year) : written('month', at);
  if (unit === 'day') return written(n === 1 ? 'weekday' : 'date', at);
  return written(hours === 0 && minutes === 0 ? 'date' : 'clock', at);
}
