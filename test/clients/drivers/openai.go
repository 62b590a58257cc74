package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"
	"github.com/openai/openai-go/v3/shared"
)

func main() {
	job := readJob()
	ctx := context.Background()
	client := openai.NewClient(option.WithBaseURL(job.URL+"/v1"), option.WithAPIKey(job.Key))
	samples := job.Samples

	ask := func(model, text string) openai.ChatCompletionNewParams {
		return openai.ChatCompletionNewParams{Model: model, Messages: []openai.ChatCompletionMessageParamUnion{openai.UserMessage(text)}}
	}
	var tools []openai.ChatCompletionToolUnionParam
	for _, tool := range samples.Tools {
		tools = append(tools, openai.ChatCompletionFunctionTool(shared.FunctionDefinitionParam{
			Name: tool.Name, Description: openai.String(tool.Description), Parameters: tool.Parameters,
		}))
	}

	plain := func(params openai.ChatCompletionNewParams) (openai.ChatCompletionMessage, *Tokens, error) {
		completion, err := client.Chat.Completions.New(ctx, params)
		var failure *openai.Error
		if errors.As(err, &failure) {
			// Its text has the status only.
			err = fmt.Errorf("%w: %s", err, failure.Message)
		}
		if err != nil {
			return openai.ChatCompletionMessage{}, nil, err
		}
		return completion.Choices[0].Message, &Tokens{completion.Usage.PromptTokens, completion.Usage.CompletionTokens}, nil
	}
	streamed := func(params openai.ChatCompletionNewParams) (openai.ChatCompletionMessage, int, error) {
		stream := client.Chat.Completions.NewStreaming(ctx, params)
		whole := openai.ChatCompletionAccumulator{}
		pieces := 0
		for stream.Next() {
			chunk := stream.Current()
			whole.AddChunk(chunk)
			// The usual loop: it panics on a chunk without choices.
			if chunk.Choices[0].Delta.Content != "" {
				pieces++
			}
		}
		if err := stream.Err(); err != nil {
			return openai.ChatCompletionMessage{}, 0, err
		}
		return whole.Choices[0].Message, pieces, nil
	}
	text := func(params openai.ChatCompletionNewParams) (Seen, error) {
		message, tokens, err := plain(params)
		return Seen{Text: message.Content, Tokens: tokens}, err
	}
	question := func(model string) (Seen, error) { return text(ask(model, samples.Question)) }
	useTools := func(respond func(openai.ChatCompletionNewParams) (openai.ChatCompletionMessage, error)) func(string) (Seen, error) {
		return func(model string) (Seen, error) {
			params := ask(model, samples.City)
			params.Tools = tools
			first, err := respond(params)
			if err != nil {
				return Seen{}, err
			}
			params.Messages = append(params.Messages, first.ToParam())
			seen := Seen{}
			for _, call := range first.ToolCalls {
				seen.Calls = append(seen.Calls, Call{call.Function.Name, parse(call.Function.Arguments)})
				params.Messages = append(params.Messages, openai.ToolMessage(toolResults[call.Function.Name], call.ID))
			}
			last, err := respond(params)
			seen.Text = last.Content
			return seen, err
		}
	}
	viaStream := func(params openai.ChatCompletionNewParams) (openai.ChatCompletionMessage, error) {
		message, _, err := streamed(params)
		return message, err
	}

	drive(job, map[string]func(string) (Seen, error){
		"plain": question,
		"stream": func(model string) (Seen, error) {
			message, pieces, err := streamed(ask(model, samples.Question))
			return Seen{Text: message.Content, Pieces: pieces}, err
		},
		"tools": useTools(func(params openai.ChatCompletionNewParams) (openai.ChatCompletionMessage, error) {
			message, _, err := plain(params)
			return message, err
		}),
		"stream-tools":   useTools(viaStream),
		"parallel-tools": useTools(viaStream),
		"structured": func(model string) (Seen, error) {
			params := ask(model, samples.City)
			params.ResponseFormat = openai.ChatCompletionNewParamsResponseFormatUnion{
				OfJSONSchema: &shared.ResponseFormatJSONSchemaParam{
					JSONSchema: shared.ResponseFormatJSONSchemaJSONSchemaParam{Name: "weather", Strict: openai.Bool(true), Schema: samples.Tools[0].Parameters},
				},
			}
			message, _, err := plain(params)
			return Seen{Value: parse(message.Content)}, err
		},
		"images": func(model string) (Seen, error) {
			params := ask(model, "")
			params.Messages = []openai.ChatCompletionMessageParamUnion{openai.UserMessage([]openai.ChatCompletionContentPartUnionParam{
				openai.TextContentPart("Inspect"),
				openai.ImageContentPart(openai.ChatCompletionContentPartImageImageURLParam{URL: "data:image/png;base64," + samples.Image}),
			})}
			return text(params)
		},
		"errors":  question,
		"retries": question,
		"timeout": func(model string) (Seen, error) {
			limited, cancel := job.withTimeout()
			defer cancel()
			_, err := client.Chat.Completions.New(limited, ask(model, samples.Question))
			return Seen{}, err
		},
		"models": func(string) (Seen, error) {
			seen := Seen{}
			pages := client.Models.ListAutoPaging(ctx)
			for pages.Next() {
				seen.IDs = append(seen.IDs, pages.Current().ID)
			}
			return seen, pages.Err()
		},
	})
}
