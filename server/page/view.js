// The view: a rule, a value of it, and a range of time. It is in the URL's fragment, so that links, back and forward work.

/** The ranges that end now, by their names in the fragment. */
export const ranges = new Map([
  ['1h', { seconds: 3600, name: 'hour' }],
  ['1d', { seconds: 86400, name: 'day' }],
  ['7d', { seconds: 7 * 86400, name: 'week' }],
  ['30d', { seconds: 30 * 86400, name: 'month' }],
  ['365d', { seconds: 365 * 86400, name: 'year' }],
]);

export const outcomes = ['within', 'degraded', 'shadow', 'over']; // in the order of the stack, from below

const latest = 253402300799; // the end of the year 9999, in Unix seconds
const usual = '1d';

/** parse reads a fragment. What it cannot read is left out. */
export function parse(fragment) {
  const given = new URLSearchParams(fragment.replace(/^#/, ''));
  const view = {
    domain: given.get('domain') ?? '',
    path: given.get('path') ?? '',
    value: given.get('value') ?? '',
    outcome: outcomes.includes(given.get('outcome')) ? given.get('outcome') : '',
    filter: given.get('filter') ?? '',
    cut: given.get('cut') === '1',
    limit: /^\d{1,9}$/.exec(given.get('limit'))?.[0] ?? '',
    list: given.get('list') === 'range' ? 'range' : '',
    by: ['hits', 'over'].includes(given.get('by')) ? given.get('by') : '',
    tz: given.get('tz') === 'UTC' ? 'UTC' : '',
    range: usual, from: 0, to: 0,
  };
  const from = moment(given.get('from')), to = moment(given.get('to'));
  if (from !== null && to !== null && from < to) {
    return { ...view, range: '', from, to };
  }
  if (ranges.has(given.get('range'))) {
    view.range = given.get('range');
  }
  return view;
}

function moment(text) {
  return /^\d{1,12}$/.test(text ?? '') && Number(text) <= latest ? Number(text) : null;
}

/** format writes a view as a fragment, with its #. What is as usual is left out. */
export function format(view) {
  const out = new URLSearchParams();
  for (const name of ['domain', 'path', 'value', 'outcome', 'limit']) {
    if (view[name]) out.set(name, view[name]);
  }
  if (view.range) {
    out.set('range', view.range);
  } else {
    out.set('from', view.from);
    out.set('to', view.to);
  }
  if (view.cut) out.set('cut', '1');
  if (view.list) out.set('list', view.list);
  if (view.by) out.set('by', view.by);
  if (view.tz) out.set('tz', view.tz);
  if (view.filter) out.set('filter', view.filter);
  return '#' + out;
}

/** seconds is how long the range of a view is. */
export function seconds(view) {
  return view.range ? ranges.get(view.range).seconds : view.to - view.from;
}

const minute = 60, hour = 3600, day = 86400;
const steps = [1, 2, 5, 10, 15, 30].map(n => n * minute)
  .concat([1, 2, 3, 6, 12].map(n => n * hour), [1, 7, 28, 91, 364].map(n => n * day));

/**
 * stepFor chooses how wide the buckets of a range are, in seconds: multiples of what is stored, not more columns than
 * fit. Two or three days are no choice: weekends would come and go. A year by days is more than is asked for, but by
 * weeks it would hide the days that matter.
 */
export function stepFor(length, columns) {
  const most = columns * 1.05; // a range is widened to whole buckets
  for (const step of steps) {
    if (length / step <= most || (step === day && columns >= 200 && length <= 366 * day)) return step;
  }
  return Math.ceil(length / most / (364 * day)) * 364 * day;
}

/** columnsFor is how many columns a curve so many pixels wide has at most. */
export function columnsFor(width) {
  return width < 560 ? 120 : 240;
}
