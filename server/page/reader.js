// Shows the bucket under the pointer or the finger, or the one that the arrow keys chose. A stretch that the mouse selects
// becomes the range.
import { make, swatch } from './elements.js';
import { outcomeNames } from './detail.js';
import { brief, exact, span, width } from './text.js';
import { minutes, tierNames } from './buckets.js';

const minStretch = 6; // pixels of the shortest stretch; a shorter one is a click

export class Reader {
  /** plot, svg, reading and summary are elements; zoom is called with the ends of a stretch, in Unix seconds. */
  constructor(plot, svg, reading, summary, zoom) {
    Object.assign(this, { plot, svg, reading, zoom, summary, at: -1, keyed: false, drawn: null });
    plot.addEventListener('pointermove', event => this.moved(event));
    plot.addEventListener('pointerdown', event => this.pressed(event));
    plot.addEventListener('pointerup', event => this.released(event));
    plot.addEventListener('pointerleave', event => event.pointerType === 'mouse' && !this.drawn && this.read(-1));
    plot.addEventListener('keydown', event => this.keyPressed(event));
    plot.addEventListener('blur', () => this.keyed && this.read(-1));
  }

  /** show sets the drawn curve to read. */
  show(curve, drawing, now) {
    const before = this.at >= 0 ? this.curve?.buckets[this.at]?.start : undefined;
    Object.assign(this, { curve, drawing, now, drawn: null });
    this.plot.setAttribute('aria-valuemin', 0);
    this.plot.setAttribute('aria-valuemax', Math.max(curve.buckets.length - 1, 0));
    this.plot.setAttribute('aria-disabled', curve.buckets.length === 0);
    writeParts(this.summary, summaryOf(curve));
    this.read(before === undefined ? -1 : curve.buckets.findIndex(b => b.start === before));
  }

  position(event) {
    const box = this.svg.getBoundingClientRect();
    return (event.clientX - box.left) / box.width * (this.svg.viewBox.baseVal.width || box.width);
  }

  moved(event) {
    if (!this.readable()) return;
    this.keyed = false;
    const x = this.position(event);
    if (this.drawn && event.pointerType === 'mouse') this.stretch(x);
    this.read(this.drawing.indexAt(x));
  }

  pressed(event) {
    if (!this.readable() || event.button !== 0 || event.target.closest('#empty')) return;
    const x = this.position(event);
    this.read(this.drawing.indexAt(x));
    if (event.pointerType === 'mouse') {
      this.drawn = { from: x, to: x };
      this.plot.setPointerCapture(event.pointerId);
    }
  }

  stretch(x) {
    const { left, right } = this.drawing.plot;
    this.drawn.to = Math.min(Math.max(x, left), right);
    const [from, to] = [this.drawn.from, this.drawn.to].sort((a, b) => a - b);
    this.mark('.drawn', from, to - from >= minStretch ? to : from);
  }

  released(event) {
    const drawn = this.drawn;
    this.drawn = null;
    this.mark('.drawn', 0, 0);
    if (!drawn || event.type !== 'pointerup' || Math.abs(drawn.to - drawn.from) < minStretch) return;
    const [from, to] = [drawn.from, drawn.to].sort((a, b) => a - b).map(x => this.curve.buckets[this.drawing.indexAt(x)]);
    this.zoom(from.start, to.end);
  }

  keyPressed(event) {
    if (!this.readable()) return;
    const last = this.curve.buckets.length - 1, step = event.shiftKey ? 10 : 1;
    const from = this.at < 0 ? last + 1 : this.at;
    const to = { ArrowLeft: from - step, ArrowRight: this.at < 0 ? 0 : from + step, ArrowDown: from - step, ArrowUp: this.at < 0 ? 0 : from + step,
      Home: 0, End: last, PageDown: from - 10, PageUp: from + 10 }[event.key];
    if (to !== undefined) {
      event.preventDefault();
      this.keyed = true;
      this.read(Math.min(Math.max(to, 0), last));
    } else if (event.key === 'Escape') {
      this.read(-1);
    }
  }

