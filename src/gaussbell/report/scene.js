// A policy at work, drawn step by step.

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
    this.said = make("output", { "aria-live": "off" }); // the slider tells the step
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
    const last = this.length - 1;
    if (Number(this.slide.value) === last) this.show(0);
    this.button.textContent = "Pause";
    this.timer = setInterval(() => {
      const next = Math.min(Number(this.slide.value) + 1, last);
      this.show(next);
      if (next === last) this.pause();
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
