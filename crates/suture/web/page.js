// The page: asks for the status each second or so, and shows it. Everything that comes from outside
// is set as text, never as HTML.
'use strict';

const EVERY_MS = 1500;
const SHOWN = 10;
const HISTORY = 240;
const rates = [];

const byId = (id) => document.getElementById(id);

function text(parent, tag, content, className) {
  const element = document.createElement(tag);
  element.textContent = content;
  if (className) element.className = className;
  parent.append(element);
  return element;
}

function size(bytes) {
  const units = ['B', 'KiB', 'MiB', 'GiB', 'TiB', 'PiB'];
  let unit = 0;
  while (bytes >= 1024 && unit < units.length - 1) { bytes /= 1024; unit += 1; }
  return `${unit === 0 ? bytes : bytes.toPrecision(3)} ${units[unit]}`;
}

function time(seconds) {
  if (seconds < 90) return `${Math.max(1, Math.round(seconds))} s`;
  if (seconds < 5400) return `${Math.round(seconds / 60)} min`;
  if (seconds < 172800) return `${Math.round(seconds / 3600)} h`;
  return `${Math.round(seconds / 86400)} days`;
}

const count = (number, word) => `${number} ${word}${number === 1 ? '' : 's'}`;

function tile(list, name, value, className) {
  const tile = document.createElement('div');
  text(tile, 'dt', name);
  text(tile, 'dd', value, className);
  list.append(tile);
}

function showRisk(status) {
  const list = byId('risk');
  list.replaceChildren();
  const grade = (number, bad) => (number === 0 ? 'good' : bad);
  tile(list, 'cannot be read', status.unreadable_stripes, grade(status.unreadable_stripes, 'bad'));
  const none = status.at_risk[0] || 0;
  tile(list, 'no chunk to spare', none, grade(none, 'bad'));
  status.at_risk.slice(1, 5).forEach((stripes, index) => {
    if (stripes > 0) tile(list, `${count(index + 1, 'chunk')} to spare`, stripes, 'care');
  });
  tile(list, 'lack a chunk now', status.degraded_stripes, grade(status.degraded_stripes, 'care'));
  tile(list, 'lost chunks', status.lost_chunks, grade(status.lost_chunks, 'care'));
}

function showProgress(status) {
  const done = count(status.repaired_chunks, 'chunk');
  let words = `${done} (${size(status.repaired_bytes)}) rebuilt since the coordinator began. `;
  if (status.lost_chunks > 0) {
    words += `${count(status.lost_chunks, 'chunk')} (${size(status.lost_bytes)}) left`;
    if (status.eta_seconds === null) words += ', time left unknown.';
    else {
      const range = `${time(status.eta_low_seconds)} to ${time(status.eta_high_seconds)}`;
      words += `, about ${time(status.eta_seconds)} (${range}).`;
    }
  }
  if (status.paused) words += ' Repairs are paused.';
  byId('progress').textContent = words;
}

function showHistory(status) {
  rates.push(status.running.length > 0 ? status.bytes_per_second : 0);
  if (rates.length > HISTORY) rates.shift();
  const most = Math.max(1, ...rates);
  const at = (rate, index) =>
    `${(index * 600 / (HISTORY - 1)).toFixed(1)},${(116 - rate / most * 112).toFixed(1)}`;
  byId('history-line').setAttribute('points', rates.map(at).join(' '));
  const now = rates[rates.length - 1];
  byId('history-caption').textContent =
    `Rebuilt per second since this page was opened: ${size(now)} now, ${size(most)} at most`;
}

function showRows(id, rows) {
  const table = byId(id);
  table.hidden = rows.length === 0;
  const body = table.tBodies[0];
  body.replaceChildren();
  rows.forEach((cells) => {
    const row = body.insertRow();
    cells.forEach((cell) => {
      if (cell instanceof Node) row.insertCell().append(cell);
      else row.insertCell().textContent = cell;
    });
  });
}

