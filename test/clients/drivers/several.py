"""Runs the drivers of the variable CLIENT_JOBS one after another, so that packages that they share load once."""

import json
import os
import runpy
import sys

for job in json.loads(os.environ["CLIENT_JOBS"]):
    os.environ["CLIENT_JOB"] = json.dumps(job)
    sys.modules.pop("driver", None)
    runpy.run_path(os.path.join(os.path.dirname(__file__), job["driver"]))
