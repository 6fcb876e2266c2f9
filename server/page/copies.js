// The commands and queries that give the page's figures, to copy.
import { quote } from './blank.js';
import { local } from './controls.js';
import { unescaped } from './text.js';

/**
 * sourceOf returns a weir command and a PromQL query for the figures of a part of the page, '' for none. curve is the drawn curve,
 * zone the time zone of the page.
 */
export function sourceOf(part, view, curve, zone) {
  const options = { domain: view.domain, path: unescaped(view.path), value: unescaped(view.value) };
  const times = curve ? { from: local(curve.from), to: local(curve.to), tz: zone } : {};
  const labels = ['domain', 'path', 'value'].filter(name => view[name]).map(name => `${name}=${JSON.stringify(view[name])}`);
  const during = curve ? `[${curve.to - curve.from}s] @ ${curve.to}` : '[5m]';
  const rank = { by: view.by || (part === 'values' && view.path ? 'hits' : 'over') };
  const hits = (by, of = labels, when = during) => `sum by (${by}) (increase(weir_hits_total{${of.join(',')}}${when}))`;
  const rules = (when, of = []) => hits('domain, path, outcome', of, when);
  switch (part) {
    case 'list': return view.list ? { command: command('history top', { ...times, ...rank }), query: rules(during) }
      : { command: command('history top', { from: '-5m', ...rank }), query: rules('[5m]') };
    case 'small': return { command: command('history top', { domain: view.domain, ...times, by: 'over' }), query: rules(during, labels) };
    case 'values': return { command: command('history top', { ...options, value: '', ...times, ...rank }), query: hits('domain, path, value, outcome') };
    case 'who': return { command: command('counters top', { domain: view.whose, path: options.path, by: 'over' }), query: '' };
    case 'denial': return { command: command('denials', { domain: view.domain, path: options.path }), query: '' };
  }
  const of = `{${labels.join(',')}}`, before = curve?.before;
  const others = [['now', hits('outcome', labels, '[5m]')], ['for ever', `sum by (outcome) (weir_hits_total${of})`],
    ['largest minutes', `max_over_time(weir_hits_peak${of}${during})`],
    ['near', `sum(increase(weir_near_hits_total${of}${during}))`]];
  if (before) others.unshift([before.name, hits('outcome', labels, `[${before.to - before.from}s] @ ${before.to}`)]);
  return { command: command(view.path ? 'history show' : 'history top', { ...options, ...times }),
    query: hits('outcome') + others.map(([name, query]) => `\n# ${name}: ${query}`).join('') };
}

function command(name, options) {
  const port = /^(127\.0\.0\.1|localhost):6070$/.test(location.host) ? '' : location.host;
  const given = Object.entries({ ...options, admin: port }).filter(([, text]) => text);
  return `weir ${name}${given.map(([option, text]) => ` --${option} ${quote(text)}`).join('')}`;
}
