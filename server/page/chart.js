// Draws a curve as SVG, independently of the page around it; the style sheet has the colours.
import { stacked, tierRuns, degradedRuns, outlier, quantile } from './buckets.js';
import { rounded, timeTicks } from './scale.js';
import { brief } from './text.js';

const room = { left: 46, right: 10, top: 32, bottom: 22 };
const letter = 6.4; // the most pixels of a letter in size 11

/**
 * draw draws a curve into an svg element.
 * curve: {from, to, buckets}, as joinSeries returns them, and before: {buckets, shift} of a time so many seconds earlier, or
 * null; look: {title, outcomes, limits, now, width, height, cut}, cut if the scale should exclude outliers. Names are around
 * the bars, never on them. It returns {indexAt(x), column(i), at}: x is in pixels of the element; at is the top of the scale
 * without outliers, in hits a minute, 0 if there are none.
 */
export function draw(svg, curve, look) {
  const { width, height } = look;
  const { bands, tops } = stacked(curve.buckets, look.outcomes, look.now);
  const before = curve.before ? stacked(curve.before.buckets, look.outcomes, look.now).tops : [];
  const names = Math.min(Math.max(0, ...look.limits.map(l => l.text.length)) * letter, width / 3);
  const plot = { left: room.left, right: width - room.right - names, top: room.top, bottom: height - room.bottom };
  const end = outlier(tops), y = scaleOf(tops, before, curve.buckets, look, plot, look.cut ? end : 0);
  const x = at => plot.left + (at - curve.from) / (curve.to - curve.from) * (plot.right - plot.left);
  const pen = new Pen(svg);
  svg.setAttribute('viewBox', `0 0 ${width} ${height}`);
  pen.add('title', {}, look.title);
  hatch(pen);
  grid(pen, plot, y, x, curve);
  for (const run of degradedRuns(curve.buckets)) {
    pen.add('rect', { class: 'degraded-time', x: x(run.from), y: plot.top, width: x(run.to) - x(run.from), height: plot.bottom - plot.top });
  }
  drawBands(pen, curve.buckets, bands, x, y);
  drawPeaks(pen, curve.buckets, tops, x, y, look);
  if (curve.before) drawBefore(pen, curve.before, before, x, y, plot);
  pen.add('path', { class: 'cut', d: drawBeyond(pen, curve.buckets, tops, x, y) });
  drawPartial(pen, curve.buckets, x, plot);
  drawTiers(pen, curve.buckets, x, plot);
  drawLimits(pen, look.limits, y, plot, names);
  pen.add('rect', { class: 'drawn', x: 0, y: plot.top, width: 0, height: plot.bottom - plot.top });
  pen.add('rect', { class: 'read', x: 0, y: plot.top, width: 0, height: plot.bottom - plot.top });
  svg.replaceChildren(pen.drawing);
  return {
    plot,
    at: end > 0 ? ceiling(end, look.height).top : 0,
    indexAt(at) {
      const time = curve.from + Math.min(Math.max((at - plot.left) / (plot.right - plot.left), 0), 1) * (curve.to - curve.from);
      const next = curve.buckets.findIndex(b => b.end > time);
      return next < 0 ? curve.buckets.length - 1 : next;
    },
    column: i => ({ left: x(curve.buckets[i].start), right: x(curve.buckets[i].end) }),
  };
}

/** drawSmall draws a curve without axes into an svg element. It uses the hatching of the large curve. */
export function drawSmall(svg, curve, look) {
  const { bands, tops } = stacked(curve.buckets, look.outcomes, look.now), top = Math.max(...tops) || 1, pen = new Pen(svg);
  svg.setAttribute('viewBox', `0 0 ${look.width} ${look.height}`);
  const x = at => (at - curve.from) / (curve.to - curve.from) * look.width, y = rate => look.height * (1 - rate / top);
  drawBands(pen, curve.buckets, bands, x, y);
  svg.replaceChildren(pen.drawing);
  return top;
}

/** Pen makes elements in the namespace of the svg element. */
class Pen {
  constructor(svg) {
    this.kind = svg.namespaceURI;
    this.drawing = document.createDocumentFragment();
  }

  add(name, attributes, text = '', into = this.drawing) {
    const element = document.createElementNS(this.kind, name);
    for (const [key, given] of Object.entries(attributes)) {
      element.setAttribute(key, typeof given === 'number' ? round(given) : given);
    }
    element.textContent = text;
    into.append(element);
    return element;
  }
}

