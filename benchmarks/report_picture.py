"""The picture of a report in the README: a section of it, as headless Chromium shows it.

python benchmarks/report_picture.py docs/reproduction/quick/convergence --out docs/report/convergence.png
"""

import argparse
import base64
import shutil
import tempfile
import time
from pathlib import Path

from selenium import webdriver

from gaussbell.records.files import write_atomically
from gaussbell.report import build_page, write_report

WIDTH = 1000


def picture(page, title):
    """A figure of a page by its title, as PNG."""
    options = webdriver.ChromeOptions()
    options.binary_location = shutil.which("chromium") or ""
    for flag in ("--headless=new", "--no-sandbox", f"--window-size={WIDTH},900"):
        options.add_argument(flag)
    browser = webdriver.Chrome(options=options, service=webdriver.ChromeService(shutil.which("chromedriver")))
    try:
        browser.get(page.as_uri())
        while browser.execute_script("return document.body.dataset.ready") != "yes":
            time.sleep(0.1)
        element = browser.find_element("xpath", f"//figure[h3[normalize-space()='{title}']]")
        return base64.b64decode(element.screenshot_as_base64)
    finally:
        browser.quit()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("runs", type=Path)
    parser.add_argument("--title", default="Bellman error by iteration")
    parser.add_argument("--out", type=Path, required=True)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        page = write_report(build_page([given.runs]), Path(folder) / "report.html")
        content = picture(page, given.title)
    write_atomically(given.out, lambda file: file.write(content))


if __name__ == "__main__":
    main()
