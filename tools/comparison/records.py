"""What was measured so far, one JSON object a line, so that an interrupted comparison goes on where it stopped."""

import hashlib
import json
import os
from pathlib import Path


class Records:
    def __init__(self, folder, fingerprint, fresh):
        self.path = Path(folder) / "runs.jsonl"
        self.rows = []
        # What was measured under other conditions is kept, but not mixed with this.
        head = {"fingerprint": hashlib.sha256(json.dumps(fingerprint, sort_keys=True).encode()).hexdigest()}
        self.set_aside = None
        if self.path.exists():
            lines = self.path.read_text().splitlines()
            if lines and not fresh and _parsed(lines[0]) == head:
                self.rows = [row for row in map(_parsed, lines[1:]) if row is not None]
            else:
                self.set_aside = _free_name(self.path)
                os.replace(self.path, self.set_aside)
        # Rewritten, so that a line that was cut off in the middle is gone.
        unfinished = self.path.with_suffix(".unfinished")
        unfinished.write_text("".join(json.dumps(row) + "\n" for row in [head, *self.rows]))
        os.replace(unfinished, self.path)

    def add(self, **row):
        self.rows.append(row)
        with self.path.open("a") as file:
            file.write(json.dumps(row) + "\n")
            file.flush()
            os.fsync(file.fileno())
        return row

    def of(self, **key):
        return [row for row in self.rows if all(row.get(name) == value for name, value in key.items())]

    def good(self, **key):
        return self.of(ok=True, **key)


def _parsed(line):
    try:
        return json.loads(line)
    except ValueError:
        return None


def _free_name(path):
    numbers = (path.with_name(f"runs.{number}.jsonl") for number in range(1, 1_000_000))
    return next(name for name in numbers if not name.exists())
