// Runs the cases that a client has, and prints one JSON line per case. The job is in a variable; see driver.js.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"reflect"
	"strings"
	"time"
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
	Flavor  string `json:"flavor"`
	Samples struct {
		Question string `json:"question"`
		City     string `json:"city"`
		Image    string `json:"image"`
		// Milliseconds.
		Timeout int64  `json:"timeoutMs"`
		Tools   []Tool `json:"tools"`
	} `json:"samples"`
	Runs []struct {
		Vendor string `json:"vendor"`
		Case   string `json:"case"`
		Model  string `json:"model"`
	} `json:"runs"`
}

// A call that gives up after the timeout.
func (job Job) withTimeout() (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.Background(), time.Duration(job.Samples.Timeout)*time.Millisecond)
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
	Status  int64  `json:"status,omitempty"`
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
			seen = Seen{Error: describe(err)}
		}
		line, _ := json.Marshal(map[string]any{"id": job.ID, "vendor": run.Vendor, "case": run.Case, "model": run.Model, "seen": seen})
		fmt.Println(string(line))
	}
}

// The class is that of the client's own error, which the driver may have wrapped to add a message.
func describe(err error) *Thrown {
	thrown := &Thrown{Name: fmt.Sprintf("%T", err), Message: err.Error()}
	for inner := err; inner != nil; inner = errors.Unwrap(inner) {
		if strings.HasPrefix(thrown.Name, "*fmt.") {
			thrown.Name = fmt.Sprintf("%T", inner)
		}
		value := reflect.Indirect(reflect.ValueOf(inner))
		if value.Kind() != reflect.Struct || thrown.Status != 0 {
			continue
		}
		for _, name := range []string{"StatusCode", "HTTPStatusCode"} {
			if field := value.FieldByName(name); field.IsValid() && field.CanInt() {
				thrown.Status = field.Int()
			}
		}
	}
	return thrown
}

type ask func(ctx context.Context, model string) (Seen, error)

// The cases of a client whose calls end with their context.
func (job Job) callCases(plain ask, stream ask) map[string]func(string) (Seen, error) {
	ctx := context.Background()
	question := func(model string) (Seen, error) { return plain(ctx, model) }
	return map[string]func(string) (Seen, error){
		"plain":  question,
		"errors": question,
		"timeout": func(model string) (Seen, error) {
			limited, cancel := job.withTimeout()
			defer cancel()
			return plain(limited, model)
		},
		"stream": func(model string) (Seen, error) { return stream(ctx, model) },
	}
}

// Joins the pieces of a stream that ends with io.EOF.
func join(next func() (string, error)) (seen Seen, err error) {
	for {
		text, err := next()
		if errors.Is(err, io.EOF) {
			return seen, nil
		}
		if err != nil {
			return seen, err
		}
		if text != "" {
			seen.Text += text
			seen.Pieces++
		}
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
