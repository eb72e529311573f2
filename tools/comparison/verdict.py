"""From runs to figures: medians, spreads, ratios, bounds, and a sentence for each case and place."""

from statistics import median

from contestants import OURS


def spread(values):
    values = sorted(values)
    return {"median": median(values), "min": values[0], "max": values[-1]}


def judge(records, case, place, contestants):
    """Everything that is to be shown about one case in one place, of those who take part in it."""
    key = {"case": case.key, "place": place.key}
    bound = _bound(records.good(kind="bound", **key), case)
    rows, rates = [], {}
    left_out = [one.name for one in contestants if not one.takes_part(case) and not one.warm]
    for contestant in (one for one in contestants if one.takes_part(case)):
        runs = records.good(kind="run", contestant=contestant.name, **key)
        done = {run["round"] for run in runs}
        failed = records.of(kind="run", ok=False, contestant=contestant.name, **key)
        failures = [run["error"] for run in failed if run["round"] not in done]
        if not runs:
            rows.append({"name": contestant.name, "ours": contestant.ours, "failures": failures, "rounds": 0})
            continue
        # The same round may stand twice if an interrupted comparison went on; the last counts.
        rates[contestant.name] = {run["round"]: run["rate"] for run in runs}
        rows.append(_row(contestant, case, runs, failures))
    for row in rows:
        if row["rounds"] and bound:
            row["share_of_bound"] = row["rate"]["median"] / bound["rate"]
            row["share_of_together"] = row["rate"]["median"] / max(bound["together"].values())
    verdict = {"case": case.words(), "place": place.name, "rows": rows, "bound": bound, "left_out": left_out}
    return {**verdict, **_compare(case, place, rows, rates)}


def _row(contestant, case, runs, failures):
    last = runs[-1]
    return {
        "name": contestant.name,
        "ours": contestant.ours,
        "rounds": len(runs),
        "failures": failures,
        "frames": last["frames"],
        "settings": last["variant"],
        "storage": last.get("storage"),
        "rate": spread([run["rate"] for run in runs]),
        "frames_per_second": spread([run["frames"] / run["seconds"] for run in runs]),
        "memory_bytes": median([max(0, run["peak_rss"] - run.get("loaded_bytes", case.pool_bytes)) for run in runs]),
        "append": {name: median([run["append"][name] for run in runs]) for name in ("p50", "p99", "max")},
        "append_frames": last["append"]["frames"],
        "ratio": last["bytes"] / max(1, last["check"]["disk_bytes"]),
        "checked_in_full": any(run["check"]["full"] for run in runs),
    }


def _bound(runs, case):
    """The slowest thing that no writer can go without: gather and encode on all cores, and the fastest way to put the
    encoded bytes into a file, sync included, of all levels. Beside it, both at once. In pixels of frames a second."""
    if not runs:
        return None
    frames_share = case.frame_bytes / case.bytes_of(1)
    found = [run["found"] for run in runs]
    middle = lambda pick: median([pick(one) for one in found])
    ratio = middle(lambda one: one["codec_ratio"])
    ways = lambda kind: [way for way in found[0][kind] if all(one[kind][way] for one in found)]
    storage = {way: middle(lambda one: one["storage"][way]) for way in ways("storage")}
    best_way = max(storage, key=storage.get)
    codec_name = "gather on all cores" if case.codec == "none" else "codec on all cores"
    limits = {
        codec_name: middle(lambda one: one["codec"]["all"]) * frames_share,
        f"storage, {best_way}": storage[best_way] * ratio * frames_share,
    }
    name = min(limits, key=limits.get)
    return {
        "rate": limits[name],
        "name": name,
        "together": {way: middle(lambda one: one["together"][way]) * frames_share for way in ways("together")},
        "limits": limits,
        "codec_ratio": ratio,
        "copy": {cores: middle(lambda one: one["copy"][cores]) for cores in ("one", "all")},
        "codec": {cores: middle(lambda one: one["codec"][cores]) for cores in ("one", "all")},
        "storage": storage,
        "storage_bytes": found[0]["storage_bytes"],
    }


def _compare(case, place, rows, rates):
    title = f"{case.name}, {place.name}"
    ours = next((row for row in rows if row["name"] == OURS and row["rounds"]), None)
    rivals = [row for row in rows if not row["ours"] and row["rounds"]]
    if ours is None or not rivals:
        who = "this project has no valid run" if ours is None else "no rival has a valid run"
        return {"sentence": f"{title}: NO VERDICT, {who}.", "best_rival": None, "factor": None}
    best = max(rivals, key=lambda row: row["rate"]["median"])
    factor = ours["rate"]["median"] / best["rate"]["median"]
    shared = rates[OURS].keys() & rates[best["name"]].keys()
    by_round = spread([rates[OURS][number] / rates[best["name"]][number] for number in shared]) if shared else None
    to_best_run = ours["rate"]["median"] / max(row["rate"]["max"] for row in rivals)
    gb = lambda row: f"{row['rate']['median'] / 1e9:.2f}"
    figures = f"{gb(ours)} against {gb(best)} GB/s; {to_best_run:.2f} times any rival's best run"
    if by_round:
        figures += f"; round by round {by_round['min']:.2f} to {by_round['max']:.2f}"
    if by_round and by_round["min"] < 1 < by_round["max"]:
        words = f"no clear difference from the best rival, {best['name']}: {factor:.2f} times its speed"
    elif factor >= 1:
        words = f"{OURS} is faster than the best rival, {best['name']}, {factor:.2f} times"
    else:
        words = f"{OURS} is SLOWER than the best rival, {best['name']}: {factor:.2f} times its speed"
    return {
        "sentence": f"{title}: {words} ({figures}).",
        "best_rival": best["name"],
        "factor": factor,
        "factor_to_best_run": to_best_run,
        "factor_by_round": by_round,
    }
