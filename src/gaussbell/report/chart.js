// A chart: its controls, its legend, and what Plotly is to draw.

const DIVERGING = [[0, "#b35806"], [0.25, "#f1a340"], [0.5, "#f7f7f7"], [0.75, "#998ec3"], [1, "#542788"]];

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
    this.numbers.querySelectorAll(":scope > :not(summary)").forEach((old) => old.remove());
    fillTable(this.numbers, item);
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
    const words = shown.some((one) => Array.isArray(columnsOf(one).x));
    return { ...common, xaxis: { ...axis(x), ...(words ? { type: "category" } : {}) }, yaxis: axis(y) };
  }
}
