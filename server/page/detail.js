// Shows the texts around the curve of a rule: its name, legend, totals, values, last denial.
import { byId, make, setText, setAttr, swatch } from './elements.js';
import { unmatched } from './rules.js';
import { tierNames, tierRuns } from './buckets.js';
import { format } from './view.js';
import { ago, brief, day, exact, share, shown, shownPath, span, timeOfDay, unescaped } from './text.js';

/** outcomeNames has the names of the outcomes for people. */
export const outcomeNames = new Map([
  ['within', 'within'], ['over', 'denied'], ['shadow', 'shadow'], ['degraded', 'degraded'],
]);

const meanings = {
  within: 'admitted: within all limits',
  over: 'denied: over a limit',
  shadow: 'over a limit, but let pass, as by shadow mode',
  degraded: 'decided by policy, as no store answered',
};

/** showName shows the rule of the curve, and a link back to the curve of all rules. */
export function showName(view, rule, back) {
  const up = (name, to) => make('a', { href: format({ ...view, path: '', value: '', outcome: '', cut: false, ...to }) }, make('bdi', {}, name));
  byId('domain').replaceChildren(...view.domain ? [up('Overview', { domain: '' })] : [],
    ...view.path && view.domain ? [' / ', up(shown(view.domain), {})] : []);
  const name = view.path ? shownPath(view.path, 2000) : view.domain ? shown(view.domain) : 'Overview';
  setText(byId('name').firstElementChild, name);
  byId('name').title = name;
  document.title = view.path ? `${shown(view.domain, 80)} ${shownPath(view.path, 80)} · weir` : `${name} · weir`;
  const about = rule ? chipsOf(rule, view) : [];
  if (view.value) {
    const value = make('button', { type: 'button', class: 'chip', id: 'all-values', title: 'Back to all values' },
      make('bdi', {}, shownPath(view.value)), ' ✕');
    value.addEventListener('click', back);
    about.unshift(value);
  }
  byId('about').replaceChildren(...about);
}

/** chipsOf returns short labels for the settings of a rule. */
function chipsOf(rule, view) {
  const chip = text => make('span', { class: 'chip' }, text);
  const chips = rule.limits.map(l => make('span', { class: 'chip', 'data-kind': 'limit', title: l.bound }, l.text + (l.name ? ` ${shown(l.name, 60)}` : '')));
  if (rule.each?.length > 0 && rule.limits.length > 0) chips.push(chip(`for each value of ${shown(rule.each.join(' and '), 120)}`));
  if (rule.unlimited) chips.push(chip('unlimited'));
  if (rule.shadow) chips.push(chip('shadow mode: denies nothing'));
  if (rule.quota) chips.push(chip('quota'));
  for (const name of new Set(rule.limits.map(l => l.algorithm))) chips.push(chip(name.replaceAll('_', ' ')));
  if (rule.gone && view.path) chips.push(chip(rule.path === unmatched ? 'requests that no rule matches' : 'not configured now'));
  return chips;
}

/**
 * showLegend explains the chart, and has buttons to show one outcome alone, or to cut the scale at at, 0 for none. choose is called
 * with the change of the view.
 */
export function showLegend(view, curve, at, choose) {
  const items = [...outcomeNames].filter(([outcome]) => curve.totals[outcome] > 0 || view.outcome === outcome).map(([outcome, name]) => {
    const chosen = view.outcome === outcome;
    const item = make('button', { type: 'button', 'data-outcome': outcome, 'aria-pressed': String(chosen), title: meanings[outcome] },
      swatch(outcome), name);
    item.addEventListener('click', () => choose({ outcome: chosen ? '' : outcome }));
    return item;
  });
  for (const [kind, name, meaning] of [['limit', 'limit', 'how many hits a minute a limit lets pass'],
    ['peak', 'peak minute', 'the largest minute in a bucket, where it stands out; ^ above the scale'],
    ['before', curve.before?.name, 'how much went on at the same time then; ^ above the scale'],
    ['degraded-time', 'no store', 'a store was away: hits were decided by policy'],
    ['tier-border', `stored by ${tierRuns(curve.buckets).map(run => tierNames.get(run.tier)).join(' ┊ ')}`,
      'how wide the stored buckets are; no bar is narrower'],
    ['partial', 'still counting', 'hits are still counted in this bucket']]) {
    if (!byId('chart').querySelector(`.${kind}`)) continue;
    items.push(make('span', { title: meaning }, make('span', { class: 'swatch', 'data-mark': kind, 'aria-hidden': 'true' }), name));
  }
  if (at > 0) {
    const cut = make('button', { type: 'button', id: 'cut', 'aria-pressed': String(view.cut), title: 'A few buckets are far above all others' },
      `cut at ${brief(at)}/min`);
    cut.addEventListener('click', () => choose({ cut: !view.cut }));
    items.push(cut);
  }
  const focused = [...byId('legend').children].indexOf(document.activeElement);
  byId('legend').replaceChildren(...items);
  if (focused >= 0) items[focused]?.focus();
}

