// The page: requests the data of the view in the URL's fragment, draws it, and refreshes it.
import { fetchAnswer, fetchTop, now, Refused } from './api.js';
import { joinSeries, limitLines, weeksBefore } from './buckets.js';
import { hint, noHistory, noRules, whyEmpty } from './blank.js';
import { draw } from './chart.js';
import { copy, pickedRange, showRange } from './controls.js';
import { sourceOf } from './copies.js';
import { showDenial, showLegend, showName, showTotals, showValues } from './detail.js';
import { byId, setAttr, make, setPressed, setText } from './elements.js';
import { loadSmall, recently, showSums } from './overview.js';
import { Reader } from './reader.js';
import { onlyInRange, ranked, Ranking } from './ranking.js';
import { keyOf, merged, RuleTable } from './rules.js';
import { exact, day, inZone, shown, shownPath, span, timeOfDay, unescaped } from './text.js';
import { columnsFor, format, outcomes, parse, ranges, seconds, stepFor } from './view.js';
import { hideWho, loadWho } from './who.js';

const refreshSeconds = () => view.path || view.range === '1h' ? 15 : 60; // between refreshes; one of all rules is expensive
const rateSeconds = 300; // over which rates are measured
const home = Intl.DateTimeFormat().resolvedOptions().timeZone ?? '';

let view = parse(location.hash);
let configured = { loaded: 0, serves: [], rules: [] };
let rates = { rules: [], top: null, minutes: 1 }; // in the last minutes
let rules = []; // with current rates, as in the table
let keysDomain = ''; // the domain whose busiest keys are listed
let curve = null; // the one drawn last
let curveDrawn = ''; // the view that it belongs to
let refreshing = new AbortController();
let refreshedAt = 0;
let timer = 0, searching = 0;
let isRefreshing = false;
let drawnWidth = 0; // pixels

const ranking = new Ranking();
const table = new RuleTable(byId('rules'), byId('more'), (domain, path) => go({ domain, path, value: '', cut: false }), by => go({ by }));
const reader = new Reader(byId('plot'), byId('chart'), byId('reading'), byId('summary'), (from, to) => go({ range: '', from, to }));

/** go changes the view, as a link does. */
function go(change) {
  view = { ...view, ...change };
  const fragment = format(view);
  if (fragment !== location.hash) history.pushState(null, '', fragment);
  refresh(false);
}

/** refresh requests and draws everything in the view. A quiet refresh repeats the same view. */
async function refresh(quiet) {
  refreshing.abort();
  refreshing = new AbortController();
  const { signal } = refreshing;
  clearTimeout(timer);
  isRefreshing = true;
  if (!quiet) document.body.dataset.state = 'loading';
  inZone(view.tz);
  showControls();
  const problems = []; // of single parts; the others still load
  const part = promise => promise.catch(error => {
    if (error.name === 'AbortError') throw error;
    problems.push(error);
  });
  try {
    await part(loadRules(signal));
    if (configured.serves.length === 0 && problems.length > 0) { // nothing can be requested
      finish(problems);
      return;
    }
    const lately = part(loadRates(signal));
    await Promise.all([lately.then(() => part(loadKeys(signal))), part(loadCurve(signal, quiet).catch(withoutCurve))]);
    await part(loadRanking(signal));
  } catch (error) {
    if (error.name !== 'AbortError') throw error;
    return; // a newer refresh has begun
  }
  finish(problems);
  if (!quiet && !view.list) table.reveal(); // a ranking starts at its top
}

/** curveKey identifies the view that a curve belongs to. */
function curveKey(view) {
  return format({ ...view, filter: '', cut: false, outcome: '', list: '', by: '' });
}

/** withoutCurve removes the curve of another view, if that of this view cannot be loaded. */
function withoutCurve(error) {
  if (error.name !== 'AbortError' && curveDrawn !== curveKey(view)) {
    curve = null;
    drawCurve(null);
    showEmpty([hint('No curve yet.')]);
    showValues(view, null);
    showDenial(null);
  }
  throw error;
}

function finish(problems) {
  isRefreshing = false;
  refreshedAt = now();
  setAttr(byId('plot'), 'data-stale', problems.length > 0);
  setText(byId('message'), problems.length > 0 ? `${problems.map(sentence)[0]} The page goes on asking.` : '');
  document.body.dataset.state = problems.length > 0 ? 'error' : 'ready';
  document.body.dataset.drawn = format(view);
  if (problems.length === 0) setText(byId('updated'), `Updated ${timeOfDay(refreshedAt, true)}${view.range ? `, again every ${refreshSeconds()} s` : ''}`);
  wait();
}

