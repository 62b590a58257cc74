"""Runs the cases that a client has, and prints one JSON line per case. The job is in a variable; see driver.js."""

import asyncio
import inspect
import json
import os
import sys
from concurrent.futures import ThreadPoolExecutor

TOOL_RESULTS = {"get_weather": "sunny", "get_time": "noon"}
JOB = json.loads(os.environ["CLIENT_JOB"])
SAMPLES = JOB["samples"]
QUESTION = SAMPLES["question"]
CITY = SAMPLES["city"]
CHAT_TOOLS = [{"type": "function", "function": tool} for tool in SAMPLES["tools"]]
MESSAGES_TOOLS = [
    {"name": tool["name"], "description": tool["description"], "input_schema": tool["parameters"]}
    for tool in SAMPLES["tools"]
]
IMAGE_URL = "data:image/png;base64," + SAMPLES["image"]


def drive(cases):
    """Calls `cases[name](model)`, which may be a coroutine, for each run of the job."""

    def work(run):
        try:
            seen = cases[run["case"]](run["model"])
            seen = asyncio.run(seen) if inspect.iscoroutine(seen) else seen
        except Exception as error:  # What a client throws is what the case is about.
            seen = {"error": describe(error)}
        line = {"id": JOB["id"], "vendor": run["vendor"], "case": run["case"], "model": run["model"], "seen": seen}
        sys.stdout.write(json.dumps(line) + "\n")

    runs = [run for run in JOB["runs"] if run["case"] in cases]
    if JOB["concurrency"] == 1:  # Some frameworks need the main thread.
        for run in runs:
            work(run)
    else:
        with ThreadPoolExecutor(JOB["concurrency"]) as threads:
            list(threads.map(work, runs))
    sys.stdout.flush()


def call_cases(plain, stream, retries="max_retries"):
    """The cases of a library whose models take a timeout and a number of retries, by this name."""
    return {
        "plain": plain,
        "stream": stream,
        "errors": lambda model: plain(model, **{retries: 0}),
        "retries": plain,
        "timeout": lambda model: plain(model, timeout=SAMPLES["timeoutMs"] / 1000, **{retries: 0}),
    }


def describe(error):
    """Frameworks put the vendor's message into a cause."""
    messages, status = [], None
    inner = error
    while inner is not None and len(messages) < 4:
        messages.append(str(inner))
        status = status or getattr(inner, "status_code", None)
        inner = inner.__cause__ or inner.__context__
    return {"name": type(error).__name__, "message": "; ".join(messages)[:2000], "status": status}
