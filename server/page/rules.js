// The table of all rules, now or in a range, with a filter and keys.
import { make, setText, setAttr } from './elements.js';
import { format } from './view.js';
import { brief, exact, share, shown, shownPath, unescaped } from './text.js';

/** unmatched is the path of requests that no rule of their domain matches. */
export const unmatched = '__unmatched__';

const mostRows = 200; // rows that are drawn; the filter searches all

/** keyOf returns a string that identifies a rule. */
export function keyOf({ domain, path }) {
  return JSON.stringify([domain, path]);
}

/**
 * merged merges the rules in force with those that have hits, by their hits or denials. rules: those of /api/v1/rules or, if
 * these are unknown, some others; top: the answer of /api/v1/history/top, or null; minutes: the length of its range; view: the
 * present view, whose rule is included.
 */
export function merged(rules, top, minutes, known, view) {
  const all = new Map();
  for (const rule of rules) all.set(keyOf(rule), { ...rule, known, hits: 0, denied: 0, perMinute: 0, deniedPerMinute: 0 });
  const also = view.path ? [{ ...view, hits: 0, over: 0 }] : [];
  for (const row of [...also, ...top?.top ?? []]) {
    const key = keyOf(row);
    const rule = all.get(key) ?? nameOnly(row, known);
    const denied = Number(row.over);
    all.set(key, { ...rule, hits: Number(row.hits), denied, perMinute: Number(row.hits) / minutes, deniedPerMinute: denied / minutes });
  }
  // Rules that a full ranking lacks had fewer hits than its last one.
  const cut = top && top.found > top.top.length ? Number(top.top.at(-1).hits) / minutes : 0;
  const list = [...all.values()];
  for (const rule of list) {
    rule.unmeasured = !top;
    rule.size = rule.perMinute; // the length of the bar under its name
    if (rule.hits === 0 && cut > 0) rule.below = cut;
  }
  return list.sort((a, b) => (view.by === 'hits' ? 0 : b.denied - a.denied) || b.perMinute - a.perMinute
    || compare(a.domain, b.domain) || compare(a.path, b.path));
}

/** nameOnly makes a rule with nothing but its name. */
export function nameOnly({ domain, path }, known) {
  return { domain, path, limits: [], each: [], gone: known };
}

/** compare compares two texts or two counts, for sorting in ascending order. */
export function compare(a, b) {
  return a < b ? -1 : a > b ? 1 : 0;
}

/** matching returns the rules that contain every word of a filter. */
export function matching(rules, filter) {
  const words = filter.toLowerCase().split(/\s+/).filter(Boolean);
  return words.length === 0 ? rules : rules.filter(({ domain, path }) => {
    const text = `${domain} ${path} ${unescaped(path)}`.toLowerCase();
    return words.every(word => text.includes(word));
  });
}

/** limitsOf describes the limits of a rule for people. */
export function limitsOf(rule) {
  const limits = rule.limits.map(l => l.text);
  if (rule.unlimited) limits.push('unlimited');
  if (rule.path === unmatched) return 'requests that no rule matches';
  if (limits.length === 0 && (rule.known || rule.gone)) limits.push(rule.gone ? 'not configured now' : 'no limit');
  if (rule.shadow) limits.push('shadow mode');
  if (rule.quota) limits.push('quota');
  return limits.join(' · ');
}

export class RuleTable {
  /**
   * table and more are elements; choose is called with a chosen rule, and rank with the new order of the list of a range: "hits"
   * or "over".
   */
  constructor(table, more, choose, rank) {
    this.table = table;
    this.body = table.tBodies[0];
    this.more = more;
    this.choose = choose;
    this.rows = new Map(); // by the rule's key
    this.body.addEventListener('click', event => this.clicked(event));
    this.body.addEventListener('keydown', event => this.pressed(event));
    this.order = '';
    table.tHead.addEventListener('click', event => {
      const button = event.target.closest('button');
      if (button) rank(button.dataset.by);
    });
  }