/** showTotals shows the sums of the range, of the range it is compared with, and of the lifetime. */
export function showTotals(curve) {
  const rows = [], { before } = curve;
  setText(byId('before'), before?.name ?? '');
  byId('before').title = before ? span(before.from, before.to) : '';
  for (const [outcome, name] of outcomeNames) {
    rows.push(totalRow(curve, outcome, [swatch(outcome), name], ''));
    if (outcome === 'within' && Number(curve.lifetime.near) > 0) {
      rows.push(totalRow(curve, 'near', [swatch('near'), 'near a limit'], 'part'));
    }
  }
  rows.push(totalRow(curve, 'hits', ['all hits'], 'all'));
  byId('totals').tBodies[0].replaceChildren(...rows);
}

function totalRow({ totals, lifetime, before }, outcome, name, kind) {
  return make('tr', { class: kind },
    make('td', {}, make('span', { class: 'name', title: meanings[outcome] }, ...name)),
    make('td', { 'data-total': outcome, 'data-hits': totals[outcome] }, exact(totals[outcome])),
    make('td', {}, outcome === 'hits' ? '' : share(totals[outcome], totals.hits)),
    make('td', { 'data-earlier': outcome }, before ? exact(before.totals[outcome]) : ''),
    make('td', { 'data-lifetime': outcome, 'data-hits': lifetime[outcome] }, exact(lifetime[outcome])));
}

/**
 * showValues lists the values of rules that have series for them. answer is that of /api/v1/history/top, or null. In the view of
 * all rules, choose is also called with the rule of the value.
 */
export function showValues(view, answer, choose) {
  const rows = (answer?.top ?? []).filter(row => row.value !== '');
  byId('values-part').hidden = rows.length === 0;
  for (const button of byId('values').tHead.querySelectorAll('button')) setAttr(button.parentElement, 'aria-sort', answer?.by === button.dataset.by && 'descending');
  setAttr(byId('values-part'), 'data-long', rows.length > 20);
  byId('values').tBodies[0].replaceChildren(...rows.map(row => {
    const name = row.value === '__other__' ? 'all other values' : shownPath(row.value);
    const at = { domain: row.domain, path: row.path, value: row.value };
    const link = make('a', { href: format({ ...view, ...at }) }, make('bdi', {}, name));
    const line = make('tr', { class: 'value', 'data-value': row.value, 'aria-current': view.value === row.value && 'true' },
      make('td', {}, link, view.path ? '' : make('small', {}, shown(`${row.domain} ${unescaped(row.path)}`, 80))),
      make('td', { 'data-hits': row.hits }, exact(row.hits)), make('td', {}, exact(row.over)), make('td', {}, share(row.over, row.hits)));
    line.addEventListener('click', event => {
      if (event.ctrlKey || event.metaKey || event.shiftKey) return;
      event.preventDefault();
      choose(at);
    });
    return line;
  }));
  const left = answer ? answer.found - answer.top.length : 0;
  byId('more-values').hidden = !(left > 0);
  setText(byId('more-values'), left > 0 ? `${exact(left)} more values, with fewer ${answer.by === 'over' ? 'denied' : 'hits'}.` : '');
}

/** showDenial shows the last denial of the rule. answer is that of /api/v1/denials, or null. */
export function showDenial(answer) {
  const line = byId('denial');
  if (!answer) {
    line.replaceChildren();
    return;
  }
  const when = at => `${day(at)} ${timeOfDay(at, true)}`;
  const last = answer.denials.find(d => !d.shadow) ?? answer.denials[0];
  if (!last) {
    line.replaceChildren(`This weir has denied nothing since it started, ${when(answer.since)}.`);
    return;
  }
  const again = last.retry_seconds === null ? 'never fits'
    : last.retry_seconds === 0 ? 'would pass now' : `would pass in ${exact(last.retry_seconds)} s`;
  line.replaceChildren(last.shadow ? 'Last over, in shadow mode: ' : 'Last denied: ', make('b', {}, ago(answer.now - last.at)),
    ` (${when(last.at)}), by ${shown(last.limit, 60)}: ${exact(last.hits)} asked when ${exact(last.count)} counted; one like it ${again}. ` +
    `${exact(last.over_requests)} ${last.over_requests === 1 ? 'request' : 'requests'}${last.shadow ? '' : ' denied'} since this weir started, ${when(answer.since)}.`);
}
