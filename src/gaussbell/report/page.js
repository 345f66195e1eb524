// The page: words, tables and sections, light and dark, print, and news while a sweep runs.

const views = new Map();

function cell(value) {
  if (value === null || typeof value !== "object") return document.createTextNode(value ?? "");
  if (value.anchor !== undefined) return make("a", { href: `#${value.anchor}` }, value.text);
  return make("span", { class: `badge ${value.tone}` }, value.text);
}

const STATIC = {
  words: (item) => make("p", { class: item.tone === "plain" ? "" : item.tone }, item.text),
  facts: (item) => make("div", {}, item.title ? make("h3", {}, item.title) : null,
    make("dl", {}, ...Object.entries(item.rows).flatMap(([name, text]) =>
      [make("dt", {}, name), make("dd", {}, text)]))),
  table: (item) => make("div", {}, make("div",
    { class: "scroll", tabindex: "0", role: "group", "aria-label": item.title || "Table" },
    make("table", { class: "stack" }, item.title ? make("caption", {}, item.title) : null,
      make("thead", {}, make("tr", {}, ...item.headings.map((name) => make("th", { scope: "col" }, name)))),
      make("tbody", {}, ...item.rows.map((row) => make("tr", {}, ...row.map((value, k) =>
        make("td", { "data-name": item.headings[k] || null }, cell(value)))))))),
    item.note ? make("p", { class: "soft" }, item.note) : null),
  picture: (item) => make("figure", {}, make("h3", {}, item.title),
    make("img", { src: `data:image/png;base64,${item.png}`, alt: item.alt })),
  bar: (item) => make("p", {}, make("label", {}, `${item.title} `,
    item.total === null ? null : make("progress", { value: item.done, max: item.total, "aria-label": item.title }),
    ` ${item.done}${item.total === null ? "" : ` of ${item.total}`}`)),
};
const VIEWS = { chart: ChartView, scene: SceneView };

function show(section, item, number) {
  if (STATIC[item.type]) return STATIC[item.type](item);
  const id = `${section.anchor}/${item.type}/${item.title || number}`;
  const known = views.get(id);
  if (known) known.update(item);
  else views.set(id, new VIEWS[item.type](item));
  return views.get(id).element;
}

// Elements that stay are not moved: they keep the focus.
function place(parent, wanted) {
  const before = [...parent.children];
  if (before.length !== wanted.length) return parent.replaceChildren(...wanted);
  wanted.forEach((element, k) => before[k] === element || before[k].replaceWith(element));
}

const drawn = new Map();
let head = "";
function fillHeader(page) {
  const text = JSON.stringify([page.title, page.about, page.sections.map(({ anchor, title }) => [anchor, title])]);
  if (text === head) return;
  head = text;
  document.title = page.title;
  const theme = make("button", { type: "button", id: "theme", onclick: () => setTheme(!isDark()) });
  document.querySelector("header").replaceChildren(
    make("div", { class: "head" }, make("div", {}, make("h1", {}, page.title), make("p", {}, page.about)), theme),
    make("nav", { "aria-label": "Sections" }, make("ul", {}, ...page.sections.map((section) =>
      make("li", {}, make("a", { href: `#${section.anchor}` }, section.title))))));
}

function fill(page) {
  fillHeader(page);
  const main = document.querySelector("main");
  const before = new Set(drawn.keys());
  for (const section of page.sections) {
    const text = JSON.stringify(section);
    before.delete(section.anchor);
    if (drawn.get(section.anchor)?.text === text) continue;
    const element = drawn.get(section.anchor)?.element ?? make("section", { id: section.anchor });
    place(element, [make("h2", {}, section.title), ...section.items.map((item, k) => show(section, item, k))]);
    drawn.set(section.anchor, { text, element });
  }
  before.forEach((anchor) => drawn.delete(anchor));
  place(main, page.sections.map((section) => drawn.get(section.anchor).element));
  setTheme(isDark());
}

// ---- the look

const isDark = () => document.documentElement.dataset.theme === "dark";
function setTheme(dark) {
  const changed = dark !== isDark();
  document.documentElement.dataset.theme = dark ? "dark" : "light";
  const button = document.getElementById("theme");
  if (button) button.textContent = dark ? "Light" : "Dark";
  if (changed) views.forEach((view) => view.redraw());
}

const pause = () => new Promise((resolve) => setTimeout(resolve));
async function startAll() {
  for (const view of [...views.values()]) {
    if (!view.started) {
      view.start();
      view.started = true;
      await pause();
    }
  }
  document.body.dataset.ready = "yes";
}

const preferred = matchMedia("(prefers-color-scheme: dark)");
document.documentElement.dataset.theme = preferred.matches ? "dark" : "light";
preferred.addEventListener("change", () => setTheme(preferred.matches));
let themeBefore = false;
addEventListener("beforeprint", () => {
  themeBefore = isDark();
  setTheme(false);
  views.forEach((view) => { if (view.plot) Plotly.relayout(view.plot, { width: 660, height: 380 }); });
});
addEventListener("afterprint", () => {
  setTheme(themeBefore);
  views.forEach((view) => { if (view.plot) Plotly.relayout(view.plot, { width: null, height: null, autosize: true }); });
});

const page = JSON.parse(document.getElementById("data").textContent);
fill(page);
document.querySelector("footer").append(
  "Point at a plot for its numbers; drag to look closer, double-click to go back. Everything is in this file.");
startAll();
if (page.live) {
  const events = new EventSource("events");
  const notice = make("p", { class: "bad", role: "status", hidden: true },
    "The server does not answer; this is how things were when it last did.");
  document.querySelector("main").before(notice);
  events.onmessage = (event) => { notice.hidden = true; fill(JSON.parse(event.data)); startAll(); };
  events.onerror = () => { notice.hidden = false; };
}
