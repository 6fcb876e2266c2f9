// The fields and buttons that choose a range, and the one that copies a link.
import { byId, make, press, say } from './elements.js';
import { dated, partsOf } from './text.js';

/** showRange shows which range is looked at: its name, if it has one, and where it begins and ends, in Unix seconds. */
export function showRange(name, from, to) {
  press('ranges', 'range', name);
  if (byId('picked').contains(document.activeElement)) return; // somebody is typing there
  byId('from').value = local(from);
  byId('to').value = local(to);
}

/** local writes a moment as the fields have it, and as commands take it: 2026-11-26 15:07. */
export function local(at) {
  const [year, month, day, hours, minutes] = partsOf(new Date(at * 1000)), two = n => String(n).padStart(2, '0');
  return `${String(year).padStart(4, '0')}-${two(month + 1)}-${two(day)} ${two(hours)}:${two(minutes)}`;
}

/** read returns the moment that a field has, in Unix seconds: NaN if it has none. */
function read(id) {
  const [, year, month, ...rest] = (/^\s*(\d{4})-(\d\d?)-(\d\d?)(?:[T ]+(\d\d?):(\d\d))?\s*$/.exec(byId(id).value) ?? []).map(part => Number(part ?? 0));
  return dated(year, month - 1, ...rest).getTime() / 1000;
}

/** picked returns the range that somebody has written, in Unix seconds, and what is wrong with it, or "". */
export function picked() {
  const [from, to] = ['from', 'to'].map(read);
  const wrong = Number.isNaN(from) || Number.isNaN(to) ? 'Write both ends of the range as 2026-11-26 15:07.'
    : from < 0 ? 'A range begins in 1970 or later.'
    : from >= to ? 'A range must begin before it ends.' : '';
  return { from, to, wrong };
}

let told = 0; // the timer that removes the message

/** copy brings a text to the clipboard, and says so. */
export async function copy(text) {
  let done = false;
  try {
    await navigator.clipboard.writeText(text);
    done = true;
  } catch {
    // only pages of https or localhost have a clipboard; a selection can always be copied
    const field = make('textarea', { class: 'hidden', 'aria-hidden': 'true' });
    field.value = text;
    document.body.append(field);
    field.select();
    done = document.execCommand('copy');
    field.remove();
  }
  clearTimeout(told);
  told = setTimeout(() => say(byId('copied'), ''), 8000);
  say(byId('copied'), done ? `Copied: ${text.slice(0, 200)}` : `Not copied. Select it here: ${text}`);
}
