// Draws a report from the data in the page. All texts go in as text, never as HTML.
"use strict";
(() => {
  const css = (name) => getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
  const DIVERGING = [[0, "#b35806"], [0.25, "#f1a340"], [0.5, "#f7f7f7"], [0.75, "#998ec3"], [1, "#542788"]];
  const SHOWN_ROWS = 200;
  const views = new Map();

  // ---- elements and texts

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

  // ---- charts

  function swatch(one) {
    const svg = draw("svg", { class: "swatch", viewBox: "0 0 26 12", "aria-hidden": "true" });
    const colour = one.colour === "ink" ? css("ink") : css(one.colour);
    const filled = ["box", "bar"].includes(one.kind);
    if (filled) svg.append(draw("rect", { x: 6, y: 1, width: 14, height: 10, fill: colour }));
    else if (one.kind === "rings") {
      svg.append(draw("circle", { cx: 13, cy: 6, r: 4.5, fill: "none", stroke: colour, "stroke-width": 2 }));
    } else if (one.kind === "points") svg.append(draw("circle", { cx: 13, cy: 6, r: 4.5, fill: colour }));
    else {
      const dash = { dash: "6 3", dot: "2 3", dashdot: "6 3 2 3", longdash: "10 3" }[one.dash] ?? "none";
      svg.append(draw("line", {
        x1: 0, x2: 26, y1: 6, y2: 6, stroke: colour, "stroke-width": 3, "stroke-dasharray": dash }));
    }
    return svg;
  }

  function scale(chart) {
    const axis = chart.shade;
    const bar = { title: { text: plain(axis.title), side: "right" }, thickness: 12, outlinewidth: 0 };
    const range = axis.low === null ? {} : { min: axis.low, max: axis.high };
    const greys = isDark() ? [[0, "#101214"], [1, "#9aa0a6"]] : [[0, "#6f7680"], [1, "#f4f5f7"]];
    const colours = { cividis: "Cividis", diverging: DIVERGING, greys }[chart.palette];
    return { colours, bar, range };
  }

  const faded = (hex) => `${hex}33`;

  class ChartView {
    constructor(item) {
      this.chosen = new Map();
      this.solid = false;
      this.controls = make("div", { class: "controls" });
      this.key = make("ul", { class: "key", "aria-label": "Legend" });
      this.plot = make("div", { class: "plot", role: "img" });
      this.caption = make("figcaption");
      this.command = make("code");
      this.numbers = make("details", { ontoggle: () => fillTable(this.numbers, this.item) },
        make("summary", {}, "Numbers as a table"));
      this.heading = make("h3");
      this.element = make("figure", {}, this.heading, this.controls, this.key, this.plot, this.caption,
        make("div", { class: "tools" },
          make("button", { type: "button", class: "csv", onclick: () => download(this.item) }, "Download CSV"),
          make("span", {}, "Made by ", this.command), this.numbers));
      this.update(item);
    }

    update(item) {
      this.item = item;
      this.heading.textContent = item.title;
      this.caption.textContent = item.caption;
      this.command.textContent = item.command;
      this.plot.setAttribute("aria-label", item.alt);
      this.numbers.open = false;
      this.numbers.querySelectorAll(":scope > :not(summary)").forEach((old) => old.remove());
      this.offer();
      this.redraw();
    }

    // Controls are made anew only if there is something else to choose: someone may be using them.
    offer() {
      const choices = JSON.stringify(this.offered().map((control) => [control, this.values(control.facet)]));
      if (choices === this.choices) return;
      this.choices = choices;
      this.controls.replaceChildren(...this.offered().map((control) => this.control(control)));
      if (this.item.solid) this.controls.append(this.switch());
    }

    values(facet) {
      return [...new Set(this.item.series.map((one) => one.facets[facet]).filter((v) => v !== undefined))];
    }

    // Controls with something to choose from.
    offered() {
      return this.item.controls.filter((control) => this.values(control.facet).length > 1);
    }

    // What the reader chose, or what is on at first; never nothing, unless all toggles were switched off.
    selected({ facet, kind, shown }) {
      const values = this.values(facet);
      const first = kind === "toggle" ? values : values.slice(0, 1);
      const there = (this.chosen.get(facet) ?? shown ?? first).filter((value) => values.includes(value));
      return there.length || (kind === "toggle" && this.chosen.has(facet)) ? there : first;
    }

    choose(facet, values) {
      this.chosen.set(facet, values);
      this.redraw();
    }

    control(control) {
      const values = this.values(control.facet);
      return { toggle: () => this.toggles(control, values), choose: () => this.chooser(control, values),
        slide: () => this.slider(control, values) }[control.kind]();
    }

    toggles(control, values) {
      const boxes = values.map((value) => {
        const box = make("input", { type: "checkbox", checked: this.selected(control).includes(value),
          onchange: () => {
            const now = this.selected(control).filter((other) => other !== value);
            this.choose(control.facet, box.checked ? [...now, value] : now);
          } });
        return make("label", {}, box, this.mark(control.facet, value), value);
      });
      return make("fieldset", {}, make("legend", {}, `${control.facet}:`), ...boxes);
    }

    // A swatch beside a toggle, if its value has a colour or a line of its own.
    mark(facet, value) {
      const having = this.item.series.filter((one) => one.facets[facet] === value);
      const others = this.item.series.filter((one) => one.facets[facet] !== undefined);
      for (const look of ["colour", "dash"]) {
        const own = (value) => new Set(others.filter((one) => one.facets[facet] === value).map((one) => one[look]));
        const looks = this.values(facet).map(own);
        const all = new Set(looks.flatMap((some) => [...some]));
        if (looks.every((some) => some.size === 1) && all.size > 1) {
          return swatch({ kind: having[0].kind, colour: "ink", dash: "solid", [look]: having[0][look] });
        }
      }
      return null;
    }

    chooser(control, values) {
      const list = make("select", { onchange: () => {
        this.choose(control.facet, [list.value]);
      } }, ...values.map((value) => make("option", {
        value, selected: this.selected(control)[0] === value }, value)));
      return make("label", {}, `${control.facet}: `, list);
    }

    slider(control, values) {
      const at = values.indexOf(this.selected(control)[0]);
      const said = make("output", {}, values[at] ?? "");
      const slide = make("input", { type: "range", min: 0, max: Math.max(0, values.length - 1), value: at,
        "aria-valuetext": values[at], oninput: () => {
          const value = values[Number(slide.value)];
          said.textContent = value;
          slide.setAttribute("aria-valuetext", value);
          this.choose(control.facet, [value]);
        } });
      return make("label", { class: "slide" }, control.facet, slide, said);
    }

    switch() {
      const group = `view-${Math.random().toString(36).slice(2)}`;
      const button = (solid, name) => make("label", {}, make("input", { type: "radio", name: group,
        checked: this.solid === solid, onchange: () => { this.solid = solid; this.redraw(); } }), name);
      return make("fieldset", {}, make("legend", {}, "view:"), button(false, "2D map"),
        button(true, "3D surface"));
    }

    visible() {
      return this.item.series.filter((one) => this.item.controls.every((control) =>
        one.facets[control.facet] === undefined || this.selected(control).includes(one.facets[control.facet])));
    }

    redraw() {
      if (!this.started) return;
      const shown = this.visible();
      const said = new Set(this.offered().filter((c) => c.kind === "toggle").map((c) => c.facet));
      const told = (one) => Object.keys(one.facets).some((facet) => said.has(facet)) || one.columns.z;
      const entries = new Map();
      shown.filter((one) => !told(one) && !one.columns.shade).forEach((one) => entries.set(one.label, one));
      this.key.replaceChildren(...(entries.size ? [...entries.values()].map((one) =>
        make("li", {}, swatch(one), one.label)) : []));
      this.key.hidden = !entries.size;
      const traces = shown.flatMap((one) => this.traces(one));
      Plotly.react(this.plot, traces, this.layout(shown),
        { displayModeBar: false, responsive: true, doubleClick: "reset" });
    }

    start() {
      this.started = true;
      this.redraw();
    }

    traces(one) {
      const c = { ...columnsOf(one) };
      const chart = this.item;
      if (Array.isArray(c.x)) c.x = c.x.map(plain);
      const colour = css(one.colour);
      const name = plain(one.label);
      const [x, y] = (one.axes ?? [chart.x.title, chart.y.title]).map(plain);
      const where = `${x}: %{x:.4~g}<br>${y}: %{y:.4~g}`;
      const base = { name, x: c.x, y: c.y, hovertemplate: `<b>${name}</b><br>${where}<extra></extra>` };
      const line = { color: colour, dash: one.dash, width: 2 };
      if (one.kind === "line") return [{ ...base, type: "scatter", mode: "lines", line }];
      if (one.kind === "steps") {
        return [{ ...base, type: "scatter", mode: "lines+markers", line, marker: { color: colour, size: 6 } }];
      }
      if (one.kind === "points") {
        if (!c.shade) {
          return [{ ...base, type: "scatter", mode: "markers", marker: { color: colour, size: 7, opacity: 0.7 } }];
        }
        const { colours, bar, range } = scale(chart);
        const marker = { color: c.shade, colorscale: colours, colorbar: bar, size: 6, showscale: true,
          cmin: range.min, cmax: range.max };
        const told = `${where}<br>${plain(chart.shade.title)}: %{marker.color:.4~g}<extra></extra>`;
        return [{ ...base, type: "scatter", mode: "markers", marker, hovertemplate: told }];
      }
      if (one.kind === "rings") {
        const marker = { color: colour, size: 13, symbol: "circle-open", line: { width: 2 } };
        return [{ ...base, type: "scatter", mode: "markers", marker }];
      }
      if (one.kind === "band") return this.band(one, c, base, line);
      if (one.kind === "bar") return [{ ...base, type: "bar", marker: { color: colour } }];
      if (one.kind === "box") {
        return [{ type: "box", name, x: c.x, y: c.y, marker: { color: colour, size: 4 }, line: { width: 1.5 },
          boxpoints: "all", jitter: 0.4, pointpos: 0, offsetgroup: name, hovertemplate: undefined,
          hoverinfo: "y" }];
      }
      return this.area(one, c, where);
    }

    band(one, c, base, line) {
      const there = [...c.x.keys()].filter((k) => Number.isFinite(c.low[k]) && Number.isFinite(c.high[k]));
      const edge = (column) => there.map((k) => column[k]);
      return [
        { type: "scatter", mode: "lines", x: [...edge(c.x), ...edge(c.x).reverse()],
          y: [...edge(c.high), ...edge(c.low).reverse()], fill: "toself", fillcolor: faded(line.color),
          line: { width: 0 }, hoverinfo: "skip" },
        { ...base, type: "scatter", mode: "lines", line },
      ];
    }

    area(one, c, where) {
      const { colours, bar, range } = scale(this.item);
      const told = `${where}<br>${plain(this.item.shade.title)}: %{z:.4~g}<extra></extra>`;
      const shared = { x: c.x, y: c.y, z: c.z, colorscale: colours, colorbar: bar, hovertemplate: told };
      if (this.solid) {
        return [{ ...shared, type: "surface", cmin: range.min, cmax: range.max,
          contours: { z: { show: true, usecolormap: true, project: { z: true } } } }];
      }
      if (one.kind === "contour") {
        return [
          { ...shared, type: "contour", zmin: range.min, zmax: range.max, ncontours: 12,
            line: { color: "#888888", width: 0.5 } },
          { type: "scatter", mode: "markers", hoverinfo: "skip",
            x: [...c.y].flatMap(() => [...c.x]), y: [...c.y].flatMap((y) => [...c.x].map(() => y)),
            marker: { color: "#ffffff", size: 4, line: { color: "#000000", width: 0.7 } } },
        ];
      }
      return [{ ...shared, type: "heatmap", zmin: range.min, zmax: range.max }];
    }

    // Steps of an axis of whole numbers, for some eight of them.
    wholeStep(shown) {
      const ends = shown.flatMap((one) => [columnsOf(one).x[0], columnsOf(one).x.at(-1)]);
      const width = Math.max(...ends) - Math.min(...ends);
      return [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000].find((step) => width / step <= 10) ?? undefined;
    }

    layout(shown) {
      const { shade, stacked } = this.item;
      const own = shown.find((one) => one.axes)?.axes ?? [this.item.x.title, this.item.y.title];
      const x = { ...this.item.x, title: own[0] }, y = { ...this.item.y, title: own[1] };
      const soft = css("soft"), grid = css("grid");
      const axis = (one) => ({
        title: { text: plain(one.title), standoff: 8 }, type: one.log ? "log" : "linear", gridcolor: grid,
        zerolinecolor: grid, linecolor: css("line"), automargin: true,
        exponentformat: "power", minexponent: 6, separatethousands: true, tickfont: { color: soft },
        ...(one.whole ? { tickformat: ",d", dtick: this.wholeStep(shown) } : {}),
        ...(one.log ? { dtick: undefined, minor: { showgrid: false } } : {}),
        ...(one.low === null ? {} : {
          range: one.log ? [Math.log10(one.low), Math.log10(one.high)] : [one.low, one.high] }),
        ...(one.ticks ? { tickvals: one.ticks, ticktext: one.ticks.map((tick) => String(tick)) } : {}),
        ...(one.labels ? { tickvals: one.labels.map((_, k) => k), ticktext: one.labels.map(plain) } : {}),
      });
      const narrow = this.plot.clientWidth < 480;
      const common = {
        paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)", showlegend: false,
        font: { family: "system-ui, sans-serif", size: narrow ? 11 : 13, color: css("ink") },
        margin: { l: 58, r: 14, t: 12, b: 48 }, hovermode: "closest", barmode: stacked ? "stack" : "group",
        boxmode: "group", bargap: this.item.x.labels?.length < 4 ? 0.6 : 0.2, dragmode: matchMedia("(pointer: coarse)").matches ? false : "zoom",
        hoverlabel: { bgcolor: css("paper"), bordercolor: css("line"), font: { color: css("ink") } },
      };
      if (this.solid && shown.some((one) => one.columns.z)) {
        const side = (one) => ({ title: { text: plain(one.title) }, gridcolor: grid, color: css("ink") });
        const scene = { xaxis: side(x), yaxis: side(y), zaxis: side(shade), aspectmode: "cube",
          camera: { eye: { x: -1.4, y: -1.5, z: 1.1 } } };
        return { ...common, margin: { l: 0, r: 0, t: 0, b: 0 }, scene, dragmode: "orbit" };
      }
      return { ...common, xaxis: axis(x), yaxis: axis(y) };
    }
  }

  // ---- a policy at work

  const HILL = (x) => Math.sin(3 * x) * 0.45 + 0.55;
  const DRAWINGS = {
    "cart-pole": {
      box: "-2.8 -1.4 5.6 1.9",
      ground: () => [draw("line", { x1: -2.8, x2: 2.8, y1: 0.2, y2: 0.2, stroke: css("soft"), "stroke-width": 0.02 }),
        ...[-2.4, 2.4].map((x) => draw("line", { x1: x, x2: x, y1: 0.1, y2: 0.3, stroke: css("vermilion"),
          "stroke-width": 0.04 }))],
      body: ({ position, angle }) => [
        draw("rect", { x: position - 0.25, y: -0.02, width: 0.5, height: 0.22, rx: 0.03, fill: css("blue") }),
        draw("line", { x1: position, y1: 0, x2: position + Math.sin(angle), y2: -Math.cos(angle),
          stroke: css("orange"), "stroke-width": 0.09, "stroke-linecap": "round" })],
    },
    "mountain-car": {
      box: "-1.3 -1.15 2.0 1.25",
      ground: () => [draw("polyline", { fill: "none", stroke: css("soft"), "stroke-width": 0.012,
        points: Array.from({ length: 181 }, (_, k) => -1.2 + k * 0.01).map((x) => `${x},${-HILL(x)}`).join(" ") }),
      draw("line", { x1: 0.5, x2: 0.5, y1: -HILL(0.5), y2: -HILL(0.5) - 0.14, stroke: css("green"),
        "stroke-width": 0.012 }),
      draw("polygon", { points: `0.5,${-HILL(0.5) - 0.14} 0.58,${-HILL(0.5) - 0.115} 0.5,${-HILL(0.5) - 0.09}`,
        fill: css("green") })],
      body: ({ position }) => [draw("circle", { cx: position, cy: -HILL(position) - 0.04, r: 0.04,
        fill: css("blue") })],
    },
    acrobot: {
      box: "-2.4 -2.2 4.8 4.4",
      ground: () => [draw("line", { x1: -2.4, x2: 2.4, y1: -1, y2: -1, stroke: css("green"),
        "stroke-width": 0.03, "stroke-dasharray": "0.1 0.08" })],
      body: ({ "first angle": first, "second angle": second }) => {
        const elbow = [Math.sin(first), Math.cos(first)];
        const tip = [elbow[0] + Math.sin(first + second), elbow[1] + Math.cos(first + second)];
        const link = (a, b, colour) => draw("line", { x1: a[0], y1: a[1], x2: b[0], y2: b[1],
          stroke: css(colour), "stroke-width": 0.12, "stroke-linecap": "round" });
        return [link([0, 0], elbow, "blue"), link(elbow, tip, "orange")];
      },
    },
  };

  class SceneView {
    constructor(item) {
      this.svg = draw("svg", { role: "img", preserveAspectRatio: "xMidYMid meet" });
      this.said = make("output");
      this.slide = make("input", { type: "range", min: 0, value: 0, "aria-label": "step",
        oninput: () => this.show(Number(this.slide.value)) });
      this.button = make("button", { type: "button", onclick: () => this.play() }, "Play");
      this.heading = make("h3");
      this.caption = make("figcaption");
      this.command = make("code");
      this.element = make("figure", { class: "scene" }, this.heading, this.svg,
        make("div", { class: "controls" }, this.button, make("label", { class: "slide" }, this.slide, this.said)),
        this.caption, make("div", { class: "tools" },
          make("button", { type: "button", class: "csv", onclick: () => download(this.item) }, "Download CSV"),
          make("span", {}, "Made by ", this.command)));
      this.update(item);
    }

    update(item) {
      this.item = item;
      this.heading.textContent = item.title;
      this.caption.textContent = item.caption;
      this.command.textContent = item.command;
      this.svg.setAttribute("aria-label", item.alt);
      this.svg.setAttribute("viewBox", DRAWINGS[item.drawing].box);
      this.length = Object.values(columnsOf(item))[0].length;
      this.slide.max = this.length - 1;
      this.redraw();
    }

    show(step) {
      const now = Object.fromEntries(Object.entries(columnsOf(this.item)).map(([name, c]) => [name, c[step]]));
      const drawing = DRAWINGS[this.item.drawing];
      this.svg.replaceChildren(...drawing.ground(), ...drawing.body(now));
      this.slide.value = step;
      const told = `step ${step} of ${this.length - 1}`;
      this.said.textContent = now.action === undefined ? told : `${told}, ${now.action}`;
      this.slide.setAttribute("aria-valuetext", this.said.textContent);
    }

    play() {
      if (this.timer) return this.pause();
      if (Number(this.slide.value) === this.length - 1) this.show(0);
      this.button.textContent = "Pause";
      this.timer = setInterval(() => {
        const next = Number(this.slide.value) + 1;
        if (next >= this.length) return this.pause();
        this.show(next);
      }, 33);
    }

    pause() {
      clearInterval(this.timer);
      this.timer = null;
      this.button.textContent = "Play";
    }

    redraw() { this.show(Number(this.slide.value)); }
    start() {}
  }

  // ---- words, tables and sections

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
})();
