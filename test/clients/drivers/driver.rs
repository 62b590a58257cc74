//! Runs the cases that a client has, and prints one JSON line per case. The job is in a variable; see driver.js.

use serde_json::{Value, json};
use std::{env, error::Error, fmt::Debug, time::Duration};

pub struct Job {
    pub url: String,
    pub key: String,
    /// The flavor is `messages` instead of `chat`.
    #[allow(dead_code)] // Not all clients have both.
    pub is_messages: bool,
    pub question: String,
    timeout: Duration,
    id: Value,
    runs: Vec<Value>,
}

pub fn read_job() -> Job {
    let job: Value = serde_json::from_str(&env::var("CLIENT_JOB").unwrap()).unwrap();
    let text = |value: &Value| value.as_str().unwrap().to_string();
    Job {
        url: text(&job["url"]),
        key: text(&job["key"]),
        is_messages: job["flavor"] == "messages",
        question: text(&job["samples"]["question"]),
        timeout: Duration::from_millis(job["samples"]["timeoutMs"].as_u64().unwrap()),
        id: job["id"].clone(),
        runs: job["runs"].as_array().unwrap().clone(),
    }
}

pub trait Client {
    type Error: Error;
    /// Whether the client sends a failed call again by itself.
    const RETRIES: bool;
    async fn plain(&self, model: &str) -> Result<String, Self::Error>;
    /// Returns the pieces.
    async fn stream(&self, model: &str) -> Result<Vec<String>, Self::Error>;
}

/// The cases of a client whose calls end when their future is dropped.
pub async fn drive<C: Client>(job: &Job, client: C) {
    for run in &job.runs {
        let model = run["model"].as_str().unwrap();
        let seen = match run["case"].as_str().unwrap() {
            "retries" if !C::RETRIES => continue,
            "plain" | "errors" | "retries" => seen(client.plain(model).await.map(|text| vec![text])),
            "timeout" => match tokio::time::timeout(job.timeout, client.plain(model)).await {
                Ok(result) => seen(result.map(|text| vec![text])),
                Err(elapsed) => describe(elapsed),
            },
            "stream" => seen(client.stream(model).await),
            _ => continue,
        };
        println!("{}", json!({ "id": job.id, "vendor": run["vendor"], "case": run["case"], "model": model, "seen": seen }));
    }
}

fn seen(result: Result<Vec<String>, impl Error>) -> Value {
    match result {
        Ok(pieces) => json!({ "text": pieces.concat(), "pieces": pieces.len() }),
        Err(error) => describe(error),
    }
}

/// The errors are variants of one type, whose debug form begins with the name of the variant and may contain an HTTP status.
fn describe(error: impl Error + Debug) -> Value {
    let shown = format!("{error:?}");
    let name: String = shown.chars().take_while(|each| each.is_alphanumeric()).collect();
    let status = ["status: ", "status_code: "]
        .iter()
        .filter_map(|member| shown.split(member).nth(1)?.get(..3)?.parse::<u16>().ok())
        .next();
    json!({ "error": { "name": name, "message": error.to_string(), "status": status } })
}
