// Charts of uPlot: one module for how they look, so that dashboard.js only says what they show.
/* global uPlot */

const dark = matchMedia("(prefers-color-scheme: dark)");
const token = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

// The colours of learners are those of the study's figures, on white; on a dark ground they are mixed with white.
export function visible(colour) {
  if (!dark.matches) return colour;
  const part = (at) => Math.round(parseInt(colour.slice(at, at + 2), 16) * 0.62 + 255 * 0.38);
  return `rgb(${part(1)},${part(3)},${part(5)})`;
}

export function duration(ms) {
  if (ms === null || ms === undefined) return "–";
  if (ms === 0) return "0 s";
  const units = [[86_400_000, "d"], [3_600_000, "h"], [60_000, "min"], [1_000, "s"]];
  const [size, unit] = units.find(([one]) => Math.abs(ms) >= one) ?? [1, "ms"];
  const number = ms / size;
  return `${number.toFixed(Math.abs(number) < 10 && number % 1 ? 1 : 0)} ${unit}`;
}

// The time of a tick, with its date where the day is not that of the tick before.
function moment(tick_s, step_s, before_s) {
  const at = new Date(tick_s * 1000);
  const day = at.toLocaleDateString("en-GB", { day: "numeric", month: "short" });
  const before = before_s === undefined ? null : new Date(before_s * 1000).toLocaleDateString("en-GB", { day: "numeric", month: "short" });
  const time = at.toLocaleTimeString("en-GB", step_s < 60 ? {} : { hour: "2-digit", minute: "2-digit" });
  if (step_s >= 86_400) return day;
  return day === before ? time : `${time}\n${day}`;
}

// Steps of an axis of durations, in seconds.
export const DURATIONS = [0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14_400, 28_800, 86_400,
  172_800, 432_000, 864_000, 2_592_000, 8_640_000];

// Curves that have times of their own, on one axis: the union of their times, and a moment in each pause of a curve.
export function merged(curves) {
  const pauses = curves.map(({ times, gaps }) => gaps.map((row) => (times[row - 1] + times[row]) / 2));
  const times = [...new Set([...curves.flatMap((curve) => curve.times), ...pauses.flat()])].sort((a, b) => a - b);
  const place = new Map(times.map((time, index) => [time, index]));
  const columns = curves.map((curve, number) => {
    const column = new Array(times.length); // absent: the line continues; null: a gap
    pauses[number].forEach((time) => { column[place.get(time)] = null; });
    curve.times.forEach((time, index) => { column[place.get(time)] = curve.values[index]; });
    return Array.from(column, (value) => value);
  });
  return [times.map((time) => time / 1000), ...columns];
}

// Points between two gaps: no line leads to them.
function lonely(column) {
  const rows = [...column.keys()].filter((row) => column[row] !== undefined);
  const isGap = (at) => at < 0 || at >= rows.length || column[rows[at]] === null;
  return rows.filter((row, at) => !isGap(at) && isGap(at - 1) && isGap(at + 1));
}

const NEAR_PX = 6; // a mark is this near the pointer when its text is shown
const MOST_LINES = 6;

export class Chart {
  constructor(id, options) {
    this.holder = document.getElementById(id);
    this.options = options;
    this.key = null;
    this.marks = [];
    this.drifts = [];
    this.tip = Object.assign(document.createElement("div"), { className: "tip", hidden: true });
    new ResizeObserver(() => this.plot?.setSize(this.size())).observe(this.holder);
    dark.addEventListener("change", () => { this.key = null; if (this.last) this.show(...this.last); });
  }

  size() { // the legend takes one line below the axes
    return { width: this.holder.clientWidth, height: this.holder.clientHeight - (this.options.legend ? 22 : 0) };
  }

