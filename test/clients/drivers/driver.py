"""Runs the cases that a client has, and prints one JSON line per case. The job is in a variable; see driver.js."""

import json
import os

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
    """Calls `cases[name](model)` for each run of the job."""
    for run in JOB["runs"]:
        case = cases.get(run["case"])
        if case is None:
            continue
        try:
            seen = case(run["model"])
        except Exception as error:  # What a client throws is what the case is about.
            seen = {"error": describe(error)}
        print(json.dumps({"vendor": run["vendor"], "case": run["case"], "seen": seen}), flush=True)


def describe(error):
    """Frameworks put the vendor's message into a cause."""
    messages = []
    inner = error
    while inner is not None and len(messages) < 4:
        messages.append(str(inner))
        inner = inner.__cause__ or inner.__context__
    return {"name": type(error).__name__, "message": "; ".join(messages)[:2000]}
