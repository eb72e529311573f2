"""The verdicts as one HTML page that needs nothing else: tables, and bars drawn in SVG."""

from html import escape

import table

STYLE = """
body { font: 15px/1.45 system-ui, sans-serif; max-width: 62rem; margin: 2rem auto; padding: 0 1rem; color: #1d2530; }
h1 { font-size: 1.6rem } h2 { font-size: 1.15rem; margin-top: 2.2rem } p.note, li, dl { color: #445 }
table { border-collapse: collapse; font-size: 13px; margin: .5rem 0; display: block; overflow-x: auto }
th, td { padding: .15rem .6rem; text-align: right; border-bottom: 1px solid #dde; white-space: nowrap }
th:first-child, td:first-child { text-align: left }
.loud { background: #fde8e4; border-left: 4px solid #c33; padding: .4rem .8rem; color: #611 }
dt { font-weight: 600 } dd { margin: 0 0 .3rem 1rem } svg { max-width: 100%; height: auto }
svg text { font: 12px system-ui, sans-serif; fill: #1d2530 }
"""
OURS_COLOR, RIVAL_COLOR, INK, GRID = "#1f6fb2", "#b9c2cd", "#1d2530", "#e4e8ee"
LEFT, WIDTH, BAR, GAP, TOP = 150, 760, 20, 8, 26


def bars(verdict):
    """Median rates as bars, min to max as a line on each, the bound as a dashed line."""
    rows = [row for row in verdict["rows"] if row["rounds"]]
    if not rows:
        return ""
    bound = verdict["bound"]
    top = max([row["rate"]["max"] for row in rows] + [bound["rate"] if bound else 0])
    step = _step(top)
    ceiling = step * -(-top * 1.02 // step)
    x = lambda value: LEFT + (WIDTH - LEFT - 70) * value / ceiling
    bottom = TOP + len(rows) * (BAR + GAP)
    parts = []
    for number in range(int(ceiling / step + 0.5) + 1):
        at = x(number * step)
        parts.append(_line(at, TOP - 6, at, bottom, GRID))
        parts.append(_text(at, bottom + 14, f"{number * step / 1e9:g}", "middle"))
    parts.append(_text(WIDTH - 4, bottom + 14, "GB/s", "end"))
    for number, row in enumerate(rows):
        parts += _bar(row, TOP + number * (BAR + GAP), x)
    if bound:
        at = x(bound["rate"])
        parts.append(_line(at, TOP - 8, at, bottom, "#c33", 'stroke-dasharray="5 3" stroke-width="1.5"'))
        parts.append(
            _text(min(at, WIDTH - 4), TOP - 11, f"bound: {bound['name']}", "end" if at > WIDTH / 2 else "start")
        )
    title = escape(verdict["sentence"])
    return (
        f'<svg viewBox="0 0 {WIDTH} {bottom + 20}" width="{WIDTH}" role="img" aria-label="{title}">'
        f"<title>{title}</title>{''.join(parts)}</svg>"
    )


def _bar(row, y, x):
    rate, middle = row["rate"], y + BAR / 2
    color = OURS_COLOR if row["ours"] else RIVAL_COLOR
    return [
        _text(LEFT - 8, middle + 4, row["name"], "end"),
        f'<rect x="{LEFT}" y="{y}" width="{x(rate["median"]) - LEFT:.1f}" height="{BAR}" fill="{color}"/>',
        _line(x(rate["min"]), middle, x(rate["max"]), middle, INK),
        *(_line(x(rate[end]), middle - 4, x(rate[end]), middle + 4, INK) for end in ("min", "max")),
        _text(x(rate["max"]) + 6, middle + 4, table.rate(rate["median"]), "start"),
    ]


def _step(top):
    """A round distance between grid lines: about five of them."""
    size = 10.0 ** (len(str(int(top))) - 1)
    return next(step for step in (size / 5, size / 2, size, 2 * size, 5 * size) if top / step <= 6)


def _line(x1, y1, x2, y2, color, more=""):
    return f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" stroke="{color}" {more}/>'


def _text(x, y, words, anchor):
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{escape(words)}</text>'


def page(verdicts, conditions, method, loud):
    parts = ["<h1>shardwright and its rivals</h1>", _list(verdict["sentence"] for verdict in verdicts)]
    parts += [f'<p class="loud">{escape(line)}</p>' for line in loud]
    parts += [_section(verdict) for verdict in verdicts]
    parts.append("<h2>How it was measured</h2>" + _list(method))
    terms = "".join(f"<dt>{escape(name)}</dt><dd>{escape(str(value))}</dd>" for name, value in conditions.items())
    parts.append(f"<h2>Conditions</h2><dl>{terms}</dl>")
    head = f'<meta charset="utf-8"><title>shardwright and its rivals</title><style>{STYLE}</style>'
    return f'<!doctype html><html lang="en"><head>{head}</head><body>{"".join(parts)}</body></html>\n'


def _list(lines):
    return "<ul>" + "".join(f"<li>{escape(line)}</li>" for line in lines) + "</ul>"


def _section(verdict):
    head = "".join(f"<th>{escape(name)}</th>" for name in table.HEADER)
    body = "".join(
        "<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in table.cells(row, verdict)) + "</tr>"
        for row in verdict["rows"]
    )
    parts = [
        f"<h2>{escape(verdict['case']['name'])}, {escape(verdict['place'])}</h2>",
        f'<p class="note">{escape(table.describe(verdict["case"]))}</p>',
        bars(verdict),
        f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>",
    ]
    if verdict["bound"]:
        limits = ", ".join(f"{name} {table.rate(value)}" for name, value in verdict["bound"]["limits"].items())
        copies = table.copies(verdict["bound"])
        bare = ", ".join(f"{way} {table.rate(value)}" for way, value in verdict["bound"]["together"].items())
        parts.append(
            f'<p class="note">Bounds in GB/s of pixels: {escape(limits)}; a copy of every frame: {copies}. '
            f"Bare, gather, encode and long writes at once: {escape(bare)}.</p>"
        )
    if verdict["left_out"]:
        parts.append(f'<p class="note">{escape(table.left_out(verdict))}</p>')
    chosen = "; ".join(f"{row['name']}: {_settings(row)}" for row in verdict["rows"] if row["rounds"])
    parts.append(f'<p class="note">Settings: {escape(chosen)}.</p>')
    for row in verdict["rows"]:
        parts += [f'<p class="loud">{escape(row["name"])} failed: {escape(failure)}</p>' for failure in row["failures"]]
    return "".join(parts)


def _settings(row):
    words = ", ".join(f"{name} {value}" for name, value in row["settings"].items())
    return f"{words} ({row['storage']})" if row["storage"] else words
