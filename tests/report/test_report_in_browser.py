"""The report in a real browser: headless Chromium, from disk. `make test-browser` runs these."""

import base64
import csv
import io
import itertools
import json
import re
import shutil
import threading
import time
from pathlib import Path

import numpy as np
import pytest
from test_report import EVIL, write_sweep

import gaussbell as gb
from gaussbell.experiments import reproduction
from gaussbell.report import build_page, write_report
from gaussbell.report.watch import make_server
from made_up_cells import fill

pytestmark = pytest.mark.browser
DESKTOP, PHONE = (1280, 900), (390, 844)
CONTRAST = 4.5
"""The least contrast of text, by WCAG."""


@pytest.fixture(scope="module")
def driver(tmp_path_factory):
    webdriver = pytest.importorskip("selenium.webdriver", reason="NO BROWSER TESTS: pip install selenium")
    chromium = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    chromedriver = shutil.which("chromedriver")
    if chromium is None or chromedriver is None:
        pytest.skip("NO BROWSER TESTS: install chromium and chromium-driver (Debian's names)")
    options = webdriver.ChromeOptions()
    options.binary_location = chromium
    flags = ("--headless=new", "--no-sandbox", "--enable-unsafe-swiftshader", "--disable-dev-shm-usage")
    for flag in flags:
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    browser = webdriver.Chrome(options=options, service=webdriver.ChromeService(chromedriver))
    browser.downloads = tmp_path_factory.mktemp("downloads")
    browser.execute_cdp_cmd(
        "Browser.setDownloadBehavior", {"behavior": "allow", "downloadPath": str(browser.downloads)}
    )
    yield browser
    browser.quit()


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """Records of every study, a sweep with wicked names, and an iteration with an episode."""
    folder = tmp_path_factory.mktemp("runs")
    for name in reproduction.STUDIES:
        fill(folder, name)
    write_sweep(folder / "<b>wicked", (EVIL, "plain"), setting=EVIL)
    sweep = {"returns": [1, 0, 2], "steps": [100, 90, 110], "msbe": 1e-3}
    run = {"seed": 0, "status": "SOLVED", "score": 500.0, "sweeps": 2, "total": 5, "seconds": 1.0}
    run |= {"warnings": [EVIL], "error": "", "transitions": {"training": 5}, "history": [sweep, sweep]}
    angle = np.linspace(-0.1, 0.1, 50)
    columns = {"position": angle, "velocity": angle, "angle": angle, "angular velocity": angle}
    record = {
        "command": "iterate",
        "settings": {"problem": EVIL, "seed": 0},
        "task": {"kind": "Survive", "length": 500},
        "versions": gb.records.versions(),
        "runs": [run],
        "episode": {"drawing": "cart-pole", "columns": columns | {"action": ["left", "right"] * 25}},
    }
    gb.records.write(folder / "iterate/record.json", record)
    return folder


@pytest.fixture(scope="module")
def report(runs, tmp_path_factory):
    """The report of all of them, as a file."""
    return write_report(build_page([runs]), tmp_path_factory.mktemp("report") / "<i>report & more.html")


def show(driver, address, size=DESKTOP, scheme="light"):
    """Open a page and wait until all is drawn."""
    driver.get_log("performance")  # forget what came before
    driver.get_log("browser")
    width, height = size
    metrics = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": size == PHONE}
    driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
    preferred = [{"name": "prefers-color-scheme", "value": scheme}]
    driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": preferred})
    driver.get(address)
    wait_for(lambda: driver.execute_script("return document.body.dataset.ready") == "yes")


def wait_for(condition, seconds=60.0):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "waited in vain"
        time.sleep(0.05)


def figure(driver, title):
    path = f"//figure[h3[normalize-space()='{title}']]"
    return driver.find_element("xpath", path)


def drawn(driver, title):
    """The names of what a plot shows, and the kinds."""
    plot = figure(driver, title).find_element("css selector", ".plot")
    script = "return arguments[0].data.map((one) => [one.name ?? '', one.type])"
    return [tuple(one) for one in driver.execute_script(script, plot)]


def test_it_loads_from_disk_without_errors_or_requests(driver, report):
    show(driver, report.as_uri())
    assert driver.get_log("browser") == []
    sent = [json.loads(entry["message"])["message"] for entry in driver.get_log("performance")]
    asked = {one["params"]["request"]["url"] for one in sent if one["method"] == "Network.requestWillBeSent"}
    assert {address for address in asked if not address.startswith(("data:", "blob:"))} == {report.as_uri()}
    sections = driver.find_elements("css selector", "main > section")
    links = driver.find_elements("css selector", "nav a")
    assert len(sections) == len(links) == 1 + len(reproduction.STUDIES) + 2
    for plot in driver.find_elements("css selector", ".plot"):
        assert plot.get_attribute("aria-label") and plot.find_elements("css selector", "svg.main-svg")


