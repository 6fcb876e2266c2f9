// Where the lines of a chart go.

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
  const d = new Date(from * 1000);
  switch (unit) {
    case 'minute': return new Date(d.getFullYear(), d.getMonth(), d.getDate(), d.getHours(), Math.floor(d.getMinutes() / n) * n);
    case 'hour': return new Date(d.getFullYear(), d.getMonth(), d.getDate(), Math.floor(d.getHours() / n) * n);
    case 'day': return new Date(d.getFullYear(), d.getMonth(), d.getDate() - (n === 7 ? (d.getDay() + 6) % 7 : (d.getDate() - 1) % n));
  }
  const months = d.getFullYear() * 12 + d.getMonth();
  return new Date(0, Math.floor(months / n) * n - 1900 * 12);
}

/** after returns the round moment after another. */
function after(d, { unit, n }) {
  switch (unit) {
    case 'minute': return new Date(d.getTime() + n * minute * 1000);
    case 'hour': {
      const next = new Date(d.getFullYear(), d.getMonth(), d.getDate(), Math.floor(d.getHours() / n) * n + n);
      return next > d ? next : new Date(d.getTime() + n * hour * 1000); // an hour that comes twice
    }
    case 'day': {
      const next = new Date(d.getFullYear(), d.getMonth(), d.getDate() + n);
      const skipped = n === 2 && next.getMonth() !== d.getMonth();
      return skipped ? new Date(next.getFullYear(), next.getMonth(), 1) : next;
    }
  }
  return new Date(d.getFullYear(), d.getMonth() + n);
}

const clock = new Intl.DateTimeFormat('en-GB', { hour: '2-digit', minute: '2-digit' });
const date = new Intl.DateTimeFormat('en-GB', { day: 'numeric', month: 'short' });
const weekday = new Intl.DateTimeFormat('en-GB', { weekday: 'short', day: 'numeric' });
const month = new Intl.DateTimeFormat('en-GB', { month: 'short' });

function label(d, { unit, n }) {
  const midnight = d.getHours() === 0 && d.getMinutes() === 0;
  if (unit === 'month') return d.getMonth() === 0 || n >= 12 ? String(d.getFullYear()) : month.format(d);
  if (unit === 'day') return n === 1 ? weekday.format(d) : date.format(d);
  return midnight ? date.format(d) : clock.format(d);
}
