// Requests data from the port that serves the page. All addresses are relative, so a proxy may put the page below a path.

/** Refused is the error of a request that the server refused; its message is a sentence. */
export class Refused extends Error {
  constructor(status, sentence) {
    super(sentence);
    this.status = status;
  }
}

let skew = 0; // milliseconds by which the server's clock is ahead of the browser's

/** now returns the time by the server's clock, in Unix seconds. */
export function now() {
  return (Date.now() + skew) / 1000;
}

/** fetchAnswer requests an answer, without empty parameters. */
export async function fetchAnswer(path, parameters = {}, signal = undefined) {
  return parseExactly(await get(path, parameters, signal));
}

/** fetchTop requests the ranking of at most a thousand rules by their hits. */
export function fetchTop(parameters, signal) {
  return fetchAnswer('api/v1/history/top', { n: 1000, values: 'false', ...parameters }, signal);
}

async function get(path, parameters, signal) {
  const query = new URLSearchParams(Object.entries(parameters).filter(([, given]) => given !== ''));
  const address = query.size === 0 ? path : `${path}?${query}`;
  let answer, text;
  try {
    answer = await fetch(address, { signal, headers: { Accept: 'application/json' }, cache: 'no-cache' });
    text = await answer.text();
  } catch (error) {
    if (error.name === 'AbortError') throw error;
    throw new Refused(0, 'weir does not answer.');
  }
  const date = Date.parse(answer.headers.get('Date') ?? '');
  if (date) skew = Math.abs(date - Date.now()) > 2000 ? date - Date.now() : 0;
  if (!answer.ok) throw new Refused(answer.status, text.trim().slice(0, 500) || `weir answers ${answer.status}.`);
  return text;
}

/**
 * parseExactly parses JSON. Integers above 2^53, for which JavaScript's numbers lose digits, become BigInt: a lifetime of hits
 * may be up to 10^18.
 */
export function parseExactly(text) {
  if (!/\d{16}/.test(text)) return JSON.parse(text);
  const mark = '\u0000big:'; // no JSON text holds a bare NUL
  const marked = text.replace(/"(?:[^"\\]|\\.)*"|-?\d[\d.eE+-]*/g, token =>
    /^\d{16,}$/.test(token) ? `"\\u0000big:${token}"` : token);
  return JSON.parse(marked, (_, given) =>
    typeof given === 'string' && given.startsWith(mark) && /^\d+$/.test(given.slice(mark.length))
      ? BigInt(given.slice(mark.length)) : given);
}
