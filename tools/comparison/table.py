"""The verdicts as text."""


def rate(value):
    return f"{value / 1e9:.2f}" if value >= 1e7 else f"{value / 1e9:.4f}"


def seconds(value):
    for unit, size in (("s", 1), ("ms", 1e-3), ("µs", 1e-6)):
        if value >= size:
            return f"{value / size:.3g} {unit}"
    return f"{value * 1e9:.0f} ns"


def by(numbers):
    return "×".join(map(str, numbers))


def describe(case):
    levels = case["levels"]
    return (
        f"{case['frames']} frames of {by(case['frame'])} {case['dtype']}, chunks {by(case['chunk'])}, "
        f"shards {by(case['shard'])}, {case['codec']}{f', {levels} levels of means beside' if levels else ''}"
    )


HEADER = (
    "",
    "GB/s",
    "min–max",
    "frames/s",
    "rounds",
    "ours ÷ it",
    "of bound",
    "of bare",
    "memory",
    "append p50 / p99 / max",
    "ratio",
)


def cells(row, verdict):
    """One row of the table; a writer without a valid run says so."""
    if not row["rounds"]:
        return [row["name"], "FAILED" if row["failures"] else "not run", *[""] * (len(HEADER) - 2)]
    ours = next((other for other in verdict["rows"] if other["ours"] and other["rounds"]), None)
    factor = f"{ours['rate']['median'] / row['rate']['median']:.2f}" if ours and not row["ours"] else ""
    share = lambda name: f"{100 * row[name]:.0f} %" if name in row else ""
    append = " / ".join(seconds(row["append"][name]) for name in ("p50", "p99", "max"))
    if row["append_frames"] > 1:
        append = f"({row['append_frames']:.0f} frames at once)"
    return [
        row["name"],
        rate(row["rate"]["median"]),
        f"{rate(row['rate']['min'])}–{rate(row['rate']['max'])}",
        f"{row['frames_per_second']['median']:.0f}",
        str(row["rounds"]),
        factor,
        share("share_of_bound"),
        share("share_of_together"),
        f"{row['memory_bytes'] / 1e9:.2f} GB",
        append,
        f"{row['ratio']:.2f}",
    ]


def left_out(verdict):
    return f"Left out, as they make no levels here: {', '.join(verdict['left_out'])}."


def copies(bound):
    """What a copy of frames could do at best: no bound for who copies none."""
    return f"{rate(bound['copy']['one'])} GB/s on one core, {rate(bound['copy']['all'])} on all"


def text(verdict):
    rows = [list(HEADER), *(cells(row, verdict) for row in verdict["rows"])]
    widths = [max(len(row[column]) for row in rows) for column in range(len(HEADER))]
    lines = [f"{verdict['case']['name']}, {verdict['place']}: {describe(verdict['case'])}"]
    for row in rows:
        first, *others = (
            cell.ljust(width) if not at else cell.rjust(width) for at, (cell, width) in enumerate(zip(row, widths))
        )
        lines.append("  " + "  ".join([first, *others]).rstrip())
    bound = verdict["bound"]
    if bound:
        limits = ", ".join(f"{name} {rate(value)}" for name, value in bound["limits"].items())
        lines.append(f"  bound: {rate(bound['rate'])} GB/s of pixels ({limits})")
        lines.append(f"  one copy of every frame would run at {copies(bound)}")
        ways = ", ".join(f"{way} {rate(value)}" for way, value in bound["together"].items())
        lines.append(f"  bare, gather, encode and long writes at once: {ways} GB/s")
    if verdict["left_out"]:
        lines.append(f"  {left_out(verdict)}")
    for row in verdict["rows"]:
        lines += [f"  FAILED: {row['name']}: {failure}" for failure in row["failures"]]
    return "\n".join(lines)