  /**
   * show draws the rules that match the filter or, if none does, those of onlyInRange that match. While the pointer is over the
   * table, its rows do not move.
   */
  show(rules, view, sameOrder, onlyInRange = []) {
    let found = matching(rules, view.filter), others = matching(onlyInRange, view.filter), late = false;
    if (found.length === 0 && others.length > 0) [found, others, late] = [others, [], true];
    let drawn = found.slice(0, mostRows);
    const order = view.list + view.by;
    if (sameOrder && order === this.order && this.inUse()) {
      const at = new Map([...this.body.rows].map((row, i) => [row.dataset.key, i]));
      const held = drawn.filter(rule => at.has(keyOf(rule)));
      if (held.length === at.size && held.length === drawn.length) {
        drawn = held.sort((a, b) => at.get(keyOf(a)) - at.get(keyOf(b)));
      }
    }
    if (order !== this.order) this.table.closest('.scroll').scrollTop = 0;
    this.order = order;
    this.head(view);
    const busiest = Math.max(...drawn.map(rule => rule.size), 0);
    const kept = new Map();
    const rows = drawn.map(rule => {
      const key = keyOf(rule);
      const row = this.rows.get(key) ?? newRow(rule, key);
      fill(row, rule, busiest, view);
      kept.set(key, row);
      return row;
    });
    this.rows = kept;
    this.putRows(rows);
    this.showMore(this.moreText(rules.length, found.length, drawn.length, late, view.filter), others.length, view);
  }

  /** head writes the titles of the columns, and marks the one that the rows are ranked by. */
  head(view) {
    for (const [i, cell] of [...this.table.tHead.rows[0].cells].entries()) {
      if (i === 1) setText(cell.firstElementChild, view.list ? 'Hits' : 'Hits/min');
      setAttr(cell, 'aria-sort', i > 0 && (view.by || 'over') === cell.firstElementChild.dataset.by && 'descending');
    }
  }

  inUse() {
    return this.body.matches(':hover') || this.body.contains(document.activeElement);
  }

  putRows(rows) {
    const now = this.body.rows;
    if (rows.length !== now.length || rows.some((row, i) => now[i] !== row)) {
      const focused = this.body.contains(document.activeElement) ? document.activeElement : null;
      this.body.replaceChildren(...rows);
      if (focused?.isConnected) focused.focus({ preventScroll: true });
    }
    this.setTabStop();
  }

  /** setTabStop makes one row reachable by the tab key: that of the view, or the first. */
  setTabStop(row = null) {
    const rows = [...this.body.rows];
    const one = row ?? rows.find(r => r === document.activeElement) ?? rows.find(r => r.getAttribute('aria-current')) ?? rows[0];
    for (const r of rows) r.tabIndex = r === one ? 0 : -1;
  }

  moreText(all, found, drawn, late, filter) {
    if (found > drawn) return `${exact(found - drawn)} more. Filter to find them.`;
    if (late) return 'Hit in this range, but not lately.';
    if (all === 0) return 'No rule is configured, and none has hits.';
    return found === 0 ? `None of ${exact(all)} rules matches “${shown(filter, 60)}”.` : '';
  }

  /** showMore shows a sentence below the rules, and the number of further rules in the list of the range. */
  showMore(text, others, view) {
    const there = others > 0 ? `${exact(others)} more in this range` : '', href = format({ ...view, list: 'range' });
    const link = this.more.querySelector('a');
    this.more.hidden = !text && !there;
    if (this.more.textContent === [text, there].filter(Boolean).join(' ')) {
      link?.setAttribute('href', href);
      return;
    }
    this.more.replaceChildren(...[text, text && there && ' ', there && make('a', { href }, there)].filter(Boolean));
  }

  /** reveal scrolls the table, but not the page, to the rule of the view. */
  reveal() {
    const row = this.body.querySelector('[aria-current]'), window = this.body.closest('.scroll');
    if (!row || !window) return;
    const at = row.getBoundingClientRect(), seen = window.getBoundingClientRect(), head = this.body.offsetTop;
    if (at.top < seen.top + head || at.bottom > seen.bottom) window.scrollTop += at.top - seen.top - head - row.offsetHeight;
  }

