import dev.langchain4j.model.anthropic.AnthropicChatModel;
import dev.langchain4j.model.anthropic.AnthropicStreamingChatModel;
import dev.langchain4j.model.chat.ChatModel;
import dev.langchain4j.model.chat.StreamingChatModel;
import dev.langchain4j.model.chat.response.ChatResponse;
import dev.langchain4j.model.chat.response.StreamingChatResponseHandler;
import dev.langchain4j.model.openai.OpenAiChatModel;
import dev.langchain4j.model.openai.OpenAiStreamingChatModel;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;

/** The flavors `chat` and `messages` are model classes of langchain4j. */
final class Langchain4j {
    private static final String BASE_URL = Driver.URL + "/v1";

    public static void main(String[] args) throws Exception {
        Driver.drive((model, limits) -> plainModel(model, limits).chat(Driver.QUESTION), Langchain4j::stream);
    }

    static List<String> stream(String model, Driver.Limits limits) throws Exception {
        List<String> pieces = new CopyOnWriteArrayList<>();
        CompletableFuture<ChatResponse> whole = new CompletableFuture<>();
        streamingModel(model, limits).chat(Driver.QUESTION, new StreamingChatResponseHandler() {
            @Override
            public void onPartialResponse(String text) {
                pieces.add(text);
            }

            @Override
            public void onCompleteResponse(ChatResponse response) {
                whole.complete(response);
            }

            @Override
            public void onError(Throwable error) {
                whole.completeExceptionally(error);
            }
        });
        try {
            whole.get(limits.timeout().toMillis(), TimeUnit.MILLISECONDS);
        } catch (ExecutionException failed) {
            throw failed.getCause() instanceof Exception cause ? cause : failed;
        }
        return pieces;
    }

    private static ChatModel plainModel(String model, Driver.Limits limits) {
        if (Driver.IS_MESSAGES) {
            return AnthropicChatModel.builder()
                .baseUrl(BASE_URL).apiKey(Driver.KEY).modelName(model).timeout(limits.timeout()).maxRetries(limits.retries()).build();
        }
        return OpenAiChatModel.builder()
            .baseUrl(BASE_URL).apiKey(Driver.KEY).modelName(model).timeout(limits.timeout()).maxRetries(limits.retries()).build();
    }

    private static StreamingChatModel streamingModel(String model, Driver.Limits limits) {
        if (Driver.IS_MESSAGES) {
            return AnthropicStreamingChatModel.builder()
                .baseUrl(BASE_URL).apiKey(Driver.KEY).modelName(model).timeout(limits.timeout()).build();
        }
        return OpenAiStreamingChatModel.builder()
            .baseUrl(BASE_URL).apiKey(Driver.KEY).modelName(model).timeout(limits.timeout()).build();
    }
}
