package headrace.spark;

import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.Serializable;
import java.math.BigInteger;
import java.net.URI;
import java.time.*;
import java.time.format.DateTimeParseException;
import java.util.*;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/** The options of a read that the jar does itself. All others are read, or refused, in Python. */
record ReadOptions(String url, String kind, List<String> names, OffsetLimit start, OffsetLimit end, List<String> columns,
    long maxRows, long rowsPerTask, boolean failOnDataLoss, Set<String> tags, String selector, Object condition, String group,
    long pinBytes)
    implements Serializable {
  static final String DEFAULT_URL = "headrace://guest:guest@127.0.0.1:9090/";
  static final long EARLIEST = -2, LATEST = -1;
  static final StructType SCHEMA = StructType.fromDDL("source string, partition int, offset bigint, timestamp timestamp, "
      + "born timestamp, priority string, exchange string, routing_key string, key string, tags string, "
      + "message_id string, properties map<string,string>, body binary");
  /** Columns that are read from the heads of records, or are the same for all messages of a partition. */
  static final Map<String, Set<String>> IN_HEADS = Map.of(
      "topic", Set.of("source", "partition", "offset", "timestamp", "exchange", "routing_key", "priority"),
      "queue", Set.of("source", "partition", "offset", "timestamp", "exchange", "routing_key", "key", "tags"));
  private static final Set<String> KNOWN = Set.of("url", "topic", "queue", "startingoffsets", "endingoffsets",
      "startingtimestamp", "endingtimestamp", "maxrowspertrigger", "rowspertask", "columns", "failondataloss", "tags", "selector",
      "group", "pinbytes", "pushfilters");
  private static final BigInteger MOST = BigInteger.valueOf(Long.MAX_VALUE);

  /** Where reading begins or ends: a word, offsets by source and partition, or a time in ms. */
  record OffsetLimit(long word, Map<String, TreeMap<Integer, Long>> positions, Long timeMs) implements Serializable {}

  /** An option is not understood here. */
  private static final class NotOurs extends Exception {
    private static final long serialVersionUID = 1;
  }

  /** Whether the system property {@code headrace.spark.read} asks for one way to read: {@code python} or {@code network}. */
  static boolean isForced(String way) {
    return way.equals(System.getProperty("headrace.spark.read"));
  }

  /** The options; null for what is left to Python: other systems, and mistakes. */
  static ReadOptions parse(CaseInsensitiveStringMap options) {
    try {
      return parsed(options);
    } catch (NotOurs | IllegalArgumentException notOurs) {
      return null;
    }
  }

  private static ReadOptions parsed(CaseInsensitiveStringMap given) throws NotOurs {
    String url = given.getOrDefault("url", DEFAULT_URL);
    URI parts = URI.create(url);
    boolean isBroker = url.startsWith("headrace://") || url.startsWith("headraces://");
    boolean isOdd = parts.getRawQuery() != null || parts.getRawFragment() != null || parts.getRawPath().lastIndexOf('/') > 0;
    boolean hasHost = parts.getHost() != null || parts.getRawAuthority() == null;
    check(!isForced("python") && isBroker && !isOdd && hasHost && KNOWN.containsAll(given.keySet()));
    String topic = given.getOrDefault("topic", ""), queue = given.getOrDefault("queue", "");
    check(topic.isEmpty() != queue.isEmpty());
    List<String> names = split(topic + queue, ",");
    List<String> columns = split(given.getOrDefault("columns", ""), ",");
    String selector = given.getOrDefault("selector", "").isEmpty() ? null : given.get("selector");
    check(selector == null || given.getOrDefault("tags", "").isEmpty());
    check(!names.isEmpty() && Set.of(SCHEMA.fieldNames()).containsAll(columns));
    return new ReadOptions(url, topic.isEmpty() ? "queue" : "topic", names,
        limit(given, "starting", EARLIEST, names), limit(given, "ending", LATEST, names),
        columns.isEmpty() ? List.of(SCHEMA.fieldNames()) : columns,
        number(given, "maxrowspertrigger", Long.MAX_VALUE), number(given, "rowspertask", 500_000),
        flag(given, "failondataloss", true), tags(given.get("tags")), selector, null, given.get("group"),
        number(given, "pinbytes", 10L << 30));
  }

  /** With the tree of the selector. */
  ReadOptions with(Object condition) {
    return new ReadOptions(url, kind, names, start, end, columns, maxRows, rowsPerTask, failOnDataLoss, tags, selector, condition, group, pinBytes);
  }

  private static void check(boolean isFine) throws NotOurs {
    if (!isFine) throw new NotOurs();
  }

  /** The parts without blanks around them; none may occur twice. */
  private static List<String> split(String text, String separator) throws NotOurs {
    var found = new ArrayList<String>();
    for (String part : text.split(java.util.regex.Pattern.quote(separator))) {
      if (!part.isBlank()) found.add(part.strip());
    }
    check(new LinkedHashSet<>(found).size() == found.size());
    return found;
  }

  /** Null: every message. */
  private static Set<String> tags(String text) throws NotOurs {
    if (text == null || text.isBlank() || text.strip().equals("*")) return null;
    check(text.length() < 1024 && !text.replace("|", "").isBlank());
    var found = new LinkedHashSet<String>();
    for (String part : text.split("\\|\\|")) {
      if (!part.isBlank()) found.add(part.strip());
    }
    return found;
  }

  private static long number(CaseInsensitiveStringMap given, String key, long otherwise) throws NotOurs {
    String text = given.get(key);
    if (text == null) return otherwise;
    check(text.matches("[0-9]{1,40}"));
    var value = new BigInteger(text);
    check(value.signum() > 0);
    return value.min(MOST).longValue();
  }

  private static boolean flag(CaseInsensitiveStringMap given, String key, boolean otherwise) throws NotOurs {
    String text = given.getOrDefault(key, String.valueOf(otherwise)).toLowerCase();
    check(text.equals("true") || text.equals("false"));
    return text.equals("true");
  }

  private static OffsetLimit limit(CaseInsensitiveStringMap given, String which, long word, List<String> names) throws NotOurs {
    String offsets = given.get(which + "offsets"), time = given.get(which + "timestamp");
    check(offsets == null || time == null);
    if (time != null) return new OffsetLimit(LATEST, Map.of(), milliseconds(time.strip()));
    if (offsets == null) return new OffsetLimit(word, Map.of(), null);
    return switch (offsets.strip().toLowerCase()) {
      case "earliest" -> new OffsetLimit(EARLIEST, Map.of(), null);
      case "latest" -> new OffsetLimit(LATEST, Map.of(), null);
      default -> new OffsetLimit(LATEST, positions(offsets, names), null);
    };
  }

  private static Map<String, TreeMap<Integer, Long>> positions(String text, List<String> names) throws NotOurs {
    var found = new TreeMap<String, TreeMap<Integer, Long>>();
    try {
      for (var source : new ObjectMapper().readTree(text).properties()) {
        var offsets = new TreeMap<Integer, Long>();
        for (var one : source.getValue().properties()) {
          check(one.getValue().isIntegralNumber() && one.getValue().canConvertToLong());
          offsets.put(Integer.valueOf(one.getKey()), one.getValue().longValue());
          check(Integer.parseInt(one.getKey()) >= 0 && one.getValue().longValue() >= EARLIEST);
        }
        check(names.contains(source.getKey()) && source.getValue().isObject());
        found.put(source.getKey(), offsets);
      }
    } catch (com.fasterxml.jackson.core.JacksonException | IllegalArgumentException error) {
      throw new NotOurs();
    }
    check(!found.isEmpty());
    return found;
  }

  /** At least 1: everything is stored after 1970, and 0 means no time to the broker. */
  private static long milliseconds(String text) throws NotOurs {
    if (text.matches("[0-9]{1,18}")) return Math.max(1, Long.parseLong(text));
    String moment = text.replace(' ', 'T');
    try {
      if (moment.matches(".*T.*(Z|[+-]\\d\\d:\\d\\d)")) return Math.max(1, OffsetDateTime.parse(moment).toInstant().toEpochMilli());
      var local = moment.contains("T") ? LocalDateTime.parse(moment) : LocalDate.parse(moment).atStartOfDay();
      return Math.max(1, local.toInstant(ZoneOffset.UTC).toEpochMilli());
    } catch (DateTimeParseException error) {
      throw new NotOurs();
    }
  }
}
