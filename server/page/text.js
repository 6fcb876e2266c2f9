// Writes numbers, times and names.

/** add adds two counts exactly; either may be a BigInt. */
export function add(a, b) {
  const sum = Number(a) + Number(b);
  return typeof a === 'number' && typeof b === 'number' && Number.isSafeInteger(sum) ? sum : BigInt(a) + BigInt(b);
}

const whole = new Intl.NumberFormat('en');

/** exact writes a count with all of its digits: 1,234,567. */
export function exact(count) {
  return whole.format(count);
}

const units = [[1e12, 'T'], [1e9, 'G'], [1e6, 'M'], [1e3, 'k']];

/** brief writes a number with three digits at most: 0.25, 12.5, 1.2k. */
export function brief(n) {
  const [scale, unit] = units.find(([size]) => n >= size * 0.9995) ?? [1, ''];
  const digits = n / scale;
  if (digits === 0) return '0';
  const places = digits >= 99.95 ? 0 : digits >= 9.995 ? 1 : 2;
  if (digits < 0.005) return '<0.01';
  return String(Number(digits.toFixed(places))) + unit;
}

/** share writes a part of a whole in percent; nothing has no parts. */
export function share(part, all) {
  if (Number(all) === 0) return '–';
  if (Number(part) === 0) return '0 %';
  const percent = Number(part) / Number(all) * 100;
  if (percent < 0.1) return '<0.1 %';
  if (part !== all && percent > 99.9) return '>99.9 %';
  return `${percent < 9.95 ? percent.toFixed(1) : Math.round(percent)} %`;
}

const clock = { hour: '2-digit', minute: '2-digit' }, date = { day: 'numeric', month: 'short' };
const kinds = { clock, seconds: { ...clock, second: '2-digit' }, date, dayName: { ...date, weekday: 'short' },
  dayYear: { ...date, weekday: 'short', year: 'numeric' }, weekday: { weekday: 'short', day: 'numeric' }, month: { month: 'short' } };
let writers = {}, zone; // undefined: the browser's zone

/** inZone has all times of the page be those of a zone: UTC, or '' for the browser's own. */
export function inZone(name) {
  zone = name || undefined;
  writers = {};
}

/** written writes a moment of Unix seconds, or a part of it: its clock, seconds, date, dayName, dayYear, weekday or month. */
export function written(kind, at) {
  writers[kind] ??= new Intl.DateTimeFormat('en-GB', { ...kinds[kind], timeZone: zone });
  return writers[kind].format(at * 1000).replace(',', '');
}

/** dated is the Date at which the calendar and clock of the zone show these: a year, a month from 0, a day, ... */
export function dated(...fields) {
  return zone ? new Date(Date.UTC(...fields)) : new Date(...fields);
}

/** partsOf is what they show at a Date: [year, month, day, hours, minutes, weekday]. */
export function partsOf(d) {
  return ['FullYear', 'Month', 'Date', 'Hours', 'Minutes', 'Day'].map(part => d[(zone ? 'getUTC' : 'get') + part]());
}

/** timeOfDay writes a moment of Unix seconds as 14:03, or 14:03:22. */
export function timeOfDay(at, withSeconds = false) {
  return written(withSeconds ? 'seconds' : 'clock', at);
}

/** day writes the date of a moment: Mon 23 Nov, with its year if that is not the present one. */
export function day(at) {
  const sameYear = partsOf(new Date(at * 1000))[0] === partsOf(new Date())[0];
  return written(sameYear ? 'dayName' : 'dayYear', at);
}

/** span writes a range of time, shortly if it is within a day or of whole days. */
export function span(from, to) {
  const whole = [from, to].every(at => timeOfDay(at) === '00:00');
  if (whole) return day(from) === day(to - 1) ? day(from) : `${day(from)} – ${day(to - 1)}`;
  const end = day(from) === day(to) ? timeOfDay(to) : `${day(to)} ${timeOfDay(to)}`;
  return `${day(from)} ${timeOfDay(from)} – ${end}`;
}

/** width writes how wide a bucket is: 10 minutes. */
export function width(seconds) {
  const [size, name] = [[86400, 'day'], [3600, 'hour'], [60, 'minute']].find(([size]) => seconds >= size) ?? [1, 'second'];
  const n = Math.round(seconds / size);
  return n === 1 ? `1 ${name}` : `${n} ${name}s`;
}

/** ago writes how long before now a moment was. */
export function ago(seconds) {
  return seconds < 60 ? `${Math.max(Math.round(seconds), 0)} s ago` : `${width(seconds)} ago`;
}

/** unescaped writes a path or a value as people are shown it: user/path=/pay for user/path=%2Fpay. */
export function unescaped(path) {
  return path.replace(/%(25|2F|3D|2C)/g, (_, code) => ({ 25: '%', '2F': '/', '3D': '=', '2C': ',' })[code]);
}

const longest = 300;

/**
 * shown makes a name from a request fit for a page: one line, without what is invisible or turns the text around, and
 * not longer than can be read. It stays text: whoever shows it uses textContent.
 */
export function shown(name, most = longest) {
  let text = name;
  if (text.length > most) {
    text = text.slice(0, most).replace(/[\uD800-\uDBFF]$/, '') + `… (${exact(name.length)} characters)`;
  }
  return text.replace(/[\p{C}\p{Zl}\p{Zp}]/gu, '\uFFFD');
}

/** shownPath is shown for a path or a value as it is stored. */
export function shownPath(path, most = longest) {
  return shown(unescaped(path.slice(0, 4 * most) + (path.length > 4 * most ? '…' : '')), most);
}