function round(pixels) {
  return Math.round(pixels * 100) / 100;
}

function hatch(pen) {
  const definitions = pen.add('defs', {});
  const tile = { id: 'hatch', width: 6, height: 6, patternUnits: 'userSpaceOnUse', patternTransform: 'rotate(45)' };
  const pattern = pen.add('pattern', tile, '', definitions);
  pen.add('rect', { class: 'hatch-back', width: 6, height: 6 }, '', pattern);
  pen.add('line', { class: 'hatch', x1: 1, y1: 0, x2: 1, y2: 6 }, '', pattern);
}

/**
 * scaleOf chooses the top of the scale: above all bands, the curve of the comparison, limits not far above them, and most peaks
 * if the bands still get three quarters of the height. Higher values are clipped and marked.
 */
function scaleOf(tops, before, buckets, look, plot, end) {
  const most = end || Math.max(0, ...tops), past = Math.max(0, ...before);
  const peak = look.outcomes.length > 1 ? quantile(buckets.map(b => Number(b.peak.hits)), 0.9) : 0;
  let high = end || Math.max(most, Math.min(peak, most * 1.25), most > 0 ? Math.min(past, most * 2) : past);
  for (const l of look.limits) {
    if (high === 0 || l.at <= high * 1.8) high = Math.max(high, l.at);
  }
  const { top, ticks } = ceiling(high, look.height);
  const y = rate => plot.bottom - Math.min(rate / top, 1) * (plot.bottom - plot.top);
  return Object.assign(y, { top, ticks, above: plot.top - 3 });
}

function ceiling(high, height) {
  return rounded(high * 1.04, height < 280 ? 3 : 4);
}

function grid(pen, plot, y, x, curve) {
  for (const [i, tick] of y.ticks.entries()) {
    pen.add('line', { class: i === 0 ? 'axis' : 'gridline', x1: plot.left, x2: plot.right, y1: y(tick), y2: y(tick) });
    const last = i === y.ticks.length - 1;
    pen.add('text', { x: plot.left - 8, y: y(tick) + 4, 'text-anchor': 'end' }, brief(tick));
    if (last) pen.add('text', { x: plot.left - 8, y: y(tick) - 9, 'text-anchor': 'end' }, '/min');
  }
  for (const tick of timeTicks(curve.from, curve.to, Math.max((plot.right - plot.left) / (plot.right < 560 ? 58 : 82), 2))) {
    const at = x(tick.at);
    pen.add('line', { class: 'axis', x1: at, x2: at, y1: plot.bottom, y2: plot.bottom + 4 });
    if (at >= plot.right - 12) continue;
    const anchor = at < plot.left + 12 ? 'start' : 'middle';
    pen.add('text', { x: Math.max(at, plot.left + 4), y: plot.bottom + 17, 'text-anchor': anchor }, tick.label);
  }
}

function drawBands(pen, buckets, bands, x, y) {
  for (const [outcome, band] of bands) {
    let d = '';
    for (const [from, to] of stretches(buckets, outcome)) {
      let up = '', down = '';
      for (let i = from; i < to; i++) {
        const left = round(x(buckets[i].start)), right = round(x(buckets[i].end));
        up += `${i === from ? 'M' : 'L'}${left} ${round(y(band.high[i]))}H${right}`;
        down = `L${right} ${round(y(band.low[i]))}H${left}` + down;
      }
      d += up + down + 'Z';
    }
    const path = pen.add('path', { class: 'band', 'data-outcome': outcome, d });
    if (outcome === 'shadow') path.setAttribute('fill', 'url(#hatch)');
  }
}

/** stretches yields the runs of buckets in which an outcome has hits: [from, to). */
function* stretches(buckets, outcome) {
  let from = -1;
  for (let i = 0; i <= buckets.length; i++) {
    const some = i < buckets.length && buckets[i][outcome] > 0;
    if (some && from < 0) from = i;
    if (!some && from >= 0) {
      yield [from, i];
      from = -1;
    }
  }
}

/**
 * drawPeaks marks the largest minute of a bucket, or of several narrow ones, if it is much higher than the bar. A run of marks
 * above the scale gets one mark.
 */
