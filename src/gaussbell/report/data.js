// Elements, and the columns of a chart: decoded, as rows, as CSV. All texts go in as text, never as HTML.

const css = (name) => getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
const SHOWN_ROWS = 200;

function make(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (value === true) element.setAttribute(name, "");
    else if (value !== false && value !== null && value !== undefined) element.setAttribute(name, value);
  }
  element.append(...children.filter((child) => child !== null));
  return element;
}

function draw(tag, attributes = {}) {
  const element = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  return element;
}

// Plotly reads some HTML in its texts; what comes from records is to be seen as it is.
const plain = (text) => String(text).replace(/&/g, "&amp;").replace(/</g, "&lt;").replace(/>/g, "&gt;");
const slug = (text) => text.toLowerCase().replace(/[^a-z0-9]+/g, "-").replace(/^-|-$/g, "").slice(0, 60);

function decode(column) {
  if (column === undefined || column === null || Array.isArray(column)) return column;
  const bytes = Uint8Array.from(atob(column.f8 ?? column.f4), (letter) => letter.charCodeAt(0)).buffer;
  const numbers = column.f8 === undefined ? new Float32Array(bytes) : new Float64Array(bytes);
  if (column.shape.length === 1) return numbers;
  const width = column.shape[1];
  return Array.from({ length: column.shape[0] }, (_, k) => numbers.subarray(k * width, (k + 1) * width));
}

const once = new WeakMap();
function columnsOf(part) {
  if (!once.has(part)) {
    once.set(part, Object.fromEntries(Object.entries(part.columns).map(([name, c]) => [name, decode(c)])));
  }
  return once.get(part);
}

// ---- columns as rows, for the table and for CSV

function nameOf(chart, role) {
  if (role === "x") return chart.x.title;
  if (role === "y") return chart.y.title;
  if (role === "low" || role === "high") return `${chart.y.title}, ${role}`;
  return (role === "z" || role === "shade") && chart.shade ? chart.shade.title : role;
}

function table(item) {
  if (item.type === "scene") {
    const columns = columnsOf(item);
    const names = Object.keys(columns);
    const length = columns[names[0]].length;
    return { names, rows: Array.from({ length }, (_, k) => names.map((name) => columns[name][k])) };
  }
  const facets = [...new Set(item.series.flatMap((one) => Object.keys(one.facets)))];
  const roles = [...new Set(item.series.flatMap((one) => Object.keys(one.columns)))];
  const rows = [];
  for (const one of item.series) {
    const columns = columnsOf(one);
    const first = [one.label, ...facets.map((facet) => one.facets[facet] ?? "")];
    const cells = (k) => roles.map((role) => (columns[role] === undefined ? "" : columns[role][k]));
    if (columns.z === undefined) {
      columns[roles.find((role) => columns[role])].forEach((_, k) => rows.push([...first, ...cells(k)]));
      continue;
    }
    columns.z.forEach((row, j) => row.forEach((z, k) => rows.push([...first, ...roles.map(
      (role) => ({ x: columns.x[k], y: columns.y[j], z })[role] ?? "")])));
  }
  const places = { x: item.x.labels, y: item.y.labels };
  roles.forEach((role, k) => {
    const at = 1 + facets.length + k;
    if (places[role]) rows.forEach((row) => { row[at] = places[role][Math.round(row[at])] ?? row[at]; });
  });
  return { names: ["series", ...facets, ...roles.map((role) => nameOf(item, role))], rows };
}

function csv(item) {
  const { names, rows } = table(item);
  const field = (value) => {
    const text = typeof value === "number" && Number.isNaN(value) ? "" : String(value ?? "");
    return /[",\r\n]/.test(text) ? `"${text.replace(/"/g, '""')}"` : text;
  };
  return [names, ...rows].map((row) => row.map(field).join(",")).join("\r\n") + "\r\n";
}

function download(item) {
  const link = make("a", {
    href: URL.createObjectURL(new Blob([csv(item)], { type: "text/csv" })),
    download: `${slug(item.title) || "data"}.csv`,
  });
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10000);
}

const short = (value) => (typeof value === "number" ? String(Number(value.toPrecision(6))) : String(value));

function fillTable(details, item) {
  if (!details.open || details.querySelector("table")) return;
  const { names, rows } = table(item);
  const head = make("tr", {}, ...names.map((name) => make("th", { scope: "col" }, name)));
  const body = rows.slice(0, SHOWN_ROWS).map((row) =>
    make("tr", {}, ...row.map((value) => make("td", {}, short(value)))));
  const more = rows.length > SHOWN_ROWS ? `The first ${SHOWN_ROWS} of ${rows.length} rows; CSV has all.` : "";
  details.append(
    make("div", { class: "scroll", tabindex: "0", role: "group", "aria-label": `Numbers: ${item.title}` },
      make("table", { class: "numbers" }, make("thead", {}, head), make("tbody", {}, ...body))),
    make("p", {}, more));
}
