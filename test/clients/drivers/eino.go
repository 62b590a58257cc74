package main

import (
	"context"

	"github.com/cloudwego/eino-ext/components/model/openai"
	"github.com/cloudwego/eino/schema"
)

func main() {
	job := readJob()

	modelOf := func(ctx context.Context, model string) (*openai.ChatModel, error) {
		return openai.NewChatModel(ctx, &openai.ChatModelConfig{Model: model, APIKey: job.Key, BaseURL: job.URL + "/v1"})
	}
	messages := []*schema.Message{schema.UserMessage(job.Samples.Question)}
	plain := func(ctx context.Context, model string) (Seen, error) {
		chat, err := modelOf(ctx, model)
		if err != nil {
			return Seen{}, err
		}
		message, err := chat.Generate(ctx, messages)
		if err != nil {
			return Seen{}, err
		}
		return Seen{Text: message.Content}, nil
	}
	stream := func(ctx context.Context, model string) (Seen, error) {
		chat, err := modelOf(ctx, model)
		if err != nil {
			return Seen{}, err
		}
		stream, err := chat.Stream(ctx, messages)
		if err != nil {
			return Seen{}, err
		}
		defer stream.Close()
		return join(func() (string, error) {
			chunk, err := stream.Recv()
			if err != nil {
				return "", err
			}
			return chunk.Content, nil
		})
	}
	drive(job, job.callCases(plain, stream))
}
