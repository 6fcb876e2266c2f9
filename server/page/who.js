// Lists the keys that were denied in the last minute, or else those that asked most.
import { fetchAnswer, now, Refused } from './api.js';
import { byId, make, setText } from './elements.js';
import { exact, shown } from './text.js';

const maxAge = 15, most = 10; // seconds until an answer is requested again; rows
let key = '', at = 0;

/** hideWho hides the list if there is nothing to request. */
export function hideWho() {
  byId('who-part').hidden = true;
  key = '';
}

/** loadWho lists the denied keys of a rule, or of a domain if path is ''; if there are none, the busiest keys. */
export async function loadWho(domain, path, signal) {
  const asked = JSON.stringify([domain, path]);
  if (asked === key && now() - at < maxAge) return;
  let answer;
  const top = by => fetchAnswer('api/v1/counters/top', { domain, path, n: most, by }, signal);
  try {
    answer = await top('over');
    if (answer.found === 0) answer = await top('hits');
  } catch (error) {
    if (!(error instanceof Refused)) throw error;
    key = '';
    show(domain, path, 'was denied', [], error.message); // such as that the token is missing
    return;
  }
  [key, at] = [asked, now()];
  const { by, found, top: rows } = answer, [did, text] = by === 'over'
    ? ['was denied', `${exact(found)} ${found === 1 ? 'key was' : 'keys were'} denied, as this weir saw.`]
    : ['asked most', rows.length > 0 ? 'No key was denied.' : 'Nobody asked this weir.'];
  show(domain, path, did, rows, text, answer.to - answer.from);
}

function show(domain, path, did, rows, text, seconds) {
  byId('who-part').hidden = false;
  setText(byId('who-name'), `Who ${did}${seconds ? ` in the last ${seconds} s` : ''}${path ? '' : `, of ${shown(domain, 60)}`}`);
  setText(byId('at-limit'), text);
  byId('who').hidden = rows.length === 0;
  byId('who').tBodies[0].replaceChildren(...rows.map(row => make('tr', { 'data-some': row.over > 0 },
    make('td', {}, make('bdi', {}, shown(row.descriptor ?? '', 200))), make('td', {}, shown(row.limit ?? '', 40)),
    make('td', {}, exact(row.over)), make('td', {}, exact(row.hits)))));
}
