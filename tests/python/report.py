#!/usr/bin/env python3
"""Makes a report of a game with `scorn analyze --html` and clicks through it in headless Chromium.

usage: report.py SCORN [--axe AXE.MIN.JS] [--screenshots FOLDER]

Needs the packages chess and playwright, and Chromium (`apt-get install chromium`, or `playwright install chromium`);
without playwright or Chromium it says SKIPPED. The page must work from a file, without any request and without an error
in the console.
"""

import argparse
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import chess

GAMES = """[Event "Odds match"]
[Date "2026.11.22"]
[White "A_long_name_without_any_space_as_on_lichess"]
[WhiteElo "2890"]
[Black "Amateur"]
[Result "1-0"]
[SetUp "1"]
[FEN "rnbqkbnr/pppppppp/8/8/8/8/PPPPPPPP/R1BQKBNR w KQkq - 0 1"]

1. e4 e5 2. Nf3 Nc6 3. Bc4 Nf6 4. Ng5 Bc5 5. Bxf7+ Ke7 6. Bb3 h6 7. Nf7 Qe8 8. Nxh8 d6 9. d3 Be6 10. Ng6+ Kd7 11. O-O Bxb3
12. axb3 Qxg6 13. c3 a6 14. b4 Bb6 15. Kh1 Ng4 16. Qe2 Rf8 17. f3 Nf6 18. Be3 Bxe3 19. Qxe3 h5 20. Rf2 h4 1-0

[White "A <b>player</b>"]
[WhiteElo "?"]
[Black "Another"]
[BlackElo "0"]
[Result "1-0"]

1. e4 e5 2. Qh5 Nc6 3. Bc4 Nf6 4. Qxf7# 1-0
"""


