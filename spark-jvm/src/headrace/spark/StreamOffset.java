package headrace.spark;

import com.fasterxml.jackson.core.JacksonException;
import com.fasterxml.jackson.databind.*;
import java.util.TreeMap;
import org.apache.spark.sql.connector.read.streaming.Offset;

/** How far a stream is, as it stands in Spark's checkpoint; {@code query} names its pin in the broker. */
final class StreamOffset extends Offset {
  private static final ObjectMapper JSON = new ObjectMapper();
  final String query;
  final TreeMap<String, SourceOffset> sources;

  /** How far one queue or topic is read, and in which epoch of the log: by partition. */
  record SourceOffset(String uuid, TreeMap<Integer, Long> next, TreeMap<Integer, Long> epochs) {}

  StreamOffset(String query, TreeMap<String, SourceOffset> sources) {
    this.query = query;
    this.sources = sources;
  }

  static StreamOffset parse(String text) {
    try {
      JsonNode value = JSON.readTree(text);
      var sources = new TreeMap<String, SourceOffset>();
      if (value.required("version").asInt() != 1) throw new IllegalArgumentException();
      for (var one : value.required("sources").properties()) {
        JsonNode known = one.getValue();
        sources.put(one.getKey(), new SourceOffset(known.required("uuid").textValue(), numbers(known.required("next")), numbers(known.path("epochs"))));
      }
      return new StreamOffset(value.required("query").textValue(), sources);
    } catch (JacksonException | IllegalArgumentException error) {
      throw SparkError.sourceChanged("the checkpoint is of another source or version: start with a new checkpoint");
    }
  }

  private static TreeMap<Integer, Long> numbers(JsonNode node) {
    var found = new TreeMap<Integer, Long>();
    node.properties().forEach(one -> found.put(Integer.valueOf(one.getKey()), one.getValue().longValue()));
    return found;
  }

  @Override
  public String json() {
    var value = JSON.createObjectNode().put("version", 1).put("query", query);
    var all = value.putObject("sources");
    sources.forEach((name, one) -> {
      var node = all.putObject(name).put("uuid", one.uuid);
      var next = node.putObject("next");
      one.next.forEach((partition, at) -> next.put(String.valueOf(partition), at));
      var epochs = node.putObject("epochs");
      one.epochs.forEach((partition, epoch) -> epochs.put(String.valueOf(partition), epoch));
    });
    return value.toString();
  }

  /** Whether both are at the same offsets of the same sources, whatever the epochs. */
  boolean isAt(TreeMap<String, SourceOffset> others) {
    return sources.keySet().equals(others.keySet()) && sources.entrySet().stream().allMatch(one -> {
      SourceOffset other = others.get(one.getKey());
      return one.getValue().uuid.equals(other.uuid) && one.getValue().next.equals(other.next);
    });
  }
}
