// Turns answers of /api/v1/history into buckets for charts and tables.
import { add, unescaped } from './text.js';
import { outcomes } from './view.js';

/**
 * joinSeries joins the series of a rule: buckets with their hits by outcome, and totals. several is true if the answer adds up
 * several values of a rule.
 */
export function joinSeries(answer, several) {
  const buckets = [], totals = zeroHits(), lifetime = zeroHits();
  for (const series of answer.series) {
    const o = series.outcome;
    if (totals[o] === undefined) continue;
    totals[o] = add(totals[o], series.total);
    lifetime[o] = add(lifetime[o], series.lifetime);
    series.points.forEach((p, i) => {
      const b = buckets[i] ??= { start: p.start, width: p.width, end: p.start + p.width, tier: '', partial: !!p.partial,
        peaks: zeroHits(), ...zeroHits() };
      b[o] = add(b[o], p.sum);
      b.peaks[o] = add(b.peaks[o], p.peak);
      if (p.tier) b.tier = coarser(b.tier, p.tier);
    });
  }
  for (const sums of [totals, lifetime, ...buckets]) sums.hits = outcomes.map(o => sums[o]).reduce(add);
  for (const b of buckets) b.peak = peakOf(b, several);
  const highest = buckets.reduce((a, b) => Number(b.peak.hits) > Number(a.peak.hits) ? b : a, buckets[0]);
  return { from: answer.from, to: answer.to, step: answer.step ?? 0, buckets, totals, lifetime, highest };
}

function zeroHits() {
  return { within: 0, over: 0, shadow: 0, degraded: 0, near: 0 };
}

/** tierNames has the widths of stored buckets, finest first. */
export const tierNames = new Map([['1m', 'minute'], ['5m', '5 minutes'], ['1h', 'hour'], ['1d', 'day']]), tiers = [...tierNames.keys()];

function coarser(a, b) {
  return tiers.indexOf(a) > tiers.indexOf(b) ? a : b;
}

/**
 * peakOf returns the largest minute of a bucket. Outcomes and values have separate ones, maybe different minutes, so their sum is
 * an upper bound.
 */
function peakOf(b, several) {
  const parts = outcomes.map(o => b.peaks[o]).filter(peak => peak > 0);
  const most = parts.reduce(add, 0);
  const bound = most > b.hits ? b.hits : most;
  return { hits: bound, exact: parts.length < 2 && !several || b.width <= 60 };
}

/** minutes returns how many minutes of a bucket have passed. */
export function minutes(bucket, now) {
  const end = bucket.partial ? Math.min(Math.max(now, bucket.start + 60), bucket.end) : bucket.end;
  return (end - bucket.start) / 60;
}

/**
 * stacked returns for each of the outcomes the lower and upper edge of its band in each bucket, in hits a minute, so that buckets
 * of different widths have the same height if they have the same rate.
 */
export function stacked(buckets, outcomes, now) {
  const bands = new Map(outcomes.map(o => [o, { low: [], high: [] }]));
  const tops = buckets.map(b => {
    const long = minutes(b, now);
    let top = 0;
    for (const [o, band] of bands) {
      band.low.push(top);
      top += Number(b[o]) / long;
      band.high.push(top);
    }
    return top;
  });
  return { bands, tops };
}

/** quantile returns a quantile of those numbers that are above 0; 0 if there are none. */
export function quantile(numbers, part) {
  const some = numbers.filter(n => n > 0).sort((a, b) => a - b);
  return some[Math.ceil(some.length * part) - 1] ?? 0;
}

/**
 * outlier returns where the scale may end if a few buckets, such as those of an attack, would make all others look flat; 0 if
 * there are no outliers.
 */
export function outlier(tops) {
  const usual = quantile(tops, 0.95);
  return tops.length >= 20 && Math.max(0, ...tops) > 6 * usual ? usual * 1.5 : 0;
}

/** tierRuns returns the runs of buckets of one tier. An empty bucket belongs to the run before it. */
export function tierRuns(buckets) {
  const runs = [];
  for (const b of buckets) {
    const last = runs.at(-1);
    if (!last) runs.push({ tier: b.tier, from: b.start, to: b.end });
    else if (!b.tier || b.tier === last.tier) last.to = b.end;
    else if (!last.tier) Object.assign(last, { tier: b.tier, to: b.end });
    else runs.push({ tier: b.tier, from: b.start, to: b.end });
  }
  return runs.filter(run => run.tier);
}

/** degradedRuns returns the runs of buckets in which the store was away. */
export function degradedRuns(buckets) {
  const runs = [];
  for (const b of buckets) {
    if (!(b.degraded > 0)) continue;
    if (runs.at(-1)?.to === b.start) runs.at(-1).to = b.end;
    else runs.push({ from: b.start, to: b.end });
  }
  return runs;
}

/**
 * limitLines returns the limits of a rule, in hits a minute, and their names. A limit applies to each key: a curve of one key has
 * lines, also that of a value that identifies a key, but not the sum of many keys.
 */
export function limitLines(rule, value) {
  const named = value.split(',').map(part => unescaped(part.split('=')[0]));
  if (rule.each.some(key => !named.includes(key))) return [];
  return rule.limits.map(l => ({ at: Number(l.requests) * 60 / l.window, text: l.text }));
}

const week = 7 * 86400;

/**
 * weeksBefore returns by how many whole weeks the range of the comparison is earlier, and its name. Both ranges then begin and
 * end at borders of stored buckets, and so have the same length.
 */
export function weeksBefore(length) {
  const weeks = Math.max(Math.ceil((length - 86400) / week), 1); // a range is widened to whole buckets
  const whole = length < 86400 ? 60 : length < 28 * 86400 ? 3600 : 86400;
  return { shift: weeks * week, name: weeks === 1 ? 'a week before' : `${weeks} weeks before`, whole };
}