# The game in the pictures of the documentation.
FAMOUS = """[Event "World Championship, game 6"]
[Date "1972.07.23"]
[White "Fischer, Robert James"]
[Black "Spassky, Boris V"]
[Result "1-0"]

1. c4 e6 2. Nf3 d5 3. d4 Nf6 4. Nc3 Be7 5. Bg5 O-O 6. e3 h6 7. Bh4 b6 8. cxd5 Nxd5 9. Bxe7 Qxe7 10. Nxd5 exd5 11.
Rc1 Be6 12. Qa4 c5 13. Qa3 Rc8 14. Bb5 a6 15. dxc5 bxc5 16. O-O Ra7 17. Be2 Nd7 18. Nd4 Qf8 19. Nxe6 fxe6 20. e4 d4
21. f4 Qe7 22. e5 Rb8 23. Bc4 Kh8 24. Qh3 Nf8 25. b3 a5 26. f5 exf5 27. Rxf5 Nh7 28. Rcf1 Qd8 29. Qg3 Re7 30. h4
Rbb7 31. e6 Rbc7 32. Qe5 Qe8 33. a4 Qd8 34. R1f2 Qe8 35. R2f3 Qd8 36. Bd3 Qe8 37. Qe4 Nf6 38. Rxf6 gxf6 39. Rxf6
Kg8 40. Bc4 Kh8 41. Qf4 1-0
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


def has_no_serious_fault(page, axe):
    """axe-core finds no fault of accessibility that it calls serious or critical."""
    page.evaluate(axe)
    found = page.evaluate("axe.run().then((found) => found.violations.map((v) => [v.impact, v.id, v.nodes[0].html]))")
    serious = [each for each in found if each[0] in ("serious", "critical")]
    check(not serious, f"accessibility: {serious}")


def moves_match_the_game(page):
    """The board after every move of every line of the first game is the one that the rules say."""
    boards = page.evaluate("""() => {
      const boards = [];
      const buttons = () => [...document.querySelectorAll("#lines button")];
      const pieces = () => [...document.querySelectorAll("#board cg-board piece:not(.fading):not(.ghost)")];
      const key = (name) => document.dispatchEvent(new KeyboardEvent("keydown", { key: name }));
      // The board is drawn before the next frame: here at once, and with its animation at the end.
      const frames = [];
      const draw = () => { while (frames.length) frames.shift()(performance.now() + 1e6); };
      const { requestAnimationFrame } = window;
      window.requestAnimationFrame = (frame) => frames.push(frame);
      const games = JSON.parse(document.getElementById("data").textContent).games;
      key("Home");
      for (let ply = 0; ply <= games[0].moves.length; ply++) {
        const found = buttons().map((_, index) => {
          buttons()[index].click();
          draw();
          return pieces().map((piece) => [piece.cgKey, piece.className.split(" ").slice(0, 2).sort().join(" ")]);
        });
        boards.push(found);
        key("Escape");
        key("ArrowRight");
      }
      draw();
      Object.assign(window, { requestAnimationFrame });
      return boards;
    }""")
    game = page.evaluate("JSON.parse(document.getElementById('data').textContent).games[0]")
    shown = 0
    for ply, found in enumerate(boards):
        index = max(ply - 1, 0)
        move = game["moves"][index]
        before = game["start"] if index == 0 else game["moves"][index - 1]["f"]
        lines = [(before, line) for line in move["l"]]
        if ply:
            lines.sort(key=lambda each: each[1][0].split()[0] != move["u"])
        if ply == len(game["moves"]):
            # Under the lines of the last move, those of the final position.
            lines += [(move["f"], line) for line in game["end"]]
        expected = []
        for start, line in lines:
            board = chess.Board(start)
            for san in line[1].split():
                board.push_san(san)
                expected.append(sorted([chess.square_name(square), " ".join(sorted([
                    chess.COLOR_NAMES[piece.color], chess.piece_name(piece.piece_type)]))]
                    for square, piece in board.piece_map().items()))
        for shown_board, right in zip(map(sorted, found), expected, strict=True):
            odd = [each for each in shown_board if each not in right]
            check(shown_board == right, f"a board of the lines at ply {ply} is wrong: {odd}")
        shown += len(expected)
    check(shown > 300, f"only {shown} boards were compared")


def test_other_pages(browser, scorn, folder, axe):
    """The pages of matches and of statistics: they fit a phone, have a dark form, tooltips and no serious fault."""
    games, match, stats = (Path(folder, name) for name in ("match.pgn", "match.html", "stats.html"))
    engine = "self;Backend=hash;Threads=1"
    subprocess.run([scorn.resolve(), "match", engine, f"{engine};Seed=2", "--pairs", "6", "--nodes", "30",
                    "--max-plies", "60", "--pgn", games, "--html", match], check=True, stdout=subprocess.DEVNULL)
    subprocess.run([scorn.resolve(), "stats", games, "--html", stats], check=True, stdout=subprocess.DEVNULL)
    for path in (match, stats):
        for size in ((1200, 850), (390, 844)):
            page = browser.new_page(viewport={"width": size[0], "height": size[1]}, color_scheme="dark")
            page.goto(path.as_uri())
            width = page.evaluate("document.documentElement.scrollWidth")
            check(width <= size[0], f"{path.name} is {width} pixels wide on a screen of {size[0]}")
            check(page.locator("svg circle title").count() > 0, f"{path.name} has no tooltips")
            background = page.evaluate("getComputedStyle(document.body).backgroundColor")
            check(background == "rgb(27, 27, 29)", f"{path.name} is not dark: {background}")
            if axe:
                has_no_serious_fault(page, axe)
            page.close()


def take_screenshots(browser, args):
    """The pictures of the documentation: a page about a famous game, at the middle one of its traps."""
    with tempfile.TemporaryDirectory() as folder:
        pgn, html = Path(folder, "fischer-spassky-1972-6.pgn"), Path(folder, "report.html")
        pgn.write_text(FAMOUS)
        subprocess.run([args.scorn.resolve(), "-t", "1", "--seed", "1", "analyze", "--pgn", pgn, "--nodes", "3000",
                        "--html", html], check=True)
        for name, size, is_dark in [("report.png", (1200, 900), False), ("report-phone.png", (390, 844), True)]:
            page = browser.new_page(viewport={"width": size[0], "height": size[1]}, color_scheme="dark" if is_dark else "light")
            page.goto(html.as_uri())
            page.wait_for_selector("#board cg-board piece")
            traps = page.locator("#moves .t.set")
            traps.nth(traps.count() // 2).click()
            page.wait_for_timeout(400)
            page.evaluate("scrollTo(0, 0)")
            page.screenshot(path=args.screenshots / name, full_page=is_dark)
            page.close()


def click_through(page):
    page.wait_for_selector("#board cg-board piece")
    page.wait_for_selector("#graph canvas")
    check(page.locator("#games option").count() == 2, "two games to choose from")
    buttons = page.locator("#moves button")
    check(buttons.count() == 40, f"{buttons.count()} moves of 40")
    check("accuracy" in page.locator("#bottom").inner_text(), "each side has an accuracy")
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
    tables = page.locator("#lines table")
    check(tables.count() == 2, "the played move and the others have a table each")
    played = tables.nth(0).locator("tr:nth-of-type(2) td").all_inner_texts()
    check(played[0].startswith("7. Nf7") and played[1].endswith("%"), f"the played move: {played}")
    check(tables.nth(1).locator("tr").count() >= 3, "lines instead of it")
    check("7. Nf7" not in tables.nth(1).inner_text(), "the played move has its own table")
    check("White" in page.locator("#bar").get_attribute("aria-label"), "the bar has a value")

    # The board follows a line, and the keys walk through it.
    page.wait_for_timeout(1000)
    before = placed(page)
    tables.nth(1).locator("tr:nth-of-type(2) button").nth(2).click()
    page.wait_for_timeout(250)
    third = placed(page)
    check(third != before, "the board shows the line")
    check(page.locator("#lines button.here").count() == 1, "its move is marked")
    page.keyboard.press("ArrowLeft")
    page.wait_for_timeout(250)
    check(placed(page) not in (before, third), "one move back in the line")
    page.keyboard.press("Escape")
    # Pieces move and fade for a while.
    for _ in range(50):
        if placed(page) == before:
            break
        page.wait_for_timeout(100)
    check(placed(page) == before, "back in the game")
    page.keyboard.press("End")
    check(page.locator("#moves button.here").inner_text().startswith("h4"), "the last move")
    last = tables.last.inner_text()
    check(last.startswith("Final position") and "21. " in last, f"the final position has lines: {last}")
    check(page.locator("#board svg .cg-shapes line, #board svg line").count() == 1, "its best move has an arrow")
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
    for player in ("#top", "#bottom"):
        name = page.locator(f"{player} .name").inner_text()
        check("(" not in name, f"an unknown rating is not shown: {name}")
    check(page.locator("#moves button.j3").count() >= 1, "a blunder is marked")
    page.keyboard.press("Home")
    page.keyboard.press("t")
    check(page.locator("#moves button.here").count() == 1, "t leads to a moment")
    page.keyboard.press("End")
    check("mate in 1" in page.locator("#lines").inner_text(), "a mate is shown")
    mate = tables.nth(0).locator("tr:nth-of-type(2) td").all_inner_texts()
    check(mate[1:] == ["mate in 1", "100.0 %"], f"the move that mates: {mate}")
    check("Final position" not in page.locator("#lines").inner_text(), "the game is over by the rules")
    page.select_option("#games", "0")
    check(buttons.count() == 40, "back to the first game")
    moves_match_the_game(page)


def on_a_phone(page):
    page.wait_for_selector("#board cg-board piece")
    page.keyboard.press("ArrowRight")
    width = page.evaluate("document.documentElement.scrollWidth")
    check(width <= 390, f"the page is {width} pixels wide on a phone of 390")
    board = page.locator("#board").bounding_box()
    check(board["width"] >= 310 and board["y"] < 300, "the board fills the phone")
    page.locator("#moves button").nth(9).click()
    check(page.locator("#moves button.here").count() == 1, "moves can be chosen")
    page.wait_for_timeout(250)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("scorn", type=Path)
    parser.add_argument("--screenshots", type=Path, help="a folder for the pictures of the documentation")
    parser.add_argument("--axe", type=Path, help="axe.min.js of the npm package axe-core")
    args = parser.parse_args()
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        print("SKIPPED: the package playwright is not there", file=sys.stderr)
        return
    if not chromium():
        print("SKIPPED: no Chromium", file=sys.stderr)
        return
    axe = args.axe.read_text() if args.axe else ""
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        pgn, html = Path(folder, "games.pgn"), Path(folder, "report.html")
        pgn.write_text(GAMES)
        subprocess.run([args.scorn.resolve(), "-t", "1", "--seed", "1", "analyze", "--pgn", pgn, "--nodes", "1000",
                        "--html", html], check=True)
        browser = playwright.chromium.launch(executable_path=chromium(), args=["--no-sandbox"])
        for size, test in [((1200, 850), click_through), ((390, 844), on_a_phone)]:
            page = browser.new_page(viewport={"width": size[0], "height": size[1]})
            problems, requests = [], []
            page.on("pageerror", lambda error: problems.append(str(error)))
            page.on("console", lambda message: problems.append(message.text) if message.type == "error" else None)
            page.on("request", lambda request: requests.append(request.url))
            page.goto(html.as_uri())
            test(page)
            if axe:
                has_no_serious_fault(page, axe)
            check(not problems, f"errors in the page: {problems}")
            loaded = [url for url in requests if not url.startswith(("file:", "data:"))]
            check(not loaded, f"the page makes network requests: {loaded}")
            page.close()
        test_other_pages(browser, args.scorn, folder, axe)
        if args.screenshots:
            take_screenshots(browser, args)
        browser.close()
    print("the report works in a browser, large and small")


if __name__ == "__main__":
    main()