function bar(tag, value, max, words) {
  const element = document.createElement(tag);
  element.max = Math.max(1, max);
  element.value = value;
  element.setAttribute('aria-label', words);
  element.title = words;
  return element;
}

function showRunning(status) {
  const row = (repair) => {
    const words = `${size(repair.bytes_done)} of ${size(repair.bytes)}`;
    const done = bar('progress', repair.bytes_done, repair.bytes, words);
    return [repair.stripe, repair.chunk, repair.destination, done, time(repair.seconds)];
  };
  showRows('running', status.running.slice(0, SHOWN).map(row));
  const more = status.running.length - SHOWN;
  byId('running-more').textContent = more > 0 ? `... and ${more} more` : '';
}

function showBlocked(status) {
  const groups = new Map();
  status.blocked.forEach((entry) => {
    const group = groups.get(entry.why) || { stripes: 0, objects: new Set() };
    group.stripes += 1;
    group.objects.add(entry.object);
    groups.set(entry.why, group);
  });
  const row = ([why, group]) => {
    const objects = [...group.objects];
    const more = objects.length > 3 ? ', ...' : '';
    return [why, group.stripes, objects.slice(0, 3).join(', ') + more];
  };
  showRows('blocked', [...groups].slice(0, SHOWN).map(row));
}

function showNodes(status) {
  const racks = new Map();
  status.nodes.forEach((node) => {
    const rack = node.rack || '';
    racks.set(rack, [...(racks.get(rack) || []), node]);
  });
  const place = byId('racks');
  place.replaceChildren();
  [...racks].sort().forEach(([rack, nodes]) => {
    if (rack) text(place, 'h3', `Rack ${rack}`);
    const table = document.createElement('table');
    const head = table.createTHead().insertRow();
    ['Node', 'Health', 'Chunks', 'Used', 'Free'].forEach((name) => {
      text(head, 'th', name).scope = 'col';
    });
    const body = table.createTBody();
    const order = new Intl.Collator('en', { numeric: true });
    nodes.sort((a, b) => order.compare(a.name, b.name)).forEach((node) => {
      const row = body.insertRow();
      text(row, 'th', node.name).scope = 'row';
      const words = [node.health, node.intent].filter((word) => word);
      const health = [...new Set(words)].join(', ');
      text(row, 'td', health, node.health === 'up' ? 'good' : 'bad');
      text(row, 'td', node.chunks);
      const all = node.used_bytes + node.free_bytes;
      const used = `${size(node.used_bytes)} of ${size(all)} used`;
      const cell = row.insertCell();
      cell.append(bar('meter', node.used_bytes, all, used), ` ${size(node.used_bytes)}`);
      text(row, 'td', size(node.free_bytes));
    });
    place.append(table);
  });
}

function show(status) {
  const grades = { healthy: 'good', unreadable: 'bad', unrepairable: 'bad' };
  const state = byId('state');
  // Said again only when it changes: a screen reader reads it aloud.
  const words = status.paused ? `${status.state}, repairs are paused` : status.state;
  if (state.textContent !== words) state.textContent = words;
  state.className = grades[status.state] || 'care';
  document.title = `${status.state} - Suture`;
  const warnings = byId('warnings');
  warnings.replaceChildren();
  status.warnings.forEach((warning) => text(warnings, 'li', warning));
  showRisk(status);
  showProgress(status);
  showHistory(status);
  showRunning(status);
  showBlocked(status);
  showNodes(status);
  byId('about').textContent =
    `cluster ${status.cluster}, epoch ${status.epoch}, up for ${time(status.uptime_seconds)}`;
}

async function ask() {
  try {
    const answer = await fetch('status.json', { cache: 'no-store' });
    if (!answer.ok) throw new Error(await answer.text());
    show(await answer.json());
  } catch (error) {
    const state = byId('state');
    state.textContent = `The coordinator does not answer: ${error.message.slice(0, 200)}`;
    state.className = 'bad';
  }
  setTimeout(ask, EVERY_MS);
}

ask();