  readable() {
    return this.curve?.buckets.length > 0;
  }

  mark(name, left, right) {
    const rect = this.svg.querySelector(name);
    rect?.setAttribute('x', left);
    rect?.setAttribute('width', Math.max(right - left, 0));
  }

  /** read shows the numbers of a bucket beside it, or none for -1. */
  read(i) {
    this.at = i;
    const bucket = this.curve?.buckets[i];
    this.reading.hidden = !bucket;
    if (!bucket) {
      this.mark('.read', 0, 0);
      this.plot.setAttribute('aria-valuenow', 0);
      this.plot.setAttribute('aria-valuetext', 'the whole range');
      return;
    }
    const { left, right } = this.drawing.column(i);
    this.mark('.read', left, right);
    const parts = describe(bucket, this.now, this.curve.before), scale = this.svg.clientWidth / this.svg.viewBox.baseVal.width;
    writeParts(this.reading, parts);
    const after = (left + right) / 2 < this.drawing.plot.right / 2;
    this.reading.style.left = after ? `${right * scale + 10}px` : 'auto';
    this.reading.style.right = after ? 'auto' : `${this.svg.clientWidth - left * scale + 10}px`;
    this.plot.setAttribute('aria-valuenow', i);
    this.plot.setAttribute('aria-valuetext', parts.map(part => part.textContent).join(', '));
  }
}

/** writeParts writes parts into an element, with spaces between them where lines may break. */
function writeParts(element, parts) {
  element.replaceChildren(...parts.flatMap(part => [part, ' ']));
}

/** summaryOf describes a curve: its range, its largest minute and, if the last bucket has denials, since when each has. */
function summaryOf({ from, to, step, buckets, highest }) {
  if (buckets.length === 0) return [];
  const parts = [make('span', { 'data-part': 'time' }, make('b', {}, span(from, to))),
    make('span', { 'data-part': 'step' }, `by ${width(buckets[Math.floor(buckets.length / 2)].width)}`)];
  if (Number(highest.peak.hits) > 0) parts.push(largest(highest, ` in ${span(highest.start, highest.end)}`));
  const done = buckets.filter(b => !b.partial), quiet = done.findLastIndex(b => !(b.over > 0));
  if (quiet < done.length - 2) {
    const since = quiet < 0 ? 'this range began' : span(done[quiet].end, done[quiet + 1].end);
    parts.push(make('span', { 'data-part': 'since' }, `denied at least once every ${width(step).replace(/^1 /, '')} since `, make('b', {}, since)));
  }
  return parts;
}

function describe(b, now, before) {
  const parts = [make('span', { 'data-part': 'time' }, make('b', {}, span(b.start, b.end)), b.partial ? ' so far' : '')];
  for (const [outcome, name] of outcomeNames) {
    if (outcome === 'within' || b[outcome] > 0) {
      parts.push(make('span', { 'data-part': outcome, 'data-hits': b[outcome] }, swatch(outcome), make('b', {}, exact(b[outcome])), ` ${name}`));
    }
  }
  parts.push(make('span', { 'data-part': 'rate' }, make('b', {}, brief(Number(b.hits) / minutes(b, now))), ' a minute'));
  const then = before?.buckets.find(e => e.start + before.shift < b.end && e.end + before.shift > b.start);
  if (then) parts.push(make('span', { 'data-part': 'before' }, make('b', {}, brief(Number(then.hits) / minutes(then, now))), ` ${before.name}`));
  if (b.width > 60 && b.hits > 0) parts.push(largest(b, ''));
  if (b.tier) parts.push(make('span', { 'data-part': 'tier' }, 'stored by ', make('b', {}, tierNames.get(b.tier))));
  return parts;
}

function largest(b, where) {
  return make('span', { 'data-part': 'peak', 'data-hits': b.peak.hits }, 'largest minute ',
    make('b', {}, (b.peak.exact ? '' : 'at most ') + exact(b.peak.hits)), where);
}
