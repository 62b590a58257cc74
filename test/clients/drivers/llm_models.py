"""Flavors: `chat` and `responses`, models of the tool `llm` in its extra-openai-models.yaml."""

import base64
import json
import os
import tempfile

from driver import CITY, JOB, QUESTION, SAMPLES, TOOL_RESULTS, drive

folder = tempfile.TemporaryDirectory()
os.environ["LLM_USER_PATH"] = folder.name
features = {"supports_schema": True, "supports_tools": True, "vision": True, "reasoning": True}
rows = [
    {
        "model_id": model,
        "model_name": model,
        "api_base": JOB["url"] + "/v1",
        "api_key_name": "gateway",
        "responses": JOB["flavor"] == "responses",
        **features,
    }
    for model in {run["model"] for run in JOB["runs"]}
]
for name, content in {"extra-openai-models.yaml": rows, "keys.json": {"gateway": JOB["key"]}}.items():
    with open(os.path.join(folder.name, name), "w") as file:
        json.dump(content, file)

import llm  # noqa: E402  Reads the folder when it loads.


def plain(model, prompt, **more):
    response = llm.get_model(model).prompt(prompt, stream=False, **more)
    text = response.text()
    usage = response.usage()
    return {"text": text, "tokens": {"input": usage.input, "output": usage.output}}


def stream(model):
    pieces = list(llm.get_model(model).prompt(QUESTION))
    return {"text": "".join(pieces), "pieces": len(pieces)}


def use_tools(model, is_streamed):
    calls = []

    def get_weather(city: str, days: int) -> str:
        """Weather of a city"""
        calls.append({"name": "get_weather", "input": {"city": city, "days": days}})
        return TOOL_RESULTS["get_weather"]

    def get_time(zone: str) -> str:
        """Time of a zone"""
        calls.append({"name": "get_time", "input": {"zone": zone}})
        return TOOL_RESULTS["get_time"]

    chain = llm.get_model(model).chain(CITY, tools=[get_weather, get_time], stream=is_streamed)
    return {"text": chain.text(), "calls": calls}


def structured(model):
    return {"value": json.loads(llm.get_model(model).prompt(CITY, schema=SAMPLES["tools"][0]["parameters"]).text())}


def reasoning(model):
    seen = {"text": "", "reasoning": ""}
    for event in llm.get_model(model).prompt(QUESTION).stream_events():
        if event.type in seen:
            seen[event.type] += event.chunk
    return seen


cases = {
    "plain": lambda model: plain(model, QUESTION),
    "stream": stream,
    "tools": lambda model: use_tools(model, False),
    "stream-tools": lambda model: use_tools(model, True),
    "parallel-tools": lambda model: use_tools(model, True),
    "structured": structured,
    "images": lambda model: plain(
        model, "Inspect", attachments=[llm.Attachment(type="image/png", content=base64.b64decode(SAMPLES["image"]))]
    ),
    "errors": lambda model: plain(model, QUESTION),
    "retries": lambda model: plain(model, QUESTION),
}
if JOB["flavor"] == "responses":  # Chat models of this tool show no reasoning.
    cases["reasoning"] = reasoning
drive(cases)
