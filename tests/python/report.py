#!/usr/bin/env python3
"""Makes a report of a game with `scorn analyze --html` and clicks through it in headless Chromium.

usage: report.py SCORN [--screenshots FOLDER]

Needs the package playwright and Chromium (`apt-get install chromium`, or `playwright install chromium`); without one of them it
says SKIPPED. The page must work from a file, without any request and without an error in the console.
"""

import argparse
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

GAMES = """[Event "Odds match"]
[Date "2026.11.22"]
[White "Scorn"]
[Black "Amateur"]
[Result "1-0"]
[SetUp "1"]
[FEN "rnbqkbnr/pppppppp/8/8/8/8/PPPPPPPP/R1BQKBNR w KQkq - 0 1"]

1. e4 e5 2. Nf3 Nc6 3. Bc4 Nf6 4. Ng5 Bc5 5. Bxf7+ Ke7 6. Bb3 h6 7. Nf7 Qe8 8. Nxh8 d6 9. d3 Be6 10. Ng6+ Kd7 11. O-O Bxb3
12. axb3 Qxg6 13. c3 a6 14. b4 Bb6 15. Kh1 Ng4 16. Qe2 Rf8 17. f3 Nf6 18. Be3 Bxe3 19. Qxe3 h5 20. Rf2 h4 1-0

[White "A <b>player</b>"]
[Black "Another"]
[Result "1-0"]

1. e4 e5 2. Qh5 Nc6 3. Bc4 Nf6 4. Qxf7# 1-0
"""


def chromium():
    names = ("chromium", "chromium-browser", "google-chrome")
    return next((path for name in names if (path := shutil.which(name))), None)


def check(condition, message):
    if not condition:
        raise AssertionError(message)


def placed(page):
    """The pieces on the board: kind, colour and position on the screen."""
    return page.eval_on_selector_all(
        "#board cg-board piece", "all => all.map(p => p.className + ' ' + p.style.transform).sort().join(';')")


def click_through(page, screenshots):
    page.wait_for_selector("#board cg-board piece")
    page.wait_for_selector("#graph canvas")
    check(page.locator("#games option").count() == 2, "two games to choose from")
    buttons = page.locator("#moves button")
    check(buttons.count() == 40, f"{buttons.count()} moves of 40")
    check(page.locator("#board cg-board piece").count() == 31, "a knight less at the start")

    # By keyboard, by button, by a click on a move and on the graph.
    start = placed(page)
    page.keyboard.press("ArrowRight")
    page.wait_for_timeout(250)
    check(page.locator("#moves button.here").inner_text().startswith("e4"), "the first move is marked")
    check(placed(page) != start, "a piece has moved")
    check("1. e4" in page.locator("#verdict").inner_text(), "the move is shown")
    page.click("#on")
    check(page.locator("#moves button.here").inner_text().startswith("e5"), "the second move is marked")
    page.click("#back")
    page.keyboard.press("ArrowLeft")
    page.wait_for_timeout(250)
    check(placed(page) == start, "back at the start")
    buttons.nth(12).click()
    check(page.locator("#moves button.here").inner_text().startswith("Nf7"), "a click on a move")
    rows = page.locator("#lines tr")
    check(rows.count() >= 3, "lines before the move")
    numbers = page.locator("#lines tr:nth-child(2) td").all_inner_texts()
    check(len(numbers) == 7 and numbers[1].endswith("%"), f"chances: {numbers}")
    page.wait_for_timeout(250)
    if screenshots:
        page.screenshot(path=screenshots / "report.png")
    page.keyboard.press("End")
    check(page.locator("#moves button.here").inner_text().startswith("h4"), "the last move")
    page.keyboard.press("Home")
    check(page.locator("#moves button.here").count() == 0, "no move at the start")
    box = page.locator("#graph .u-over").bounding_box()
    page.mouse.click(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    here = page.evaluate("[...document.querySelectorAll('#moves button')].findIndex(b => b.className.includes('here'))")
    check(15 <= here + 1 <= 25, f"a click in the middle of the graph leads to move {here + 1} of 40")
    page.keyboard.press("f")
    check(page.locator("#board.orientation-black").count() == 1, "the board is turned")

    # The other game: a mistake is marked, the key t finds it, and text stays text.
    page.keyboard.press("n")
    check(buttons.count() == 7, "the second game")
    check("<b>player</b>" in page.locator("#games option").nth(1).inner_text(), "names are text")
    check(page.locator("#moves button.j3").count() >= 1, "a blunder is marked")
    page.keyboard.press("Home")
    page.keyboard.press("t")
    check(page.locator("#moves button.here").count() == 1, "t leads to a moment")
    page.keyboard.press("End")
    check("#1" in page.locator("#lines").inner_text(), "a mate is shown")
    page.select_option("#games", "0")
    check(buttons.count() == 40, "back to the first game")


def on_a_phone(page, screenshots):
    page.wait_for_selector("#board cg-board piece")
    page.keyboard.press("ArrowRight")
    width = page.evaluate("document.documentElement.scrollWidth")
    check(width <= 390, f"the page is {width} pixels wide on a phone of 390")
    board = page.locator("#board").bounding_box()
    check(board["width"] >= 350 and board["y"] < 300, "the board fills the phone")
    page.locator("#moves button").nth(9).click()
    check(page.locator("#moves button.here").count() == 1, "moves can be chosen")
    page.wait_for_timeout(250)
    if screenshots:
        page.evaluate("scrollTo(0, 0)")
        page.screenshot(path=screenshots / "report-phone.png", full_page=True)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("scorn", type=Path)
    parser.add_argument("--screenshots", type=Path)
    args = parser.parse_args()
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        print("SKIPPED: the package playwright is not there", file=sys.stderr)
        return
    if not chromium():
        print("SKIPPED: no Chromium", file=sys.stderr)
        return
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        pgn, html = Path(folder, "games.pgn"), Path(folder, "report.html")
        pgn.write_text(GAMES)
        subprocess.run([args.scorn.resolve(), "-t", "1", "--seed", "1", "analyze", "--pgn", pgn, "--nodes", "3000",
                        "--html", html], check=True)
        browser = playwright.chromium.launch(executable_path=chromium(), args=["--no-sandbox"])
        for size, test in [((1200, 850), click_through), ((390, 844), on_a_phone)]:
            page = browser.new_page(viewport={"width": size[0], "height": size[1]})
            problems, requests = [], []
            page.on("pageerror", lambda error: problems.append(str(error)))
            page.on("console", lambda message: problems.append(message.text) if message.type == "error" else None)
            page.on("request", lambda request: requests.append(request.url))
            page.goto(html.as_uri())
            test(page, args.screenshots)
            check(not problems, f"errors in the page: {problems}")
            loaded = [url for url in requests if not url.startswith(("file:", "data:"))]
            check(not loaded, f"the page makes network requests: {loaded}")
            page.close()
        browser.close()
    print("the report works in a browser, large and small")


if __name__ == "__main__":
    main()
