"""Flavors: `chat` and `messages`, the providers openai-api and anthropic of inspect-ai."""

import os

from driver import JOB, QUESTION, SAMPLES, drive
from inspect_ai.model import GenerateConfig, get_model

os.environ["INSPECT_EVAL_LOG_FILE_PATTERN"] = "none"


def model_of(model, **more):
    config = GenerateConfig(max_tokens=500, **more)
    if JOB["flavor"] == "messages":
        # The part after the provider is a service, which the request does not contain.
        return get_model("anthropic/gateway/" + model, base_url=JOB["url"], api_key=JOB["key"], config=config, memoize=False)
    url = JOB["url"] + "/v1"
    return get_model("openai-api/gateway/" + model, base_url=url, api_key=JOB["key"], config=config, memoize=False)


async def plain(model, **more):
    output = await model_of(model, **more).generate(QUESTION)
    # inspect-ai turns a prompt that is too long into a stop reason.
    return {"overflow": True} if output.stop_reason == "model_length" else {"text": output.completion}


# The library has no streams, its timeout is a number of whole seconds, and by default it repeats a call until it succeeds.
drive(
    {
        "plain": lambda model: plain(model, max_retries=1),
        "errors": lambda model: plain(model, max_retries=0),
        "overflow": lambda model: plain(model, max_retries=0),
        "retries": lambda model: plain(model, max_retries=1),
        "timeout": lambda model: plain(model, attempt_timeout=SAMPLES["timeoutMs"] // 1000, max_retries=0),
    }
)
os._exit(0)  # The library keeps a thread that would never end.