def test_names_are_shown_and_not_run(driver, report):
    show(driver, report.as_uri())
    assert driver.execute_script("return window.hacked") is None
    assert driver.find_elements("css selector", "main img") == []
    assert EVIL in driver.find_element("css selector", "main").text
    title = f"Policy iteration: {EVIL}"
    assert title in [heading.text for heading in driver.find_elements("css selector", "h2")]
    plotted = driver.execute_script(
        "return [...document.querySelectorAll('.plot text')].map((one) => one.textContent).join(' ')"
    )
    assert "<img src=x" in plotted  # as letters, on an axis of the sweep with wicked names
    chart = figure(driver, "Numbers by setting")
    assert len(chart.find_elements("css selector", "path.box")) == 2
    ticks = [tick.text for tick in chart.find_elements("css selector", ".xtick text")]
    assert "plain" in ticks and any(tick.startswith("<img src=x") for tick in ticks)


def test_toggles_change_the_plot(driver, report):
    show(driver, report.as_uri())
    title = "Bellman error by iteration"
    before = drawn(driver, title)
    boxes = figure(driver, title).find_elements("css selector", "input[type=checkbox]")
    names = [box.find_element("xpath", "..").text for box in boxes]
    boxes[names.index("residual Gauss-Newton")].click()
    without = drawn(driver, title)
    assert any("residual Gauss-Newton" in name for name, _ in before)
    assert not any(name.startswith("residual Gauss-Newton") for name, _ in without)
    boxes[names.index("0.001")].send_keys(" ")  # by the keyboard
    assert any("0.001" in name for name, _ in drawn(driver, title))
    boxes[names.index("single runs")].click()
    assert len(drawn(driver, title)) > len(without)


def test_sliders_and_switches_change_the_plot(driver, report):
    show(driver, report.as_uri())
    element = figure(driver, "Value surfaces")
    plot = element.find_element("css selector", ".plot")
    corner = "return arguments[0].data[0].z[0][0]"
    slider = element.find_element("css selector", "input[type=range]")
    first = driver.execute_script(corner, plot)
    slider.send_keys("\ue012")  # the left arrow
    assert driver.execute_script(corner, plot) != first
    assert element.find_element("css selector", "output").text == "300"
    assert [kind for _, kind in drawn(driver, "Value surfaces")] == ["heatmap"]
    element.find_elements("css selector", "input[type=radio]")[1].click()
    assert [kind for _, kind in drawn(driver, "Value surfaces")] == ["surface"]
    assert element.find_elements("css selector", "canvas")
    names = [name for name, _ in drawn(driver, "Errors by parameters and samples")]
    assert "parameters = N" in names
    # 3D brings warnings about the speed of software rendering, which are no errors.
    assert [entry for entry in driver.get_log("browser") if entry["level"] == "SEVERE"] == []


def test_the_policy_moves(driver, report):
    show(driver, report.as_uri())
    element = figure(driver, "The policy at work")
    pole = "return arguments[0].querySelector('svg line:last-child').getAttribute('x2')"
    before = driver.execute_script(pole, element)
    element.find_element("css selector", "button").click()
    wait_for(lambda: driver.execute_script(pole, element) != before, 5)
    wait_for(lambda: "step 49 of 49, right" in element.text, 10)
    assert element.find_element("css selector", "button").text == "Play"


def test_the_download_is_what_was_recorded(driver, report, runs):
    show(driver, report.as_uri())
    for title, name in (("Bellman error by iteration", "convergence"), ("Value surfaces", "generalisation")):
        figure(driver, title).find_element("css selector", "button.csv").click()
        file = driver.downloads / f"{re.sub('[^a-z]+', '-', title.lower())}.csv"
        wait_for(file.exists)
        with open(file, newline="", encoding="utf-8") as content:
            rows = list(csv.DictReader(content))
        data = gb.records.open(runs / "smoke" / name)
        if name == "convergence":
            single = [row for row in rows if row["shown"] == "single runs"]
            groups = itertools.groupby(single, lambda row: row["series"])
            found = {tuple(float(row["NMSBE"]) for row in group) for _, group in groups}
            assert found == {tuple(row[np.isfinite(row)]) for row in data.msbe.values}  # to the last bit
        else:
            best = data.isel(cell=np.flatnonzero((data.method == "ours") & (data.samples == 2000)))
            best = best.isel(cell=int(np.argmin(best.test.values)))
            shown = [row for row in rows if row["fit"].startswith("ours") and row["samples"] == "2000"]
            table = np.array([float(row["value"]) for row in shown]).reshape(best.surface.values.T.shape)
            assert np.array_equal(table.astype(np.float32), best.surface.values.T.astype(np.float32))
            positions = [float(row["position"]) for row in shown][: len(best.position)]
            assert positions == best.position.values.tolist()


