// SPDX-FileCopyrightText: 2026 The Satchel authors
// SPDX-License-Identifier: Apache-2.0
// Shows a View of wire/http/pages.py. A section is made anew only when it changes, and never while the
// keyboard is in it, so that nobody loses the focus.

const SOURCES = ["media", "home", "cache", "other"];
const shown = new Map();

function element(name, text, attributes = {}) {
  const made = document.createElement(name);
  if (text !== undefined) made.textContent = text;
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  return made;
}

function words(name) {
  const text = name.replace(/_(bytes|seconds)$/, "").replaceAll("_", " ").replace(/^uuid$/, "UUID").replace(/^vcpus$/, "CPUs");
  return text.charAt(0).toUpperCase() + text.slice(1);
}

function bytes(number) {
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let at = 0;
  for (; number >= 1024 && at < units.length - 1; at++) number /= 1024;
  return `${at ? number.toFixed(1) : number}\u00a0${units[at]}`;
}

function value(name, given) {
  if (given === null || given === undefined || given === "") return "–";
  if (typeof given === "number") {
    if (name.endsWith("bytes")) return bytes(given);
    if (name.endsWith("seconds")) return `${given.toPrecision(3)}\u00a0s`;
    return given.toLocaleString("en");
  }
  if (typeof given === "boolean") return given ? "yes" : "no";
  if (Array.isArray(given)) return given.map((one) => value(name, one)).join(", ") || "–";
  if (typeof given === "object" && "cap" in given) {
    return `${value(name, given.used)} of ${value(name, given.cap)}`;
  }
  if (typeof given === "object") {
    return Object.entries(given).map(([key, one]) => `${key} ${value(name, one)}`).join(", ") || "–";
  }
  return String(given);
}

function cell(text) {
  const long = /^\S{37,}$/.test(text);  // than a UUID: a key; all of it is in the tooltip
  return element("td", long ? `${text.slice(0, 14)}…${text.slice(-4)}` : text, long ? { title: text } : {});
}

function table(section) {
  if (!section.rows.length) return element("p", "None now.", { class: "none" });
  const made = element("table");
  const head = made.createTHead().insertRow();
  const numeric = (column) => section.rows.some((row) => typeof row[column] === "number");
  const kind = (column) => (numeric(column) ? { class: "number", scope: "col" } : { scope: "col" });
  for (const column of section.columns) head.append(element("th", words(column), kind(column)));
  if (section.action) head.append(element("th", "Action", { scope: "col" }));
  const body = made.createTBody();
  for (const row of section.rows) {
    const line = body.insertRow();
    for (const column of section.columns) {
      const one = cell(value(column, row[column]));
      if (numeric(column)) one.className = "number";
      line.append(one);
    }
    if (section.action) line.insertCell().append(button(section.action, row[section.action.key]));
  }
  const around = element("div", undefined, {
    class: "scroll", tabindex: "0", role: "region", "aria-label": section.title,
  });
  around.append(made);
  return around;
}

function button(action, key) {
  const made = element("button", action.label, { type: "button", "aria-label": `${action.label}: ${key}` });
  made.addEventListener("click", async () => {
    if (!window.confirm(`${action.label}: ${key}?`)) return;
    const answer = await fetch(`/act/${action.name}`, {
      method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify({ key }),
    });
    if (!answer.ok) say((await answer.json()).what, true);
    made.blur();
  });
  return made;
}

function link(section) {
  const made = element("p", undefined, { class: "none" });
  made.append(element("a", section.link.label, { href: section.link.to }));
  return made;
}

function content(section) {
  if (section.rows) return table(section);
  if (section.maps) return maps(section);
  return section.link ? link(section) : facts(section);
}

function facts(section) {
  const made = element("dl");
  for (const [name, given] of Object.entries(section.facts)) {
    const pair = element("div");
    pair.append(element("dt", words(name)), element("dd", value(name, given)));
    made.append(pair);
  }
  return made;
}

function map(volume) {
  const svg = document.createElementNS("http://www.w3.org/2000/svg", "svg");
  let here = 0, all = 0;
  svg.setAttribute("class", "map");
  svg.setAttribute("role", "img");
  svg.setAttribute("preserveAspectRatio", "none");
  svg.setAttribute("viewBox", `0 0 ${Math.max(1, volume.parts.length)} 1`);
  volume.parts.forEach((part, at) => {
    const present = part.present + part.dirty;
    const total = present + part.absent + part.fetching;
    here += present;
    all += total;
    if (!present) return;
    const bar = document.createElementNS("http://www.w3.org/2000/svg", "rect");
    const height = Math.max(0.1, present / total);
    for (const [key, given] of Object.entries({ x: at, y: 1 - height, width: 1, height })) {
      bar.setAttribute(key, given);
    }
    bar.setAttribute("class", SOURCES.includes(part.source) ? part.source : "other");
    svg.append(bar);
  });
  const caption = `${volume.name}: ${(100 * here / Math.max(1, all)).toFixed(1)} % here`;
  svg.setAttribute("aria-label", caption);
  const figure = element("figure");
  figure.append(element("figcaption", caption), svg);
  return figure;
}

function maps(section) {
  const made = element("div");
  made.append(...section.maps.map(map));
  const legend = element("ul", undefined, { class: "legend" });
  for (const source of [...SOURCES, "absent"]) legend.append(element("li", source, { class: source }));
  made.append(legend);
  return made;
}

function show(view) {
  document.getElementById("title").textContent = document.title = view.title;
  const place = document.getElementById("sections");
  for (const [title, old] of shown) {
    if (!view.sections.some((section) => section.title === title)) {
      old.node.remove();
      shown.delete(title);
    }
  }
  let before;
  for (const section of view.sections) {
    const text = JSON.stringify(section), old = shown.get(section.title);
    if (old && (old.text === text || old.node.contains(document.activeElement))) {
      before = old.node;
      continue;
    }
    const node = element("section");
    node.append(element("h2", section.title));
    node.append(content(section));
    if (old) old.node.replaceWith(node);
    else if (before) before.after(node);
    else place.prepend(node);
    shown.set(section.title, { text, node });
    before = node;
  }
}

function say(text, bad = false) {
  const state = document.getElementById("state");
  if (state.textContent !== text) state.textContent = text;
  state.className = bad ? "bad" : "";
}

const events = new EventSource("/events");
events.addEventListener("message", (event) => {
  const view = JSON.parse(event.data);
  if (view.error) return say(view.error, true);
  show(view);
  say("Live");
});
events.addEventListener("error", () => say("No answer. Is the program still running?", true));
