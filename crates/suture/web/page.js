// The page: asks for the status each second or so, and shows it. Everything that comes from outside
// is set as text, never as HTML. Rows that are still there are changed in place, so that whoever is
// at one of their buttons stays there.
'use strict';

const EVERY_MS = 1500;
const ANSWER_MS = 8000;
const COMMAND_MS = 20000;
const SHOWN = 10;
const LINKS_SHOWN = 40;
const RATES = 240;
const rates = [];
let last = null;
let mayCommand = false;

const byId = (id) => document.getElementById(id);
const byNumber = new Intl.Collator('en', { numeric: true });

// Characters that are not seen, as the commands show them: a name must not pass for another.
const visible = (content) => String(content).replace(/[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/gu,
  (c) => (c === '\n' || c === '\t' ? c : `\\u{${c.codePointAt(0).toString(16)}}`));

function text(parent, tag, content, className) {
  const element = document.createElement(tag);
  element.textContent = visible(content);
  if (className) element.className = className;
  parent.append(element);
  return element;
}

// Nothing is written that is there already: a screen reader reads what changes.
function write(element, content) {
  const shown = visible(content);
  if (element.textContent !== shown) element.textContent = shown;
}

// Numbers as the commands write them (suture_edge::units): three significant digits, sizes in units
// of 1024, links in bits and units of 1000, durations in two units from a minute on.
function digits(value) {
  if (value < 0.005) return '0';
  return value.toFixed(value < 9.995 ? 2 : value < 99.95 ? 1 : 0);
}

function scaled(value, step, units) {
  let unit = 0;
  while (value >= 999.5 && unit < units.length - 1) { value /= step; unit += 1; }
  return `${digits(value)} ${units[unit]}`;
}

function size(bytes) {
  if (bytes < 1000) return `${Math.round(bytes)} B`;
  return scaled(bytes, 1024, ['B', 'KiB', 'MiB', 'GiB', 'TiB', 'PiB', 'EiB']);
}

const linkRate = (bytes) =>
  scaled(8 * bytes, 1000, ['bit/s', 'kbit/s', 'Mbit/s', 'Gbit/s', 'Tbit/s']);

const percent = (part) => `${digits(100 * part)} %`;

function time(seconds) {
  if (seconds < 0.0005) return '0 s';
  if (seconds < 0.9995) return `${digits(seconds * 1000)} ms`;
  if (seconds < 59.95) return `${digits(seconds)} s`;
  const [unit, large, small] = seconds < 3599.5 ? [1, 'min', 's']
    : seconds < 86370 ? [60, 'h', 'min'] : [3600, 'd', 'h'];
  const whole = Math.round(seconds / unit);
  const each = large === 'd' ? 24 : 60;
  return `${Math.floor(whole / each)} ${large} ${String(whole % each).padStart(2, '0')} ${small}`;
}

// A time that nobody knows well.
function rough(seconds) {
  if (seconds < 90) return `${Math.max(1, Math.round(seconds))} s`;
  if (seconds < 5400) return `${Math.round(seconds / 60)} min`;
  if (seconds < 172800) return `${Math.round(seconds / 3600)} h`;
  return `${Math.round(seconds / 86400)} days`;
}

const count = (number, word, words = `${word}s`) => `${number} ${number === 1 ? word : words}`;

function bar(tag, value, max, words) {
  const element = document.createElement(tag);
  setBar(element, value, max, words);
  return element;
}

function setBar(element, value, max, words) {
  element.max = Math.max(1, max);
  element.value = value;
  element.setAttribute('aria-label', words);
  element.title = words;
}

// Makes a table's rows those of `items`, each known by `key`; rows of items that stay are kept.
function showKeyed(id, items, key, make, update) {
  const body = byId(id).tBodies[0];
  byId(id).hidden = items.length === 0;
  const known = new Map([...body.rows].map((row) => [row.dataset.key, row]));
  const used = new Set();
  items.forEach((item, index) => {
    let name = String(key(item));
    while (used.has(name)) name += ' again';
    used.add(name);
    let row = known.get(name);
    known.delete(name);
    if (!row) {
      row = document.createElement('tr');
      row.dataset.key = name;
      make(row, item);
    }
    if (body.rows[index] !== row) body.insertBefore(row, body.rows[index] || null);
    update(row, item);
  });
  known.forEach((row) => row.remove());
}

// Makes a list anew only where it says something else: whoever reads it is not thrown out of it.
const lists = new Map();

function showList(id, entries, make) {
  const said = JSON.stringify(entries);
  if (lists.get(id) === said) return;
  lists.set(id, said);
  byId(id).replaceChildren();
  entries.forEach((entry) => make(byId(id), ...entry));
}

function tile(list, name, value, className) {
  const box = document.createElement('div');
  text(box, 'dt', name);
  text(box, 'dd', value, className);
  list.append(box);
}

function showRisk(status) {
  const tiles = [];
  const add = (name, number, bad) => tiles.push([name, number, number === 0 ? 'good' : bad]);
  add('cannot be read', status.unreadable_stripes, 'bad');
  add('margin 0 (can lose no more)',
    Math.max(0, (status.at_risk[0] || 0) - status.beyond_stripes), 'bad');
  status.at_risk.slice(1, 5).forEach((stripes, index) => {
    if (stripes > 0) add(`margin ${index + 1}`, stripes, 'care');
  });
  add('lack a chunk now', status.degraded_stripes, 'care');
  add('lost chunks', status.lost_chunks, 'care');
  showList('risk', tiles, tile);
}

function showProgress(status) {
  const done = count(status.repaired_chunks, 'chunk');
  let words = `${done} (${size(status.repaired_bytes)}) rebuilt since the coordinator began.`;
  if (status.lost_chunks > 0) {
    words += ` ${count(status.lost_chunks, 'chunk')} (${size(status.lost_bytes)}) left`;
    if (status.eta_seconds === null) words += ', time left unknown.';
    else {
      const range = `${rough(status.eta_low_seconds)} to ${rough(status.eta_high_seconds)}`;
      words += `, about ${rough(status.eta_seconds)} (${range}).`;
    }
  }
  if (status.leaving_chunks > 0) {
    words += ` ${count(status.leaving_chunks, 'chunk')} (${size(status.leaving_bytes)}) to move.`;
  }
  if (status.rebalancing_chunks > 0) {
    words += ` ${count(status.rebalancing_chunks, 'chunk')} on the way to emptier nodes.`;
  }
  if (status.running.length > 0 && status.planned_repairs > 0) {
    words += ` The last plan, of ${count(status.planned_repairs, 'repair')}, needs`
      + ` ${time(status.planned_seconds)} of the busiest link or disk.`;
  }
  if (status.paused) words += ' Repairs are paused.';
  write(byId('progress'), words);
  const { cap, why, window_closed_seconds: closed } = status.throttle;
  const limits = [];
  if (cap !== null) limits.push(`Repair moves at most ${linkRate(cap)} at each node in each direction.`);
  if (why) limits.push(`Now ${why}.`);
  if (closed !== null) limits.push(`The window opens in ${time(closed)}.`);
  write(byId('limited'), limits.join(' '));
}

function showRate(status) {
  rates.push(status.running.length > 0 ? status.bytes_per_second : 0);
  if (rates.length > RATES) rates.shift();
  const most = Math.max(1, ...rates);
  const at = (rate, index) =>
    `${(index * 600 / (RATES - 1)).toFixed(1)},${(116 - rate / most * 112).toFixed(1)}`;
  byId('rate-line').setAttribute('points', rates.map(at).join(' '));
  const now = rates[rates.length - 1];
  const highest = rates.some((rate) => rate > 0) ? `, ${size(most)} at most` : '';
  const { bound_bytes_per_second: bound, percent_of_bound: reached } = status;
  const part = bound === null ? '' : ` (${percent(reached / 100)} of the bound)`;
  const best = bound === null ? '' : `; with what links carry it could be ${size(bound)}`;
  write(byId('rate-caption'),
    `Rebuilt per second since this page was opened: ${size(now)} now${part}${highest}${best}`);
}

function showRunning(status) {
  const make = (row) => {
    for (let cell = 0; cell < 5; cell += 1) row.insertCell();
    row.cells[3].append(document.createElement('progress'));
  };
  const update = (row, repair) => {
    const words = `${size(repair.bytes_done)} of ${size(repair.bytes)}`;
    write(row.cells[0], repair.stripe);
    write(row.cells[1], repair.chunk);
    write(row.cells[2], repair.destination);
    setBar(row.cells[3].firstChild, repair.bytes_done, repair.bytes, words);
    write(row.cells[4], time(repair.seconds));
  };
  const key = (repair) => `${repair.repair} ${repair.chunk}`;
  showKeyed('running', status.running.slice(0, SHOWN), key, make, update);
  const more = status.running_count - SHOWN;
  write(byId('running-more'), more > 0 ? `... and ${more} more` : '');
}

function showBlocked(status) {
  const groups = new Map();
  status.blocked.forEach((entry) => {
    const group = groups.get(entry.why) || { stripes: 0, objects: new Set() };
    group.stripes += 1;
    group.objects.add(entry.object);
    groups.set(entry.why, group);
  });
  const make = (row) => { for (let cell = 0; cell < 3; cell += 1) row.insertCell(); };
  const update = (row, [why, group]) => {
    const objects = [...group.objects];
    const more = objects.length > 3 ? ', ...' : '';
    write(row.cells[0], why);
    write(row.cells[1], group.stripes);
    write(row.cells[2], objects.slice(0, 3).join(', ') + more);
  };
  const listed = [...groups].slice(0, SHOWN);
  showKeyed('blocked', listed, ([why]) => why, make, update);
  const more = listed.reduce((left, [, group]) => left - group.stripes, status.blocked_count);
  write(byId('blocked-more'), more > 0 ? `... and ${count(more, 'stripe')} more` : '');
}

const used = (link) => (link ? link.applications + link.repair : 0);
const part = (link) => (link && link.capacity > 0 ? used(link) / link.capacity : 0);

// What the links of a node carry is known from it alone.
const linksOf = ({ node, name, health, uplink, downlink }) =>
  (health === 'up' ? { node, name, uplink, downlink } : { node, name, uplink: null, downlink: null });

// A link as a pipe: what applications and repairs fill of it, and how far repairs may. What the
// picture shows is in words for whoever does not see it.
function makePipe(cell) {
  const pipe = text(cell, 'div', '', 'pipe');
  ['applications', 'repair', 'limit'].forEach((name) => text(pipe, 'div', '', name));
  text(cell, 'span', '', 'use');
  text(cell, 'span', '', 'said');
}

function showPipe(cell, link) {
  const [pipe, use, said] = cell.children;
  const known = Boolean(link) && link.capacity > 0;
  pipe.hidden = !known;
  if (!known) {
    write(use, '-');
    write(said, '');
    cell.title = '';
    return;
  }
  const width = (bytes) => `${Math.min(100, 100 * bytes / link.capacity).toFixed(1)}%`;
  const [applications, repair, limit] = pipe.children;
  applications.style.width = width(link.applications);
  repair.style.width = width(link.repair);
  limit.hidden = link.limit === null;
  limit.style.width = width(link.limit === null ? link.capacity : link.limit);
  const about = link.is_declared || link.uncertainty !== null ? '' : 'about ';
  write(use, `${linkRate(used(link))} of ${about}${linkRate(link.capacity)}`);
  const words = `${linkRate(link.repair)} repair, ${linkRate(link.applications)} applications`;
  const limited = link.limit === null ? '' : `; repair may take ${linkRate(link.limit)}: ${link.why}`;
  cell.title = words + limited;
  write(said, `: ${words}${limited}`);
}

function showLinks(status) {
  const busy = (node) => Math.max(part(node.uplink), part(node.downlink));
  let nodes = status.nodes.map(linksOf);
  const more = nodes.length - LINKS_SHOWN;
  if (more > 0) {
    nodes = [...nodes].sort((a, b) => busy(b) - busy(a)).slice(0, LINKS_SHOWN);
    nodes.sort((a, b) => byNumber.compare(a.name, b.name));
  }
  write(byId('links-more'), more > 0 ? `... and ${more} that carry less` : '');
  const make = (row, node) => {
    makePipe(row.insertCell());
    text(row, 'th', node.name).scope = 'row';
    makePipe(row.insertCell());
  };
  const update = (row, node) => {
    showPipe(row.cells[0], node.downlink);
    showPipe(row.cells[2], node.uplink);
  };
  showKeyed('links', nodes, (node) => node.node, make, update);
  const all = nodes.flatMap((node) => [
    { node, link: node.uplink, verb: 'sends' }, { node, link: node.downlink, verb: 'receives' },
  ]);
  const busiest = all.reduce((a, b) => (part(b.link) > part(a.link) ? b : a), all[0]);
  write(byId('busiest'), !busiest || part(busiest.link) < 0.005
    ? 'No link carries anything worth naming.'
    : `The busiest: ${busiest.node.name} ${busiest.verb} ${linkRate(used(busiest.link))} of `
      + `${linkRate(busiest.link.capacity)} (${percent(part(busiest.link))}).`);
}

function healthOf(node) {
  const words = [node.health];
  if (node.cut_off) words.push('unreachable by other agents');
  if (node.disk !== 'good') words.push(`disk ${node.disk}`);
  if (node.intent === 'draining') {
    const all = Math.max(node.chunks_before, node.chunks);
    words.push(`draining: ${all - node.chunks} of ${all} moved`);
  } else if (node.intent === 'paused') words.push(`paused for ${time(node.paused_seconds)}`);
  else if (node.intent && node.intent !== node.health) words.push(node.intent);
  return words.join(', ');
}

// What can be commanded of a node as it is, the mildest first.
function commandsOf(node) {
  if (node.intent) return ['return'];
  if (node.health === 'failed') return [];
  return node.health === 'up' ? ['drain', 'fail'] : ['fail'];
}

function showCommands(cell, node) {
  const wanted = commandsOf(node);
  if (cell.dataset.commands === wanted.join(' ')) return;
  cell.dataset.commands = wanted.join(' ');
  const wasHere = cell.contains(document.activeElement);
  cell.replaceChildren();
  wanted.forEach((command) => {
    const button = text(cell, 'button', capital(command));
    button.type = 'button';
    button.setAttribute('aria-label', `${capital(command)} ${node.name}`);
    button.addEventListener('click', () => askNode(command, node.name));
  });
  if (!wasHere) return;
  // Whoever commanded it stays here, also where nothing more can be commanded.
  cell.tabIndex = -1;
  (cell.querySelector('button') || cell).focus();
}

function showScrub(status) {
  const { running, stripes_done: done, stripes, next_seconds: next, found_copies: found,
    inconsistent_count: inconsistent } = status.scrub;
  const words = [];
  if (running) words.push(`Scrub: ${done} of ${count(stripes, 'stripe')} done.`);
  else if (next !== null) words.push(`The next scrub begins in ${time(next)}.`);
  if (found > 0) words.push(`${count(found, 'bad chunk')} found.`);
  if (inconsistent > 0) {
    words.push(`The chunks of ${count(inconsistent, 'stripe')} do not fit each other.`);
  }
  write(byId('scrub'), words.join(' '));
}

// What nodes have free together, as `suture df` counts it: what is free on a file system that
// several of them share is there once, as much as the one that may take most of it could have.
function freeOf(nodes) {
  const shared = new Map();
  return nodes.reduce((sum, { file_system: on, free_bytes: free }) => {
    if (on === null) return sum + free;
    const counted = shared.get(on) || 0;
    const more = Math.max(0, free - counted);
    shared.set(on, counted + more);
    return sum + more;
  }, 0);
}

// Nodes that are not up count for nothing but their number.
function showRacks(status) {
  const racks = new Map();
  status.nodes.filter((node) => node.rack).forEach((node) => {
    racks.set(node.rack, [...(racks.get(node.rack) || []), node]);
  });
  const names = [...racks.keys()].sort(byNumber.compare);
  const make = (row, name) => {
    text(row, 'th', name).scope = 'row';
    for (let cell = 0; cell < 3; cell += 1) row.insertCell();
  };
  const update = (row, name) => {
    const nodes = racks.get(name);
    const up = nodes.filter((node) => node.health === 'up');
    write(row.cells[1], `${up.length} of ${nodes.length}`);
    row.cells[1].className = up.length === nodes.length ? 'good' : 'bad';
    write(row.cells[2], size(up.reduce((sum, node) => sum + node.used_bytes, 0)));
    write(row.cells[3], size(freeOf(up)));
  };
  showKeyed('racks', names, (name) => name, make, update);
}

function showNodes(status) {
  const nodes = [...status.nodes].sort((a, b) =>
    byNumber.compare(a.rack || '', b.rack || '') || byNumber.compare(a.name, b.name));
  byId('nodes').classList.toggle('may-command', mayCommand);
  const make = (row, node) => {
    text(row, 'th', node.name).scope = 'row';
    for (let cell = 0; cell < 6; cell += 1) row.insertCell();
    row.cells[4].append(document.createElement('meter'), text(row.cells[4], 'span', ''));
    row.cells[6].className = 'command';
  };
  const update = (row, node) => {
    const all = node.used_bytes + node.free_bytes;
    write(row.cells[1], node.rack || '-');
    write(row.cells[2], healthOf(node));
    row.cells[2].className = node.health === 'up' ? 'good' : 'bad';
    write(row.cells[3], node.chunks);
    const [meter, words] = row.cells[4].children;
    setBar(meter, node.used_bytes, all, `${size(node.used_bytes)} of ${size(all)} used`);
    write(words, size(node.used_bytes));
    write(row.cells[5], size(node.free_bytes));
    showCommands(row.cells[6], node);
  };
  showKeyed('nodes', nodes, (node) => node.node, make, update);
}

function lostIn(episode) {
  const words = [];
  if (episode.failed_nodes > 0) {
    const more = episode.failed_nodes - episode.failed.length;
    words.push(`${episode.failed.join(', ')}${more > 0 ? ` and ${more} more` : ''} failed`);
  }
  if (episode.bad_copies > 0) words.push(count(episode.bad_copies, 'bad chunk'));
  return words.join('; ') || 'moved';
}

function showPast(status) {
  byId('past-none').hidden = status.history.length > 0;
  const make = (row) => { for (let cell = 0; cell < 5; cell += 1) row.insertCell(); };
  const update = (row, episode) => {
    const when = new Date(1000 * episode.began);
    // Some languages have marks of direction in it.
    write(row.cells[0], when.toLocaleString().replace(/\p{Cf}/gu, ''));
    write(row.cells[1], lostIn(episode));
    const again = episode.failed_attempts > 0
      ? `, ${count(episode.failed_attempts, 'attempt')} made again` : '';
    write(row.cells[2], `${count(episode.chunks, 'chunk')} (${size(episode.bytes)})${again}`);
    write(row.cells[3], episode.ended ? time(episode.seconds) : `${time(episode.seconds)} so far`);
    write(row.cells[4], size(episode.bytes / Math.max(episode.seconds, 0.001)));
  };
  const key = (episode) => `${episode.began} ${episode.failed.join(' ')}`;
  showKeyed('past', status.history, key, make, update);
}

function show(status) {
  last = status;
  const grades = { healthy: 'good', unreadable: 'bad', unrepairable: 'bad', unwritable: 'bad',
    foreign: 'bad', inconsistent: 'bad', unknown: 'bad' };
  const state = byId('state');
  const observes = status.hdfs !== null && status.hdfs.mode === 'observe';
  const isSaid = status.paused && status.state !== 'paused' && !observes;
  write(state, isSaid ? `${status.state}, repairs are paused` : status.state);
  state.className = grades[status.state] || 'care';
  document.title = `${status.state} - Suture`;
  byId('commands').hidden = !mayCommand;
  write(byId('pause'), status.paused ? 'Resume repairs' : 'Pause repairs');
  showList('warnings', status.warnings.map((warning) => ['li', warning]), text);
  showRisk(status);
  showProgress(status);
  showRate(status);
  showRunning(status);
  showBlocked(status);
  showLinks(status);
  showScrub(status);
  showNodes(status);
  showRacks(status);
  showPast(status);
  write(byId('about'),
    `cluster ${status.cluster}, epoch ${status.epoch}, up for ${time(status.uptime_seconds)}`
    + (status.age_seconds === null ? ''
      : `; as it was ${time(status.age_seconds)} ago: the coordinator is making plans`));
}

const capital = (word) => word[0].toUpperCase() + word.slice(1);

// What is asked before anything is done, and what is sent if so.
let asked = null;

function ask(title, words, go, command) {
  asked = command;
  write(byId('dialog-title'), title);
  write(byId('dialog-text'), words);
  write(byId('dialog-go'), go);
  write(byId('dialog-refusal'), '');
  byId('dialog-field').hidden = command.command !== 'cap';
  byId('dialog').showModal();
  (command.command === 'cap' ? byId('dialog-rate') : byId('dialog-cancel')).focus();
}

function askNode(command, node) {
  const words = {
    drain: 'Its chunks move to other nodes, and are read from it meanwhile. It may be stopped once'
      + ' nothing is left on it.',
    fail: 'Its chunks count as lost, and are rebuilt elsewhere. That is refused where data could'
      + ' not be read without it.',
    return: 'It is used again, with the chunks that it has.',
  };
  ask(`${capital(command)} ${node}?`, words[command], `${capital(command)} ${node}`,
    { command, node });
}

function askPause() {
  const isPaused = Boolean(last && last.paused);
  if (isPaused) {
    ask('Resume repairs?', 'What is lost is rebuilt again.', 'Resume', { command: 'resume' });
  } else {
    ask('Pause repairs?', 'Nothing that is lost is rebuilt until they are resumed, also after a'
      + ' restart. What runs comes to its end.', 'Pause', { command: 'pause' });
  }
}

function askCap() {
  const cap = last ? last.throttle.cap : null;
  byId('dialog-rate').value = cap === null ? 'off' : `${Number((8 * cap / 1e6).toPrecision(4))}Mbit`;
  ask('Limit repairs?', 'Applications keep the rest. Other limits stay as they are.', 'Limit',
    { command: 'cap' });
}

async function send() {
  const command = { ...asked };
  if (command.command === 'cap') command.rate = byId('dialog-rate').value.trim();
  const go = byId('dialog-go');
  go.disabled = true;
  try {
    const answer = await fetch('command', {
      method: 'POST',
      signal: AbortSignal.timeout(COMMAND_MS),
      headers: { 'Content-Type': 'application/json' },
      body: JSON.stringify(command),
    });
    if (!answer.ok) throw new Error((await answer.text()).trim());
    byId('dialog').close();
    await refresh();
  } catch (error) {
    write(byId('dialog-refusal'), `Not done: ${error.message.slice(0, 1000)}`);
    if (command.command === 'cap') byId('dialog-rate').focus();
  } finally {
    go.disabled = false;
  }
}

async function json(path) {
  // A coordinator that hangs takes connections and says nothing.
  const signal = AbortSignal.timeout(ANSWER_MS);
  const answer = await fetch(path, { cache: 'no-store', signal });
  if (!answer.ok) throw new Error((await answer.text()).trim());
  return answer.json();
}

let isKnown = false;

async function refresh() {
  try {
    if (!isKnown) {
      const viewer = await json('viewer.json');
      mayCommand = viewer.may_command;
      write(byId('viewer'), viewer.name ? `seen by ${viewer.name}` : '');
      isKnown = true;
    }
    show(await json('status.json'));
  } catch (error) {
    const state = byId('state');
    write(state, `The coordinator does not answer: ${error.message.slice(0, 200)}`);
    state.className = 'bad';
    document.title = 'no answer - Suture';
  }
}

async function follow() {
  await refresh();
  setTimeout(follow, EVERY_MS);
}

byId('pause').addEventListener('click', askPause);
byId('cap').addEventListener('click', askCap);
byId('dialog-cancel').addEventListener('click', () => byId('dialog').close());
byId('dialog-go').addEventListener('click', send);
byId('dialog-rate').addEventListener('keydown', (event) => { if (event.key === 'Enter') send(); });
follow();
