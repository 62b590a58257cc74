// Runs the cases that a client has, and prints one JSON line per case. The job is in a variable; see driver.js.
package main

import (
	"encoding/json"
	"fmt"
	"os"
)

type Tool struct {
	Name        string         `json:"name"`
	Description string         `json:"description"`
	Parameters  map[string]any `json:"parameters"`
}

type Job struct {
	ID      string `json:"id"`
	URL     string `json:"url"`
	Key     string `json:"key"`
	Samples struct {
		Question string `json:"question"`
		City     string `json:"city"`
		Image    string `json:"image"`
		Tools    []Tool `json:"tools"`
	} `json:"samples"`
	Runs []struct {
		Vendor string `json:"vendor"`
		Case   string `json:"case"`
		Model  string `json:"model"`
	} `json:"runs"`
}

type Call struct {
	Name  string `json:"name"`
	Input any    `json:"input"`
}

type Tokens struct {
	Input  int64 `json:"input"`
	Output int64 `json:"output"`
}

type Seen struct {
	Text   string   `json:"text"`
	Pieces int      `json:"pieces,omitempty"`
	Tokens *Tokens  `json:"tokens,omitempty"`
	Calls  []Call   `json:"calls,omitempty"`
	Value  any      `json:"value,omitempty"`
	IDs    []string `json:"ids,omitempty"`
	Count  int64    `json:"count,omitempty"`
	Error  *Thrown  `json:"error,omitempty"`

	Reasoning string `json:"reasoning,omitempty"`
}

type Thrown struct {
	Name    string `json:"name"`
	Message string `json:"message"`
}

var toolResults = map[string]string{"get_weather": "sunny", "get_time": "noon"}

func readJob() (job Job) {
	if err := json.Unmarshal([]byte(os.Getenv("CLIENT_JOB")), &job); err != nil {
		panic(err)
	}
	return job
}

func drive(job Job, cases map[string]func(model string) (Seen, error)) {
	for _, run := range job.Runs {
		call, found := cases[run.Case]
		if !found {
			continue
		}
		seen, err := recovered(call, run.Model)
		if err != nil {
			seen = Seen{Error: &Thrown{fmt.Sprintf("%T", err), err.Error()}}
		}
		line, _ := json.Marshal(map[string]any{"id": job.ID, "vendor": run.Vendor, "case": run.Case, "model": run.Model, "seen": seen})
		fmt.Println(string(line))
	}
}

// A panic is an error of its case.
func recovered(call func(string) (Seen, error), model string) (seen Seen, err error) {
	defer func() {
		if cause := recover(); cause != nil {
			err = fmt.Errorf("panic: %v", cause)
		}
	}()
	return call(model)
}

func parse(text string) (value any) {
	if err := json.Unmarshal([]byte(text), &value); err != nil {
		return err.Error()
	}
	return value
}