function drawPeaks(pen, buckets, tops, x, y, look) {
  if (look.outcomes.length === 1 || buckets.length === 0) return; // the outcomes of a single minute are not stored
  const each = Math.max(Math.ceil(6 * buckets.length / (x(buckets.at(-1).end) - x(buckets[0].start))), 1), marks = [];
  for (let i = 0; i < buckets.length; i += each) {
    const some = buckets.slice(i, i + each), peak = Math.max(...some.map(b => Number(b.peak.hits)));
    const seen = some[0].width > 60 && y(Math.max(...tops.slice(i, i + each))) - y(peak) >= 3;
    marks.push({ left: x(some[0].start), right: x(some.at(-1).end), at: y(peak), high: seen && peak > y.top, low: seen && peak <= y.top });
  }
  let d = marks.map(m => m.low ? `M${round((m.left + m.right) / 2 - 2)} ${round(m.at)}h4` : '').join('');
  for (const [from, to] of stretches(marks, 'high')) {
    const { left } = marks[from], { right } = marks[to - 1];
    d += `${to - from > 1 ? `M${round(left)} ${y.above}H${round(right)}` : ''}${beyondMark((left + right) / 2, y)}`;
  }
  if (d) pen.add('path', { class: 'peak', d });
}

/** beyondMark returns the mark for something that is higher than the scale, above its middle. */
function beyondMark(middle, y) {
  return `M${round(middle - 3)} ${y.above}l3 -4l3 4`;
}

/** drawBefore draws the curve of the comparison. */
function drawBefore(pen, { buckets, shift }, tops, x, y, plot) {
  const at = time => round(Math.min(Math.max(x(time + shift), plot.left), plot.right));
  const line = buckets.map((b, i) => {
    const up = i > 0 ? 'V' : `M${at(b.start)} `, on = tops[i] > y.top ? `M${at(b.end)} ${plot.top}` : `H${at(b.end)}`;
    return up + round(y(tops[i])) + on;
  }).join('');
  pen.add('path', { class: 'before', d: line + drawBeyond(pen, buckets, tops, at, y) });
}

/** drawBeyond writes the height of buckets that are higher than the scale, if there is room, and returns their marks. */
function drawBeyond(pen, buckets, tops, at, y) {
  let d = '', free = 0;
  for (const [from, to] of stretches(tops.map(top => ({ high: top > y.top * 1.0001 })), 'high')) {
    const middle = (at(buckets[from].start) + at(buckets[to - 1].end)) / 2;
    d += beyondMark(middle, y);
    if (middle < free) continue;
    free = middle + 40;
    pen.add('text', { class: 'beyond', x: middle, y: y.above - 7, 'text-anchor': 'middle' }, brief(Math.max(...tops.slice(from, to))));
  }
  return d;
}

function drawPartial(pen, buckets, x, plot) {
  const first = buckets.find(b => b.partial);
  if (!first) return;
  const left = x(first.start), right = x(buckets.at(-1).end);
  pen.add('rect', { class: 'partial', x: left, y: plot.top, width: right - left, height: plot.bottom - plot.top });
  pen.add('line', { class: 'partial-edge', x1: left, x2: left, y1: plot.top, y2: plot.bottom });
}

function drawTiers(pen, buckets, x, plot) {
  for (const run of tierRuns(buckets).slice(1)) {
    pen.add('line', { class: 'tier-border', x1: x(run.from), x2: x(run.from), y1: plot.top, y2: plot.bottom });
  }
}

/** drawLimits draws limits with their names. The names of limits above the scale are at the top. */
function drawLimits(pen, limits, y, plot, names) {
  const fitted = text => text.length * letter > names + 1 ? `${text.slice(0, Math.floor(names / letter) - 1)}…` : text;
  let free = plot.bottom + 17; // the next name fits below it
  for (const l of limits.filter(l => l.at <= y.top).sort((a, b) => a.at - b.at)) {
    free = Math.min(y(l.at) + 4, free - 13);
    pen.add('line', { class: 'limit', x1: plot.left, x2: plot.right, y1: y(l.at), y2: y(l.at) });
    pen.add('text', { class: 'limit-label', x: plot.right + 6, y: free }, fitted(l.text));
  }
  const higher = limits.filter(l => l.at > y.top).map(l => l.text);
  if (higher.length > 0) pen.add('text', { class: 'limit-above', x: plot.right, y: 11, 'text-anchor': 'end' }, `↑ above the scale: ${higher.join(', ')}`);
}
