// Draws a curve as SVG. Nothing here knows the page around it; colours are the style sheet's.
import { stacked, tierRuns, degradedRuns, outlier, usually } from './buckets.js';
import { rounded, timeTicks } from './scale.js';
import { brief } from './text.js';

const room = { left: 46, right: 10, top: 38, bottom: 22 };

/**
 * draw puts a curve into an svg element.
 * curve: {from, to, buckets}, as joined returns them; look: {title, outcomes, limits, now, width, height, cut}, cut if the
 * scale is to leave out what stands out. It returns where things are: {indexAt(x), column(i)}, x in pixels of the
 * element; and at, how high the scale is or would be if it is or was cut, in hits a minute, 0 if nothing stands out.
 */
export function draw(svg, curve, look) {
  const { width, height } = look;
  const plot = { left: room.left, right: width - room.right, top: room.top, bottom: height - room.bottom };
  const { bands, tops } = stacked(curve.buckets, look.outcomes, look.now);
  const end = outlier(tops), y = scaleOf(tops, curve.buckets, look, plot, look.cut ? end : 0);
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
  drawCut(pen, curve.buckets, tops, x, y);
  drawPartial(pen, curve.buckets, x, plot);
  drawTiers(pen, curve.buckets, x, plot);
  drawLimits(pen, look.limits, y, plot);
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

/** Pen makes elements of the svg's own kind, so that no name of a namespace is written here. */
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
  const pattern = pen.add('pattern', { id: 'hatch', width: 6, height: 6, patternUnits: 'userSpaceOnUse', patternTransform: 'rotate(45)' }, '', definitions);
  pen.add('rect', { class: 'hatch-back', width: 6, height: 6 }, '', pattern);
  pen.add('line', { class: 'hatch', x1: 1, y1: 0, x2: 1, y2: 6 }, '', pattern);
}

/**
 * scaleOf chooses the height: all of the bands, the limits if they are not far above them, and most of the peaks if they
 * leave the bands three quarters of it. What is higher is clipped to the top.
 */
