package headrace.spark;

import headrace.spark.StreamOffset.SourceOffset;
import java.io.IOException;
import java.util.*;
import org.apache.spark.sql.connector.read.InputPartition;

import static headrace.spark.BulkConnection.fields;

/** A broker as the driver uses it: readable ranges, counts and pins. Each call has a connection of its own. */
final class Broker {
  private final ReadOptions options;
  private final long patienceMs;

  Broker(ReadOptions options, long patienceMs) {
    this.options = options;
    this.patienceMs = patienceMs;
  }

  private interface Calls<T> {
    T on(BulkConnection connection) throws IOException;
  }

  private <T> T with(Calls<T> calls) {
    try (var connection = BulkConnection.open(options.url(), patienceMs)) {
      return calls.on(connection);
    } catch (IOException error) {
      throw SparkError.of(error.getMessage());
    }
  }

  /** The sources of the options by name; the ranges say where the time is, if there is one. */
  TreeMap<String, ReadableSource> sources(Long timeMs) {
    return with(connection -> sources(connection, options.names(), timeMs));
  }

  private TreeMap<String, ReadableSource> sources(BulkConnection connection, List<String> names, Long timeMs) throws IOException {
    var wanted = names.stream().map(name -> fields(options.kind(), name)).toList();
    var rows = (List<?>) connection.call(BulkConnection.BOUNDS, fields("destinations", wanted, "time", timeMs == null ? 0 : timeMs)).get("rows");
    var found = new TreeMap<String, ReadableSource>();
    for (Object row : rows) {
      var source = ReadableSource.of((Map<?, ?>) row);
      found.put(source.name(), source);
    }
    return found;
  }

  /** Whether a topic is in a database: the broker has no records of it. A broker that does not answer is reported later. */
  boolean hasDatabaseTopics() {
    try {
      return options.kind().equals("topic") && sources(null).values().stream().anyMatch(ReadableSource::isInDatabase);
    } catch (SparkError error) {
      return false;
    }
  }

  /** The options with their selector as the broker has parsed it. */
  ReadOptions withCondition() {
    if (options.selector() == null) return options;
    try {
      return options.with(with(connection ->
          connection.call(BulkConnection.BOUNDS, fields("destinations", List.of(), "selector", options.selector())).get("selector")));
    } catch (SparkError error) {
      throw error.refusal == null ? error : SparkError.badOption("selector: " + error.refusal);
    }
  }

  /** How many messages the tasks have to read, and the lowest and highest offset of them: from the broker's index. */
  long[] count(InputPartition[] tasks) {
    return with(connection -> {
      long[] found = {0, Long.MAX_VALUE, -1};
      for (InputPartition one : tasks) {
        var task = (TaskPlan.ReadTask) one;
        for (long at = task.start(); at < task.end(); ) {
          var answer = connection.call(BulkConnection.RECORDS, fields(options.kind(), task.source(), "partition", task.partition(),
              "uuid", task.uuid(), "start", at, "end", task.end(), "count", true));
          at = (Long) answer.get("next");
          if ((Long) answer.get("messages") == 0) continue;
          found[0] += (Long) answer.get("messages");
          found[1] = Math.min(found[1], (Long) answer.get("first"));
          found[2] = Math.max(found[2], (Long) answer.get("last"));
        }
      }
      return found;
    });
  }

  /** Holds everything from the position on for its query; without failOnDataLoss, what is left of it. */
  void pin(StreamOffset position) {
    var rows = new ArrayList<Object>();
    position.sources.forEach((name, one) -> rows.add(
        fields(options.kind(), name, "uuid", one.uuid(), "next", texts(one.next()), "epochs", texts(one.epochs()))));
    var wanted = fields("query", position.query, "positions", rows, "max_bytes", options.pinBytes());
    with(connection -> {
      try {
        return connection.call(BulkConnection.PIN, wanted);
      } catch (SparkError error) {
        if (options.failOnDataLoss() || !error.isDataLost) throw error;
        connection.call(BulkConnection.UNPIN, fields("query", position.query));
        return connection.call(BulkConnection.PIN, wanted);
      }
    });
  }

  private static Map<String, Object> texts(Map<Integer, Long> numbers) {
    var found = fields();
    numbers.forEach((partition, at) -> found.put(String.valueOf(partition), at));
    return found;
  }

  void unpin(String query) {
    with(connection -> connection.call(BulkConnection.UNPIN, fields("query", query)));
  }

  /** The position from which the sources, as they are now, are pinned for a query; null: they are not. */
  StreamOffset pinned(String query) {
    return with(connection -> {
      var pins = new TreeMap<String, Map<?, ?>>();
      boolean more = true;
      for (int page = 0; more; page++) {
        var answer = connection.call(BulkConnection.LIST, fields("kind", "pins", "page", page));
        more = Boolean.TRUE.equals(answer.get("more"));
        for (Object one : (List<?>) answer.get("rows")) {
          var pin = (Map<?, ?>) one;
          boolean isOurs = query.equals(pin.get("query")) && options.kind().equals(pin.get("kind"));
          if (isOurs && options.names().contains(pin.get("name"))) pins.put((String) pin.get("name"), pin);
        }
      }
      var found = new TreeMap<String, SourceOffset>();
      if (pins.isEmpty()) return null;
      sources(connection, List.copyOf(pins.keySet()), null).forEach((name, source) -> {
        var next = new TreeMap<Integer, Long>();
        ((Map<?, ?>) pins.get(name).get("positions")).forEach((partition, at) -> next.put(Integer.valueOf((String) partition), (Long) at));
        if (source.uuid().equals(pins.get(name).get("uuid"))) found.put(name, new SourceOffset(source.uuid(), next, source.currentEpochs()));
      });
      return found.isEmpty() ? null : new StreamOffset(query, found);
    });
  }
}