function rangeMoves() {
  return view.range || document.body.dataset.state === 'error';
}

function sentence(error) {
  if (!(error instanceof Refused)) console.error(error);
  const text = error instanceof Refused ? error.message : `The page has a fault: ${error.message}`;
  return /[.!?]$/.test(text) ? text : `${text}.`;
}

/** wait starts the timer of the next refresh, if the range moves or could not be shown, and the page is visible. */
function wait() {
  clearTimeout(timer);
  if (rangeMoves() && !document.hidden) timer = setTimeout(() => reader.drawn ? wait() : refresh(true), refreshSeconds() * 1000);
}

/** loadRules requests the rules, and what else the port serves. */
async function loadRules(signal) {
  configured = await fetchAnswer('api/v1/rules', {}, signal);
  setText(byId('loaded'), loadedText());
  const rule = view.path ? configuredInView() : null;
  if (rule && (rule.path !== view.path || rule.domain !== view.domain)) { // the fragment has the readable path
    view = { ...view, domain: rule.domain, path: rule.path };
    history.replaceState(null, '', format(view));
  }
}

function serves(what) {
  return configured.serves.includes(what);
}

function loadedText() {
  if (!serves('rules')) return 'from the history alone';
  if (configured.rules.length === 0) return 'no configuration is loaded yet';
  const when = configured.loaded > 0 ? `, loaded ${day(configured.loaded)} ${timeOfDay(configured.loaded)}` : '';
  return `${exact(configured.rules.length)} ${configured.rules.length === 1 ? 'rule' : 'rules'}${when}`;
}

/** loadRates requests the current rates of the rules, and lists them. */
async function loadRates(signal) {
  let all = configured.rules, top = null, minutes = 1;
  try {
    if (serves('history')) {
      top = await fetchTop({ from: `-${rateSeconds / 60}m` }, signal);
      if (!serves('rules')) all = (await fetchTop({ from: '-30d' }, signal)).top.map(({ domain, path }) => ({ domain, path, limits: [], each: [] }));
    }
  } finally { // lists the rules even without rates
    if (top) minutes = Math.max(Math.min(now(), top.to) - top.from, 60) / 60;
    if (!signal.aborted) {
      rates = { rules: all, top, minutes };
      showList(true);
    }
  }
}

/** loadRanking requests the rules with hits in the range, if the list, the overview or a filter needs them. */
async function loadRanking(signal) {
  if (!serves('history') || !(view.list || view.filter || !view.path)) return;
  const drawn = curve && curveDrawn === curveKey(view) ? { from: curve.from, to: curve.to } : rangeOf(view);
  await ranking.load(view, drawn.from, drawn.to ?? '');
  signal.throwIfAborted();
  showList(true);
  if (view.path || !curve) return;
  const lately = new Map(rules.map(rule => [keyOf(rule), rule]));
  await loadSmall(view, ranked([], ranking.answer, serves('rules'), view), curve, lately, signal);
}

/** loadKeys requests the keys over a limit: of the rule, else of the domain, else of the domain that denies most. */
async function loadKeys(signal) {
  const busy = rules.filter(rule => rule.known).sort((a, b) => b.denied - a.denied)[0];
  keysDomain = view.path ? view.domain : configured.rules.some(rule => rule.domain === view.domain) ? view.domain : busy?.domain;
  if (!serves('counters') || !keysDomain || view.path && !configuredInView()?.limits.length) hideWho();
  else await loadWho(keysDomain, view.path, signal);
}

/** showList lists the rules by their hits now, or in the range. */
function showList(sameOrder) {
  const inRange = view.list !== '' && serves('history'), there = ranking.isOf(view), known = serves('rules');
  rules = merged(rates.rules, rates.top, rates.minutes, known, view);
  byId('lists').hidden = !serves('history');
  setPressed('lists', 'list', view.list);
  setText(byId('counted'), !inRange ? 'last 5 minutes' : !there ? 'counting …'
    : view.range ? `last ${ranges.get(view.range).name}` : span(view.from, view.to));
  setAttr(byId('rules'), 'aria-busy', inRange && !there && 'true');
  if (inRange) table.show(ranked(known ? configured.rules : [], ranking.answer, known, view), view, sameOrder);
  else table.show(rules, { ...view, list: '' }, sameOrder, there && view.filter ? onlyInRange(rules, ranking.answer, known) : []);
}

