// Ranks the rules by their hits in the range.
import { fetchTop, now } from './api.js';
import { compare, keyOf, nameOnly } from './rules.js';

const maxAge = 60; // seconds: a year of many rules is expensive

/** Ranking requests the ranking of a range, one request at a time. */
export class Ranking {
  constructor() {
    this.answer = null; // the last answer, of any range
    this.answered = ''; // the view of the answer
    this.asked = ''; // the view of the running request
    this.underway = null;
    this.at = 0;
    this.stop = new AbortController();
  }

  /** isOf reports whether the last answer belongs to a view. */
  isOf(view) {
    return this.answer !== null && this.answered === this.key(view);
  }

  /** key identifies the ranking of a view. */
  key(view) {
    return JSON.stringify([view.range, view.from, view.to]);
  }

  /** load requests the ranking, unless the same request is running or was answered lately. from and to are those of the API. */
  async load(view, from, to) {
    const key = this.key(view);
    if (this.underway && this.asked === key) return this.underway;
    if (this.isOf(view) && now() - this.at < maxAge) return undefined;
    this.stop.abort();
    this.stop = new AbortController();
    this.asked = key;
    const own = this.question(key, { from, to }, this.stop.signal);
    this.underway = own;
    try {
      return await own;
    } finally {
      if (this.underway === own) this.underway = null;
    }
  }

  async question(key, parameters, signal) {
    const answer = await fetchTop(parameters, signal);
    const whole = answer.found <= answer.top.length, rows = answer.top;
    if (!whole) { // rules with few hits may have denied most
      const there = new Set(rows.map(keyOf));
      const refused = await fetchTop({ ...parameters, by: 'over' }, signal);
      rows.push(...refused.top.filter(row => !there.has(keyOf(row))));
    }
    this.answer = { rows, whole };
    this.answered = key;
    this.at = now();
  }
}

/**
 * ranked merges the rules in force with those that have hits in a range, by their hits or denials. rules: those of merged, or
 * other rules in force; answer: that of a Ranking, or null; known: whether the rules in force are known; view: the present
 * view, whose rule is included.
 */
export function ranked(rules, answer, known, view) {
  const all = new Map();
  const none = { hits: 0, over: 0 };
  for (const rule of rules) all.set(keyOf(rule), { ...rule, ...counted(none), known });
  if (view.path && !all.has(keyOf(view))) {
    all.set(keyOf(view), { ...nameOnly(view, known), ...counted(none) });
  }
  for (const row of answer?.rows ?? []) {
    const key = keyOf(row);
    all.set(key, { ...(all.get(key) ?? nameOnly(row, known)), ...counted(row) });
  }
  const list = [...all.values()];
  for (const rule of list) rule.unmeasured = !answer || (!answer.whole && rule.hits === 0); // the answer lacks rules with few hits
  const by = view.by === 'hits' ? 'hits' : 'denied';
  return list.sort((a, b) => compare(b[by], a[by]) || compare(b.hits, a.hits) || compare(a.domain, b.domain) || compare(a.path, b.path));
}

function counted(row) {
  return { counts: true, hits: row.hits, denied: row.over, size: Number(row.hits) };
}

/** onlyInRange returns the rules with hits in a range that a list of rules lacks, in the format of that list. */
export function onlyInRange(rules, answer, known) {
  const there = new Set(rules.map(keyOf));
  return ranked([], answer, known, {}).filter(rule => !there.has(keyOf(rule)))
    .map(rule => ({ ...rule, counts: false, hits: 0, denied: 0, perMinute: 0, deniedPerMinute: 0, size: 0 }));
}
