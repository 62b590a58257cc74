"""Flavors: `chat`, `responses` and `messages`, by prefix and type of dspy.LM. Requests have dspy's canonical form, programs its signatures."""

import base64
import json
import os
import tempfile

folder = tempfile.TemporaryDirectory()
os.environ["DSPY_CACHEDIR"] = folder.name

import dspy  # noqa: E402  Opens its cache when it loads.
from driver import CITY, IMAGE_URL, JOB, QUESTION, SAMPLES, TOOL_RESULTS, drive  # noqa: E402
from dspy import lm15  # noqa: E402

FLAVOR = JOB["flavor"]
TOOLS = tuple(lm15.FunctionTool(**tool) for tool in SAMPLES["tools"])


def model_of(model, **more):
    return dspy.LM(
        ("anthropic/" if FLAVOR == "messages" else "openai/") + model,
        api_base=JOB["url"] + "/v1",
        api_key=JOB["key"],
        model_type="responses" if FLAVOR == "responses" else "chat",
        max_tokens=2000,
        cache=False,
        **more,
    )


def respond(lm, *messages, **more):
    return lm(lm15.Request(model=lm.model, messages=messages, **more))


def plain(model, *parts, **more):
    response = respond(model_of(model, **more), lm15.Message.user(parts))
    return {"text": response.text, "tokens": {"input": response.usage.input_tokens, "output": response.usage.output_tokens}}


def use_tools(model):
    lm = model_of(model)
    question = lm15.Message.user(CITY)
    first = respond(lm, question, tools=TOOLS)
    results = lm15.Message.tool({call.id: TOOL_RESULTS[call.name] for call in first.tool_calls})
    last = respond(lm, question, first.message, results, tools=TOOLS)
    return {"text": last.text, "calls": [{"name": call.name, "input": call.input} for call in first.tool_calls]}


def stream(model):
    # The model answers in the form that dspy asks for.
    answer = f"[[ ## answer ## ]]\nYou said: {QUESTION}\n\n[[ ## completed ## ]]\n"
    scripted = model.replace("echo", "say-" + base64.urlsafe_b64encode(answer.encode()).decode().rstrip("="))
    listeners = [dspy.streaming.StreamListener(signature_field_name="answer")]
    with dspy.context(lm=model_of(scripted)):
        run = dspy.streamify(dspy.Predict("question -> answer"), stream_listeners=listeners, async_streaming=False)
        pieces = list(run(question=QUESTION))
    return {"text": pieces[-1].answer, "pieces": len(pieces) - 1}


def structured(model):
    schema = {"type": "json_schema", "name": "weather", "strict": True, "schema": SAMPLES["tools"][0]["parameters"]}
    config = lm15.Config(max_tokens=2000, response_format=schema)
    return {"value": json.loads(respond(model_of(model), lm15.Message.user(CITY), config=config).text)}


def overflow(model):
    with dspy.context(lm=model_of(model)):
        try:
            return {"text": dspy.Predict("question -> answer")(question=QUESTION).answer}
        except dspy.ContextWindowExceededError:
            return {"overflow": True}


def reasoning(model):
    config = lm15.Config(max_tokens=2000, reasoning=lm15.Reasoning(effort="low"))
    response = respond(model_of(model), lm15.Message.user(QUESTION), config=config)
    parts = response.message.parts_of(lm15.ThinkingPart)
    return {"text": response.text, "reasoning": "".join(part.text for part in parts)}


drive(
    {
        "plain": lambda model: plain(model, lm15.TextPart(QUESTION)),
        "stream": stream,
        "tools": use_tools,
        "parallel-tools": use_tools,
        "structured": structured,
        "images": lambda model: plain(model, lm15.TextPart("Inspect"), lm15.ImagePart(url=IMAGE_URL)),
        "errors": lambda model: plain(model, lm15.TextPart(QUESTION), num_retries=0),
        "retries": lambda model: plain(model, lm15.TextPart(QUESTION)),
        "overflow": overflow,
        "timeout": lambda model: plain(model, lm15.TextPart(QUESTION), timeout=SAMPLES["timeoutMs"] / 1000, num_retries=0),
        "reasoning": reasoning,
    }
)
