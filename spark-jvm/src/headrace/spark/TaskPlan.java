package headrace.spark;

import headrace.spark.ReadOptions.OffsetLimit;
import headrace.spark.ReadableSource.ReadableRange;
import java.math.BigInteger;
import java.util.*;
import org.apache.spark.sql.connector.read.InputPartition;

/** Which rows a batch takes and how they are cut into tasks. */
final class TaskPlan {
  private TaskPlan() {}

  /** One partition of one source. */
  record Place(String source, int partition) implements Comparable<Place> {
    @Override
    public int compareTo(Place other) {
      int names = source.compareTo(other.source);
      return names != 0 ? names : Integer.compare(partition, other.partition);
    }
  }

  /** The offsets that one task reads; {@code epoch} is that in which the end was seen, or null. */
  record ReadTask(String source, int partition, String priority, String uuid, long start, long end, Long epoch) implements InputPartition {}

  /** The offset at which reading of each partition begins or ends. */
  static TreeMap<Place, Long> resolve(OffsetLimit limit, Collection<ReadableSource> sources, boolean mustBeComplete) {
    var found = new TreeMap<Place, Long>();
    for (ReadableSource source : sources) {
      var asked = limit.positions().getOrDefault(source.name(), new TreeMap<>());
      for (int partition : asked.keySet()) {
        if (!source.ranges().containsKey(partition)) {
          throw SparkError.badOption("offsets: '" + source.name() + "' has no partition " + partition + "; there are "
              + source.ranges().keySet().toString().replaceAll("[\\[\\]]", ""));
        }
      }
      source.ranges().forEach((partition, there) -> {
        long at = asked.getOrDefault(partition, limit.word());
        if (limit.timeMs() != null) {
          at = there.atTime() == null ? there.end() : there.atTime();
        } else if (at < 0) {
          at = at == ReadOptions.LATEST ? there.end() : there.first();
        } else if (mustBeComplete && at < there.complete()) {
          throw SparkError.dataLost("'" + source.name() + "' partition " + partition + " begins at offset " + there.complete()
              + ", " + at + " was requested: messages in between were removed");
        }
        found.put(new Place(source.name(), partition), Math.min(Math.max(at, there.first()), there.end()));
      });
    }
    return found;
  }

  /** How far a batch goes: high first, then middle, then low; within a priority each partition gets its share. */
  static TreeMap<Place, Long> admit(Collection<ReadableSource> sources, Map<Place, Long> starts, Map<Place, Long> ends, long limit) {
    var found = new TreeMap<Place, Long>();
    long left = limit;
    for (String priority : List.of("high", "middle", "low")) {
      var group = new ArrayList<Place>();
      long total = 0;
      for (ReadableSource source : sources) {
        for (Map.Entry<Integer, ReadableRange> one : source.ranges().entrySet()) {
          var place = new Place(source.name(), one.getKey());
          if (!one.getValue().priority().equals(priority)) continue;
          group.add(place);
          total += Math.max(0, ends.get(place) - starts.get(place));
        }
      }
      long room = Math.min(left, total), passed = 0, given = 0;
      for (Place place : group) {
        passed += Math.max(0, ends.get(place) - starts.get(place));
        long upTo = total == 0 ? 0 : share(room, passed, total); // cumulative shares add up, whatever the rounding
        found.put(place, starts.get(place) + upTo - given);
        given = upTo;
      }
      left -= given;
    }
    return found;
  }

  private static long share(long room, long passed, long total) {
    return BigInteger.valueOf(room).multiply(BigInteger.valueOf(passed)).divide(BigInteger.valueOf(total)).longValue();
  }

  /** The tasks of a batch, none with more than {@code rowsPerTask} offsets. */
  static InputPartition[] tasks(Map<Place, Long> starts, Map<Place, Long> ends, Map<String, ReadableSource> sources,
      Map<String, StreamOffset.SourceOffset> known, long rowsPerTask) {
    var found = new ArrayList<InputPartition>();
    ends.forEach((place, end) -> {
      long start = starts.getOrDefault(place, end), size = Math.max(0, end - start);
      long count = size / rowsPerTask + (size % rowsPerTask == 0 ? 0 : 1);
      var source = known.get(place.source);
      ReadableRange there = sources.get(place.source).ranges().get(place.partition);
      for (long n = 0; n < count; n++) {
        found.add(new ReadTask(place.source, place.partition, there == null ? "middle" : there.priority(), source.uuid(),
            start + cut(size, n, count), start + cut(size, n + 1, count), source.epochs().get(place.partition)));
      }
    });
    return found.toArray(InputPartition[]::new);
  }

  /** size * n / count, without overflow. */
  private static long cut(long size, long n, long count) {
    return size / count * n + size % count * n / count;
  }
}