  // lines: [{name, colour, times, values, gaps, width, fill}]; marks and drifts: [{time, text}]
  show(lines, marks = [], drifts = []) {
    this.last = [lines, marks, drifts];
    this.marks = marks;
    this.drifts = drifts;
    const key = lines.map((line) => `${line.name} ${line.colour}`).join("\n");
    const data = merged(lines);
    if (key === this.key) {
      this.plot.setData(data);
    } else {
      this.plot?.destroy();
      this.key = key;
      this.plot = new uPlot(this.plotOptions(lines), data, this.holder);
      this.plot.over.append(this.tip);
    }
    this.holder.dataset.points = String(data[0].length);
    this.holder.dataset.marks = String(marks.length);
    this.holder.dataset.drifts = String(drifts.length);
  }

  plotOptions(lines) {
    const { range, value, tick = value, legend, steps } = this.options;
    const axis = { stroke: token("--soft"), grid: { stroke: token("--line"), width: 1 }, ticks: { show: false }, font: "11px system-ui, sans-serif" };
    return {
      ...this.size(), padding: [8, 22, 0, 0], legend: { show: Boolean(legend), live: true }, cursor: { points: { size: 6 }, drag: { x: true, y: false } },
      scales: { y: { range } },
      axes: [
        { ...axis, size: 40, space: 64, values: (_, ticks, __, ___, step) => ticks.map((tick, index) => moment(tick, step, ticks[index - 1])) },
        { ...axis, size: 54, values: (_, ticks) => ticks.map(tick), ...(steps ? { incrs: steps } : {}) },
      ],
      series: [{ value: (_, s) => (s === null ? "" : new Date(s * 1000).toLocaleString("en-GB")) }, ...lines.map((line) => ({
        label: line.name, stroke: visible(line.colour), width: line.width ?? 1.5,
        points: { show: false, size: 4, fill: visible(line.colour), filter: (plot, number) => lonely(plot.data[number]) },
        fill: line.fill ? `color-mix(in srgb, ${visible(line.colour)} 14%, transparent)` : undefined,
        value: (_, number) => (number === null || number === undefined ? "" : value(number)),
      }))],
      hooks: { draw: [(plot) => this.drawMarks(plot)], setCursor: [(plot) => this.showTip(plot)] },
    };
  }

  // Says what the marks at the pointer are.
  showTip(plot) {
    const { left } = plot.cursor;
    const near = [...this.drifts, ...this.marks].filter(({ time }) => left >= 0 && Math.abs(plot.valToPos(time / 1000, "x") - left) <= NEAR_PX);
    const texts = near.slice(0, MOST_LINES).map(({ text }) => text);
    if (near.length > MOST_LINES) texts.push(`and ${near.length - MOST_LINES} more`);
    this.tip.hidden = near.length === 0;
    this.tip.textContent = texts.join("\n");
    const isRight = left > plot.over.clientWidth / 2;
    this.tip.style.left = isRight ? "auto" : `${left + 12}px`;
    this.tip.style.right = isRight ? `${plot.over.clientWidth - left + 12}px` : "auto";
  }

  drawMarks(plot) {
    const { ctx, bbox } = plot;
    const scale = devicePixelRatio;
    ctx.save();
    for (const drift of this.drifts) {
      const x = plot.valToPos(drift.time / 1000, "x", true);
      if (x < bbox.left || x > bbox.left + bbox.width) continue;
      ctx.fillStyle = token("--drift");
      ctx.fillRect(x - scale, bbox.top, 2 * scale, bbox.height);
    }
    for (const mark of this.marks) {
      const x = plot.valToPos(mark.time / 1000, "x", true);
      if (x < bbox.left || x > bbox.left + bbox.width) continue;
      ctx.strokeStyle = ctx.fillStyle = token("--flag");
      ctx.lineWidth = 1.5 * scale;
      ctx.setLineDash([4 * scale, 3 * scale]);
      ctx.beginPath(); ctx.moveTo(x, bbox.top); ctx.lineTo(x, bbox.top + bbox.height); ctx.stroke();
      ctx.beginPath(); ctx.moveTo(x - 6 * scale, bbox.top); ctx.lineTo(x + 6 * scale, bbox.top); ctx.lineTo(x, bbox.top + 10 * scale); ctx.fill();
    }
    ctx.restore();
  }
}
