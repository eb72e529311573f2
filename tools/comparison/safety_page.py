"""What `tools/compare --safety` saw, as tables: one a test with every writer, and a short one of all tests."""

from collections import Counter
from statistics import median_low


def spread(values):
    """The median and, if they differ, the range."""
    values = [value for value in values if value is not None]
    if not values:
        return "–"
    low, high = min(values), max(values)
    return f"{low}" if low == high else f"{median_low(values)} ({low}–{high})"


def said(values):
    """The words that were heard, with how often if they differ."""
    counts = Counter(values)
    return ", ".join(words if len(counts) == 1 else f"{words} ({times}×)" for words, times in counts.most_common())


def shape_of(run):
    if not run["at_once"]["exists"]:
        return "no dataset"
    return " / ".join(
        "unreadable" if length is None else str(length) for length in dict.fromkeys(run["at_once"]["shape"])
    )


def opens(run):
    return "yes" if run["at_once"]["exists"] and None not in run["at_once"]["shape"] else "no"


def lost(run):
    return None if run["safe"] is None else run["at_once"]["safe_lost"]


def first_error(run):
    if run["late"]:
        return "no end"
    if run["exit_code"] < 0:
        return f"died of signal {-run['exit_code']}"
    error = run["error"]
    if error is None:
        return "none"
    return {"create": "at the start", "append": "while appending", "close": "at close"}[error["when"]]


def columns(kind, runs):
    """Column names and cells for the runs of one writer."""

    def of(*keys):
        return [_dig(run, keys) for run in runs]

    if kind == "kill":
        return {
            "frames taken": spread(of("accepted")),
            "called safe": spread(of("safe")),
            "opens": said(map(opens, runs)),
            "readable at once": spread(of("at_once", "readable")),
            "after a repair": spread(of("repaired", "readable")),
            "safe, but lost": spread(map(lost, runs)),
            "wrong": spread([run["at_once"]["wrong"] + (_dig(run, ("repaired", "wrong")) or 0) for run in runs]),
        }
    if kind == "full":
        return {
            "frames taken": spread(of("accepted")),
            "called safe": spread(of("safe")),
            "first error": said(map(first_error, runs)),
            "after frame": spread(of("error", "frame")),
            "opens": said(map(opens, runs)),
            "readable": spread(of("at_once", "readable")),
            "shape says": said(map(shape_of, runs)),
            "it says are there": spread(of("there")),
            "safe, but lost": spread(map(lost, runs)),
            "wrong": spread(of("at_once", "wrong")),
        }
    return {
        "frames looked at": spread(of("given")),
        "readable": spread(of("at_once", "readable")),
        "skipped ones show": said(", ".join(f"{many} {what}" for what, many in run["looks"].items()) for run in runs),
        "a document lists them": said("yes" if run["listed"] else "no" for run in runs),
    }


def _dig(run, keys):
    for key in keys:
        run = run.get(key) if run else None
    return run


def table(kind, results):
    """The results of one test."""
    rows = [{"writer": name, **columns(kind, runs)} for name, runs in results.items() if runs]
    return markdown([list(rows[0]), *(list(row.values()) for row in rows)]) if rows else "no run"


def short(columns, tests):
    """One row a test, one column a writer."""
    lines = [["", *columns]]
    for title, (kind, results) in tests.items():
        cells = [results.get(name) for name in columns.values()]
        lines.append([title, *(CELLS[kind](runs) if runs else "–" for runs in cells)])
    wrong = [
        sum(view["wrong"] for _, results in tests.values() for run in results.get(name, []) for view in views(run))
        for name in columns.values()
    ]
    lines.append(["wrong pixels in frames that came: frames, all runs", *map(str, wrong)])
    return markdown(lines)


def views(run):
    return [run["at_once"], *([run["repaired"]] if "repaired" in run else [])]


def done(run):
    """The frames that a caller would take for done: called safe, or, of writers without such a word, those whose call
    returned."""
    return run["accepted"] if run["safe"] is None else run["safe"]


def counted(runs):
    """Said to be done / readable at once, and / readable after a repair, where that gives more."""
    found = [spread(map(done, runs)), spread(run["at_once"]["readable"] for run in runs)]
    if any(run["repaired"]["readable"] > run["at_once"]["readable"] for run in runs if "repaired" in run):
        found.append(spread(run["repaired"]["readable"] for run in runs))
    return " / ".join(found)


def killed_cell(runs):
    shut = sum(opens(run) == "no" for run in runs)
    return counted(runs) + ("" if not shut else f", does not open ({shut} of {len(runs)})")


def full_cell(runs):
    if all(run["error"] and run["error"]["when"] == "create" for run in runs):
        return "refused at the start"
    return f"{counted(runs)}, error {said(map(first_error, runs))}"


def skipped_cell(runs):
    looks = said(
        "other frames' pixels" if "pixels of other frames" in run["looks"] else ", ".join(run["looks"]) for run in runs
    )
    return f"{looks}; {'listed' if all(run['listed'] for run in runs) else 'not listed'}"


CELLS = {"kill": killed_cell, "full": full_cell, "skipped": skipped_cell}


def markdown(lines):
    widths = [max(len(line[at]) for line in lines) for at in range(len(lines[0]))]
    text = ["| " + " | ".join(cell.ljust(width) for cell, width in zip(line, widths)) + " |" for line in lines]
    return "\n".join([text[0], "|" + "|".join("-" * (width + 2) for width in widths) + "|", *text[1:]])