  clicked(event) {
    const row = event.target.closest('tr.rule');
    if (!row || event.ctrlKey || event.metaKey || event.shiftKey) return;
    event.preventDefault();
    this.choose(row.dataset.domain, row.dataset.path);
  }

  pressed(event) {
    const rows = [...this.body.rows], at = rows.indexOf(event.target.closest('tr'));
    const to = { ArrowDown: at + 1, ArrowUp: at - 1, Home: 0, End: rows.length - 1, PageDown: at + 10, PageUp: at - 10 }[event.key];
    if (to !== undefined) {
      event.preventDefault();
      this.focus(Math.min(Math.max(to, 0), rows.length - 1));
    } else if (event.key === 'Enter' || event.key === ' ') {
      event.preventDefault();
      this.choose(rows[at].dataset.domain, rows[at].dataset.path);
    }
  }

  focus(i) {
    const row = this.body.rows[i];
    if (!row) return;
    this.setTabStop(row);
    row.focus();
  }
}

function newRow(rule, key) {
  const name = shownPath(rule.path), domain = shown(rule.domain);
  const link = make('a', { tabindex: '-1', title: `${domain} ${shownPath(rule.path, 2000)}` }, make('bdi', {}, name));
  const row = make('tr', { class: 'rule', 'data-key': key, 'data-domain': rule.domain, 'data-path': rule.path, tabindex: '-1' },
    make('td', {}, link,
      make('span', { class: 'under' }, make('bdi', { class: 'domain', title: domain }, domain), make('span', { class: 'limits' })),
      make('span', { class: 'load', 'aria-hidden': 'true' }, make('i'), make('i'))),
    make('td', { class: 'rate' }), make('td', { class: 'denied' }));
  return row;
}

/** count formats a number of hits, with all of its digits if it is below most. */
function count(hits, most) {
  return hits < most ? exact(hits) : brief(Number(hits));
}

function fill(row, rule, busiest, view) {
  const measured = rule.counts && !rule.unmeasured;
  const cell = row.querySelector('.rate');
  setText(cell, rule.unmeasured ? '–' : rule.counts ? count(rule.hits, 1e7) : rule.below ? `<${brief(rule.below)}` : brief(rule.perMinute));
  setAttr(cell, 'data-hits', measured && String(rule.hits));
  setAttr(cell, 'title', measured && `${exact(rule.hits)} hits`);
  setAttr(cell, 'data-none', rule.hits === 0);
  const denied = row.querySelector('.denied');
  const part = share(rule.denied, rule.hits);
  const refused = !(rule.denied > 0) ? '' : measured ? count(rule.denied, 1e6) : `${brief(rule.deniedPerMinute)}/min`;
  if (denied.textContent !== part + refused) denied.replaceChildren(...[part, refused && make('small', {}, refused)].filter(Boolean));
  setAttr(denied, 'data-refused', measured && String(rule.denied));
  setAttr(denied, 'title', measured && `${exact(rule.denied)} denied`);
  setAttr(denied, 'data-none', !(rule.denied > 0));
  setAttr(denied, 'data-some', rule.denied > 0);
  const limits = row.querySelector('.limits');
  setText(limits, limitsOf(rule));
  limits.title = limits.textContent;
  const [within, over] = row.querySelectorAll('.load i');
  const length = busiest > 0 ? rule.size / busiest * 100 : 0, some = rule.hits > 0 ? Number(rule.denied) / Number(rule.hits) : 0;
  within.style.width = `${length * (1 - some)}%`;
  over.style.width = `${length * some}%`;
  setAttr(row, 'data-gone', rule.gone);
  const current = rule.domain === view.domain && rule.path === view.path;
  setAttr(row, 'aria-current', current && 'true');
  row.querySelector('a').setAttribute('href', format({ ...view, domain: rule.domain, path: rule.path, value: '', cut: false }));
}