/** search filters the rules; after a pause in typing, also those of the range. */
function search(filter) {
  view = { ...view, filter };
  history.replaceState(null, '', format(view));
  showList(false);
  clearTimeout(searching);
  searching = setTimeout(async () => {
    if (isRefreshing) return; // which loads the ranking itself
    try {
      await loadRanking(refreshing.signal);
    } catch (error) {
      if (error.name !== 'AbortError' && !(error instanceof Refused)) throw error;
    }
  }, 300);
}

/** configuredInView returns the rule of the view, by its stored or readable path; undefined if there is none. */
function configuredInView() {
  return configured.rules.find(rule => rule.domain === view.domain && rule.path === view.path)
    ?? configured.rules.find(rule => (!view.domain || rule.domain === view.domain) && unescaped(rule.path) === view.path);
}

function ruleInView() {
  const rule = configuredInView();
  if (rule) return { ...rule, known: true };
  const known = !view.path && configured.rules.some(rule => rule.domain === view.domain);
  return { domain: view.domain, path: view.path, limits: [], each: [], gone: serves('rules'), known };
}

/** loadCurve requests and shows the curve of the view, and the texts around it. */
async function loadCurve(signal, quiet) {
  const asked = view, by = asked.by || (asked.path ? 'hits' : 'over');
  let answer = null, fine = null, values = null, denials = null, past = null, recent = null;
  setAttr(byId('plot'), 'data-stale', !quiet);
  if (serves('history')) ({ answer, fine, values, past, recent } = await askHistory(asked, by, signal));
  if (asked.path && serves('denials') && configuredInView()) denials = await fetchAnswer('api/v1/denials', { domain: asked.domain, path: asked.path }, signal);
  if (signal.aborted) return;
  curveDrawn = curveKey(asked);
  [curve, fine] = [answer, fine].map(a => a && joinSeries(a, !asked.path || by === 'over' || values?.found !== 1));
  if (fine) curve.highest = fine.highest;
  if (past) curve.before = comparable(past, answer, weeksBefore(seconds(asked)));
  drawCurve(answer);
  if (recent) showSums(view, recent, curve);
  showValues(view, values, at => go(at.value === view.value ? { value: '' } : at));
  showDenial(denials);
}

/**
 * askHistory requests a curve, its values, the curve some weeks before and, for the overview, the last minutes. In a narrow
 * window it also requests the curve of a wide one, so that both show the same largest minute.
 */
async function askHistory(asked, by, signal) {
  const of = { domain: asked.domain, path: asked.path }, { shift, whole } = weeksBefore(seconds(asked));
  const [step, finest] = [columnsFor(byId('plot').clientWidth), columnsFor(Infinity)].map(columns => stepFor(seconds(asked), columns));
  const how = { ...of, value: asked.value, values: asked.value ? '' : 'false', rules: asked.path ? '' : 'false', step };
  const answer = await askCurve({ ...how, ...rangeOf(asked) }, signal);
  const { from } = answer, to = Math.min(answer.to, Math.ceil(now() / 60) * 60);
  const rounded = seconds => Math.round(seconds / whole) * whole, end = rounded(to - shift);
  const unlessTooMuch = promise => promise.catch(error => {
    if (error.status !== 400) throw error;
    answer.warnings.push(error.message);
    return null;
  });
  const [fine, values, past, recent] = await Promise.all([
    finest < step ? askCurve({ ...how, step: finest, from, to: answer.to }, signal) : null,
    unlessTooMuch(fetchAnswer('api/v1/history/top', { ...of, from, to: answer.to, n: 200, by }, signal)),
    from < shift || to <= from ? null : askCurve({ ...how, step: answer.step || step, from: end - rounded(to - from), to: end }, signal),
    asked.path ? null : recently(asked.domain, signal)]);
  answer.warnings.push(...(values?.warnings ?? []).filter(text => !answer.warnings.includes(text)));
  return { answer, fine, values, past, recent };
}

