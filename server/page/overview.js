// The overview, before a rule is chosen: sums of all hits, and a small curve of each rule.
import { fetchAnswer, fetchTop, now } from './api.js';
import { joinSeries } from './buckets.js';
import { drawSmall } from './chart.js';
import { byId, setAttr, make } from './elements.js';
import { keyOf } from './rules.js';
import { brief, exact, share, shown, shownPath } from './text.js';
import { format, outcomes, ranges, seconds, stepFor } from './view.js';

const mostRules = 12, mostOfDomain = 60; // most small curves: in all, of a domain
const columns = 60, maxAge = 60; // of a small curve; seconds until it is requested again
const size = { width: 240, height: 44 };

let key = '', at = 0; // the view of the curves, and when they were loaded
let curves = new Map(), before = new Map(); // by the rule's key
let deniedBefore = ''; // of rules that before lacks: '0', or '?' if unknown

/** showSums shows the sums of all hits. recent: {totals, minutes} of the last minutes; curve: the drawn one. */
export function showSums(view, recent, curve) {
  const tiles = [['hits', 'All hits'], ['over', 'Denied'], ['degraded', 'Degraded']].map(([outcome, name]) => {
    const all = curve.totals[outcome], part = outcome === 'hits' || Number(all) === 0 ? '' : `, ${share(all, curve.totals.hits)}`;
    const lately = Number(recent.totals[outcome]), during = view.range ? ` last ${ranges.get(view.range).name}` : ' in this range';
    const lines = [make('dt', {}, name),
      make('dd', { 'data-now': outcome, 'data-some': lately > 0 }, make('b', {}, brief(lately / recent.minutes)), '/min now'),
      make('dd', { 'data-sum': outcome, 'data-hits': all }, make('b', {}, exact(all)), `${during}${part}`)];
    if (curve.before) lines.push(make('dd', {}, `${curve.before.name}: ${exact(curve.before.totals[outcome])}`));
    return make('div', { 'data-tile': outcome, 'data-none': Number(all) === 0 }, ...lines);
  });
  byId('tiles').replaceChildren(...tiles);
}

/**
 * loadSmall draws small curves of the rules that denied most, or had most hits. rules are those with hits in the range, curve
 * is the curve of all rules, and lately has the rules of the last minutes by their keys.
 */
export async function loadSmall(view, rules, curve, lately, signal) {
  const some = rules.filter(rule => rule.hits > 0 && (!view.domain || rule.domain === view.domain))
    .sort((a, b) => Number(b.denied) - Number(a.denied) || Number(b.hits) - Number(a.hits));
  const drawn = some.slice(0, view.domain ? mostOfDomain : mostRules), asked = JSON.stringify([view.domain, view.range, view.from, view.to, view.tz]);
  if (asked !== key || now() - at >= maxAge) {
    const anew = asked === key ? new Map() : curves = new Map(), past = curve.before;
    const ranking = past ? await fetchTop({ domain: view.domain, from: past.from, to: past.to, by: 'over' }, signal) : null;
    before = new Map(ranking?.top.map(row => [keyOf(row), row.over]));
    deniedBefore = ranking?.found > ranking?.top.length ? '?' : '0';
    show(view, drawn, some.length, lately, past?.name);
    for (const { domain, path } of drawn) { // one by one: the server answers two at a time, and others ask too
      const step = stepFor(seconds(view), columns);
      const answer = await fetchAnswer('api/v1/history', { domain, path, from: curve.from, to: curve.to, step, values: 'false' }, signal);
      anew.set(keyOf({ domain, path }), joinSeries(answer, true));
    }
    [key, at, curves] = [asked, now(), anew];
  }
  show(view, drawn, some.length, lately, curve.before?.name);
}

function show(view, drawn, all, lately, pastName) {
  byId('small-part').hidden = drawn.length === 0;
  const focused = document.activeElement?.dataset.key;
  byId('small').replaceChildren(...drawn.map(rule => card(view, rule, lately.get(keyOf(rule)), pastName)));
  [...byId('small').children].find(e => e.dataset.key === focused)?.focus({ preventScroll: true });
  byId('more-small').hidden = all <= drawn.length;
  byId('more-small').textContent = `${exact(all - drawn.length)} more with hits are in the list${view.domain ? '' : '; a domain shows more of its own'}.`;
}

function card(view, rule, recent, pastName) {
  const own = keyOf(rule), curve = curves.get(own), refused = Number(rule.denied) > 0;
  const card = make('a', { class: 'card', 'data-key': own, href: format({ ...view, domain: rule.domain, path: rule.path }) });
  const svg = document.createElementNS(byId('chart').namespaceURI, 'svg');
  setAttr(svg, 'aria-hidden', 'true');
  svg.setAttribute('preserveAspectRatio', 'none');
  if (curve) card.title = `up to ${brief(drawSmall(svg, curve, { ...size, outcomes, now: now() }))} hits a minute`;
  const line = (name, ...texts) => make('span', { class: name }, ...texts);
  card.append(svg, make('strong', {}, make('bdi', {}, shownPath(rule.path, 120))), ' ',
    view.domain ? '' : make('small', {}, make('bdi', {}, shown(rule.domain, 60))),
    refused ? line('over-text', make('b', {}, exact(rule.denied)), ` denied, ${share(rule.denied, rule.hits)}`) : line('quiet', 'none denied'), ' ',
    recent?.deniedPerMinute > 0 ? line('over-text', `${brief(recent.deniedPerMinute)}/min now`) : '', ' ',
    pastName ? line('quiet', `${pastName}: ${before.has(own) ? exact(before.get(own)) : deniedBefore}`) : '', ' ',
    line('quiet', `of ${exact(rule.hits)} hits`));
  return card;
}

/** recently returns the sums of the last minutes of all rules, or of a domain. */
export async function recently(domain, signal) {
  const answer = await fetchAnswer('api/v1/history', { domain, from: '-5m', step: 60, rules: 'false' }, signal);
  const { totals } = joinSeries(answer, true);
  return { totals, minutes: Math.max(Math.min(now(), answer.to) - answer.from, 60) / 60 };
}
