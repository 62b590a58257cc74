"""Flavors: `chat` and `messages`, the native providers of crewai's LLM class."""

import os

os.environ["CREWAI_DISABLE_TELEMETRY"] = "true"
os.environ["OTEL_SDK_DISABLED"] = "true"

from crewai import LLM  # noqa: E402  Reads the variables when it loads.
from crewai.events import LLMStreamChunkEvent, crewai_event_bus  # noqa: E402
from driver import JOB, QUESTION, call_cases, drive  # noqa: E402


def model_of(model, **more):
    if JOB["flavor"] == "messages":
        return LLM(model=model, provider="anthropic", api_key=JOB["key"], base_url=JOB["url"], max_tokens=500, **more)
    return LLM(model=model, provider="openai", api_key=JOB["key"], base_url=JOB["url"] + "/v1", **more)


def plain(model, **more):
    return {"text": model_of(model, **more).call(QUESTION)}


def stream(model):
    # The library returns the whole text, and publishes the pieces as events.
    pieces = []
    with crewai_event_bus.scoped_handlers():

        @crewai_event_bus.on(LLMStreamChunkEvent)
        def on_piece(_source, event):
            pieces.append(event.chunk)

        return {**plain(model, stream=True), "pieces": len(pieces)}


drive(call_cases(plain, stream))
