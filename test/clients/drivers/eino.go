package main

import (
	"context"
	"errors"
	"io"

	"github.com/cloudwego/eino-ext/components/model/openai"
	"github.com/cloudwego/eino/schema"
)

func main() {
	job := readJob()
	ctx := context.Background()

	modelOf := func(model string) (*openai.ChatModel, error) {
		return openai.NewChatModel(ctx, &openai.ChatModelConfig{Model: model, APIKey: job.Key, BaseURL: job.URL + "/v1"})
	}
	messages := []*schema.Message{schema.UserMessage(job.Samples.Question)}
	ask := func(ctx context.Context, model string) (Seen, error) {
		chat, err := modelOf(model)
		if err != nil {
			return Seen{}, err
		}
		message, err := chat.Generate(ctx, messages)
		if err != nil {
			return Seen{}, err
		}
		return Seen{Text: message.Content}, nil
	}
	question := func(model string) (Seen, error) { return ask(ctx, model) }

	drive(job, map[string]func(string) (Seen, error){
		"plain":  question,
		"errors": question,
		"timeout": func(model string) (Seen, error) {
			limited, cancel := job.withTimeout()
			defer cancel()
			return ask(limited, model)
		},
		"stream": func(model string) (seen Seen, err error) {
			chat, err := modelOf(model)
			if err != nil {
				return seen, err
			}
			stream, err := chat.Stream(ctx, messages)
			if err != nil {
				return seen, err
			}
			defer stream.Close()
			for {
				chunk, err := stream.Recv()
				if errors.Is(err, io.EOF) {
					return seen, nil
				}
				if err != nil {
					return seen, err
				}
				if chunk.Content != "" {
					seen.Text += chunk.Content
					seen.Pieces++
				}
			}
		},
	})
}
