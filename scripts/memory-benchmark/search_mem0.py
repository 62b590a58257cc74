"""
Stores memories in mem0 and searches for questions, as its documentation shows. Reads one JSON object from standard input (see mem0.js) and
writes one line of JSON: for each conversation and form of the question the numbers of the memories found, best first.
"""
import importlib.util
import json
import os
import sys

given = json.load(sys.stdin)
os.environ.update(MEM0_TELEMETRY="False", MEM0_DIR=given["folder"])

from mem0 import Memory  # noqa: E402: after its environment
from mem0.utils import spacy_models  # noqa: E402

if importlib.util.find_spec("en_core_web_sm") is None:
    # Tell mem0 that there is no model, or it would try to download one for every text.
    spacy_models._load_failed_full = spacy_models._load_failed_lemma = True

memory = Memory.from_config(
    {
        "vector_store": {
            "provider": "qdrant",
            "config": {
                "path": os.path.join(given["folder"], "qdrant"),
                "embedding_model_dims": given["dimensions"],
                "on_disk": True,
            },
        },
        "embedder": {
            "provider": "openai",
            "config": {
                "model": given["model"],
                "embedding_dims": given["dimensions"],
                "openai_base_url": given["url"],
                "api_key": "unused",
            },
        },
        # mem0 insists on having a model. With `infer=False`, it never calls it.
        "llm": {"provider": "openai", "config": {"api_key": "unused", "openai_base_url": given["url"]}},
        "history_db_path": os.path.join(given["folder"], "history.db"),
    }
)

found = []
for conversation in given["conversations"]:
    user = conversation["id"]
    for number, text in enumerate(conversation["memories"]):
        memory.add(text, user_id=user, metadata={"number": number}, infer=False)
    found.append(
        [
            [
                [result["metadata"]["number"] for result in memory.search(query, filters={"user_id": user}, top_k=given["limit"])["results"]]
                for query in queries
            ]
            for queries in conversation["queries"]
        ]
    )
    print(f"{user} done", file=sys.stderr, flush=True)

print(json.dumps({"found": found, "hasKeywords": memory.vector_store.keyword_search("text", 1) is not None}))
