// The texts that are shown instead of a curve.
import { make } from './elements.js';
import { shown, shownPath, span, unescaped } from './text.js';

/** hint makes a sentence in small print. */
export function hint(text) {
  return make('p', { class: 'hint' }, text);
}

/** noHistory explains why there are no curves at all. */
export function noHistory() {
  return [make('p', {}, 'This weir keeps no history, so there are no curves.'),
    hint('HISTORY=true turns it on.')];
}

/** noRules explains what to do if there are no rules and no hits. */
export function noRules() {
  return [make('p', {}, 'No rule is configured, and nothing has been counted yet.'),
    hint('weir reads descriptor files from the folder that --config names; weir check DIR says what is wrong with one.')];
}

/** noSuchRule explains that the link names a rule or a domain that does not exist. */
function noSuchRule({ domain, path }) {
  const rule = path ? `No rule “${shownPath(path, 120)}”` : 'No rule';
  return [make('p', {}, `${rule} of the domain “${shown(domain, 60)}” is configured, and none has ever been counted.`), hint('All that there are stand in the list.')];
}

/**
 * whyEmpty explains why a curve is empty, and what to do about it. go is called with a change of the view; example is one of the
 * rules in the view.
 */
export function whyEmpty(curve, answer, rule, go, example = rule) {
  if (Number(curve.totals.hits) > 0) return [];
  if (answer.until > 0) {
    const there = make('button', { type: 'button', id: 'there' }, 'Show them');
    there.addEventListener('click', () => go({ range: '', from: answer.since, to: answer.until }));
    return [make('p', {}, `No hits in this range. What is stored is of ${span(answer.since, answer.until)}.`), there];
  }
  if (Number(curve.lifetime.hits) === 0 && !rule.known && rule.domain) return noSuchRule(rule);
  if (Number(curve.lifetime.hits) > 0 || !example) return [make('p', {}, 'No hits in this range.')];
  return [make('p', {}, `Nothing has asked about ${rule.path ? 'this rule' : 'these rules'} yet. Ask as Envoy does, and look again:`),
    make('code', {}, callLine(rule.path ? rule : example)), hint('Hits are here within some 15 seconds.')];
}

/** quote quotes a text for a shell. */
export function quote(text) {
  return /^[\w./:=-]+$/.test(text) ? text : `'${shown(text, 2000).replaceAll("'", "'\\''")}'`;
}

/** callLine returns a shell command that makes a hit. */
function callLine(rule) {
  const descriptor = rule.path.split('/').map(segment => {
    const [key, value] = segment.split('=');
    return `${unescaped(key)}=${unescaped(value ?? 'ann').replaceAll('*', 'x')}`.replaceAll(',', '\\,');
  }).join(',');
  return `weir call --addr ${location.hostname || 'localhost'}:8081 --domain ${quote(rule.domain)} --descriptor ${quote(descriptor)}`;
}