function scaleOf(tops, buckets, look, plot, end) {
  const most = end || Math.max(0, ...tops);
  const peak = look.outcomes.length > 1 ? usually(buckets.map(b => Number(b.peak.hits)), 0.9) : 0;
  let high = end || Math.max(most, Math.min(peak, most * 1.25));
  for (const l of look.limits) {
    if (most === 0 || l.at <= high * 1.8) high = Math.max(high, l.at);
  }
  const { top, ticks } = ceiling(high, look.height);
  const y = rate => plot.bottom - Math.min(rate / top, 1) * (plot.bottom - plot.top);
  return Object.assign(y, { top, ticks });
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
    if (at < plot.right - 12) pen.add('text', { x: Math.max(at, plot.left + 4), y: plot.bottom + 17, 'text-anchor': at < plot.left + 12 ? 'start' : 'middle' }, tick.label);
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

/** stretches returns where an outcome has hits, in runs of buckets: [from, to). */
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
 * drawPeaks marks the largest minute of each bucket where it stands out from the mean; at the top, if it is above. Of
 * columns too narrow for a mark each, the largest of a few makes a faint line.
 */
function drawPeaks(pen, buckets, tops, x, y, look) {
  if (look.outcomes.length === 1 || buckets.length === 0) return; // which outcomes a minute had is not stored
  const width = (x(buckets.at(-1).end) - x(buckets[0].start)) / buckets.length;
  const each = width >= 4 ? 1 : Math.ceil(6 / width);
  let marks = '', above = '', joined = -1, high = 0;
  for (let i = 0; i < buckets.length; i += each) {
    const some = buckets.slice(i, i + each), peak = Math.max(...some.map(b => Number(b.peak.hits)));
    const mean = Math.max(...tops.slice(i, i + each)), left = round(x(some[0].start)), right = round(x(some.at(-1).end)), at = round(y(peak));
    if (some[0].width <= 60 || y(mean) - at < 3) continue;
    if (peak > y.top) {
      high++;
      if (each === 1) above += `M${round((left + right) / 2)} ${at}v-3`;
    } else if (each === 1) {
      marks += `M${left + 1} ${at}H${right - 1}`;
    } else {
      marks += `${i === joined ? 'L' : 'M'}${left} ${at}H${right}`;
      joined = i + each;
    }
  }
  const dust = each > 1 && high > buckets.length / each / 3; // what is left of a line that is mostly above
  if (marks && !dust) pen.add('path', { class: each === 1 ? 'peak' : 'peak faint', d: marks });
  if (above) pen.add('path', { class: 'peak above', d: above });
}

/** drawCut marks the buckets that are higher than the scale. */
function drawCut(pen, buckets, tops, x, y) {
  let d = '';
  for (const [i, b] of buckets.entries()) {
    if (tops[i] <= y.top * 1.0001) continue;
    const middle = (x(b.start) + x(b.end)) / 2, top = y(tops[i]);
    d += `M${round(middle - 4)} ${round(top - 3)}l4 -5l4 5Z`;
  }
  if (d) pen.add('path', { class: 'cut', d });
}

function drawPartial(pen, buckets, x, plot) {
  const first = buckets.find(b => b.partial);
  if (!first) return;
  const left = x(first.start), right = x(buckets.at(-1).end);
  pen.add('rect', { class: 'partial', x: left, y: plot.top, width: right - left, height: plot.bottom - plot.top });
  pen.add('line', { class: 'partial-edge', x1: left, x2: left, y1: plot.top, y2: plot.bottom });
  if (right - left > 46) pen.add('text', { class: 'tier', x: right - 4, y: plot.top + 12, 'text-anchor': 'end' }, 'so far');
}

function drawTiers(pen, buckets, x, plot) {
  const narrow = [];
  let free = plot.left; // where the next name may begin
  for (const [i, run] of tierRuns(buckets).entries()) {
    const left = x(run.from);
    if (i > 0) pen.add('line', { class: 'tier-border', x1: left, x2: left, y1: plot.top - 16, y2: plot.bottom });
    if (x(run.to) - left > 24) {
      pen.add('text', { class: 'tier', x: left + 4, y: plot.top - 6 }, run.tier);
      free = left + 24;
    } else {
      narrow.push(run.tier);
    }
  }
  // What is finest is mostly shortest, and at the right.
  if (narrow.length > 0 && plot.right - free > 18 * narrow.length) {
    pen.add('text', { class: 'tier', x: plot.right, y: plot.top - 6, 'text-anchor': 'end' }, narrow.join(' '));
  }
}

const line = 15; // pixels between two lines of text

function drawLimits(pen, limits, y, plot) {
  const seen = limits.filter(l => l.at <= y.top).sort((a, b) => a.at - b.at);
  for (const l of seen) pen.add('line', { class: 'limit', x1: plot.left, x2: plot.right, y1: y(l.at), y2: y(l.at) });
  for (const group of close(seen, y)) { // one text for all, which no line goes through
    const above = y(group.at(-1).at) - 5, text = above >= plot.top + 10 ? above : y(group[0].at) + 14;
    pen.add('text', { class: 'limit-label', x: plot.left + 6, y: text }, fitted(named(group), plot));
  }
  const higher = limits.filter(l => l.at > y.top);
  if (higher.length > 0) {
    pen.add('text', { class: 'limit-above', x: plot.right, y: 11, 'text-anchor': 'end' },
      fitted(`↑ above the scale: ${named(higher)}`, plot));
  }
}

/** close puts limits together whose lines leave no room for a text between them, the lowest first. */
function close(limits, y) {
  const groups = [];
  for (const l of limits) {
    const last = groups.at(-1)?.at(-1);
    if (last && y(last.at) - y(l.at) < line + 4) groups.at(-1).push(l);
    else groups.push([l]);
  }
  return groups;
}

/** named says what limits of one rule are called. */
function named(limits) {
  return limits.map(l => l.text).join(', ') + limits[0].suffix;
}

/** fitted cuts a text to what fits into the plot. */
function fitted(text, plot) {
  const most = Math.max(Math.floor((plot.right - plot.left) / 7), 12); // letters of 12 pixels are mostly narrower
  return text.length > most ? text.slice(0, most - 1) + '…' : text;
}
