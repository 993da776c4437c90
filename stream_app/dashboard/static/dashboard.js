// The page: what arrives from /events becomes text and charts. Names come from records: they are set as text, never as HTML.
import { Chart, DURATIONS, duration, visible } from "./charts.js";

const element = (id) => document.getElementById(id);
const share = (number) => (number === null || number === undefined ? "–" : number.toFixed(3));
const count = (number) => (number === null || number === undefined ? "–" : Math.round(number).toLocaleString("en"));
const rate = (number) => (number === null || number === undefined ? "–" : number < 10 ? number.toFixed(1) : count(number));
const digits = (number) => String(Number(number.toPrecision(3)));
const moment = (ms) => new Date(ms).toLocaleString("en-GB", { dateStyle: "medium", timeStyle: "medium" });

function make(tag, text = null, attributes = {}) {
  const made = document.createElement(tag);
  if (text !== null) made.textContent = text;
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  return made;
}
const row = (...cells) => {
  const made = make("tr");
  made.append(...cells.map((cell) => (cell instanceof Node ? cell : make("td", cell))));
  return made;
};
const holding = (tag, ...children) => { const made = make(tag); made.append(...children); return made; };
const pair = ([name, value, bad]) => holding("div", make("dt", name), make("dd", value, bad ? { class: "bad" } : {}));

const unit = () => [0, 1];
const fromZero = (_, __, most) => [0, most > 0 ? most * 1.08 : 1];
const charts = {
  gmean: new Chart("gmean", { range: unit, value: share, tick: digits, legend: true }),
  recall: new Chart("recall", { range: unit, value: share, tick: digits }),
  specificity: new Chart("specificity", { range: unit, value: share, tick: digits }),
  precision: new Chart("precision", { range: unit, value: share, tick: digits }),
  roc_auc: new Chart("roc_auc", { range: unit, value: share, tick: digits }),
  rate: new Chart("rate", { range: fromZero, value: rate }),
  lag: new Chart("lag", { range: fromZero, value: (s) => duration(s * 1000), steps: DURATIONS }),
  size: new Chart("size", { range: fromZero, value: digits }),
  delay: new Chart("delay", { range: fromZero, value: (ms) => duration(ms), legend: true, steps: DURATIONS.map((s) => s * 1000) }),
};

let chosen = new URLSearchParams(location.hash.slice(1)).get("stream");
let source = null;
let newest_ms = 0;
let isReading = false;

function connect() {
  source?.close();
  source = new EventSource(chosen === null ? "/events" : `/events?stream=${encodeURIComponent(chosen)}`);
  source.addEventListener("overview", (event) => showOverview(JSON.parse(event.data)));
  source.addEventListener("details", (event) => showDetails(JSON.parse(event.data)));
}

function choose(stream) {
  chosen = stream;
  history.replaceState(null, "", `#stream=${encodeURIComponent(stream)}`);
  connect();
}

// Says how old the page is: a figure that no longer changes must not look live.
function showAge() {
  const age_s = (Date.now() - newest_ms) / 1000;
  const [state, text] = newest_ms === 0 ? ["connecting", isReading ? "reading" : "connecting"]
    : age_s < 5 ? ["live", `live ${new Date(newest_ms).toLocaleTimeString("en-GB")}`] : ["lost", `no news for ${duration(age_s * 1000)}`];
  element("connection").dataset.state = state;
  element("connection").lastChild.textContent = text;
}

function showOverview(found) {
  document.title = element("application").textContent = found.application;
  isReading = found.reading !== undefined;
  if (isReading) {
    newest_ms = 0;
    showAge();
    showReading(found.reading);
    return;
  }
  newest_ms = Date.now();
  showAge();
  document.querySelector("nav").hidden = false;
  const known = found.streams;
  const sum = (name) => known.reduce((total, stream) => total + (stream[name] ?? 0), 0);
  const stalled = known.filter((stream) => stream.state === "stalled" || stream.state === "stopped").length;
  element("totals").replaceChildren(...[
    ["streams", count(known.length)], ["stalled", count(stalled), stalled > 0], ["labels/s", rate(sum("labelled_per_s"))],
    ["largest lag", duration(Math.max(0, ...known.map((stream) => stream.lag_ms ?? 0)))], ["dead letters", count(sum("dead_letters"))],
  ].map(pair));
  element("notes").replaceChildren(...found.notes.map((note) => make("li", note)));
  showStreams(known);
  element("empty").textContent = known.length === 0 ? "No stream is configured, and none has an output yet." : "Waiting for the first figures.";
  if (known.length === 0) return;
  if (!known.some((stream) => stream.name === chosen)) choose(known[0].name);
}