/** comparable returns the curve some weeks before; null without hits or, with a warning, if it has another length. */
function comparable(past, answer, weeks) {
  const before = joinSeries(past, true);
  if (!(before.totals.hits > 0)) return null;
  if (past.to - past.from > 1.02 * (Math.min(answer.to, now()) - answer.from)) { // its sums cover another length of time
    answer.warnings.push(`Of ${weeks.name} only wider buckets are stored, of ${span(past.from, past.to)}: no comparison.`);
    return null;
  }
  const first = before.buckets.findIndex(b => b.hits > 0), buckets = before.buckets.slice(first); // a line at 0 would mean no hits
  const quiet = past.step < 86400 ? before.buckets.length / 10 : 0; // such as a night
  if (first > quiet) weeks.name += `, since ${day(buckets[0].start)}`;
  return { ...before, buckets, ...weeks };
}

function rangeOf(asked) {
  return asked.range ? { from: `-${asked.range}` } : { from: asked.from, to: asked.to };
}

/** askCurve requests a curve in the local time zone, or in UTC if the server does not know the zone. */
async function askCurve(question, signal) {
  try {
    return await fetchAnswer('api/v1/history', { ...question, tz: view.tz || home }, signal);
  } catch (error) {
    if (error.status !== 400 || !/^tz\b/.test(error.message)) throw error;
    const answer = await fetchAnswer('api/v1/history', question, signal);
    answer.warnings.push(`weir does not know the time zone ${home}: days are those of UTC.`);
    return answer;
  }
}

/** drawCurve draws the curve, or says why there is none. */
function drawCurve(answer) {
  const rule = ruleInView();
  showName(view, rule, () => go({ value: '' }));
  setAttr(document.body, 'data-bare', !curve);
  setAttr(document.body, 'data-overview', !view.path && curve);
  setAttr(document.body, 'data-timeless', !serves('history'));
  const dated = (all, at) => Date.parse(at) ? `Until ${day(Date.parse(at) / 1000)}` : all; // where coarser days or hours begin
  byId('notes').replaceChildren(...(answer?.warnings ?? []).map(text => make('li', {}, shown(text.replace(/^Until (\S+)/, dated), 400))));
  if (!curve) {
    drawNothing();
    return;
  }
  const at = drawChart();
  showTotals(curve);
  showLegend(view, curve, at, go);
  const nothing = configured.rules.length === 0 && Number(curve.lifetime.hits) === 0;
  showEmpty(nothing ? noRules() : whyEmpty(curve, answer, rule, go, configured.rules.find(r => !view.domain || r.domain === view.domain)));
  link();
}

function drawChart() {
  const svg = byId('chart'), width = byId('plot').clientWidth, height = svg.clientHeight || 320;
  const looked = view.outcome ? [view.outcome] : outcomes;
  const name = view.domain ? `${shown(view.domain)} ${shownPath(view.path)}` : 'All rules';
  const title = `${name}, ${span(curve.from, curve.to)}: ${exact(curve.totals.hits)} hits, ${exact(curve.totals.over)} denied`;
  drawnWidth = width;
  const limits = limitLines(ruleInView(), view.value);
  if (view.limit && view.path) limits.push({ at: +view.limit, text: `${view.limit}/min?` });
  showTrial();
  const drawing = draw(svg, curve, { title, outcomes: looked, limits, now: now(), width, height, cut: view.cut });
  reader.show(curve, drawing, now());
  return drawing.at;
}

/** showTrial shows how many minutes the tried limit cuts. */
function showTrial() {
  byId('trial').hidden = !view.path;
  if (document.activeElement !== byId('limit')) byId('limit').value = view.limit;
  const cut = curve.buckets.filter(b => b.peak.hits > +view.limit);
  setText(byId('cuts'), view.limit && `cuts ${cut.some(b => b.width > 60) ? 'at least ' : ''}${exact(cut.length)} minutes of all callers`);
}

/** drawNothing says why there is no curve. */
function drawNothing() {
  byId('chart').replaceChildren();
  byId('legend').replaceChildren();
  byId('totals').tBodies[0].replaceChildren();
  reader.show({ from: 0, to: 1, buckets: [] }, null, 0);
  showEmpty(!serves('history') ? noHistory() : noRules());
}

function showEmpty(content) {
  byId('empty').replaceChildren(...content);
  byId('empty').hidden = content.length === 0;
  byId('plot').setAttribute('role', content.length === 0 ? 'slider' : 'group'); // screen readers skip buttons in a slider
  for (const what of content.length === 0 ? [] : ['min', 'max', 'now', 'text']) byId('plot').removeAttribute(`aria-value${what}`);
  setAttr(byId('plot'), 'data-empty', content.length > 0);
}

