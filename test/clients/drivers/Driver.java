import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.time.Duration;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.TimeoutException;

/** Runs the cases that a client has, and prints one JSON line per case. The job is in a variable; see driver.js. */
final class Driver {
    private static final ObjectMapper JSON = new ObjectMapper();
    private static final JsonNode JOB = readJob();
    static final String URL = JOB.get("url").asText();
    static final String KEY = JOB.get("key").asText();
    static final boolean IS_MESSAGES = JOB.get("flavor").asText().equals("messages");
    static final String QUESTION = JOB.at("/samples/question").asText();

    /** How long a call may take, and how often the client repeats it. */
    record Limits(Duration timeout, int retries) {}

    private static final Limits USUAL = new Limits(Duration.ofSeconds(30), 2);
    private static final Limits NO_RETRIES = new Limits(Duration.ofSeconds(30), 0);
    private static final Limits SHORT = new Limits(Duration.ofMillis(JOB.at("/samples/timeoutMs").asLong()), 0);

    interface Plain {
        String call(String model, Limits limits) throws Exception;
    }

    /** Returns the pieces. Throws TimeoutException when the stream neither ends nor fails. */
    interface Stream {
        List<String> call(String model, Limits limits) throws Exception;
    }

    static void drive(Plain plain, Stream stream) throws Exception {
        for (JsonNode run : JOB.get("runs")) {
            String model = run.get("model").asText();
            Map<String, Object> line = new LinkedHashMap<>();
            line.put("id", JOB.get("id"));
            line.put("vendor", run.get("vendor"));
            line.put("case", run.get("case"));
            line.put("model", model);
            try {
                Object seen = switch (run.get("case").asText()) {
                    case "plain", "retries" -> Map.of("text", plain.call(model, USUAL));
                    case "errors" -> Map.of("text", plain.call(model, NO_RETRIES));
                    case "timeout" -> Map.of("text", plain.call(model, SHORT));
                    case "stream" -> {
                        List<String> pieces = stream.call(model, USUAL);
                        yield Map.of("text", String.join("", pieces), "pieces", pieces.size());
                    }
                    default -> null;
                };
                if (seen == null) continue;
                line.put("seen", seen);
            } catch (TimeoutException neverEnded) {
                line.put("seen", Map.of("hangs", true));
            } catch (Throwable thrown) {
                line.put("seen", Map.of("error", describe(thrown)));
            }
            System.out.println(JSON.writeValueAsString(line));
        }
        // HTTP clients keep threads.
        System.exit(0);
    }

    private static Map<String, Object> describe(Throwable thrown) {
        Map<String, Object> error = new LinkedHashMap<>();
        StringBuilder message = new StringBuilder();
        for (Throwable each = thrown; each != null; each = each.getCause()) {
            message.append(each.getMessage()).append("; ");
            try {
                error.putIfAbsent("status", each.getClass().getMethod("statusCode").invoke(each));
            } catch (ReflectiveOperationException absent) {
                // The error of a connection has no status.
            }
        }
        error.put("name", thrown.getClass().getSimpleName());
        error.put("message", message.toString());
        return error;
    }

    private static JsonNode readJob() {
        try {
            return JSON.readTree(System.getenv("CLIENT_JOB"));
        } catch (java.io.IOException cause) {
            throw new java.io.UncheckedIOException(cause);
        }
    }
}
