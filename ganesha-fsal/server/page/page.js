// Asks for status.json, clients.json and events.json every two seconds and shows them. What they say is shown as text only: all
// of it comes to the page through textContent.
"use strict";

const EVERY_MS = 2000;
const RATE_OVER = 5; // answers
const CHART_POINTS = 150;

const answers = []; // the last ones: {at, servers: Map of id to report}
const rates = []; // {read, written}, bytes a second, of all servers

function element(name, text, style) {
  const made = document.createElement(name);
  if (text !== undefined) made.textContent = text;
  if (style) made.className = style;
  return made;
}

// A text that is no UTF-8 comes as an array of its bytes.
function words(value) {
  return typeof value === "string" ? value : Array.isArray(value) ? "(no UTF-8)" : "";
}

function bytes(count) {
  const units = ["B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
  let unit = 0;
  while (count >= 1024 && unit < units.length - 1) {
    count /= 1024;
    unit += 1;
  }
  return `${count.toFixed(unit > 0 && count < 100 ? 1 : 0)} ${units[unit]}`;
}

function duration(ms) {
  const seconds = ms / 1000;
  if (seconds < 120) return `${seconds.toFixed(seconds < 10 ? 1 : 0)} s`;
  if (seconds < 7200) return `${Math.floor(seconds / 60)} min`;
  if (seconds < 172800) return `${Math.floor(seconds / 3600)} h`;
  return `${Math.floor(seconds / 86400)} days`;
}

function rate(perSecond) {
  return perSecond === null ? "" : `${bytes(perSecond)}/s`;
}

// Bytes a second since the oldest answer kept; null when that is not known. Counters begin anew
// when a server starts.
function rateOf(server, field) {
  const last = answers[answers.length - 1];
  for (const older of answers) {
    const before = older.servers.get(server.id);
    if (older !== last && before && before[field] <= server[field]) {
      return (server[field] - before[field]) * 1000 / (last.at - older.at);
    }
  }
  return null;
}

// All that say none are in one together.
function domainOf(server) {
  return words(server.failure_domain) || "no failure domain";
}

function sum(list, field) {
  return list.reduce((total, one) => total + one[field], 0);
}

// As weft df has it: others are away or being left, and new files get no room there.
function takesFiles(server) {
  const duty = words(server.duty);
  return ["up", "suspect"].includes(server.state) && words(server.trouble) === "" &&
    (duty === "" || duty === "serving");
}

function showProblems(status) {
  const section = document.getElementById("problems");
  section.hidden = status.problems.length === 0;
  section.querySelector("ul").replaceChildren(
    ...status.problems.map((text) => element("li", words(text))));
}

function figure(name, value) {
  const box = element("div");
  box.append(element("b", value), name);
  return box;
}

function showFigures(status) {
  const servers = status.data_servers;
  const now = rates[rates.length - 1] || {read: null, written: null};
  document.getElementById("figures").replaceChildren(
    figure("data servers up", `${servers.filter((one) => one.state === "up").length} of ${servers.length}`),
    figure("read", rate(now.read) || "-"),
    figure("written", rate(now.written) || "-"),
    figure("raw space free", bytes(sum(servers.filter(takesFiles), "free_bytes"))),
    figure("of raw space", bytes(sum(servers.filter(takesFiles), "capacity_bytes"))),
    figure("clients", status.clients),
    figure("layouts held", status.layouts_out),
    figure("recalls without an answer", status.recalls_pending),
    figure("through the metadata server", `${status.mds_read_calls} r, ${status.mds_write_calls} w`),
    figure("objects to be repaired", status.stale_objects),
    figure("removals queued", status.removals_queued),
    figure("grace left", status.grace_left_ms > 0 ? duration(status.grace_left_ms) : "none"));
}

function table(columns, rows) {
  const head = element("tr");
  for (const [name, style] of columns) head.append(element("th", name, style));
  const made = element("table");
  made.append(head);
  for (const cells of rows) {
    const row = element("tr");
    cells.forEach((cell, at) => {
      const box = element("td", undefined, columns[at][1]);
      box.append(cell);
      row.append(box);
    });
    made.append(row);
  }
  return made;
}

function spaceOf(server) {
  const used = server.capacity_bytes - server.free_bytes;
  const cell = element("span");
  const meter = element("meter");
  meter.max = server.capacity_bytes || 1;
  meter.high = 0.95 * meter.max;
  meter.optimum = 0;
  meter.value = used;
  cell.append(meter, `${bytes(server.free_bytes)} free`);
  return cell;
}

function stateOf(server) {
  const duty = words(server.duty);
  return element("span", server.state + (duty && duty !== "serving" ? `, ${duty}` : ""), server.state);
}

// "rdma", "rdma, tcp": how it reaches its partners, or its targets.
function waysOf(reached) {
  return [...new Set(reached.map((one) => words(one.transport)))].sort().join(", ");
}

function storeOf(server) {
  const ways = waysOf(server.targets);
  return words(server.store) + (ways ? ` by ${ways}` : "");
}

function showServers(status) {
  const domains = new Map();
  for (const server of status.data_servers) {
    const domain = domainOf(server);
    if (!domains.has(domain)) domains.set(domain, []);
    domains.get(domain).push(server);
  }
  const shown = [];
  for (const [domain, servers] of [...domains].sort()) {
    const there = servers.filter(takesFiles);
    shown.push(element("h3", `${domain}: ${bytes(sum(there, "free_bytes"))} free of ` +
      bytes(sum(there, "capacity_bytes"))));
    shown.push(table([["server"], ["state"], ["store"], ["partners by"], ["space"],
      ["read", "number"], ["written", "number"], ["errors", "number"], ["to repair", "number"]],
    servers.map((server) => [words(server.name), stateOf(server), storeOf(server),
      waysOf(server.partners), spaceOf(server), rate(rateOf(server, "read_bytes")), rate(rateOf(server, "written_bytes")),
      String(server.errors), String(server.stale_objects)])));
  }
  document.getElementById("servers").replaceChildren(...shown);
}

function showRepairs(status) {
  const names = new Map(status.data_servers.map((server) => [server.id, words(server.name)]));
  const rows = status.data_servers.flatMap((server) => server.repairs.map((repair) => [
    repair.kind, String(repair.fileid), words(server.name), names.get(repair.source) || "",
    `${bytes(repair.compared_bytes)} of ${bytes(repair.total_bytes)}`,
    rate(repair.bytes_per_second), repair.remaining_ms > 0 ? duration(repair.remaining_ms) : ""]));
  document.getElementById("repairs").replaceChildren(rows.length === 0 ?
    element("p", `None under way. ${status.resynced_objects} objects made equal since the start.`) :
    table([["kind"], ["file"], ["at"], ["from"], ["done", "number"], ["rate", "number"],
      ["left", "number"]], rows));
}

function showClients(report) {
  const rows = report.clients.map((client) => [words(client.address) || "-", words(client.owner),
    String(client.layouts_reading), String(client.layouts_writing),
    client.recalls_pending > 0 ?
      `${client.recalls_pending}, ${duration(client.oldest_recall_ms)}` : "",
    `${duration(client.renewed_ms)} ago`, bytes(client.mds_read_bytes),
    bytes(client.mds_written_bytes)]);
  const shown = rows.length === 0 ? [element("p", "None has a lease.")] : [
    table([["address"], ["name"], ["reading", "number"], ["writing", "number"],
      ["recalled", "number"], ["lease renewed", "number"], ["read through this server", "number"],
      ["written", "number"]], rows)];
  if (report.count > rows.length) shown.push(element("p", `and ${report.count - rows.length} more`));
  document.getElementById("clients").replaceChildren(...shown);
}

function showEvents(report) {
  const rows = report.events.slice().reverse().map((event) => {
    const about = event.server ? `${words(event.server.name) || event.server.id}: ` : "";
    const times = event.times > 1 ?
      ` (${event.times} times since ${new Date(event.first_ms).toLocaleString()})` : "";
    return [new Date(event.at_ms).toLocaleString(), element("span", event.level, event.level),
      about + words(event.text) + times];
  });
  document.getElementById("events").replaceChildren(rows.length === 0 ?
    element("p", "Nothing is remembered.") : table([["when"], ["level"], ["what"]], rows));
}

function line(field, most) {
  const made = document.createElementNS("http://www.w3.org/2000/svg", "polyline");
  const from = CHART_POINTS - rates.length;
  made.setAttribute("class", field);
  made.setAttribute("points", rates.map((one, at) =>
    `${(from + at) * 600 / (CHART_POINTS - 1)},${118 - 114 * one[field] / most}`).join(" "));
  return made;
}

function showChart() {
  const most = Math.max(1, ...rates.map((one) => Math.max(one.read, one.written)));
  document.getElementById("chart").setAttribute("preserveAspectRatio", "none");
  document.getElementById("chart").replaceChildren(line("read", most), line("written", most));
  document.getElementById("span").textContent =
    `in the last ${duration(rates.length * EVERY_MS)}, at most ${rate(most)}`;
}

function show(status) {
  answers.push({at: performance.now(),
    servers: new Map(status.data_servers.map((server) => [server.id, server]))});
  if (answers.length > RATE_OVER) answers.shift();
  const known = (field) => status.data_servers.reduce(
    (total, server) => total + (rateOf(server, field) || 0), 0);
  if (answers.length > 1) rates.push({read: known("read_bytes"), written: known("written_bytes")});
  if (rates.length > CHART_POINTS) rates.shift();
  document.getElementById("about").textContent =
    `metadata server ${words(status.version)}, up for ${duration(status.uptime_ms)}`;
  showProblems(status);
  showFigures(status);
  if (rates.length > 0) showChart();
  showServers(status);
  showRepairs(status);
}

async function documentAt(path) {
  const answer = await fetch(path, {signal: AbortSignal.timeout(10000)});
  if (!answer.ok) throw new Error(`${answer.status}`);
  return answer.json();
}

let answered = "";

async function ask() {
  const fresh = document.getElementById("fresh");
  try {
    show(await documentAt("status.json"));
    showClients(await documentAt("clients.json"));
    showEvents(await documentAt("events.json"));
    answered = new Date().toLocaleTimeString();
    fresh.textContent = `as of ${answered}`;
    fresh.className = "";
  } catch (error) {
    fresh.textContent = `No answer from the metadata server${answered ? ` since ${answered}` : ""}: ` +
      error.message;
    fresh.className = "stale";
  }
  setTimeout(ask, EVERY_MS);
}

ask();