/** link makes a permanent link to this view, with absolute rangeOf. */
function link() {
  const here = { ...view, range: '', from: curve.from, to: curve.to, filter: '' };
  byId('link').setAttribute('href', format(here));
  byId('link').dataset.print = byId('link').href;
}

function showControls() {
  const to = view.range ? now() : view.to;
  showRange(view.range, view.range ? to - seconds(view) : view.from, to);
  for (const button of byId('zones').children) {
    if (!button.dataset.tz) setText(button, home || 'local');
  }
  setPressed('zones', 'tz', view.tz);
  const filter = byId('filter');
  if (filter.value !== view.filter) filter.value = view.filter;
  if (configured.serves.length > 0) showList(true);
}

function pick() {
  const { from, to, wrong } = pickedRange();
  setText(byId('message'), wrong);
  if (!wrong) go({ range: '', from, to });
}

/** shift moves the range by its length: back for -1, on for 1. */
function shift(way) {
  const length = seconds(view), to = view.range ? Math.floor(now() / 60) * 60 : view.to;
  const moved = Math.max(to + way * length, length);
  go({ range: '', from: moved - length, to: moved });
}

function listen() {
  if (/^(Etc\/)?(UTC|GMT)$/.test(home)) byId('zones').textContent = 'UTC'; // there is no other zone to choose
  byId('ranges').addEventListener('click', event => {
    const name = event.target.dataset?.range;
    if (ranges.has(name)) go({ range: name, from: 0, to: 0 });
  });
  byId('apply').addEventListener('click', pick);
  byId('earlier').addEventListener('click', () => shift(-1));
  byId('later').addEventListener('click', () => shift(1));
  byId('picked').addEventListener('keydown', event => event.key === 'Enter' && event.target.matches('input') && pick());
  byId('copy').addEventListener('click', () => copy(byId('link').href));
  byId('zones').addEventListener('click', event => event.target.dataset.tz !== undefined && go({ tz: event.target.dataset.tz }));
  byId('values').tHead.addEventListener('click', event => event.target.dataset.by !== undefined && go({ by: event.target.dataset.by }));
  byId('limit').addEventListener('change', event => go({ limit: event.target.value }));
  byId('to-rules').addEventListener('click', () => byId('filter').focus());
  for (const part of document.querySelectorAll('.copies')) {
    const kinds = [['command', 'command'], ['query', 'PromQL']].slice(0, 'one' in part.dataset ? 1 : 2);
    part.append('copy:', ...kinds.flatMap(([as, name]) => [' ', make('button', { type: 'button', 'data-as': as }, name)]));
    setAttr(part, 'role', 'group');
    setAttr(part, 'aria-label', 'Copy');
  }
  document.addEventListener('click', event => {
    const { as } = event.target.dataset;
    if (as) copy(sourceOf(event.target.parentElement.dataset.of, { ...view, whose: keysDomain }, curve, view.tz || home)[as]);
  });
  byId('lists').addEventListener('click', event => {
    const { list } = event.target.dataset;
    if (list !== undefined) go({ list });
  });
  byId('filter').addEventListener('input', event => search(event.target.value));
  byId('filter').addEventListener('keydown', event => {
    if (event.key !== 'ArrowDown' && event.key !== 'Enter') return;
    event.preventDefault();
    table.focus(0);
  });
  let slash = false; // focus at keyup, so that the slash is not typed; Shift may come up first
  document.addEventListener('keydown', event => {
    slash = event.key === '/' && !event.ctrlKey && !event.metaKey && !event.altKey && !event.target.matches('input');
    if (slash) event.preventDefault(); // some browsers have a search of their own
  });
  document.addEventListener('keyup', () => {
    if (slash) byId('filter').focus();
    slash = false;
  });
  window.addEventListener('popstate', () => {
    if (format(parse(location.hash)) === format(view)) return;
    view = parse(location.hash);
    refresh(false);
  });
  document.addEventListener('visibilitychange', () => {
    if (document.hidden) clearTimeout(timer);
    else if (isRefreshing) return;
    else if (rangeMoves() && now() - refreshedAt >= refreshSeconds()) refresh(true);
    else wait();
  });
  new ResizeObserver(() => curve && drawCurveAgain()).observe(byId('plot'));
}

function drawCurveAgain() {
  const width = byId('plot').clientWidth;
  if (width === drawnWidth || width === 0 || matchMedia('print').matches) return;
  if (columnsFor(drawnWidth) !== columnsFor(width)) refresh(true);
  drawChart();
}

listen();
refresh(false);
