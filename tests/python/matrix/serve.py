"""The other side of `writers.Server`: a request a line, an answer a line."""

import json
import os
import sys
import traceback


def serve(answer):
    # What libraries print is no answer.
    out = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    for line in sys.stdin:
        try:
            said = {"answer": answer(json.loads(line))}
        except Exception:
            said = {"error": traceback.format_exc()}
        print(json.dumps(said), file=out, flush=True)