def test_wicked_names_survive_the_download(driver, report):
    show(driver, report.as_uri())
    script = "return document.querySelector('#data').textContent"
    page = json.loads(driver.execute_script(script))
    section = next(
        one for one in page["sections"] if EVIL in one["title"] and "iteration" not in one["title"]
    )
    button = driver.find_element("css selector", f"#{section['anchor']} button.csv")
    driver.execute_script("arguments[0].click()", button)
    file = driver.downloads / "numbers-by-setting.csv"
    wait_for(file.exists)
    with open(file, newline="", encoding="utf-8") as content:
        assert EVIL in {row["setting"] for row in csv.DictReader(io.StringIO(content.read()))}


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_phone_needs_no_scrolling_sideways(driver, report, scheme):
    show(driver, report.as_uri(), PHONE, scheme)
    width = driver.execute_script("return [document.documentElement.scrollWidth, innerWidth]")
    assert width == [PHONE[0], PHONE[0]]
    for plot in driver.find_elements("css selector", ".plot .main-svg"):
        assert plot.size["width"] <= PHONE[0]


@pytest.mark.parametrize(("size", "scheme"), [(DESKTOP, "light"), (DESKTOP, "dark"), (PHONE, "light")])
def test_axe_finds_nothing_serious(driver, report, size, scheme):
    axe = pytest.importorskip("axe_core_python", reason="NO AXE TESTS: pip install axe-core-python")
    show(driver, report.as_uri(), size, scheme)
    driver.execute_script("document.querySelector('details').open = true")
    wait_for(lambda: driver.find_elements("css selector", "details table"))
    driver.execute_script((Path(axe.__file__).parent / "axe.min.js").read_text(encoding="utf-8"))
    run = "const done = arguments[arguments.length - 1]; axe.run().then((found) => done(found.violations));"
    driver.set_script_timeout(120)
    found = driver.execute_async_script(run)
    assert [
        (one["id"], one["nodes"][0]["html"]) for one in found if one["impact"] in ("serious", "critical")
    ] == []


def contrast(first, second):
    """The contrast of two colours, "rgb(...)", by WCAG."""

    def luminance(colour):
        parts = np.array([float(part) for part in re.findall(r"[\d.]+", colour)[:3]]) / 255
        return np.where(parts <= 0.03928, parts / 12.92, ((parts + 0.055) / 1.055) ** 2.4) @ [
            0.2126,
            0.7152,
            0.0722,
        ]

    low, high = sorted([luminance(first), luminance(second)])
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_plots_are_legible_in_both_lights(driver, report, scheme):
    show(driver, report.as_uri(), DESKTOP, scheme)
    script = (
        "const card = getComputedStyle(document.querySelector('figure')).backgroundColor;"
        "return [...document.querySelectorAll('.plot text')].map((one) => [getComputedStyle(one).fill, card])"
    )
    pairs = {tuple(pair) for pair in driver.execute_script(script)}
    assert pairs and min(contrast(*pair) for pair in pairs) >= CONTRAST
    back = driver.execute_script("return getComputedStyle(document.body).backgroundColor")
    assert (contrast(back, "rgb(0,0,0)") < 2) == (scheme == "dark")
    driver.find_element("id", "theme").click()
    assert driver.execute_script("return getComputedStyle(document.body).backgroundColor") != back


def test_it_prints(driver, report):
    show(driver, report.as_uri(), scheme="dark")
    pdf = driver.execute_cdp_cmd("Page.printToPDF", {"printBackground": True})
    assert base64.b64decode(pdf["data"]).startswith(b"%PDF")
    assert driver.execute_script("return document.documentElement.dataset.theme") == "dark"


def test_a_sweep_is_watched_live(driver, tmp_path):
    with make_server(tmp_path / "watched", "127.0.0.1", 0) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        show(driver, f"http://127.0.0.1:{server.server_address[1]}/")
        assert "yet" in driver.find_element("css selector", "main").text
        finished = fill(tmp_path / "elsewhere", "convergence")
        target = tmp_path / "watched/smoke/convergence/cells"
        target.mkdir(parents=True)
        for path in finished[:4] + finished[-2:]:
            path.rename(target / path.name)
            wait_for(lambda name=path.stem: name in driver.find_element("id", "overview").text)
        wait_for(lambda: drawn(driver, "Bellman error by iteration"))
        assert driver.get_log("browser") == []
        server.shutdown()
