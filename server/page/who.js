// Whose keys are at a limit now, or near it.
import { ask, now, Refused } from './api.js';
import { byId, make, say } from './elements.js';
import { exact, share, shown, width } from './text.js';

const fresh = 60; // seconds that an answer is good for: a store may have to look through all of its keys
let key = '', at = 0;

/** hideWho takes the list away where it cannot be asked for. */
export function hideWho() {
  byId('who-part').hidden = true;
  key = '';
}

/** lookAtWho lists the fullest keys of a rule, or of a domain if path is ''. */
export async function lookAtWho(domain, path, signal) {
  const asked = JSON.stringify([domain, path]);
  if (asked === key && now() - at < fresh) return;
  let answer;
  try {
    answer = await ask('api/v1/counters/top', { domain, path, n: 10 }, signal);
  } catch (error) {
    if (!(error instanceof Refused)) throw error;
    key = '';
    show(domain, path, [], error.message); // such as who may read values
    return;
  }
  [key, at] = [asked, now()];
  const rows = answer.top ?? [], { over, counted } = answer;
  show(domain, path, rows, rows.length === 0 ? 'No key has hits that count now.' : over >= 0 && counted >= 0
    ? `${exact(over)} of ${exact(counted)} keys ${over === 1 ? 'is' : 'are'} at a limit${answer.complete === false ? ', of those that were looked at' : ''}.` : '');
}

function show(domain, path, rows, text) {
  byId('who-part').hidden = false;
  say(byId('who-name'), `Who is at a limit now${path ? '' : `, of ${shown(domain, 60)}`}`);
  say(byId('at-limit'), text);
  byId('who').hidden = rows.length === 0;
  byId('who').tBodies[0].replaceChildren(...rows.map(row => make('tr', { 'data-some': row.remaining === 0 },
    make('td', {}, make('bdi', {}, shown(row.descriptor ?? '', 200))), make('td', {}, shown(row.limit ?? '', 40)),
    make('td', { title: row.hits === undefined ? '' : `${exact(row.hits)} hits count` }, row.share === undefined ? '–' : share(row.share, 1)),
    make('td', {}, row.reset_seconds > 0 ? width(row.reset_seconds) : '–'))));
}
