// The fields and buttons that choose a range, and the one that copies a link.
import { byId, make, say } from './elements.js';

/** showRange shows which range is looked at: its name, if it has one, and where it begins and ends, in Unix seconds. */
export function showRange(name, from, to) {
  for (const button of byId('ranges').children) button.setAttribute('aria-pressed', String(button.dataset.range === name));
  if (byId('picked').contains(document.activeElement)) return; // somebody is writing there
  byId('from').value = local(from);
  byId('to').value = local(to);
}

/** local writes a moment as a field for local times has it. */
function local(at) {
  const d = new Date(Math.floor(at / 60) * 60000), two = n => String(n).padStart(2, '0');
  return `${String(d.getFullYear()).padStart(4, '0')}-${two(d.getMonth() + 1)}-${two(d.getDate())}T${two(d.getHours())}:${two(d.getMinutes())}`;
}

/** picked returns the range that somebody has written, in Unix seconds, and what is wrong with it, or "". */
export function picked() {
  const [from, to] = ['from', 'to'].map(id => new Date(byId(id).value).getTime() / 1000);
  const wrong = Number.isNaN(from) || Number.isNaN(to) ? 'Give both ends of the range.'
    : from < 0 ? 'A range begins in 1970 or later.'
    : from >= to ? 'A range must begin before it ends.' : '';
  return { from, to, wrong };
}

/** copy brings a text to the clipboard, and says so. */
export async function copy(text) {
  let done = false;
  try {
    await navigator.clipboard.writeText(text);
    done = true;
  } catch {
    // only pages of https or localhost have a clipboard; a selection can be copied on all
    const field = make('textarea', { class: 'hidden', 'aria-hidden': 'true' });
    field.value = text;
    document.body.append(field);
    field.select();
    done = document.execCommand('copy');
    field.remove();
  }
  say(byId('copied'), done ? 'Copied.' : 'Not copied: use the link.');
}