function showReading(part) {
  element("empty").replaceChildren(make("div", `Reading the topics: ${Math.floor(part * 100)} %`), make("progress", null, { value: part }));
}

function showStreams(known) {
  const body = element("streams").tBodies[0];
  const rows = known.map((stream, index) => {
    let made = body.rows[index];
    if (made?.dataset.stream !== stream.name) {
      const button = holding("button", make("i"), make("span", stream.name));
      button.title = stream.name;
      const fresh = row(holding("td", button), "", "", "");
      fresh.dataset.stream = stream.name;
      fresh.addEventListener("click", () => choose(stream.name));
      made ? made.replaceWith(fresh) : body.append(fresh);
      made = fresh;
    }
    made.dataset.state = stream.state;
    made.setAttribute("aria-current", String(stream.name === chosen));
    [share(stream.gmean), rate(stream.labelled_per_s), duration(stream.lag_ms)].forEach((text, cell) => { made.cells[cell + 1].textContent = text; });
    return made;
  });
  while (body.rows.length > rows.length) body.deleteRow(-1);
}

function showDetails(found) {
  if (found.name !== chosen) return;
  element("empty").hidden = true;
  document.querySelector("main").hidden = false;
  element("stream").textContent = found.name;
  element("state").textContent = element("state").dataset.state = found.state;
  element("task").textContent = found.task === null ? "" : `task ${found.task}`;
  const champion = found.learners[0]?.metric;
  const is_down = found.state === "stalled" || found.state === "stopped";
  const main = champion?.windows[0];
  element("health").replaceChildren(...[
    ["labels learned/s", rate(found.labelled_per_s), is_down], ["lag, event time", duration(found.lag_ms), is_down], ["wait for a label", count(found.pending)],
    ["label delay p50", duration(champion?.delay_ms_p50)], ["dead letters", count(found.dead_letters), found.dead_letters > 0],
  ].map(pair));
  const cost = main?.cost_per_example ?? null;
  element("quality").replaceChildren(...[
    ["precision", share(main?.precision)], ["recall", share(main?.recall)], ["G-mean", share(main?.gmean)], ["ROC AUC", share(main?.roc_auc)],
    ["calibration error", share(champion?.calibration_error)], ...(cost === null ? [] : [["cost per example", cost.toPrecision(3)]]),
  ].map(pair));
  element("learners").tBodies[0].replaceChildren(...found.learners.map(learnerRow));
  showPairs("outcomes", champion === undefined ? [] : [
    ["examples predicted", champion.examples], ["labels joined", champion.labelled], ["closed without a label", champion.unlabelled],
    ["evicted to keep the bound", champion.evicted], ["repeated records", champion.duplicates], ["examples that wait", champion.pending], ["labels that wait", champion.waiting],
  ]);
  showPairs("reasons", Object.entries(found.reasons));
  element("letters").textContent = found.dead_letters === 0 ? "none" : found.dead_letters_are_all ? "by reason" : "by reason; the oldest are left out";
  showDecisions(found);
  showCharts(found);
}

function showDecisions(found) {
  const { alerts, missed, reliability } = found.decisions;
  const newest = alerts[0]?.id ?? missed[0]?.id;
  element("explain").textContent = newest === undefined ? "areba explain STREAM ID" : `areba explain ${found.name} ${newest}`;
  const said = (label) => (label === null ? make("td", "not known yet") : make("td", label === 1 ? "right" : "false alarm", label === 1 ? {} : { class: "bad" }));
  showRows("alerts", alerts.map((one) => row(one.id, moment(one.time_ms), chance(one.probability), said(one.label))), "none of the predictions that were read");
  showRows("missed", missed.map((one) => row(one.id, moment(one.time_ms), chance(one.probability))), "none of the labels that were read");
  showRows("reliability", reliability.filter(({ labels }) => labels >= 1).map((group) => row(`${percent(group.low)} to ${percent(group.high)}`, count(group.labels),
    bar(group.probability), bar(group.share))), "no label was read yet");
  const changes = [
    ...found.marks.map((mark) => ({ time: mark.time_ms, text: flagged(mark) })),
    ...found.found_drifts.map((entry) => ({ time: entry.time_ms, text: drifted(entry) })),
  ].sort((one, other) => other.time - one.time).slice(0, 8);
  showRows("changes", changes.map(({ text }) => row(text)), "none");
}

