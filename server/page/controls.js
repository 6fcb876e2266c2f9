// The fields and buttons that choose a range, and the one that copies a link.
import { byId, make, setPressed, setText } from './elements.js';
import { dated, partsOf } from './text.js';

/** showRange shows the present range: its name, if it has one, and its ends, in Unix seconds. */
export function showRange(name, from, to) {
  setPressed('ranges', 'range', name);
  if (byId('picked').contains(document.activeElement)) return; // somebody is typing there
  byId('from').value = local(from);
  byId('to').value = local(to);
}

/** local formats a moment for the fields, and for commands: 2026-11-26 15:07. */
export function local(at) {
  const [year, month, day, hours, minutes] = partsOf(new Date(at * 1000)), two = n => String(n).padStart(2, '0');
  return `${String(year).padStart(4, '0')}-${two(month + 1)}-${two(day)} ${two(hours)}:${two(minutes)}`;
}

/** read returns the moment in a field, in Unix seconds; NaN if there is none. */
function read(id) {
  const [, year, month, ...rest] = (/^\s*(\d{4})-(\d\d?)-(\d\d?)(?:[T ]+(\d\d?):(\d\d))?\s*$/.exec(byId(id).value) ?? []).map(part => Number(part ?? 0));
  return dated(year, month - 1, ...rest).getTime() / 1000;
}

/** pickedRange returns the range in the fields, in Unix seconds, and an error message or "". */
export function pickedRange() {
  const [from, to] = ['from', 'to'].map(read);
  const wrong = Number.isNaN(from) || Number.isNaN(to) ? 'Write both ends of the range as 2026-11-26 15:07.'
    : from < 0 ? 'A range begins in 1970 or later.'
    : from >= to ? 'A range must begin before it ends.' : '';
  return { from, to, wrong };
}

let copiedTimer = 0; // the timer that removes the message

/** copy copies a text to the clipboard, and shows a message. */
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
  clearTimeout(copiedTimer);
  copiedTimer = setTimeout(() => setText(byId('copied'), ''), 8000);
  setText(byId('copied'), done ? `Copied: ${text.slice(0, 200)}` : `Not copied. Select it here: ${text}`);
}