const chance = (number) => number.toPrecision(2);
const percent = (number) => `${digits(100 * number)} %`;

function bar(number) {
  const made = holding("div", make("progress", null, { value: number, max: 1 }), make("span", percent(number)));
  made.className = "queue";
  return holding("td", made);
}

function showRows(id, rows, none) {
  element(id).tBodies[0].replaceChildren(...(rows.length ? rows : [row(none)]));
}

function showPairs(id, pairs) {
  element(id).tBodies[0].replaceChildren(...pairs.map(([name, number]) => row(name, count(number))));
}

function learnerRow({ metric, colour }) {
  const name = make("td");
  const swatch = make("span", null, { class: "swatch" });
  swatch.style.background = visible(colour);
  name.append(swatch, metric.learner);
  if (metric.champion) name.append(make("span", "champion", { class: "champion" }));
  const queue = (length, capacity) => {
    if (!capacity) return make("td", "–");
    const bar = holding("div", make("progress", null, { value: length, max: capacity }), make("span", `${count(length)} / ${count(capacity)}`));
    bar.className = "queue";
    return holding("td", bar);
  };
  const [main] = metric.windows;
  const made = row(name, share(main.gmean), share(main.recall), share(main.specificity), share(main.precision), share(main.roc_auc), share(metric.calibration_error), count(metric.changes),
    queue(metric.positive_queue, metric.positive_capacity), queue(metric.negative_queue, metric.negative_capacity));
  made.dataset.learner = metric.learner;
  return made;
}

function flagged({ learner, time_ms, changes, labelled, gmean_before }) {
  return `change ${count(changes)} of ${learner}, flagged at label ${count(labelled)}, ${moment(time_ms)}; G-mean before: ${share(gmean_before)}`;
}

function drifted({ what, psi, time_ms, ended_ms }) {
  const span = ended_ms === null ? `since ${moment(time_ms)}` : `from ${moment(time_ms)} to ${moment(ended_ms)}`;
  return `drift of ${what} ${span}; largest PSI: ${share(psi)}`;
}

function showCharts(found) {
  const learners = new Set(found.learners.map((learner) => learner.metric.learner));
  const marks = found.marks.filter((mark) => learners.has(mark.learner)).map((mark) => ({ time: mark.time_ms, text: flagged(mark) }));
  const drifts = found.drifts.map(({ time_ms, examples }) => ({ time: time_ms, text: `known drift after example ${count(examples)}, ${moment(time_ms)}` }));
  for (const figure of ["gmean", "recall", "specificity", "precision", "roc_auc"]) {
    const lines = found.learners.map(({ metric, colour, curve }) => ({ name: metric.learner, colour, times: curve.time_ms, values: curve[figure], gaps: curve.gaps, width: metric.champion ? 2 : 1.5 }));
    charts[figure].show(lines, marks, drifts);
  }
  const line = (curve, values, name, colour, more = {}) => ({ name, colour, times: curve.time_ms, values: curve[values], gaps: curve.gaps, ...more });
  charts.rate.show([line(found.work, "labelled_per_s", "labels/s", "#3a8f6f", { fill: true })]);
  charts.lag.show([line(found.work, "lag_s", "lag", "#e08214", { fill: true })]);
  charts.size.show([line(found.course, "positive_size", "class 1", "#0b5fa5", { fill: true })]);
  charts.delay.show(["p50", "p90", "p99"].map((part, index) => line(found.course, `delay_ms_${part}`, part, ["#5b2a86", "#8f5ea8", "#d1495b"][index])));
}

setInterval(showAge, 1000);
connect();
